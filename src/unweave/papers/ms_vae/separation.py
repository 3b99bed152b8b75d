"""Tables 2 and 3, Figure 36: an example of d-separation that can be computed exactly."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pandas as pd

from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many

__all__ = ["TABLES_2_3", "obtained", "verdict"]

CONDITIONS = ({"X": 4}, {"X": 4, "Y": 1})

PROBABILITIES = {
    "P(C, Z | X = 4)": {
        "C=1, Z=0": "0",
        "C=1, Z=1": "3/8",
        "C=2, Z=0": "1/4",
        "C=2, Z=1": "3/8",
        "C=3, Z=0": "0",
        "C=3, Z=1": "0",
    },
    "P(C | X = 4)": {"C=1": "3/8", "C=2": "5/8", "C=3": "0"},
    "P(Z | X = 4)": {"Z=0": "1/4", "Z=1": "3/4"},
    "P(C, Z | X = 4, Y = 1)": {
        "C=1, Z=0": "0",
        "C=1, Z=1": "1",
        "C=2, Z=0": "0",
        "C=2, Z=1": "0",
        "C=3, Z=0": "0",
        "C=3, Z=1": "0",
    },
    "P(C | X = 4, Y = 1)": {"C=1": "1", "C=2": "0", "C=3": "0"},
    "P(Z | X = 4, Y = 1)": {"Z=0": "0", "Z=1": "1"},
}


def published() -> pd.DataFrame:
    """Each probability, as printed and as a number."""
    return pd.DataFrame(
        [
            {"law": law, "event": event, "fraction": text, "published": float(Fraction(text))}
            for law, events in PROBABILITIES.items()
            for event, text in events.items()
        ]
    )


def obtained(_: pd.DataFrame | None = None) -> pd.DataFrame:
    """The same, computed; `exactly` is a fraction as text."""
    from unweave.papers.ms_vae.theory.d_separation import example, tables

    found = pd.concat([tables(example(), **known) for known in CONDITIONS])
    shares = found.set_index(["law", "event"])["probability"]
    frame = published()
    cells = [shares[law, event] for law, event in zip(frame["law"], frame["event"], strict=True)]
    return frame.assign(exactly=list(map(str, cells)), obtained=list(map(float, cells)))


def verdict(frame: pd.DataFrame) -> list[str]:
    """How many fractions are those printed, what they show, and what the example cannot show."""
    from unweave.papers.ms_vae.theory.d_separation import BLURRED, example

    same = frame["fraction"].map(Fraction) == frame["exactly"].map(Fraction)
    shares = frame.set_index(["law", "event"])["exactly"].map(Fraction)
    through, beside = (
        _word(example(BLURRED, beside=beside).independent("C", "Z", ("X", "Y")))
        for beside in (False, True)
    )
    return [
        f"{how_many(same, 'fraction').capitalize()} are those printed.",
        *(_compared(shares, known) for known in CONDITIONS),
        "The second could not be otherwise, since this Y tells C. Where the first stage errs half "
        f"of the time, C and Z are {through} given X and Y if X is made from Y, and {beside} if "
        "it is made from C itself.",
        "The images are lost in the paper's text. Ours are the only ones of their kind that give "
        "these tables, so that the tables are checked, not Figure 36.",
    ]


def _compared(shares: "pd.Series[Fraction]", known: Mapping[str, int]) -> str:
    """Whether a law is the product of its marginals, and where it is not."""
    condition = ", ".join(f"{name} = {value}" for name, value in known.items())
    for event, share in shares[f"P(C, Z | {condition})"].items():
        c, z = event.split(", ")
        product = shares[f"P(C | {condition})", c] * shares[f"P(Z | {condition})", z]
        if share != product:
            return (
                f"Given {condition}, C and Z are {_word(False)}: P({event}) is {share}, "
                f"P({c}) P({z}) is {product}."
            )
    return f"Given {condition}, C and Z are {_word(True)}."


def _word(independent: bool) -> str:
    return "independent" if independent else "not independent"


def plot(_: pd.DataFrame, path: Path) -> None:
    """Images, masks, and both laws beside the products of their marginals."""
    from unweave.papers.ms_vae.theory.d_separation_figures import draw_example

    draw_example().save(path)


TABLES_2_3 = Recipe(
    name="ms-vae/tables-2-3",
    title="C and Z given X, and given X and Y, in an example of six images",
    where="Tables 2 and 3, Figure 36",
    claim="C and Z depend on each other given X, and are independent given X and Y.",
    published=published,
    obtain=obtained,
    verdict=verdict,
    plot=plot,
)
