"""The recipes of ISA-VAE on planted tables, and on one small study with learned exponents."""

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.raising import about
from unweave.analysis.study_table import StudyTableError
from unweave.papers import find
from unweave.papers.isa_vae import scores
from unweave.papers.isa_vae.scores import (
    MIG,
    bimodality,
    cost_of_a_square,
    representative,
    score_of,
)
from unweave.papers.recipe import RecipeError
from unweave.study.study import Study

BETAS = (1.0, 2.0, 4.0)
CLAIMS = {
    name: text
    for slug in ("figure-5a", "figure-5b", "figure-5c", "figure-6")
    for name, text in find(f"isa-vae/{slug}").claims.items()
}
FIGURE_7 = find("isa-vae/figure-7")


def planted(gains=(0.2, 0.1, 0.0), data="dsprites", seeds=4, worse=0.0):
    """A study in which the prior adds so much MIG at each β, and costs so much reconstruction."""
    rows = []
    for baseline, own in (("beta_vae", "isa_vae"), ("beta_tc_vae", "isa_tc_vae")):
        for place, (beta, gain) in enumerate(zip(BETAS, gains, strict=True)):
            for seed in range(seeds):
                for method, extra, error in ((baseline, 0.0, 0.0), (own, gain, worse)):
                    mig = 0.1 * (place + 1) + 0.01 * seed + extra
                    rows.append(
                        {
                            "run": f"{method}-{beta:g}-{seed}",
                            "data": data,
                            "method": method,
                            "strength": beta,
                            "reconstruction": 100 + 10 * beta + error,
                            "mig_density": 0.5 * mig,
                            "mig_density.gap_0": -3 * mig,  # the shape, which must not count
                            "mig_density.gap_1": 0.5 * mig,
                            "mig_density.gap_2": 1.5 * mig,
                            "mig": mig,
                        }
                    )
    return pd.DataFrame(rows)


def outcomes(frame, claim, by=MIG):
    rows = frame[(frame["claim"] == claim) & (frame["by"] == by)]
    return (rows["obtained"] == "holds").tolist()


def test_the_papers_mig_excludes_the_shape_of_sprites_only():
    sprites, rooms = score_of(planted()), score_of(planted(data="rooms3d"))
    np.testing.assert_allclose(sprites[MIG], sprites["mig"])
    np.testing.assert_allclose(rooms[MIG], rooms["mig_density"])
    with pytest.raises(StudyTableError, check=about("mig_density")):
        score_of(planted().drop(columns="mig_density"))


@pytest.mark.parametrize(("gain", "holds"), [(0.2, True), (-0.2, False)])
def test_figure_5a_compares_mean_median_and_quantile_at_one(gain, holds):
    frame = find("isa-vae/figure-5a").obtain(planted((gain, 0.9, 0.9)))
    for claim in (CLAIMS["mean"], CLAIMS["median"], CLAIMS["top"]):
        assert outcomes(frame, claim) == outcomes(frame, claim, "mig") == [holds]
    row = frame[(frame["claim"] == CLAIMS["top"]) & (frame["by"] == MIG)].iloc[0]
    migs = 0.1 + 0.01 * np.arange(4)
    assert row["against"] == pytest.approx(np.quantile(migs, 0.9))
    assert row["measured"] == pytest.approx(np.quantile(migs + gain, 0.9))
    controls = frame[frame["by"] == "mig"]
    assert controls["published"].isna().all()


def test_figure_5b_needs_both_scores():
    frame = find("isa-vae/figure-5b").obtain(planted((0.2, 0.1, -0.1), worse=-1.0))
    assert outcomes(frame, CLAIMS["both"]) == [True, True, False] * 2
    dearer = find("isa-vae/figure-5b").obtain(planted((0.2, 0.1, -0.1), worse=1.0))
    assert outcomes(dearer, CLAIMS["both"]) == [False] * 6


def test_figure_5b_finds_baselines_above_the_best_of_the_prior():
    """The baseline's best has β = 4 and so the worst reconstruction; the prior's, β = 1."""
    frame = find("isa-vae/figure-5b").obtain(planted((0.12, -0.1, -0.2)))
    rows = frame[frame["claim"] == CLAIMS["poor"]]
    assert rows["of"].tolist() == [
        "beta_vae, β = 4, above the best isa_vae",
        "beta_tc_vae, β = 4, above the best isa_tc_vae",
    ]
    assert rows["measured"].tolist() == [140.0] * 2
    assert rows["against"].tolist() == [110.0] * 2
    assert outcomes(frame, CLAIMS["poor"], "reconstruction error") == [True, True]
    turned = planted((0.12, -0.1, -0.2), worse=50.0)
    assert outcomes(
        find("isa-vae/figure-5b").obtain(turned), CLAIMS["poor"], "reconstruction error"
    ) == [
        False,
        False,
    ]


def test_figure_5b_without_a_baseline_above_the_prior():
    frame = find("isa-vae/figure-5b").obtain(planted((0.9, 0.9, 0.9), worse=-1.0))
    assert find("isa-vae/figure-5b").verdict(frame) == [
        f"{CLAIMS['both']}: holds for 6 of 6 comparisons.",
        f"{CLAIMS['poor']}: there is nothing to compare.",
    ]


def learned(gains, **settings):
    table = planted(gains, data="rooms3d", **settings)
    return table[table["method"] != "isa_tc_vae"].replace({"strength": {2.0: 0.5}})


@pytest.mark.parametrize(("gains", "holds"), [((1.2, 0.4, 0), True), ((0.0, -0.05, 0), False)])
def test_figure_5c_compares_with_all_methods_at_two_strengths(gains, holds):
    frame = find("isa-vae/figure-5c").obtain(learned(gains))
    assert outcomes(frame, CLAIMS["best_at_1"]) == [holds]
    assert outcomes(frame, CLAIMS["best_at_half"]) == [holds]
    said = find("isa-vae/figure-5c").verdict(frame)
    assert said[0].startswith("rooms3d")


