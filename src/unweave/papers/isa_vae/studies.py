"""What the recipes of this paper train, read from `studies.yaml`."""

from unweave.papers.catalog import data_file

__all__ = ["LEARNED", "SPRITES"]

_EVERY = data_file(__package__, "studies.yaml")["studies"]
SPRITES, LEARNED = _EVERY["sprites"], _EVERY["learned"]
