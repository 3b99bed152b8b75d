"""C and Z given X, and given X and Y, in an example with six images, in exact fractions.

After Appendix K of *Improving the Reconstruction of Disentangled Representation Learners via
Multi-Stage Modelling* (under review 2021). A first stage generates an image Y from a code C, and a
second stage adds a mask that depends on Z: `C -> Y -> X <- Z`.

Notes:
    The images cannot be recovered from the paper's text. Here an image is a set of parts, a mask
    adds parts, and `MASKS` are the only such masks that give the published tables.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.claims import Count
from unweave.papers.ms_vae.theory.discrete import Distribution, joint
from unweave.papers.ms_vae.theory.graphs import read_graph
from unweave.papers.recipe import published_table
from unweave.papers.theory import TheoryError
from unweave.plots.colours import FAINT, INK, ONE_HUE, PALETTE

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

GRAPH = read_graph("C -> Y -> X <- Z")
BESIDE = read_graph("Y <- C -> X <- Z")
"""Graph in which the second stage depends on C instead of Y."""
CODES = (1, 2, 3)
IMAGES = {
    1: frozenset({1}),
    2: frozenset({2}),
    3: frozenset({3}),
    4: frozenset({1, 2}),
    5: frozenset({1, 3}),
    6: frozenset({2, 3}),
}
"""Parts of each image X; Y is one of the first three images."""
MASKS: Mapping[int, tuple[frozenset[int], ...]] = {
    0: (frozenset(), frozenset({1}), frozenset({3})),
    1: (frozenset({1}), frozenset({2})),
}
"""Equally probable masks for each Z."""
BLURRED = Fraction(1, 2)
"""Error probability of a first stage whose Y does not determine C."""


def example(
    errs: Fraction | int = 0,
    *,
    beside: bool = False,
    masks: Mapping[int, tuple[frozenset[int], ...]] = MASKS,
) -> Distribution:
    """Joint distribution of C, Y, Z and X: C and Z uniform, Y generated from C, X = Y with a mask.

    Args:
        errs: Probability that Y is not the image of C; both other images are equally probable
            (default 0, as in the paper, so that Y determines C).
        beside: Whether the mask is added to the image of C instead of Y, as in `BESIDE`.
        masks: Masks for each Z.
    """
    if not 0 <= errs <= 1:
        raise TheoryError(f"errs must be between 0 and 1, got {errs}", subject="errs", value=errs)
    other = Fraction(errs) / 2
    return joint(
        BESIDE if beside else GRAPH,
        {
            "C": lambda: dict.fromkeys(CODES, Fraction(1, 3)),
            "Z": lambda: dict.fromkeys((0, 1), Fraction(1, 2)),
            "Y": lambda c: {y: 1 - 2 * other if y == c else other for y in CODES},
            "X": lambda below, z: _masked(below, masks[z]),
        },
    )


def tables(law: Distribution, **known: int) -> pd.DataFrame:
    """Compute the tables of the paper: distributions of C and Z, of C, and of Z, given variables.

    Returns:
        A row per probability: `law`, such as `P(C | X = 4)`, `event`, such as `C=1`, and
        `probability`.
    """
    condition = ", ".join(f"{name} = {value}" for name, value in known.items())
    rest = law.given(**known)
    rows = []
    for names in (("C", "Z"), ("C",), ("Z",)):
        part = rest.of(*names)
        for state in part:
            event = ", ".join(f"{n}={v}" for n, v in zip(names, state, strict=True))
            rows.append((f"P({', '.join(names)} | {condition})", event, part[state]))
    return pd.DataFrame(rows, columns=["law", "event", "probability"])


def all_tables() -> pd.DataFrame:
    """Distributions of C and Z given each X, and given each possible X and Y, in three models.

    Returns:
        A row per model, condition, C and Z: `model` (`published`; `blurred`, where Y does not
        determine C; `beside`, where in addition X depends on C instead of Y), `X`, `Y` (empty if
        not given), `C`, `Z`, `probability`, and `product`, the product of the marginals.
    """
    models = {
        "published": example(),
        "blurred": example(BLURRED),
        "beside": example(BLURRED, beside=True),
    }
    rows = []
    for model, law in models.items():
        for names in (("X",), ("X", "Y")):
            for state in sorted(law.of(*names).positive):
                known = dict(zip(names, state, strict=True))
                rest = law.given(**known)
                c_and_z, c, z = rest.of("C", "Z"), rest.of("C"), rest.of("Z")
                rows += [
                    {
                        "model": model,
                        "X": known["X"],
                        "Y": known.get("Y"),
                        "C": pair[0],
                        "Z": pair[1],
                        "probability": c_and_z[pair],
                        "product": c[pair[:1]] * z[pair[1:]],
                    }
                    for pair in c_and_z
                ]
    return pd.DataFrame(rows).astype({"Y": "Int64"})


def _masked(below: int, masks: tuple[frozenset[int], ...]) -> dict[int, Fraction]:
    """Probability of each image after adding a random mask to another image."""
    numbers = {parts: number for number, parts in IMAGES.items()}
    found = [IMAGES[below] | mask for mask in masks]
    if not numbers.keys() >= set(found):
        raise TheoryError(
            f"masks must map {sorted(IMAGES[below])} to one of the six images",
            subject="masks",
            value=below,
        )
    return {numbers[image]: Fraction(found.count(image), len(found)) for image in set(found)}


CONDITIONS = ({"X": 4}, {"X": 4, "Y": 1})


def obtain(_: pd.DataFrame) -> pd.DataFrame:
    """Published and computed probabilities; `exactly` is a fraction as text."""
    found = pd.concat([tables(example(), **known) for known in CONDITIONS])
    shares = found.set_index(["law", "event"])["probability"]
    frame = published_table("unweave.papers.ms_vae", "tables-2-3")
    cells = [shares[law, event] for law, event in zip(frame["law"], frame["event"], strict=True)]
    return frame.assign(exactly=list(map(str, cells)), obtained=list(map(float, cells)))


def products(frame: pd.DataFrame) -> Iterator[Count]:
    """Count where distributions are products of their marginals, also in two further models."""
    shares = frame.set_index(["law", "event"])["exactly"].map(Fraction)
    for known in CONDITIONS:
        given = ", ".join(f"{name} = {value}" for name, value in known.items())
        equal = [
            share == shares[f"P(C | {given})", c] * shares[f"P(Z | {given})", z]
            for event, share in shares[f"P(C, Z | {given})"].items()
            for c, z in [event.split(", ")]
        ]
        yield Count(f"Given {given}: P(C, Z) = P(C) P(Z)", sum(equal), len(equal), "events")
    for source, beside in (("Y", False), ("C", True)):
        text = (
            f"Given X and Y, with Y wrong half of the time, X from {source}: P(C, Z) = P(C) P(Z)"
        )
        found = example(BLURRED, beside=beside).independent("C", "Z", ("X", "Y"))
        yield Count(text, int(found), 1, "examples")


def plot(_: pd.DataFrame, path: Path) -> None:
    """Draw images, masks, and both distributions next to the products of their marginals."""
    draw_example().save(path)


PLACES = {1: (0.5, 0.74), 2: (0.26, 0.32), 3: (0.74, 0.32)}
"""Positions of the three parts in an image of size 1."""
RADIUS, ACROSS, BETWEEN = 0.16, 1.15, 0.7
DARK = 0.5
"""Probability above which text is white."""


def draw_example() -> "Plot":
    """Draw images and masks at the top; below, P(C, Z | …) next to the product of its marginals.

    In the last pair, the first stage makes errors, so that Y does not determine C.
    """
    from unweave.plots.figure import Plot
    from unweave.plots.plot import PAGE, TEXT

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
        verdict = "independent" if rest.independent("C", "Z") else "dependent"
        part.suptitle(f"{condition}: {verdict}", fontsize=TEXT)
    return figure


def _draw_images(panel: Any) -> None:
    """Draw Y, the masks of each Z, and X, from left to right."""
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
    """Draw probabilities `[3, 2]` as fractions, with C downwards and Z to the right."""
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
