"""Train fleets of disentangling generative models, score them, and choose one without labels.

    import unweave as uw

    data = uw.data.load("dsprites")
    fleet = uw.train(uw.methods.BetaVAE(beta=[1, 4, 16]), data, seeds=10, steps=20_000)
    table = uw.evaluate(fleet, data)

Subpackages are imported on first use, so that `import unweave` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave import data, methods, metrics, quality, select, show, study, trackers
    from unweave.estimator.unweaver import Unweaver
    from unweave.evaluation.evaluate import evaluate
    from unweave.fitting import fit
    from unweave.fleet.train import train
    from unweave.models.encoding import encode
    from unweave.models.model import Fleet, Model, load
    from unweave.models.onnx import export_onnx
    from unweave.models.rotating import rotate
    from unweave.nets.adam import Adam
    from unweave.nets.architectures import Architecture

    __version__: str

__all__ = [
    "Adam",
    "Architecture",
    "Fleet",
    "Model",
    "Unweaver",
    "__version__",
    "data",
    "encode",
    "evaluate",
    "export_onnx",
    "fit",
    "load",
    "methods",
    "metrics",
    "quality",
    "rotate",
    "select",
    "show",
    "study",
    "trackers",
    "train",
]

_SUBPACKAGES = ("data", "methods", "metrics", "quality", "select", "show", "study", "trackers")
_MODULES = {
    "Adam": "unweave.nets.adam",
    "Architecture": "unweave.nets.architectures",
    "Fleet": "unweave.models.model",
    "Model": "unweave.models.model",
    "Unweaver": "unweave.estimator.unweaver",
    "encode": "unweave.models.encoding",
    "evaluate": "unweave.evaluation.evaluate",
    "export_onnx": "unweave.models.onnx",
    "fit": "unweave.fitting",
    "load": "unweave.models.model",
    "rotate": "unweave.models.rotating",
    "train": "unweave.fleet.train",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _installed_version()
    if name in _SUBPACKAGES:
        return import_module(f"unweave.{name}")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _installed_version() -> str:
    """Return the installed version; source code alone does not contain it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("unweave")
    except PackageNotFoundError:
        return "0+unknown"
