"""Callbacks during training, and trackers: TensorBoard, Weights & Biases and MLflow.

    uw.train(method, data, callbacks=[uw.trackers.TensorBoard("logs")])

Each tracker needs an extra, such as `pip install 'unweave[tensorboard]'`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.fleet.callbacks import Callback
    from unweave.trackers.mlflow import MLflow
    from unweave.trackers.tensorboard import TensorBoard
    from unweave.trackers.tracker import Tracker
    from unweave.trackers.wandb import WandB

__all__ = ["Callback", "MLflow", "TensorBoard", "Tracker", "WandB"]

_HOMES = {
    "Callback": "unweave.fleet.callbacks",
    "MLflow": "unweave.trackers.mlflow",
    "TensorBoard": "unweave.trackers.tensorboard",
    "Tracker": "unweave.trackers.tracker",
    "WandB": "unweave.trackers.wandb",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
