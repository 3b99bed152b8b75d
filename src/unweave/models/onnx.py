"""Encoder and decoder as ONNX files, which most languages can run; checked before written.

Graphs take and give what `Model.encode` and `Model.decode` do, with any number of images at once:

    encoder.onnx    images [batch, H, W, C] in [0, 1]    →  mean, logvar [batch, latents]
    decoder.onnx    codes [batch, latents]               →  images [batch, H, W, C] in [0, 1]
    model.json      names, shapes and ranges of these, and what the model was trained with
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from unweave import __version__
from unweave.errors import UnweaveError
from unweave.io.paths import check_free
from unweave.io.writing import whole_file
from unweave.models.encoding import check_trained
from unweave.models.finding import one_model
from unweave.models.model import Model
from unweave.models.onnx_graphs import decoder_graph, encoder_graph
from unweave.models.rows import Features, read_rows

__all__ = ["FILES", "TOLERANCE", "export_onnx"]

FILES = ENCODER, DECODER, ABOUT = "encoder.onnx", "decoder.onnx", "model.json"
TOLERANCE = 1e-4
"""How far results may be from torch's, relative to those that are larger than 1."""
CHECKED_BATCHES = (1, 7)


def export_onnx(
    model: Model | str | Path, folder: str | Path, *, overwrite: bool = False
) -> float:
    """Write `encoder.onnx`, `decoder.onnx` and `model.json` into a folder.

    Both graphs are run by onnxruntime and compared with torch first; where they differ by more
    than 1e-4, nothing is written. Of an ensemble the first member is written.

    Args:
        model: A model, the folder of one, or a folder that has it in `best`.
        folder: Where the files go; made if need be.
        overwrite: Whether to replace such files there.

    Returns:
        The largest difference from torch, relative to values that are larger than 1.
    """
    _needed()
    folder = Path(folder)
    check_free([folder / name for name in FILES], overwrite)
    scaling = {} if isinstance(model, Model) else _scaling(Path(model))
    model = model if isinstance(model, Model) else one_model(model)
    check_trained(model)
    model.config.method.require_decoder()
    if model.config.first is not None:
        raise UnweaveError(
            f"{model.config.method.name} models are not exported yet, only single stages; export "
            "its first stage: model.first"
        )
    if "encoder" not in model.parameters:
        raise UnweaveError(
            f"{model.config.method.name} models are not exported yet, for they have no encoder of "
            "their own; export others"
        )
    model = model.to("cpu").members[0]
    files = {ENCODER: encoder_graph(model), DECODER: decoder_graph(model)}
    difference = largest_difference(model, files[ENCODER], files[DECODER])
    if not difference <= TOLERANCE:  # NaN too
        raise UnweaveError(
            f"the exported networks differ from the model by {difference:.2g}, more than "
            f"{TOLERANCE:g}; nothing was written; please report this"
        )
    about = json.dumps({**_about(model, difference), **scaling}, indent=1, ensure_ascii=False)
    for name, content in {**files, ABOUT: f"{about}\n".encode()}.items():
        with whole_file(folder / name) as temporary:
            temporary.write_bytes(content)
    return difference


def largest_difference(model: Model, encoder: bytes, decoder: bytes) -> float:
    """How far onnxruntime's results are from torch's, on random images and codes."""
    rng = np.random.default_rng(0)
    found = [0.0]
    for batch in CHECKED_BATCHES:
        images = rng.random((batch, *model.shape), np.float32)
        images[:1] = images[:1] > 0.5
        codes = rng.normal(size=(batch, model.config.latents)).astype(np.float32)
        pairs = [
            *zip(_run(encoder, images=images), model.encode(images), strict=True),
            *zip(_run(decoder, codes=codes), [model.decode(codes)], strict=True),
        ]
        found += [np.max(np.abs(a - b) / np.maximum(1, np.abs(b))) for a, b in pairs]
    return float(np.max(found))


def _run(content: bytes, **inputs: np.ndarray) -> list[np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def _about(model: Model, difference: float) -> dict[str, Any]:
    """What somebody needs to know who has only the files."""
    latents = ["batch", model.config.latents]
    images = {
        "name": "images",
        "type": "float32",
        "shape": ["batch", *model.shape],
        "axes": ["batch", "height", "width", "channels"],
        "values": "0 … 1: bytes divided by 255",
    }
    codes = {"type": "float32", "shape": latents, "axes": ["batch", "latents"]}
    return {
        "made_by": f"unweave {__version__}",
        "encoder": {
            "file": ENCODER,
            "inputs": [images],
            "outputs": [
                {"name": "mean", **codes, "values": "about -4 … 4; the code of an image"},
                {
                    "name": "logvar",
                    **codes,
                    "values": "log-variances of the codes, about 0 or less",
                },
            ],
        },
        "decoder": {
            "file": DECODER,
            "inputs": [{"name": "codes", **codes, "values": "about -4 … 4"}],
            "outputs": [images],
        },
        "largest_difference_from_torch": difference,
        "trained_with": model.config.to_dict(),
    }


def _scaling(folder: Path) -> dict[str, Any]:
    """How features become what the encoder takes, where an `Unweaver` was fitted to such."""
    rows = read_rows(folder)
    if not isinstance(rows, Features):
        return {}
    return {
        "features": {
            "images": "(features - low) / span, one value for each pixel",
            "low": rows.low.tolist(),
            "span": rows.span.tolist(),
        }
    }


def _needed() -> None:
    try:
        import onnx  # noqa: F401 - only whether it is there
        import onnxruntime  # noqa: F401 - the same
    except ImportError as error:
        raise UnweaveError(
            f"exporting needs {error.name}, which is not installed; pip install 'unweave[onnx]'"
        ) from error
