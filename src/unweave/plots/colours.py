"""Colour-blind-safe colours for all plots and pages."""

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
"""Colours for categories. Okabe and Ito, Color Universal Design, 2008."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers, one per colour, so that categories differ by more than colour."""

SEQUENTIAL = "cividis"
"""Colour map for amounts, under its matplotlib and Vega name."""

DIVERGING = "RdBu_r"
"""Matplotlib colour map for signed numbers: blue below 0, red above."""

ONE_HUE = "Blues"
"""Light-to-dark colour map for cells with numbers in them; also works in black and white."""

PAPER, INK, FAINT, GREY = "#FFFFFF", "#222222", "#6B6B6B", "#BDBDBD"
"""Background, text, secondary text (contrast at least 4.5 : 1) and unused items."""


def palette(count: int) -> list[str]:
    """Return `count` colours, repeating after eight.

    Example:
        >>> palette(2)
        ['#0072B2', '#D55E00']
    """
    return [PALETTE[k % len(PALETTE)] for k in range(count)]
