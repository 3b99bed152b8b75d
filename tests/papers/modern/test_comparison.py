"""Comparison of recent methods: choices of models, quantised codes, ICA, and coverage."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.papers.modern.tiny import sample
from tests.raising import about
from unweave.analysis.latents import Latents
from unweave.data.rooms3d import GRID
from unweave.methods import AE, QLAE, BetaVAE
from unweave.models.config import Config
from unweave.models.images import NUM_SAMPLED
from unweave.papers import SCALES, RecipeError, find
from unweave.papers.modern import comparison
from unweave.papers.modern.comparison import ICA, SCORES, scores, versions
from unweave.papers.running import compare

RECIPE = find("modern/infomec")
PAGE = Path(__file__).parents[3] / "docs" / "modern.md"


def models_of(folder, rows):
    return [uw.load(folder / "runs" / run) for run in rows["run"]]


def made(**columns):
    """A table of a method with two settings of two seeds."""
    table = pd.DataFrame({"setting": ["a", "a", "b", "b"], "udr": [0.1, 0.4, 0.3, 0.2]})
    zeros = dict.fromkeys(SCORES.values(), 0.5)
    own = {"data": "rooms3d", "codes": "trained", "state": "scored", "steps": 10}
    return table.assign(**{**own, **zeros, **columns})


def cell(frame, method, metric="InfoM"):
    rows = frame[frame["method"].eq(method) & frame["metric"].eq(metric)]
    (row,) = rows.to_dict("records")
    return row


def test_models_are_chosen_by_udr_by_score_and_by_the_mean_of_a_setting():
    table = made(method="qlae", infomec=[0.9, 0.2, 0.6, 0.7], dci=[0.1, 0.2, 0.3, 0.4])
    frame = RECIPE.obtain(table)
    row = cell(frame, "qlae")
    assert (row["label_free"], row["best"]) == (0.2, 0.9)
    assert (row["obtained"], row["obtained_spread"]) == pytest.approx((0.65, 0.05))
    assert (row["seeds"], row["models"], row["steps"]) == (2, 4, 10)
    assert (row["published"], row["rerun"], row["published_on"]) == (0.95, 0.84, "shapes3d")
    # The setting is chosen by InfoM for all scores; the best model is that of each score.
    dci = cell(frame, "qlae", "DCI")
    assert (dci["obtained"], dci["best"]) == pytest.approx((0.35, 0.4))
    assert dci["label_free"] == 0.2


def test_autoencoders_after_ica_are_a_separate_method():
    plain = made(method="ae", infomec=0.3)
    rotated = made(method="ae", codes=ICA, infomec=0.8)
    frame = RECIPE.obtain(pd.concat([plain, rotated]))
    assert (cell(frame, "ae")["best"], cell(frame, "ae")["published"]) == (0.3, 0.34)
    after = cell(frame, "ae + ica")
    assert (after["best"], after["published"]) == (0.8, 0.79)


def test_models_without_scores_or_udr_are_ignored():
    table = made(
        method="tripod",
        infomec=[0.9, np.nan, 0.6, 0.5],
        state=["diverged", "scored", "scored", "scored"],
        udr=[0.9, 0.8, np.nan, 0.1],
    )
    row = cell(RECIPE.obtain(table), "tripod")
    assert (row["best"], row["label_free"]) == (0.6, 0.5)
    without = RECIPE.obtain(table.assign(udr=np.nan))
    assert pd.isna(cell(without, "tripod")["label_free"])


def test_published_methods_without_models_are_listed():
    frame = RECIPE.obtain(made(method="qlae"))
    missing = frame[frame["obtained"].isna()]
    assert set(missing["method"]) == set(RECIPE.published()["method"]) - {"qlae"}


def counted(infom):
    """Counts of the findings if methods have these values of InfoM."""
    table = pd.concat([made(method=name, infomec=score) for name, score in infom.items()])
    ica = table[table["method"] == "ae + ica"].assign(method="ae", codes=ICA)
    frame = RECIPE.obtain(pd.concat([table[table["method"] != "ae + ica"], ica]))
    return [(count.held, count.total) for count in RECIPE.counts(frame)], RECIPE.verdict(frame)


def test_findings_count_the_published_order_and_methods_above_vaes():
    published = RECIPE.published()
    infom = published[published["metric"] == "InfoM"].set_index("method")["published"]
    pairs = len(infom) * (len(infom) - 1) // 2
    counts, sentences = counted(infom)
    assert counts == [(pairs, pairs)] * 3 + [(3, 3)] * 3
    assert sentences[0] == "rooms3d stands in for Shapes3D."
    counts, _ = counted(-infom)
    assert counts == [(0, pairs)] * 3 + [(0, 3)] * 3
    counts, _ = counted(infom.replace(0.95, 0.6))
    assert counts[3:] == [(2, 3), (2, 3), (3, 3)]


def test_scores_of_quantised_codes_are_counted():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (2_000, 2))
    values = factors[:, ::-1] / 3 - 0.5
    found = scores(values, factors, QLAE())
    expected = uw.metrics.infomec(values, factors, discrete_codes=True)
    assert found["infomec"] == expected["infomec"] == pytest.approx(1, abs=0.01)
    assert found["infomec.explicitness"] == expected["explicitness"]
    assert found["dci"] == uw.metrics.dci(values, factors)["dci"]
    assert scores(values, factors, BetaVAE(), ["mig"]).keys() >= {"mig"}
    values = values + rng.normal(scale=0.1, size=values.shape)
    continuous = uw.metrics.infomec(values, factors)["infomec"]
    assert scores(values, factors, AE(), ["infomec"])["infomec"] == continuous


def test_codes_that_are_not_finite_have_no_scores():
    found = scores(np.full((10, 2), np.nan), np.zeros((10, 2), int), AE())
    assert np.isnan(list(found.values())).all()
    assert found.keys() == set(comparison.METRICS)


def test_settings_are_equal_for_all_seeds_and_lengths_of_training():
    adam = uw.Adam(weight_decay=0.1)
    configs = [
        Config(method=AE(), seed=0, steps=10, optimiser=adam),
        Config(method=AE(), seed=1, steps=20, optimiser=adam),
        Config(method=AE(), seed=0, steps=10),
    ]
    codes = np.random.default_rng(0).uniform(size=(3, 1_000, 2))
    rows = pd.DataFrame({"run": list("abc")})
    (table, same), (rotated, independent) = versions(rows, Latents(codes), configs)
    assert table["setting"].nunique() == 2
    assert table["setting"][0] == table["setting"][1]
    assert rotated["codes"].tolist() == [ICA] * 3
    np.testing.assert_array_equal(same, codes)
    np.testing.assert_allclose(np.cov(independent[0].T, ddof=0), np.eye(2), atol=1e-6)


def test_codes_without_independent_components_are_not_scored():
    codes = np.random.default_rng(0).normal(size=(2, 4_000, 2))
    codes[1] = np.random.default_rng(1).uniform(size=(4_000, 2))
    configs = [Config(method=AE(), seed=seed) for seed in range(2)]
    _, (_, rotated) = versions(pd.DataFrame({"run": ["a", "b"]}), Latents(codes), configs)
    assert np.isnan(rotated[0]).all()
    assert np.isfinite(rotated[1]).all()


def test_the_table_of_a_study_is_extended(study):
    folder, table, extended = study
    counts = extended.groupby(["method", "codes"]).size().to_dict()
    assert counts == {
        ("ae", "ica"): 2, ("ae", "trained"): 2, ("beta_vae", "trained"): 2, ("qlae", "trained"): 2,
    }  # fmt: skip
    data, rows, factors = sample()
    for name in ("qlae", "beta_vae"):
        group = extended[extended["method"] == name]
        models = models_of(folder, group)
        ranking = uw.select.udr(models, data, rows=NUM_SAMPLED).set_index("run")["score"]
        np.testing.assert_allclose(group["udr"], ranking[group["run"]])
        before = table.set_index("run").loc[group["run"]]
        np.testing.assert_array_equal(group["dci"], before["dci"])
        for model, row in zip(models, group.to_dict("records"), strict=True):
            codes = model.encode(data)[0][rows]
            found = uw.metrics.infomec(codes, factors, discrete_codes=name == "qlae")
            assert row["infomec.explicitness"] == pytest.approx(found["explicitness"], abs=1e-3)


def test_ica_is_that_of_rotated_models(study):
    folder, _, extended = study
    group = extended[extended["codes"] == ICA].dropna(subset="infomec")
    assert len(group)
    data, rows, factors = sample()
    model = models_of(folder, group[:1])[0]
    codes = uw.rotate(model, data).encode(data)[0][rows]
    row = group.iloc[0]
    assert row["mig"] == pytest.approx(uw.metrics.mig(codes, factors)["mig"], abs=0.02)
    raw = extended[extended["codes"].ne(ICA)].set_index("run")["mig"]
    assert row["mig"] != raw[row["run"]]


def test_scores_are_computed_once_and_compared(study, monkeypatch):
    folder, table, extended = study

    def again(*_):
        raise AssertionError("scored again")

    monkeypatch.setattr(comparison, "scores", again)
    pd.testing.assert_frame_equal(comparison.extend(table, folder), extended)
    found = compare(RECIPE, extended, folder)
    assert found.files[1].stat().st_size > 1000
    assert set(found.frame["method"]) >= {"ae + ica", "qlae", "beta_vae"}


def test_tables_without_udr_are_rejected(study):
    with pytest.raises(RecipeError, check=about("udr")):
        RECIPE.obtain(study[2].drop(columns="udr"))


@pytest.mark.parametrize("scale", SCALES)
def test_all_methods_are_trained_with_several_seeds(scale):
    study = RECIPE.study(scale)
    runs = study.runs_of_origin((["load", "rooms3d", {}],))
    published = RECIPE.published()["method"].str.removesuffix(" + ica")
    assert {config.method.name for config in runs} >= set(published)
    assert study.seeds >= (2 if scale == "smoke" else 5)
    for config in runs:
        if config.method.deterministic:
            assert config.latents == 2 * len(GRID.axes)


def test_published_numbers_on_the_page_are_those_of_the_recipe():
    lines = PAGE.read_text().partition("## Published numbers")[2].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    frame = RECIPE.published().set_index(["method", "metric"])
    names = {"β-VAE": "beta_vae", "β-TCVAE": "beta_tc_vae", "BioAE": "bio_ae"}
    for label, *numbers, rerun in rows:
        method = names.get(label, label.lower())
        for metric, number in zip(("InfoM", "InfoE", "InfoC"), numbers, strict=True):
            assert float(number) == frame.loc[(method, metric), "published"]
        again = frame.loc[(method, "InfoM"), "rerun"]
        assert rerun == ("–" if pd.isna(again) else f"{again:.2f}")
    listed = {names.get(row[0], row[0].lower()) for row in rows}
    assert listed == set(RECIPE.published().query("metric == 'InfoM'")["method"])