def test_figure_6_follows_the_advantage_over_beta():
    frame = find("isa-vae/figure-6").obtain(learned((0.2, 0.6, -0.3)))
    assert outcomes(frame, CLAIMS["above"]) == [True]
    assert outcomes(frame, CLAIMS["shrinks"]) == [True]
    row = frame[frame["claim"] == CLAIMS["shrinks"]].iloc[0]
    assert row["of"] == "β = 4 against 0.5"
    assert (row["against"], row["measured"]) == pytest.approx((0.3, -0.15))
    grows = find("isa-vae/figure-6").obtain(learned((-0.2, -0.6, 0.3)))
    assert outcomes(grows, CLAIMS["above"]) == outcomes(grows, CLAIMS["shrinks"]) == [False]


def test_figure_7_sorts_within_a_model_and_finds_the_peak(tmp_path):
    generator = np.random.default_rng(0)
    modes = np.array([2.2, 1.9, 2.0])  # not in order within a model
    values = modes + 0.01 * generator.normal(size=(200, 3))
    table = pd.DataFrame(values, columns=["p_1", "p_2", "p_3"])
    table.loc[len(table)] = np.nan  # a model of another method
    frame = scores.obtain_7(table)
    np.testing.assert_allclose(frame["obtained"], [1.9, 2.0, 2.2], atol=0.01)
    np.testing.assert_allclose(frame["spread"], 0.01, rtol=0.2)
    assert frame["models"].tolist() == [200] * 3
    assert frame["left_start"].iloc[0] == frame["left_start"].iloc[2] == 1
    assert frame["left_start"].iloc[1] < 0.5
    said = FIGURE_7.verdict(frame)
    assert said[0].endswith(": holds for 2 of 3 exponents; min models 200.")
    assert said[1].endswith(": holds for 2 of 2 exponents.")
    assert said[2].endswith(": holds for 1 of 1 exponents.")
    low = FIGURE_7.verdict(scores.obtain_7(table - 0.2))
    assert low[2].endswith(": holds for 0 of 1 exponents.")
    scores.plot_7(table, tmp_path / "exponents.svg")
    drawn = (tmp_path / "exponents.svg").read_text()
    assert all(f">{word}</text>" in drawn for word in ("smallest", "2nd", "largest", "start = 2"))
    with pytest.raises(StudyTableError, check=about("p_1")):
        scores.obtain_7(planted())
    with pytest.raises(RecipeError, check=about("models", 0)):
        scores.obtain_7(table.iloc[-1:])


def test_the_cost_of_a_square_matches_known_values():
    """E |x| of the rotated square is 2√2/3 ½ each; E x⁴ is 1/5 along axes and 4/15 across."""
    assert cost_of_a_square(1.0, 0) == pytest.approx(1.0, abs=1e-4)
    assert cost_of_a_square(1.0, 45) == pytest.approx(2 * 2**0.5 / 3, abs=1e-4)
    assert cost_of_a_square(2.0, 30) == pytest.approx(2 / 3, abs=1e-4)
    assert cost_of_a_square(4.0, 0) == pytest.approx(2 / 5, abs=1e-4)
    assert cost_of_a_square(4.0, 45) == pytest.approx(8 / 15, abs=1e-4)
    frame = find("isa-vae/figure-3").obtain(pd.DataFrame())
    assert frame["obtained"].tolist() == ["holds", "holds"]


def test_bimodality_distinguishes_two_modes_from_one():
    generator = np.random.default_rng(0)
    one = generator.normal(size=4000)
    two = np.concatenate([one[:2000] - 4, one[2000:] + 4])
    assert bimodality(one) == pytest.approx(1 / 3, abs=0.02)
    assert bimodality(generator.uniform(size=20_000)) == pytest.approx(5 / 9, abs=0.01)
    assert bimodality(two) > 0.8
    assert np.isnan(bimodality(np.ones(10)))


def test_the_representative_is_in_the_middle_of_the_upper_half():
    table = pd.DataFrame(
        {
            "run": list("abcdefghi"),
            MIG: [0.1, 0.1, 0.2, 0.2, 0.5, 0.6, 0.7, 0.6, 0.61],
            "reconstruction": [9.0, 9.0, 9.0, 9.0, 30.0, 20.0, 30.0, 40.0, 31.0],
        }
    )
    assert representative(table) == "i"
    assert representative(table.assign(reconstruction=1.0).iloc[:1]) == "a"


def test_a_small_study_learns_exponents_and_is_plotted(tmp_path):
    keys = find("isa-vae/figure-7").studies["smoke"]
    keys = {
        **keys,
        "methods": {n: {**keys["methods"][n], "beta": [1]} for n in ("beta_vae", "isa_vae")},
        "seeds": 2,
        "steps": 10,
    }
    study = Study.from_dict(keys)
    table = uw.study.run(study, tmp_path, progress=False).table
    frame = scores.obtain_7(table)
    assert (np.abs(frame["obtained"] - 2.0) > 0.001).all()
    assert frame["models"].tolist() == [2, 2, 2]
    own = table[table["method"] == "isa_vae"]
    loaded = uw.load(tmp_path / "runs" / own["run"].iloc[0])
    np.testing.assert_allclose(loaded.exponents[1:], own[["p_1", "p_2", "p_3"]].iloc[0], rtol=1e-6)
    extended = scores.extend_8_16(table, tmp_path)
    assert extended is table
    drawn = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert drawn == {
        f"{method}-{what}"
        for method in ("beta_vae", "isa_vae")
        for what in ("traversals.png", "positions.svg")
    }
