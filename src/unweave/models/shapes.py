"""Whether images have the shape that models take."""

from collections.abc import Sequence

from unweave.models.rows import InputError
from unweave.text import size_text

__all__ = ["ShapeError", "check_shape", "misfit"]


class ShapeError(InputError):
    """Images of another shape than models take.

    Args:
        takes: Height, width and channels of the images that the models take.
        found: Those of the images given.
        what: What has these images: the name of a data set, or words.
    """

    def __init__(self, takes: Sequence[int], found: Sequence[int], what: str) -> None:
        self.takes, self.found = tuple(takes), tuple(found)
        super().__init__(
            f"{_in_words(takes, found, what)}; use images like those they were trained on"
        )


def misfit(takes: Sequence[int], found: Sequence[int], what: str) -> str:
    """Why models cannot see images, for those who go on without; empty where they can.

    Example:
        >>> misfit((64, 64, 3), (64, 64, 1), "dsprites")
        'dsprites has images of 64 × 64 × 1, but these models take 64 × 64 × 3'
        >>> misfit((64, 64, 1), (64, 64, 1), "dsprites")
        ''
    """
    return "" if tuple(found) == tuple(takes) else _in_words(takes, found, what)


def check_shape(takes: Sequence[int], found: Sequence[int], what: str) -> None:
    """Refuse images that models cannot see; arguments as for `ShapeError`."""
    if tuple(found) != tuple(takes):
        raise ShapeError(takes, found, what)


def _in_words(takes: Sequence[int], found: Sequence[int], what: str) -> str:
    return f"{what} has images of {size_text(found)}, but these models take {size_text(takes)}"
