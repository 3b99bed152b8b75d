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


def cell(name, **keys):
    """The only matching published value, with its spread if there is one."""
    frame = find(name).published()
    for key, value in keys.items():
        frame = frame[frame[key] == value]
    assert len(frame) == 1, frame
    row = frame.iloc[0]
    return (row["published"], row["spread"]) if "spread" in frame else row["published"]


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


def test_variance_explained():
    name = "common-assumptions/variance-explained"
    objective, both = "objective", "objective × strength"
    assert cell(name, data="cars3d", metric="beta_vae", grouping=objective) == 0.01
    assert cell(name, data="scream_dsprites", metric="beta_vae", grouping=both) == 0.93
    assert cell(name, data="noisy_dsprites", metric="modularity", grouping=objective) == 0.41
    assert cell(name, data="shapes3d", metric="sap", grouping=both) == 0.35
    assert cell(name, data="dsprites", metric="mig", grouping=both) == 0.72


def test_transfer():
    assert find("common-assumptions/transfer").published()["published"].tolist() == [
        0.807,
        0.593,
        0.549,
    ]


def test_vae_ensemble_table_1():
    name = "vae-ensemble/table-1"
    assert len(find(name).published()) == 2 * (6 + 12)
    assert cell(name, metric="factor_vae", method="vae") == (0.635, 0.083)
    assert cell(name, metric="dci", method="dip_vae_i (λ_od=5)") == (0.049, 0.017)
    assert cell(name, metric="factor_vae", method="beta_tc_vae (β=4)") == (0.808, 0.079)
    assert cell(name, metric="factor_vae", members=4, gamma=1) == (0.833, 0.037)
    assert cell(name, metric="factor_vae", members=5, gamma=10) == (0.739, 0.085)
    assert cell(name, metric="dci", members=3, gamma=10) == (0.311, 0.060)
    assert cell(name, metric="dci", members=2, gamma=5) == (0.243, 0.029)


def test_vae_ensemble_table_2():
    name = "vae-ensemble/table-2"
    assert cell(name, metric="factor_vae", members=2, gamma=1) == 0.0019
    assert cell(name, metric="factor_vae", members=5, gamma=5) == 0.0163
    assert cell(name, metric="dci", members=3, gamma=5) == 0.0054
    assert cell(name, metric="dci", members=2, gamma=10) == 0.0013


def test_isa_vae():
    assert find("isa-vae/figure-7").published()["published"].tolist() == [1.95, 1.98, 2.17]
    name = "isa-vae/appendix-b"
    assert cell(name, rotation="π/4", quantity="free energy") == -57.16
    assert cell(name, rotation="π/4", quantity="log-likelihood") == -17.82
    assert cell("isa-vae/tables-1-2", setting="3D faces: epochs") == "1500"


def test_ms_vae():
    name = "ms-vae/table-1"
    table = {"printed_in": "Table 1"}
    assert cell(name, data="cars3d", method="ms_vae", metric="fid", **table) == (22.72, 3.66)
    assert cell(name, data="cars3d", method="big_beta_tc_vae", metric="mig") == (0.09, 0.04)
    assert cell(name, data="smallnorb", method="ms_vae", metric="mig", **table) == (0.22, 0.01)
    big = {"data": "smallnorb", "method": "big_beta_tc_vae", "metric": "fid"}
    assert cell(name, **big, **table) == (152.19, 2.68)
    assert cell(name, **big, printed_in="Section 4.1") == (145.79, 2.98)
    assert cell("ms-vae/figures-18-20", model="mixture of 10 normals") == -1585.086
    assert cell("ms-vae/figures-18-20", model="with the conditional flow") == -1356.089


def test_d_separation_distributions_sum_to_one_and_only_one_factorises():
    frame = find("ms-vae/tables-2-3").published()
    laws = {law: rows.set_index("event")["published"] for law, rows in frame.groupby("law")}
    assert {round(law.sum(), 12) for law in laws.values()} == {1.0}
    for given, product in (("X = 4", False), ("X = 4, Y = 1", True)):
        joint = laws[f"P(C, Z | {given})"]
        apart = laws[f"P(C | {given})"], laws[f"P(Z | {given})"]
        products = [apart[0][event.split(", ")[0]] * apart[1][event[5:]] for event in joint.index]
        assert np.allclose(joint, products) == product


def test_inductive_biases():
    original = {"data": "shapes3d", "images": "original"}
    assert cell("inductive-biases/table-2", method="beta_vae", **original) == (0.73, 0.14)
    modified = {"data": "dsprites", "images": "modified"}
    assert cell("inductive-biases/table-3", method="pcl", **modified) == (0.82, 0.05)
    noise = {"data": "shapes3d", "images": "noise"}
    assert cell("inductive-biases/table-4", method="slow_vae", **noise) == (0.09, 0.05)
    assert cell("inductive-biases/main-table-1", method="beta_vae", **noise) == (0.66, 0.05)
    assert cell("inductive-biases/table-1", method="factor_vae (γ)", data="shapes3d") == 7
    assert cell("inductive-biases/table-1", method="beta_vae (β)", data="dsprites") == 8


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
