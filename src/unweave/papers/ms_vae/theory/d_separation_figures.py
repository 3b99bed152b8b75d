"""The figure of the example: its images, and C and Z given X, and given X and Y."""

from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.papers.ms_vae.theory.d_separation import BLURRED, CODES, IMAGES, MASKS, example
from unweave.plots.colours import FAINT, INK, ONE_HUE, PALETTE

if TYPE_CHECKING:
    from unweave.plots.plot import Plot

__all__ = ["draw_example"]

PLACES = {1: (0.5, 0.74), 2: (0.26, 0.32), 3: (0.74, 0.32)}
"""Where the three parts are in an image of size 1."""
RADIUS, ACROSS, BETWEEN = 0.16, 1.15, 0.7
DARK = 0.5
"""From this probability on letters are white."""


def draw_example() -> "Plot":
    """Draw images and masks above; below, P(C, Z | …) beside the product of its marginals.

    The last pair is of a first stage that errs, so that Y does not tell C.
    """
    from unweave.plots.plot import PAGE, TEXT, Plot

    figure = Plot(figsize=(PAGE, 3.1), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 2.2))
    above, below = halves
    _draw_images(above.subplots())
    pairs = (
        (example(), {"X": 4}, "X = 4"),
        (example(), {"X": 4, "Y": 1}, "X = 4, Y = 1"),
        (example(BLURRED), {"X": 4, "Y": 2}, "X = 4, Y = 2, blurred"),
    )
    for part, (law, known, condition) in zip(below.subfigures(1, 3), pairs, strict=True):
        rest = law.given(**known)
        both = rest.of("C", "Z")
        shares = np.array([[both[c, z] for z in MASKS] for c in CODES])
        left, right = part.subplots(1, 2, sharey=True)
        _draw_law(left, shares, "P(C, Z | …)")
        _draw_law(right, np.outer(shares.sum(1), shares.sum(0)), "P(C | …) P(Z | …)")
        word = "independent" if rest.independent("C", "Z") else "dependent"
        part.suptitle(f"{condition}: {word}", fontsize=TEXT)
    return figure


def _draw_images(panel: Any) -> None:
    """Y, the masks of each Z, and X, from left to right."""
    from matplotlib.patches import Circle, Rectangle

    from unweave.plots.plot import SMALL, TEXT

    groups = {
        "Y": {str(code): IMAGES[code] for code in CODES},
        **{f"masks, Z = {z}": dict(zip("abc", masks, strict=False)) for z, masks in MASKS.items()},
        "X": {str(number): parts for number, parts in IMAGES.items()},
    }
    x = 0.0
    for title, images in groups.items():
        middle = x + (ACROSS * len(images) - ACROSS + 1) / 2
        panel.text(middle, 1.45, title, ha="center", fontsize=TEXT, color=INK)
        for name, parts in images.items():
            panel.add_patch(Rectangle((x, 0), 1, 1, fill=False, edgecolor=FAINT, linewidth=0.8))
            for part in sorted(parts):
                right, up = PLACES[part]
                panel.add_patch(Circle((x + right, up), RADIUS, color=PALETTE[part - 1]))
            if "masks" not in title:
                panel.text(x + 0.5, 1.1, name, ha="center", fontsize=SMALL, color=FAINT)
            x += ACROSS
        x += BETWEEN
    panel.set(xlim=(-0.1, x - BETWEEN), ylim=(-0.1, 1.9), aspect="equal")
    panel.set_axis_off()


def _draw_law(panel: Any, shares: np.ndarray, title: str) -> None:
    """C downwards, Z to the right, with every probability `[3, 2]` as a fraction."""
    from unweave.plots.plot import SMALL

    panel.imshow(shares.astype(float), cmap=ONE_HUE, vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        colour = "white" if share > DARK else "black"
        style = {"ha": "center", "va": "center", "fontsize": SMALL, "color": colour}
        panel.text(column, row, str(share), **style)
    panel.set_title(title, fontsize=SMALL)
    panel.set_xticks(range(len(MASKS)), [f"Z = {z}" for z in MASKS], fontsize=SMALL)
    panel.set_yticks(range(len(CODES)), [f"C = {c}" for c in CODES], fontsize=SMALL)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
