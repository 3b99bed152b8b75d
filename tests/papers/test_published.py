"""Published values are complete, well-formed and exact."""

import re

import numpy as np
import pandas as pd
import pytest

from unweave.papers import PAPERS, RECIPES, find

FIGURES = {
    "common-assumptions": 6,
    "vae-ensemble": 13,
    "isa-vae": 16,
    "ms-vae": 40,
    "inductive-biases": 8,
}
TABLES = {"vae-ensemble": 4, "isa-vae": 2, "ms-vae": 3, "inductive-biases": 4}


def numbers(where, word):
    """The numbers of the figures or tables in a text: `Figures 9 to 12` gives four."""
    found = set()
    for part in re.findall(rf"{word}s? ((?:\d+\w?(?:, | and | to )?)+)", where):
        if " to " in part:
            first, last = map(int, part.split(" to "))
            found |= set(range(first, last + 1))
        else:
            found |= {int(number) for number in re.findall(r"\d+", part)}
    return found


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize(("word", "counts"), [("Figure", FIGURES), ("Table", TABLES)])
def test_every_figure_and_table_of_a_paper_is_named(paper, word, counts):
    places = [recipe.where for recipe in RECIPES.values() if recipe.paper == paper]
    named = set().union(*(numbers(place, word) for place in places))
    assert named == set(range(1, counts.get(paper, 0) + 1))


def test_figure_and_table_numbers_are_parsed():
    assert numbers("Tables 2 and 3, Figure 36", "Figure") == {36}
    assert numbers("Tables 2 and 3, Figure 36", "Table") == {2, 3}
    assert numbers("Figures 9 to 12", "Figure") == {9, 10, 11, 12}
    assert numbers("Figure 5a", "Figure") == {5}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_a_published_frame_is_well_formed(recipe):
    frame = recipe.published()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame)
    assert frame["published"].notna().all()
    keys = [name for name in frame if name not in ("published", "spread")]
    assert keys
    assert not frame.duplicated(keys).any()
    if pd.api.types.is_numeric_dtype(frame["published"]):
        assert np.isfinite(frame["published"]).all()
    else:
        assert frame["published"].map(lambda value: isinstance(value, str) and value != "").all()


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_a_recipe_is_described(recipe):
    assert recipe.paper in PAPERS
    assert re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", recipe.name)
    assert recipe.claim.endswith(".")
    assert recipe.title
    assert not recipe.title.endswith(".")
    if recipe.status == "ready":
        assert recipe.plot is not None


def test_d_separation_distributions_sum_to_one_and_only_one_factorises():
    frame = find("ms-vae/tables-2-3").published()
    laws = {law: rows.set_index("event")["published"] for law, rows in frame.groupby("law")}
    assert {round(law.sum(), 12) for law in laws.values()} == {1.0}
    for given, product in (("X = 4", False), ("X = 4, Y = 1", True)):
        joint = laws[f"P(C, Z | {given})"]
        apart = laws[f"P(C | {given})"], laws[f"P(Z | {given})"]
        products = [apart[0][event.split(", ")[0]] * apart[1][event[5:]] for event in joint.index]
        assert np.allclose(joint, products) == product


@pytest.mark.parametrize("table", ["table-2", "table-3", "table-4"])
def test_modified_shapes3d_is_below_both_others_for_every_variational_method(table):
    """The claim of the tables; an error in copying a cell would break it."""
    frame = find(f"inductive-biases/{table}").published()
    wide = frame[frame["data"] == "shapes3d"].pivot(
        index="method", columns="images", values="published"
    )
    variational = wide.drop(index="pcl")
    assert (variational["modified"] < variational["original"]).all()
    assert (variational["modified"] < variational["noise"]).all()
    assert (wide.loc["pcl", "original"] - wide.loc["pcl", "modified"]) <= 0.0301
