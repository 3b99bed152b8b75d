"""What the page sends, read with limits and checked; whatever does not fit is one sentence."""

import asyncio
import io
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from starlette.requests import ClientDisconnect, Request

from unweave.data.pictures import FORMATS, SUFFIXES, read_square
from unweave.errors import UnweaveError
from unweave.io.plain_data import parse_json

__all__ = ["RefusedError", "body_of", "codes_in", "image_in"]

IMAGE_BYTES = 32 * 2**20
JSON_BYTES = 2**20
PIXELS = 50_000_000
MOST_CODES = 33
REACH = 10.0
"""How far from 0 a code may be; beyond, decoders have seen nothing."""

# One image at a time, always in the same thread: every thread holds on to memory that it has used
# for a large image. Also, Pillow's warnings can only be silenced for the whole process.
_reader = ThreadPoolExecutor(1, "explorer-images")


class RefusedError(UnweaveError):
    """A request that cannot be served.

    Args:
        status: Of HTTP.
        sentence: What is wrong, for the page.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


async def body_of(request: Request, limit: int) -> bytes:
    """The body of a request, of which at most `limit` bytes are kept."""
    too_large = RefusedError(413, f"that is too large: at most {limit // 2**20} MB can be sent")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise too_large
    except ClientDisconnect:
        raise RefusedError(
            400, "the connection was closed before the request was complete"
        ) from None
    return bytes(body)


def codes_in(body: bytes, latents: int) -> list[list[float]]:
    """Codes `[n, latents]` from `{"codes": [[…], …]}`."""
    try:
        rows = parse_json(body)["codes"]
    except (ValueError, KeyError, TypeError):
        raise RefusedError(422, 'codes are sent as {"codes": [[…], …]}') from None
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_CODES:
        raise RefusedError(422, f"1 to {MOST_CODES} codes can be decoded at once")
    for row in rows:
        if not isinstance(row, list) or len(row) != latents:
            count = len(row) if isinstance(row, list) else "something else"
            raise RefusedError(422, f"a code of this model has {latents} latents, but got {count}")
        if not all(map(_is_coordinate, row)):
            raise RefusedError(422, f"a latent is a number from -{REACH:g} to {REACH:g}")
    return rows


def _is_coordinate(value: Any) -> bool:
    # Not a number compares false with everything.
    return type(value) in (int, float) and -REACH <= value <= REACH


async def image_in(body: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """The image `[H, W, C]` in the bytes of a file, made as `uw.data.load` makes it."""
    return await asyncio.get_running_loop().run_in_executor(_reader, _image_in, body, shape)


def _image_in(body: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    height, width, channels = shape
    if height != width:
        raise RefusedError(422, "this model takes images that are not square; start from its data")
    if not body:
        raise RefusedError(422, "the file is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd tags, and sizes that are checked here
        try:
            _check_size(body)
            # A copy, since Pillow's own memory cannot be written and torch warns of that.
            return read_square(io.BytesIO(body), height, channels).copy()
        except UnidentifiedImageError:
            endings = ", ".join(SUFFIXES)
            raise RefusedError(
                422, f"this file is no image that can be read ({endings})"
            ) from None
        except RefusedError:
            raise
        except Exception as error:  # Pillow's readers raise nearly anything on broken files
            reason = " ".join(str(error).split()) or type(error).__name__
            raise RefusedError(422, f"this image is damaged ({reason})") from None


def _check_size(body: bytes) -> None:
    try:
        with Image.open(io.BytesIO(body), formats=FORMATS) as image:
            pixels = image.width * image.height
    except Image.DecompressionBombError:
        pixels = PIXELS + 1
    if pixels > PIXELS:
        raise RefusedError(413, f"this image has more than {PIXELS // 10**6} million pixels")
