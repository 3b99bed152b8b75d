"""HTTP API of the explorer: models, images, codes, pictures, and names of latents.

No request path reaches the file system: models and images are indices into fixed lists, and the
files of the page are read from the package once, at start-up. Requests write nothing except names
of latents, next to the model that they belong to.
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

from unweave.analysis.activity import KL, Activity
from unweave.data.origin import preprocessing
from unweave.data.pictures import viewable
from unweave.errors import UnweaveError
from unweave.explorer.guard import Guard
from unweave.explorer.model_index import Entry
from unweave.explorer.opened_models import OpenedModels
from unweave.explorer.requests import (
    IMAGE_BYTES,
    JSON_BYTES,
    MAX_CODE,
    NAMES_BYTES,
    RefusedError,
    body_of,
    codes_in,
    image_in,
    names_in,
)
from unweave.fitting.verdict import Verdict
from unweave.models.names import MAX_LENGTH

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
"""Files of the page by URL path, with their content types."""
MAX_UPLOADS = 4


class Answer(JSONResponse):
    """JSON in ASCII, because folder names may contain bytes that are not valid UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


def make_app(models: OpenedModels, port: int, token: str, title: str = "models") -> Guard:
    """Create the explorer app, to be served on 127.0.0.1 at this port.

    Args:
        models: Models to show.
        port: Port that the app is served at.
        token: Secret that every client needs.
        title: Name in the page's heading.
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
    _add_models(app, models, title)
    _add_pictures(app, models)
    return Guard(app, port, token)


def _add_errors(app: FastAPI) -> None:
    """Answer errors as `{"error": message}`; unexpected ones are logged in the terminal only."""

    @app.exception_handler(UnweaveError)
    async def refused(_: Request, error: UnweaveError) -> Response:
        status = error.status if isinstance(error, RefusedError) else 409
        return Answer({"error": str(error)}, status)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return Answer({"error": "not found"}, error.status_code)

    @app.exception_handler(Exception)
    async def broken(_: Request, __: Exception) -> Response:
        return Answer({"error": "internal error; see the terminal for details"}, 500)


def _add_page(app: FastAPI) -> None:
    folder = files("unweave.explorer") / "page"
    for path, (name, kind) in PAGE.items():
        answer = _fixed((folder / name).read_bytes(), kind)
        app.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None)


def _fixed(content: bytes, kind: str) -> Any:
    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


def _add_models(app: FastAPI, models: OpenedModels, title: str) -> None:
    uploads = asyncio.Semaphore(MAX_UPLOADS)

    @app.get("/models")
    async def listed() -> Any:
        return {
            "title": title,
            "models": [_about(entry) for entry in models.entries],
            "limits": {"bytes": IMAGE_BYTES, "reach": MAX_CODE, "name": MAX_LENGTH},
        }

    @app.get("/models/{place:int}")
    def model(place: int) -> Any:
        entry = _entry(models, place)
        opened = models.open(place)
        about = _about(entry)
        try:
            names = models.names(place)
        except UnweaveError as error:
            names, about["warning"] = {}, f"{about['warning']} {_sentence(error)}".strip()
        return {
            **about,
            "names": names,
            "can_be_named": entry.can_be_named,
            "place": place,
            "shape": opened.model.shape,
            "latents": opened.model.config.code_size,
            "stages": [
                {"name": name, "latents": list(own)}
                for name, own in opened.model.config.stages.items()
            ],
            **_activity(*models.first_activity(place)),
            "activity_from": "prior" if opened.data is None else "data",
            "images": len(opened.support),
            "start": opened.start,
            "data": opened.data.name if opened.data is not None else "",
            "origin": opened.origin,
            "no_data": opened.no_data,
        }

    @app.get("/models/{place:int}/activity")
    def activity(place: int) -> Any:
        _entry(models, place)
        return _activity(models.activity(place), True)

    @app.get("/models/{place:int}/images/{number:int}")
    def image(place: int, number: int) -> Any:
        _entry(models, place)
        if number >= max(1, len(models.open(place).support)):
            raise RefusedError(404, f"image {number} does not exist in the data set")
        pixels, factors, file = models.image(place, number)
        return {**_encoded(models, place, pixels), "factors": factors, "file": file}

    @app.post("/models/{place:int}/encode")
    async def encode(place: int, request: Request) -> Any:
        _entry(models, place)
        async with uploads:
            body = await body_of(request, IMAGE_BYTES)
            opened = await run_in_threadpool(models.open, place)
            options = preprocessing(opened.model.config.data)
            pixels = await image_in(body, opened.model.shape, options)
        return await run_in_threadpool(_encoded, models, place, pixels)

    @app.post("/models/{place:int}/names")
    async def name(place: int, request: Request) -> Any:
        entry = _entry(models, place)
        assert entry.config is not None
        names = names_in(await body_of(request, NAMES_BYTES), entry.config.code_size)
        await run_in_threadpool(models.name_latents, place, names)
        return {"names": names}


def _add_pictures(app: FastAPI, models: OpenedModels) -> None:
    @app.post("/models/{place:int}/decode")
    async def decode(place: int, request: Request) -> Response:
        start = time.perf_counter()
        images = await _decoded(models, place, request)
        spent = f"decode;dur={(time.perf_counter() - start) * 1e3:.2f}"
        return Response(
            images.tobytes(),
            media_type="application/octet-stream",
            headers={"Server-Timing": spent},
        )

    @app.post("/models/{place:int}/picture")
    async def picture(place: int, request: Request) -> Response:
        images = await _decoded(models, place, request)
        return Response(_png(images[0]), media_type="image/png")


def _entry(models: OpenedModels, place: int) -> Entry:
    if place >= len(models.entries):
        raise RefusedError(404, f"model {place} does not exist")
    entry = models.entries[place]
    if entry.trouble:
        raise RefusedError(409, entry.trouble)
    return entry


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"level": verdict.level, "reasons": verdict.reasons, "advice": verdict.advice}


def _sentence(error: UnweaveError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _activity(activity: Activity, complete: bool) -> dict[str, Any]:
    return {
        "activity": activity.amounts.tolist(),
        "measure": "KL" if activity.criterion is KL else "spread",
        "threshold": activity.clear_threshold,
        "activity_complete": complete,
    }


def _about(entry: Entry) -> dict[str, Any]:
    """Describe a model without loading it."""
    config = entry.config
    about: dict[str, Any] = {
        "run": entry.name,
        "best": entry.best,
        "trouble": entry.trouble,
        "warning": entry.warning,
        "verdict": None if entry.verdict is None else _verdict(entry.verdict),
        "scores": {n: s for n, s in entry.scores.items() if np.isfinite(s)},
    }
    if config is None:
        return about
    settings = {name: getattr(config.method, name) for name in config.method.strengths()}
    return {
        **about,
        "method": config.method.name.replace("_", "-"),
        "label": config.method.label,
        "settings": {n: v if math.isfinite(v) else str(v) for n, v in settings.items()},
        "members": config.method.num_members,
        "seed": config.seed,
        "steps": config.steps,
    }


def _encoded(models: OpenedModels, place: int, pixels: np.ndarray) -> dict[str, Any]:
    return {
        "pixels": base64.b64encode(pixels.tobytes()).decode(),
        "code": models.encode(place, pixels).tolist(),
    }


async def _decoded(models: OpenedModels, place: int, request: Request) -> np.ndarray:
    entry = _entry(models, place)
    assert entry.config is not None
    codes = codes_in(await body_of(request, JSON_BYTES), entry.config.code_size)
    return await run_in_threadpool(models.decode, place, codes)


def _png(image: np.ndarray) -> bytes:
    file, image = io.BytesIO(), viewable(image)
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "PNG")
    return file.getvalue()
