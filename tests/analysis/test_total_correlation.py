"""Total correlation: trend with strength, and effect of passive latents."""

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.analysis import total_correlation, total_correlation_trend
from unweave.metrics import gaussian_total_correlation
from unweave.study import StudyTableError

TC = "gaussian_total_correlation"
ACTIVE = f"{TC}.active_total_correlation"


@pytest.fixture
def table(design):
    """Mean codes rise from 1 to 6, sampled codes fall from 6 to 1; seeds add 0 or 0.1."""
    frame = design(data=("dsprites", "cars3d"), seeds=2)
    level = frame.groupby("method")["strength"].rank("dense") + 0.1 * frame["seed"]
    return frame.assign(**{TC: level, ACTIVE: level / 2, f"sampled.{TC}": 7 - level})


def test_each_cell_has_its_mean_and_quartiles(table):
    found = total_correlation(table)
    keys = ["data", "method", "strength", "codes", "latents"]
    cell = found.set_index(keys).loc[("cars3d", "factor_vae", 20.0, "mean", "all")]
    assert cell[["mean", "std", "median", "min", "max"]].tolist() == pytest.approx(
        [2.05, 0.05, 2.05, 2, 2.1]
    )
    assert cell[["low", "high"]].tolist() == pytest.approx([2.025, 2.075])
    assert len(found) == 2 * 36 * 3
    assert set(zip(found["codes"], found["latents"], strict=True)) == {
        ("mean", "all"),
        ("mean", "active"),
        ("sampled", "all"),
    }


def test_mean_codes_rise_and_sampled_codes_fall(table):
    found = total_correlation_trend(table)
    directions = found.groupby("codes")["direction"].unique()
    assert directions["mean"].tolist() == ["rises"]
    assert directions["sampled"].tolist() == ["falls"]
    told = found[found["method"] != "annealed_vae"]
    assert told["agrees"].all()
    assert told["spearman"].abs().min() > 0.95


def test_the_annealed_vae_is_not_compared(table):
    found = total_correlation_trend(table)
    annealed = found[found["method"] == "annealed_vae"]
    assert (annealed["published"] == "").all()
    assert annealed["agrees"].isna().all()


def test_the_other_direction_disagrees(table):
    table[TC] = -table[TC]
    found = total_correlation_trend(table[table["method"] == "beta_vae"])
    kinds = found.set_index(["data", "codes", "latents"])["agrees"]
    assert not kinds["dsprites", "mean", "all"]
    assert kinds["dsprites", "mean", "active"]


def test_a_method_without_strength_has_no_direction(table):
    plain = table.assign(method="vae", strength=np.nan)
    found = total_correlation_trend(plain)
    assert (found["direction"] == "").all()
    assert found["agrees"].isna().all()


def test_a_passive_latent_shows_in_mean_codes_over_all_latents_only():
    """A tiny mean that copies an active one: ½ log(1 + 1/0.1²) = 2.31, gone once it is noisy."""
    rng = np.random.default_rng(0)
    active = rng.normal(size=(10_000, 2))
    passive = 1e-3 * (active[:, 0] + 0.1 * rng.normal(size=10_000))
    means = np.column_stack([active, passive])
    sampled = means + [0.1, 0.1, 1.0] * rng.normal(size=means.shape)
    mean_scores, sampled_scores = map(gaussian_total_correlation, (means, sampled))
    row = {
        TC: mean_scores[TC],
        ACTIVE: mean_scores["active_total_correlation"],
        f"sampled.{TC}": sampled_scores[TC],
    }
    table = pd.DataFrame([{"data": "a", "method": "beta_vae", "strength": 1.0, **row}])
    found = total_correlation(table)
    medians = found.set_index(["codes", "latents"])["median"]
    assert medians["mean", "all"] == pytest.approx(0.5 * np.log(101), abs=0.03)
    assert medians["mean", "active"] == pytest.approx(0, abs=0.01)
    assert medians["sampled", "all"] == pytest.approx(0, abs=0.01)
    assert "2.3" in found.attrs["note"]


def test_without_active_latents_the_note_says_so(table):
    found = total_correlation(table.drop(columns=ACTIVE))
    assert set(found["latents"]) == {"all"}
    assert ACTIVE in found.attrs["note"]


def test_infinite_and_missing_values_are_left_out_and_counted(table):
    table.loc[0, TC] = np.inf
    table.loc[1, TC] = np.nan
    found = total_correlation(table)
    first = found.iloc[0]
    assert first[["models", "left_out"]].tolist() == [0, 2]
    assert np.isnan(first["mean"])
    assert found["left_out"].sum() == 2


def test_sampled_codes_are_required(table):
    with pytest.raises(StudyTableError, check=about(f"sampled.{TC}")):
        total_correlation(table.drop(columns=f"sampled.{TC}"))
