"""The table of scores has the metrics of each model's codes."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.evaluation import codes as coding
from unweave.evaluation import score_cache as keeping
from unweave.evaluation.score_cache import SCORES
from unweave.models.images import ShapeError
from unweave.random import Stream

QUICK = ["mig", "sap", "factor_vae"]


def factors_of(data):
    return data.factors(data.support)


def test_each_row_has_the_run_and_the_scores_of_a_model(fleet, sprites):
    table = uw.evaluate(fleet, sprites, metrics=["mig", "modularity"], seed=3, progress=False)
    about = ["run", "method", "beta", "seed", "steps"]
    further = ["modularity.explicitness_train", "modularity.explicitness_test"]
    assert table.columns.tolist() == [*about, "mig", "modularity", *further]
    assert table["run"].tolist() == [config.hash for config in fleet.configs]
    assert table[["beta", "seed", "steps"]].values.tolist() == [
        [1, 0, 20],
        [1, 1, 20],
        [4, 0, 20],
        [4, 1, 20],
    ]
    means, _ = fleet.encode(sprites)
    for place, row in enumerate(table.to_dict("records")):
        modularity = uw.metrics.modularity(means[place], factors_of(sprites), 3)
        assert row["mig"] == pytest.approx(
            uw.metrics.mig(means[place], factors_of(sprites), 3)["mig"], abs=1e-4
        )
        assert row["modularity"] == pytest.approx(modularity["modularity"], abs=1e-4)
        assert row[further[1]] == pytest.approx(modularity["explicitness_test"], abs=1e-4)
    assert table["mig"].nunique() == 4


def test_classic_is_the_six_and_the_default(fleet, sprites):
    table = uw.evaluate(fleet[0], sprites, progress=False)
    headlines = [name for name in table.columns[5:] if "." not in name]
    assert headlines == list(uw.metrics.CLASSIC)
    assert table[headlines].notna().all(axis=None)


def test_every_metric_can_score_a_model(fleet, sprites):
    few = sprites.slice(posX=range(4), posY=range(2))
    table = uw.evaluate(fleet[1], few, metrics="all", progress=False)
    headlines = [name for name in table.columns[5:] if "." not in name]
    assert headlines == [name for name in uw.metrics.METRICS if name != "fid"]
    assert table[headlines].notna().all(axis=None)


def test_metrics_receive_posteriors_and_images(fleet, sprites):
    table = uw.evaluate(
        fleet, sprites, metrics=["elbo", "polarised_regime", "rmig"], progress=False
    )
    means, logvars = fleet.encode(sprites)
    for place, row in enumerate(table.to_dict("records")):
        decoded = fleet[place].decode(means[place])
        elbo = uw.metrics.elbo(
            means[place], logvars=logvars[place], images=sprites[:], reconstructions=decoded
        )
        assert row["elbo"] == pytest.approx(elbo["elbo"], rel=1e-5)
        assert row["elbo.kl"] == pytest.approx(elbo["kl"], rel=1e-4)
        regime = uw.metrics.polarised_regime(means[place], logvars=logvars[place])
        assert row["polarised_regime"] == pytest.approx(regime["polarised_regime"], rel=1e-4)
        rmig = uw.metrics.rmig(means[place], factors_of(sprites), logvars=logvars[place])
        assert row["rmig"] == pytest.approx(rmig["rmig"], rel=1e-3)


def test_sampled_codes_are_means_plus_seeded_noise(fleet, sprites):
    names = ["gaussian_total_correlation", "polarised_regime"]
    sampled, again, other, mean = (
        uw.evaluate(fleet[2], sprites, names, seed, sampled=drawn, progress=False).iloc[0]
        for seed, drawn in ((5, True), (5, True), (6, True), (5, False))
    )
    means, logvars = fleet[2].encode(sprites)
    noise = Stream(5, coding.NOISE).normal(torch.arange(len(sprites)), 10).numpy()
    codes = means + np.exp(logvars / 2) * noise
    expected = uw.metrics.gaussian_total_correlation(codes)[names[0]]
    assert sampled[names[0]] == pytest.approx(expected, rel=1e-4)
    assert sampled[names[0]] == again[names[0]]
    assert len({sampled[names[0]], other[names[0]], mean[names[0]]}) == 3
    assert sampled[names[1]] == mean[names[1]]


def test_the_elbo_of_sampled_codes_decodes_them(fleet, sprites):
    mean = uw.evaluate(fleet[0], sprites, "elbo", progress=False).iloc[0]
    sampled = uw.evaluate(fleet[0], sprites, "elbo", sampled=True, progress=False).iloc[0]
    assert sampled["elbo.kl"] == mean["elbo.kl"]
    codes = coding.encode(fleet[0], sprites, 0)
    decoded = fleet[0].decode(codes.sampled(0))
    expected = uw.metrics.elbo(
        codes.means[0], logvars=codes.logvars[0], images=sprites[:], reconstructions=decoded
    )
    assert sampled["elbo"] == pytest.approx(expected["elbo"], rel=1e-6)
    assert sampled["elbo"] != mean["elbo"]


def test_scores_are_cached_and_recomputed_only_on_request(runs):
    first = uw.evaluate(runs, metrics=QUICK, progress=False)
    assert len(first) == 4
    for file in runs.glob(f"*/{SCORES}"):
        entries = json.loads(file.read_text())
        assert {entry["metric"] for entry in entries} == set(QUICK)
        for entry in entries:
            entry["scores"] = dict.fromkeys(entry["scores"], 0.125)
            del entry["check"]
            entry["check"] = keeping._check(entry)
        file.write_text(json.dumps(entries))
    kept = uw.evaluate(runs, metrics=QUICK, progress=False)
    assert (kept[QUICK] == 0.125).all(axis=None)
    for other in ({"seed": 1}, {"sampled": True}):
        assert (uw.evaluate(runs, metrics=QUICK, progress=False, **other)["mig"] != 0.125).all()
    pd.testing.assert_frame_equal(
        uw.evaluate(runs, metrics=QUICK, progress=False, recompute=True), first
    )
    pd.testing.assert_frame_equal(uw.evaluate(runs, metrics=QUICK, progress=False), first)


def test_a_read_only_folder_does_not_lose_scores(runs, capsys):
    for folder in runs.iterdir():
        (folder / SCORES).mkdir()
    table = uw.evaluate(runs, metrics="mig", progress=False)
    assert table["mig"].notna().all()
    assert "4 models" in capsys.readouterr().err


def test_only_missing_scores_are_computed(runs):
    uw.evaluate(runs, metrics="mig", progress=False)
    files = sorted(runs.glob(f"*/{SCORES}"))
    before = [json.loads(file.read_text())[0] for file in files]
    table = uw.evaluate(runs, metrics=["sap", "mig"], progress=False)
    assert table.columns.tolist()[-2:] == ["sap", "mig"]
    for file, entry in zip(files, before, strict=True):
        entries = json.loads(file.read_text())
        assert entries[0] == entry
        assert [e["metric"] for e in entries] == ["mig", "sap"]


def test_other_data_have_other_scores(runs, sprites):
    own = uw.evaluate(runs, metrics="mig", progress=False)
    half = uw.evaluate(runs, sprites.leave_out(shape=0), metrics="mig", progress=False)
    assert (own["mig"] != half["mig"]).all()
    assert len(json.loads(next(runs.glob(f"*/{SCORES}")).read_text())) == 2


def test_only_images_in_the_support_are_scored(fleet, sprites):
    data = sprites.leave_out(shape=1, posX=[0, 1])
    row = uw.evaluate(fleet[0], data, metrics="mig", progress=False).iloc[0]
    means, _ = fleet[0].encode(sprites)
    expected = uw.metrics.mig(means[data.support], sprites.factors(data.support))["mig"]
    assert row["mig"] == pytest.approx(expected, abs=1e-4)
    whole = uw.evaluate(fleet[0], sprites, metrics="mig", progress=False).iloc[0]
    assert row["mig"] != whole["mig"]


def test_a_fleet_in_small_parts_has_the_same_scores(fleet, sprites, monkeypatch):
    whole = uw.evaluate(fleet, sprites, metrics=["mig", "sap"], progress=False)
    monkeypatch.setattr(coding, "MEMORY", 2 * len(sprites) * 10 * 8)
    monkeypatch.setattr("unweave.models.encoding.ROWS_PER_BATCH", 50)
    assert coding.models_per_batch(sprites, 10) == 2
    parts = uw.evaluate(fleet, sprites, metrics=["mig", "sap"], progress=False)
    pd.testing.assert_frame_equal(whole, parts, atol=1e-4)


def test_models_of_several_methods_share_a_table(fleet, sprites):
    settings = {"steps": 2, "batch": 4, "latents": 3, "progress": False}
    other = uw.train(uw.methods.AnnealedVAE(), sprites, **settings)
    table = uw.evaluate([other, fleet[3]], sprites, metrics="mig", progress=False)
    assert table["method"].tolist() == ["annealed_vae", "beta_vae"]
    assert table["c_max"].tolist()[0] == 25
    assert math.isnan(table["c_max"][1])
    assert table["beta"].tolist()[1] == 4
    assert table["mig"].notna().all()


def test_without_factors_metrics_that_need_them_are_left_out(fleet, sprites, capsys):
    plain = uw.data.load(sprites[:], name="plain")
    table = uw.evaluate(fleet[0], plain, metrics=["mig", "active_units"], progress=False)
    assert "mig" not in table
    assert table["active_units"].notna().all()
    (line,) = capsys.readouterr().err.splitlines()
    assert "plain" in line
    assert "mig" in line
    with pytest.raises(DataError, check=about("plain", ["mig", "sap"])):
        uw.evaluate(fleet[0], plain, metrics=["mig", "sap"], progress=False)


def test_scores_of_failed_metrics_are_nan_with_a_message(fleet, sprites, tmp_path, capsys):
    table = {"number": np.arange(len(sprites)), "shape": sprites.factors(sprites.support)[:, 0]}
    thin = uw.data.load(sprites[:], factors=table, name="thin")
    fleet.save(tmp_path)
    for _ in range(2):
        scores = uw.evaluate(tmp_path, thin, metrics=["beta_vae", "mig"], progress=False)
        assert scores["beta_vae"].isna().all()
        assert scores["mig"].notna().all()
        (line,) = capsys.readouterr().err.splitlines()
        assert "beta_vae for 4 models" in line


def test_models_that_diverged_have_no_scores(fleet, sprites, tmp_path, capsys):
    sick = dataclasses.replace(fleet, diverged_at=np.array([7, -1, -1, 12]))
    sick.save(tmp_path)
    for models in (sick, [tmp_path / config.hash for config in fleet.configs]):
        table = uw.evaluate(models, sprites, metrics="mig", progress=False)
        assert table["mig"].isna().tolist() == [True, False, False, True]
        (line,) = capsys.readouterr().err.splitlines()
        assert "2 models" in line
    assert not (tmp_path / fleet.configs[0].hash / SCORES).exists()


def test_random_images_depend_on_the_seed(tmp_path):
    places = range(0, 32, 8)
    data = uw.data.load("color-dsprites").slice(
        scale=[5], orientation=[0], posX=places, posY=places
    )
    fleet = uw.train(uw.methods.VAE(), data, steps=2, batch=4, progress=False)
    table = uw.evaluate(fleet, data, "gaussian_wasserstein_correlation", 4, progress=False)
    means, _ = fleet[0].encode(data, seed=4)
    expected = uw.metrics.gaussian_wasserstein_correlation(means)
    score = table["gaussian_wasserstein_correlation"][0]
    assert score == pytest.approx(expected["gaussian_wasserstein_correlation"], rel=1e-3)


def test_errors_are_one_line(fleet, sprites, runs):
    with pytest.raises(UnknownNameError, check=about("metric", "factorvae")):
        uw.evaluate(fleet, sprites, metrics=["mig", "factorvae"])
    small = uw.data.load(np.zeros((9, 32, 32), np.uint8), name="small")
    with pytest.raises(ShapeError):
        uw.evaluate(fleet, small, metrics="active_units")
    if not torch.cuda.is_available():
        with pytest.raises(UnweaveError, match="GPU"):
            uw.evaluate(fleet, sprites, device="cuda")


def test_custom_images_must_be_named(sprites, tmp_path):
    mine = uw.data.load(sprites[:], name="mine")
    uw.train(uw.methods.VAE(), mine, steps=1, batch=4, out=tmp_path, progress=False)
    with pytest.raises(DataError, match=r"--data.*mine"):
        uw.evaluate(tmp_path, metrics="active_units", progress=False)
    named = uw.evaluate(tmp_path, mine, metrics="active_units", progress=False)
    unnamed = uw.evaluate(tmp_path, metrics="active_units", progress=False)
    pd.testing.assert_frame_equal(named, unnamed)
