"""R² on constructed cells is exact, and stands beside what noise would reach."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from unweave.analysis import variance_explained
from unweave.analysis.variance import OBJECTIVE, OBJECTIVE_STRENGTH


def both(table):
    found = variance_explained(table, metrics=["mig"])
    return found.set_index(["data", "grouping"])


def test_r2_of_constructed_cells_is_exact(design):
    """Methods at 0 … 5, strengths at 0 … 5 within each, seeds at ±1: variances 35/12, 35/12, 1."""
    table = design(data=("a",), seeds=2)
    method = pd.factorize(table["method"])[0]
    strength = table.groupby("method")["strength"].rank("dense") - 1
    table["mig"] = method + strength + (2 * table["seed"] - 1)
    found = both(table)
    part, total = 35 / 12, 35 / 12 + 35 / 12 + 1
    assert found.loc[("a", OBJECTIVE), "r2"] == pytest.approx(part / total, abs=1e-12)
    assert found.loc[("a", OBJECTIVE_STRENGTH), "r2"] == pytest.approx(2 * part / total, abs=1e-12)
    assert found["cells"].tolist() == [6, 36]
    adjusted = 1 - (1 - 2 * part / total) * 71 / 36
    assert found.loc[("a", OBJECTIVE_STRENGTH), "adjusted_r2"] == pytest.approx(adjusted)


def test_all_or_nothing_is_explained(design):
    table = design(data=("a",), seeds=2)
    level = pd.factorize(table["method"])[0].astype(float)
    assert both(table.assign(mig=level))["r2"].tolist() == pytest.approx([1, 1])
    seeds = both(table.assign(mig=table["seed"].astype(float)))
    assert seeds["r2"].tolist() == pytest.approx([0, 0], abs=1e-12)


def test_r2_is_that_of_a_regression_on_one_hot_cells(design):
    table = design(data=("a",), seeds=3)
    rng = np.random.default_rng(0)
    table["mig"] = rng.random(len(table)) + 0.1 * pd.factorize(table["method"])[0]
    table = table.drop(index=[0, 5, 17])  # unbalanced
    found = both(table)["r2"]
    for grouping, keys in (
        (OBJECTIVE, table["method"]),
        (OBJECTIVE_STRENGTH, table["method"] + table["strength"].astype(str)),
    ):
        one_hot = pd.get_dummies(keys).to_numpy(float)
        expected = LinearRegression(fit_intercept=False).fit(one_hot, table["mig"])
        score = expected.score(one_hot, table["mig"])
        assert found["a", grouping] == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_strength_never_explains_less(design, seed):
    table = design(seeds=2)
    table["mig"] = np.random.default_rng(seed).random(len(table))
    wide = variance_explained(table).pivot(index="data", columns="grouping", values="r2")
    assert (wide[OBJECTIVE_STRENGTH] >= wide[OBJECTIVE]).all()


def test_the_null_level_is_that_of_the_full_design(full):
    found = variance_explained(full[full["data"] == "dsprites"], metrics=["mig"])
    assert found["null_r2"].tolist() == pytest.approx([5 / 1799, 35 / 1799])


def test_noise_reaches_the_null_level_and_adjusts_to_zero(design):
    """Means over 300 data sets; an R² of noise is Beta-distributed with the null level as mean."""
    names = [str(number) for number in range(300)]
    table = design(data=names, seeds=2)
    table["mig"] = np.random.default_rng(0).normal(size=len(table))
    found = variance_explained(table)
    means = found.groupby("grouping")[["r2", "adjusted_r2"]].mean()
    assert means.loc[OBJECTIVE_STRENGTH, "r2"] == pytest.approx(35 / 71, abs=0.02)
    assert means.loc[OBJECTIVE, "r2"] == pytest.approx(5 / 71, abs=0.02)
    assert means["adjusted_r2"].tolist() == pytest.approx([0, 0], abs=0.03)


def test_diverged_models_are_left_out_and_counted(design):
    table = design(data=("a",), seeds=2)
    table["mig"] = np.random.default_rng(0).random(len(table))
    broken = table.assign(mig=table["mig"].where(table["method"] != "dip_vae_i"))
    found = both(broken)
    expected = both(table[table["method"] != "dip_vae_i"])
    assert found["left_out"].tolist() == [12, 12]
    assert found["cells"].tolist() == [5, 30]
    for column in ("r2", "adjusted_r2", "null_r2"):
        assert found[column].tolist() == pytest.approx(expected[column].tolist())


def test_strengths_of_two_methods_are_different_cells():
    table = pd.DataFrame({"data": "a", "method": list("vvff"), "strength": [1.0, 2, 1, 2]})
    assert both(table.assign(mig=[1.0, 2, 3, 4]))["cells"].tolist() == [2, 4]


def test_what_cannot_be_explained_is_missing():
    table = pd.DataFrame({"data": "a", "method": list("vf"), "strength": 1.0})
    assert both(table.assign(mig=0.1 + 0.2))["r2"].isna().all()
    assert both(table.assign(mig=[1.0, 2]))["adjusted_r2"].isna().all()
    nothing = both(table.assign(mig=np.nan))
    assert nothing["r2"].isna().all()
    assert nothing["left_out"].tolist() == [2, 2]
