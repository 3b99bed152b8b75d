"""Published numbers as tidy frames, written down as they are printed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

__all__ = ["claims", "from_table", "settings", "shown"]

SPREAD = "±"


def from_table(
    rows: Mapping[Any, str], columns: Sequence[Any], names: tuple[str, str], **fixed: Any
) -> pd.DataFrame:
    """A printed table, one row per cell.

    Args:
        rows: The cells of every row, as printed, with blanks between them and none within.
        columns: What the columns are.
        names: What tells rows apart, and what tells columns apart.
        fixed: Further columns, the same for all cells.

    Returns:
        The fixed columns, the two named ones, `published`, and `spread` (what follows ±) where
        the table prints it.

    Example:
        >>> names = "method", "gamma"
        >>> from_table({"vae": "0.6±0.1 0.7±0.2"}, (1, 5), names, metric="mig").values.tolist()
        [['mig', 'vae', 1, 0.6, 0.1], ['mig', 'vae', 5, 0.7, 0.2]]
    """
    found = []
    for row, line in rows.items():
        for column, cell in zip(columns, line.split(), strict=True):
            number, _, spread = cell.partition(SPREAD)
            printed = {"published": float(number)} | ({"spread": float(spread)} if spread else {})
            found.append({**fixed, names[0]: row, names[1]: column, **printed})
    return pd.DataFrame(found)


def claims(*sentences: str) -> pd.DataFrame:
    """What a paper says of a figure whose numbers it does not print, one row per sentence.

    Example:
        >>> claims("a is below b").values.tolist()
        [['a is below b', 'holds']]
    """
    return pd.DataFrame({"claim": sentences, "published": "holds"})


def shown(*pictures: str) -> pd.DataFrame:
    """What a figure shows of which the text says nothing, one row per picture.

    Example:
        >>> shown("traversals").values.tolist()
        [['traversals', 'shown']]
    """
    return pd.DataFrame({"picture": pictures, "published": "shown"})


def settings(values: Mapping[str, Any]) -> pd.DataFrame:
    """A printed list of settings, one row each, as text.

    Example:
        >>> settings({"batch size": 64}).values.tolist()
        [['batch size', '64']]
    """
    return pd.DataFrame({"setting": list(values), "published": list(map(str, values.values()))})
