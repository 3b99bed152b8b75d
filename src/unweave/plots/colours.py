"""The colours of all pictures and pages, told apart by colour-blind readers too."""

__all__ = [
    "DIVERGING",
    "FAINT",
    "GREY",
    "INK",
    "MARKERS",
    "ONE_HUE",
    "PALETTE",
    "PAPER",
    "SEQUENTIAL",
    "palette",
]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""For things without order. Okabe and Ito, Color Universal Design, 2008."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""One for each colour, so that things differ by more than colour."""

SEQUENTIAL = "cividis"
"""For amounts, as matplotlib and Vega call it."""

DIVERGING = "RdBu_r"
"""For numbers with a sign: blue below 0, red above; as matplotlib calls it."""

ONE_HUE = "Blues"
"""For amounts on which numbers are written: from light to dark, also in print."""

PAPER, INK, FAINT, GREY = "#FFFFFF", "#222222", "#6B6B6B", "#BDBDBD"
"""Background, text, less important text (4.5 : 1 on paper and more), what is not in use."""


def palette(count: int) -> list[str]:
    """So many colours, the same ones again where there are more than eight things.

    Example:
        >>> palette(2)
        ['#0072B2', '#D55E00']
    """
    return [PALETTE[k % len(PALETTE)] for k in range(count)]
