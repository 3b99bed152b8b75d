"""Tables 2 and 3, Figure 36: an example of d-separation that can be computed exactly."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pandas as pd

from unweave.papers.catalog import published_table
from unweave.papers.claims import Count

__all__ = ["obtained", "plot", "products"]

CONDITIONS = ({"X": 4}, {"X": 4, "Y": 1})


def obtained(_: pd.DataFrame | None = None) -> pd.DataFrame:
    """Each probability, printed and computed; `exactly` is a fraction as text."""
    from unweave.papers.ms_vae.theory.d_separation import example, tables

    found = pd.concat([tables(example(), **known) for known in CONDITIONS])
    shares = found.set_index(["law", "event"])["probability"]
    frame = published_table(__package__, "tables-2-3")
    cells = [shares[law, event] for law, event in zip(frame["law"], frame["event"], strict=True)]
    return frame.assign(exactly=list(map(str, cells)), obtained=list(map(float, cells)))


def products(frame: pd.DataFrame) -> Iterator[Count]:
    """Where laws are the products of their marginals, and what this example cannot show."""
    from unweave.papers.ms_vae.theory.d_separation import BLURRED, example

    shares = frame.set_index(["law", "event"])["exactly"].map(Fraction)
    for known in CONDITIONS:
        given = ", ".join(f"{name} = {value}" for name, value in known.items())
        alike = [
            share == shares[f"P(C | {given})", c] * shares[f"P(Z | {given})", z]
            for event, share in shares[f"P(C, Z | {given})"].items()
            for c, z in [event.split(", ")]
        ]
        yield Count(f"Given {given}: P(C, Z) = P(C) P(Z)", sum(alike), len(alike), "events")
    for made, beside in (("Y", False), ("C itself", True)):
        text = f"Given X and Y, first stage wrong half of the time, X made from {made}: the same"
        found = example(BLURRED, beside=beside).independent("C", "Z", ("X", "Y"))
        yield Count(text, int(found), 1, "examples")


def plot(_: pd.DataFrame, path: Path) -> None:
    """Images, masks, and both laws beside the products of their marginals."""
    from unweave.papers.ms_vae.theory.d_separation_figures import draw_example

    draw_example().save(path)
