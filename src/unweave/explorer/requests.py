"""Validation of request bodies: size limits, codes and uploaded images."""

import asyncio
import io
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from starlette.requests import ClientDisconnect, Request

from unweave.data.pictures import FORMATS, SUFFIXES, read_square
from unweave.errors import UnweaveError
from unweave.io.plain_data import parse_json
from unweave.models.names import checked_names

__all__ = ["RefusedError", "body_of", "codes_in", "image_in", "names_in"]

IMAGE_BYTES = 32 * 2**20
JSON_BYTES = 2**20
NAMES_BYTES = 2**17
PIXELS = 50_000_000
MAX_CODES = 33
MAX_CODE = 10.0
"""Largest absolute value of a latent; decoders are not trained on larger ones."""

# One image at a time, always in the same thread: each thread keeps the memory that it used for a
# large image. Also, Pillow's warnings can only be silenced for the whole process.
_reader = ThreadPoolExecutor(1, "explorer-images")


class RefusedError(UnweaveError):
    """A request that cannot be served.

    Args:
        status: HTTP status.
        message: Error message for the page.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def body_of(request: Request, limit: int) -> bytes:
    """Read the body of a request; raise an error if it exceeds `limit` bytes."""
    too_large = RefusedError(413, f"the request is too large: at most {_size_text(limit)}")
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


def _size_text(limit: int) -> str:
    return f"{limit // 2**20} MB" if limit >= 2**20 else f"{limit // 2**10} kB"


def codes_in(body: bytes, latents: int) -> list[list[float]]:
    """Parse codes `[n, latents]` from `{"codes": [[…], …]}`."""
    try:
        rows = parse_json(body)["codes"]
    except (ValueError, KeyError, TypeError):
        raise RefusedError(422, 'codes must be sent as {"codes": [[…], …]}') from None
    if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_CODES:
        raise RefusedError(422, f"codes must be a list of 1 to {MAX_CODES} codes")
    for row in rows:
        if not isinstance(row, list) or len(row) != latents:
            given = len(row) if isinstance(row, list) else type(row).__name__
            raise RefusedError(422, f"a code must be a list of {latents} latents, got {given}")
        if not all(map(_is_coordinate, row)):
            raise RefusedError(422, f"latents must be numbers from -{MAX_CODE:g} to {MAX_CODE:g}")
    return rows


def names_in(body: bytes, latents: int) -> dict[int, str]:
    """Parse names of latents from `{"names": {"0": "size", …}}`."""
    try:
        return checked_names(parse_json(body)["names"], latents)
    except UnweaveError as error:
        raise RefusedError(422, str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise RefusedError(422, 'names must be sent as {"names": {"0": "size"}}') from None


def _is_coordinate(value: Any) -> bool:
    # NaN compares false with everything.
    return type(value) in (int, float) and -MAX_CODE <= value <= MAX_CODE


async def image_in(
    body: bytes, shape: tuple[int, int, int], options: Mapping[str, Any]
) -> np.ndarray:
    """Read an image file into `[H, W, C]`, prepared by `uw.data.load` with these options."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_reader, _image_in, body, shape, options)


def _image_in(body: bytes, shape: tuple[int, int, int], options: Mapping[str, Any]) -> np.ndarray:
    height, width, channels = shape
    if height != width or channels not in (1, 3):
        raise RefusedError(
            422,
            "this model needs images that files cannot provide: they are not square, or have "
            "other channels than grey or colour",
        )
    if not body:
        raise RefusedError(422, "the file is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unusual tags, and sizes that are checked here
        try:
            _check_size(body)
            # Copy, because Pillow's memory is read-only, which PyTorch warns about.
            return read_square(io.BytesIO(body), height, channels, **options).copy()
        except UnidentifiedImageError:
            endings = ", ".join(SUFFIXES)
            raise RefusedError(422, f"this file is not a supported image ({endings})") from None
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
