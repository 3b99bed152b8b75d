"""What the recipes of this paper train, read from `studies.yaml`."""

from unweave.papers.catalog import studies_of

__all__ = ["LEARNED", "SPRITES"]

SPRITES, LEARNED = (studies_of(__package__)[name] for name in ("sprites", "learned"))
