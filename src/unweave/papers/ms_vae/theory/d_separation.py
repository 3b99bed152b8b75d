"""C and Z given X, and given X and Y, in an example of six images; in exact fractions.

After Appendix K of *Improving the Reconstruction of Disentangled Representation Learners via
Multi-Stage Modelling* (under review 2021). A first stage paints an image Y of a code C, and a
second one adds a mask that depends on Z: `C -> Y -> X <- Z`.

Notes:
    The paper's text has lost its images. Here an image is a set of parts, a mask adds parts, and
    `MASKS` are the only such masks that give the published tables.
"""

from collections.abc import Mapping
from fractions import Fraction

import pandas as pd

from unweave.papers.ms_vae.theory.discrete import Law, joint
from unweave.papers.ms_vae.theory.graphs import read_graph
from unweave.papers.theory import TheoryError

__all__ = ["BESIDE", "BLURRED", "GRAPH", "IMAGES", "MASKS", "all_tables", "example", "tables"]

GRAPH = read_graph("C -> Y -> X <- Z")
BESIDE = read_graph("Y <- C -> X <- Z")
"""The same with a second stage that sees C itself."""
CODES = (1, 2, 3)
IMAGES = {
    1: frozenset({1}),
    2: frozenset({2}),
    3: frozenset({3}),
    4: frozenset({1, 2}),
    5: frozenset({1, 3}),
    6: frozenset({2, 3}),
}
"""The parts of X; Y is one of the first three."""
MASKS: Mapping[int, tuple[frozenset[int], ...]] = {
    0: (frozenset(), frozenset({1}), frozenset({3})),
    1: (frozenset({1}), frozenset({2})),
}
"""By Z, equally probable."""
BLURRED = Fraction(1, 2)
"""How often the first stage errs where Y is not to tell C."""


def example(
    errs: Fraction | int = 0,
    *,
    beside: bool = False,
    masks: Mapping[int, tuple[frozenset[int], ...]] = MASKS,
) -> Law:
    """The law of C, Y, Z and X: C and Z uniform, Y painted from C, X = Y with a mask.

    Args:
        errs: How probable it is that Y is another image than that of C, both others being equally
            probable. In the paper it is 0, so that Y tells C.
        beside: Whether the mask is added to the image of C, with Y beside it as in `BESIDE`.
        masks: By Z.
    """
    if not 0 <= errs <= 1:
        raise TheoryError(f"errs is a probability between 0 and 1, but got {errs}")
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


def tables(law: Law, **known: int) -> pd.DataFrame:
    """The tables of the paper: C and Z, C, and Z where some variables are known.

    Args:
        law: See `example`.
        known: Values of X, or of X and Y.

    Returns:
        A row per probability: `law`, as `P(C | X = 4)`, `event`, as `C=1`, and `probability`.
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
    """C and Z given each X, and given each X and Y that can be together, in three models.

    Returns:
        A row per model, condition, C and Z: `model` (`published`; `blurred`, where Y does not tell
        C; `beside`, where besides X is made from C), `X`, `Y` (empty where not known), `C`, `Z`,
        `probability`, and `product`, that of the probabilities of C and of Z alone.
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
    """How probable each image is after a mask on top of another image."""
    numbers = {parts: number for number, parts in IMAGES.items()}
    found = [IMAGES[below] | mask for mask in masks]
    if not numbers.keys() >= set(found):
        raise TheoryError(f"masks must turn {sorted(IMAGES[below])} into one of the six images")
    return {numbers[image]: Fraction(found.count(image), len(found)) for image in set(found)}
