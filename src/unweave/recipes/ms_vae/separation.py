"""Tables 2 and 3, Figure 36: an example of d-separation that can be computed exactly."""

from fractions import Fraction

import pandas as pd

from unweave.recipes.recipe import Recipe

__all__ = ["TABLES_2_3"]

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


TABLES_2_3 = Recipe(
    name="ms-vae/tables-2-3",
    title="C and Z given X, and given X and Y, in an example of six images",
    where="Tables 2 and 3, Figure 36",
    claim="C and Z depend on each other given X, and are independent given X and Y.",
    published=published,
    waits_for="the small exact experiments (theory)",
)
