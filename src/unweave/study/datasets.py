"""The data sets of a study, opened when they are first needed."""

import torch

from unweave.data.dataset import Dataset
from unweave.evaluation.score_cache import origin_text
from unweave.models.config import Config
from unweave.study.store import Store

__all__ = ["Sources"]


class Sources:
    """Opens the data of runs, once each.

    Args:
        store: The study.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.here: dict[str, Dataset] = {}
        self.there: tuple[str, Dataset] | None = None

    def open(self, config: Config) -> Dataset:
        """What a run learns from, in host memory."""
        origin = origin_text(config.data)
        if origin not in self.here:
            self.here[origin] = self.store.source(config).open_as(config.data)
        return self.here[origin]

    def near(self, config: Config, device: torch.device) -> Dataset:
        """The same on a device; only the last one stays there."""
        if device.type == "cpu":
            return self.open(config)
        origin = origin_text(config.data)
        if self.there is None or self.there[0] != origin:
            self.there = None
            self.there = (origin, self.open(config).to(device))
        return self.there[1]
