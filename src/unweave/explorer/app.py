"""What the page can ask for: the list of models, one of them, images, codes, pictures.

No path of a request reaches the file system: models and images are numbers in fixed lists, and the
files of the page are read once, from the package, into a fixed table.
"""

import asyncio
import base64
import io
import json
import math
import time
from importlib.resources import files
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from PIL import Image
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from unweave.analysis.activity import KL
from unweave.errors import UnweaveError
from unweave.explorer.guard import Guard
from unweave.explorer.model_index import Entry
from unweave.explorer.opened_models import Shelf
from unweave.explorer.requests import (
    IMAGE_BYTES,
    JSON_BYTES,
    REACH,
    RefusedError,
    body_of,
    codes_in,
    image_in,
)

__all__ = ["make_app"]

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("explorer", "server", "pictures", "latents", "models", "saving", "keys")
    },
}
"""The page: where each of its files is found, and what it is."""
UPLOADS_AT_ONCE = 4


class Answer(JSONResponse):
    """JSON in ASCII, since names of folders may hold bytes that are no text."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


def make_app(shelf: Shelf, port: int, token: str, title: str = "models") -> Guard:
    """The explorer of some models, to be served on 127.0.0.1 at this port.

    Args:
        shelf: The models.
        port: Port that it is served at.
        token: Secret without which nothing is answered.
        title: Name shown in the page's heading.
    """
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=Answer,
    )
    _add_errors(app)
    _add_page(app)
    _add_models(app, shelf, title)
    _add_pictures(app, shelf)
    return Guard(app, port, token)


def _add_errors(app: FastAPI) -> None:
    """Every error is `{"error": sentence}`; what is no user's mistake is told to the terminal."""

    @app.exception_handler(UnweaveError)
    async def refused(_: Request, error: UnweaveError) -> Response:
        status = error.status if isinstance(error, RefusedError) else 409
        return Answer({"error": str(error)}, status)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return Answer({"error": "there is nothing here"}, error.status_code)

    @app.exception_handler(Exception)
    async def broken(_: Request, __: Exception) -> Response:
        return Answer({"error": "something went wrong; the terminal says what"}, 500)


def _add_page(app: FastAPI) -> None:
    folder = files("unweave.explorer") / "page"
    for path, (name, kind) in PAGE.items():
        answer = _fixed((folder / name).read_bytes(), kind)
        app.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None)


def _fixed(content: bytes, kind: str) -> Any:
    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


def _add_models(app: FastAPI, shelf: Shelf, title: str) -> None:
    uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)

    @app.get("/models")
    async def models() -> Any:
        return {
            "title": title,
            "models": [_about(entry) for entry in shelf.entries],
            "limits": {"bytes": IMAGE_BYTES, "reach": REACH},
        }

    @app.get("/models/{place:int}")
    def model(place: int) -> Any:
        entry = _entry(shelf, place)
        opened = shelf.open(place)
        activity = opened.activity
        return {
            **_about(entry),
            "place": place,
            "shape": opened.model.shape,
            "latents": opened.model.config.code_size,
            "stages": [
                {"name": name, "latents": list(own)}
                for name, own in opened.model.config.stages.items()
            ],
            "activity": activity.amounts.tolist(),
            "measure": "KL" if activity.criterion is KL else "spread",
            "threshold": activity.threshold,
            "activity_from": "prior" if opened.data is None else "data",
            "images": len(opened.support),
            "start": opened.start,
            "data": opened.data.name if opened.data is not None else "",
            "origin": opened.origin,
            "no_data": opened.no_data,
        }

    @app.get("/models/{place:int}/images/{number:int}")
    def image(place: int, number: int) -> Any:
        _entry(shelf, place)
        if number >= max(1, len(shelf.open(place).support)):
            raise RefusedError(404, f"the data set has no image {number}")
        pixels, factors = shelf.image(place, number)
        return {**_encoded(shelf, place, pixels), "factors": factors}

    @app.post("/models/{place:int}/encode")
    async def encode(place: int, request: Request) -> Any:
        _entry(shelf, place)
        async with uploads:
            body = await body_of(request, IMAGE_BYTES)
            opened = await run_in_threadpool(shelf.open, place)
            pixels = await image_in(body, opened.model.shape)
        return await run_in_threadpool(_encoded, shelf, place, pixels)


def _add_pictures(app: FastAPI, shelf: Shelf) -> None:
    @app.post("/models/{place:int}/decode")
    async def decode(place: int, request: Request) -> Response:
        start = time.perf_counter()
        images = await _decoded(shelf, place, request)
        spent = f"decode;dur={(time.perf_counter() - start) * 1e3:.2f}"
        return Response(
            images.tobytes(),
            media_type="application/octet-stream",
            headers={"Server-Timing": spent},
        )

    @app.post("/models/{place:int}/picture")
    async def picture(place: int, request: Request) -> Response:
        images = await _decoded(shelf, place, request)
        return Response(_png(images[0]), media_type="image/png")


def _entry(shelf: Shelf, place: int) -> Entry:
    if place >= len(shelf.entries):
        raise RefusedError(404, f"there is no model {place}")
    entry = shelf.entries[place]
    if entry.trouble:
        raise RefusedError(409, entry.trouble)
    return entry


def _about(entry: Entry) -> dict[str, Any]:
    """What is known of a model before it is loaded."""
    config = entry.config
    about: dict[str, Any] = {
        "run": entry.name,
        "best": entry.best,
        "trouble": entry.trouble,
        "warning": entry.warning,
        "scores": {n: s for n, s in entry.scores.items() if np.isfinite(s)},
    }
    if config is None:
        return about
    settings = {name: getattr(config.method, name) for name in config.method.strengths()}
    return {
        **about,
        "method": config.method.name.replace("_", "-"),
        "settings": {n: v if math.isfinite(v) else str(v) for n, v in settings.items()},
        "members": config.method.num_members,
        "seed": config.seed,
        "steps": config.steps,
    }


def _encoded(shelf: Shelf, place: int, pixels: np.ndarray) -> dict[str, Any]:
    return {
        "pixels": base64.b64encode(pixels.tobytes()).decode(),
        "code": shelf.encode(place, pixels).tolist(),
    }


async def _decoded(shelf: Shelf, place: int, request: Request) -> np.ndarray:
    entry = _entry(shelf, place)
    assert entry.config is not None
    codes = codes_in(await body_of(request, JSON_BYTES), entry.config.code_size)
    return await run_in_threadpool(shelf.decode, place, codes)


def _png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "PNG")
    return file.getvalue()
