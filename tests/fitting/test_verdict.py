"""Verdicts: every level, the most important reason, and files that are not to be trusted."""

import json
from dataclasses import replace

import numpy as np
import pytest

import unweave as uw
from tests.pages import Page
from unweave.analysis.activity import shown_activity
from unweave.analysis.latents import Latents
from unweave.fitting import Verdict, read_verdict
from unweave.fitting.baselines import baselines
from unweave.fitting.choice import Evidence
from unweave.fitting.verdict import (
    LACKS,
    LEVELS,
    Measures,
    counterparts,
    encoded_share,
    judged,
    late_progress,
    measured,
    reconstruction_curve,
)
from unweave.select.consensus import consensus

GOOD = Measures(
    explained=0.95,
    explained_by_pca=0.9,
    explained_by_few=0.8,
    clear_latents=5,
    latents=10,
    agreement=0.9,
    shared_latents=5,
    missing_factors=0,
    mixed_latents=0,
    progress=0.01,
    models=6,
)


def test_a_converged_model_that_agrees_with_the_others_is_good():
    verdict = judged(GOOD)
    assert (verdict.level, verdict.advice) == ("good", "")
    assert verdict.measures["clear_latents"] == 5


@pytest.mark.parametrize(
    ("level", "changes", "figures"),
    [
        ("failed", {"explained": 0.1}, ["10%", "mean image"]),
        ("failed", {"clear_latents": 0}, ["No latent"]),
        ("failed", {"explained": 0.7}, ["70%", "80%", "PCA"]),
        ("failed", {"agreement": 0.3}, ["0.30"]),
        ("weak", {"agreement": 0.6, "shared_latents": 3}, ["3 of its 5", "0.60"]),
        ("weak", {"progress": 0.2}, ["20%"]),
        ("weak", {"missing_factors": 1}, ["1 factor"]),
        ("weak", {"mixed_latents": 1}, ["1 latent follows"]),
        ("weak", {"mixed_latents": 2}, ["2 latents follow"]),
        ("weak", {"models": 1, "agreement": 0.0}, ["no other model"]),
    ],
)
def test_each_reason_lowers_the_verdict_and_has_its_advice(level, changes, figures):
    verdict = judged(replace(GOOD, **changes))
    assert verdict.level == level
    assert all(figure in verdict.reasons[0] for figure in figures)
    assert verdict.advice


def test_doubts_are_not_listed_beside_failures():
    verdict = judged(replace(GOOD, explained=0.0, progress=0.5))
    assert len(verdict.reasons) == 1


def evidence_of(latents, data):
    """Evidence of models with these codes, all of which reconstruct the images equally well."""
    activities = [
        shown_activity(*pair) for pair in zip(latents.means, latents.logvars, strict=True)
    ]
    against = replace(baselines(data, latents.means.shape[2]), mean_image=0.5)
    return Evidence(latents, np.full(len(latents), 0.1), against, activities)


def test_only_the_most_similar_quarter_of_the_models_must_agree():
    rng = np.random.default_rng(0)
    shared, *others = rng.normal(size=(7, 500, 2))
    codes = np.stack([shared, -shared, shared[:, ::-1], *others])  # two of eight are similar
    found = counterparts(Latents(codes), 0, np.ones(2))
    np.testing.assert_allclose(found, 1, atol=0.01)
    lonely = counterparts(Latents(codes[[0, 1, *range(3, 9)]]), 0, np.ones(2))
    assert (lonely < 0.7).all()  # the mean of one similar model and one other


def test_a_factor_that_others_encode_in_two_latents_is_not_missing():
    """The first model has an angle; the others have its sine and cosine, and a size."""
    rng = np.random.default_rng(0)
    angle, size = rng.uniform(0, 2 * np.pi, 900), rng.normal(size=900)
    parts = np.column_stack([np.sin(angle), np.cos(angle), size])
    noise = 0.01 * rng.normal(size=(4, 900, 3))
    agreed = consensus(Latents(parts + noise))
    assert len(agreed.factors) == 3
    share = encoded_share(np.column_stack([angle, size]), agreed)
    assert (share > 0.9).all()
    without_size = encoded_share(angle[:, None], agreed)
    assert (without_size < LACKS).sum() == 1


def test_a_factor_that_the_chosen_model_does_not_encode_is_missing():
    """Three models share three factors; the first one has noise instead of the third."""
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(0, 32, 4))
    tiny = {"latents": 3, "architecture": "small_mlp", "batch": 8, "progress": False}
    (model,) = uw.train("vae", data, steps=2, **tiny)
    shared, noise = np.random.default_rng(0).normal(size=(2, 900, 3))
    lacking = np.column_stack([shared[:, :2], noise[:, 2]])
    latents = Latents(np.stack([lacking, shared, -shared]), np.full((3, 900, 3), -4.0))
    found, agreed = evidence_of(latents, data), consensus(latents)
    assert measured(found, latents, agreed, model, 0).missing_factors == 1
    assert measured(found, latents, agreed, model, 1).missing_factors == 0


def test_agreement_is_weighted_by_information():
    """Two models share a latent of about 5 nats; the other latents have 0.5 nats each."""
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(0, 32, 4))
    tiny = {"latents": 2, "architecture": "small_mlp", "batch": 8, "progress": False}
    (model,) = uw.train("vae", data, steps=2, **tiny)
    rng = np.random.default_rng(0)
    shared, *others = rng.normal(size=(3, 500))
    means = np.stack([np.column_stack([shared, other]) for other in others])
    logvars = np.zeros_like(means)
    logvars[..., 0] = -10
    latents = Latents(means, logvars)
    measures = measured(evidence_of(latents, data), latents, consensus(latents), model, 0)
    assert measures.clear_latents == 2
    assert measures.shared_latents == 1
    assert measures.models == 2
    assert 0.85 < measures.agreement < 0.95  # 5 of 5.5 nats, not 1 of 2 latents


@pytest.mark.parametrize(("logvar", "mixed"), [(-10.0, 1), (0.0, 0)])
def test_only_strong_latents_count_as_mixed(logvar, mixed):
    """The first latent of the first model is the sum of two factors, of 5 nats or of 0.5."""
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(0, 32, 4))
    tiny = {"latents": 3, "architecture": "small_mlp", "batch": 8, "progress": False}
    (model,) = uw.train("vae", data, steps=2, **tiny)
    rng = np.random.default_rng(0)
    one, two, *noise = rng.normal(size=(5, 500))
    means = [np.column_stack([one, two, each]) for each in noise]
    means.insert(0, np.column_stack([(one + two) / np.sqrt(2), one, two]))
    logvars = np.full((4, 500, 3), -10.0)
    logvars[0, :, 0] = logvar
    latents = Latents(np.stack(means), logvars)
    measures = measured(evidence_of(latents, data), latents, consensus(latents), model, 0)
    assert measures.clear_latents == 3
    assert measures.mixed_latents == mixed


def test_late_progress_of_curves():
    assert late_progress([5.0] * 8) == 0  # nothing was learned
    assert late_progress([1.0, 2, 3, 4, 5, 6, 7, 8]) == 0  # it got worse
    assert late_progress([3.0, 2.0]) == 1  # too short to know
    steps = np.arange(400)
    assert late_progress(np.exp(-steps / 20)) < 0.001
    assert late_progress(np.exp(-steps / 400)) > 0.1


def test_curves_of_a_learned_variance_are_those_of_the_squared_error():
    images = np.random.default_rng(0).integers(0, 255, (80, 16, 16), np.uint8)
    data = uw.data.load(images, name="noise")
    tiny = {"latents": 2, "architecture": "small_mlp", "batch": 80, "progress": False}
    settings = {"steps": 300, "learning_rate": 1e-9, **tiny}
    (fixed,) = uw.train("ae", data, likelihood="gaussian", **settings)
    (learned,) = uw.train("ae", data, likelihood="learned_gaussian", **settings)
    squared = reconstruction_curve(fixed) / images[0].size  # a sum over pixels
    assert squared.mean() > 0.05
    np.testing.assert_allclose(reconstruction_curve(learned), squared, rtol=0.01)


def test_verdicts_are_written_and_read(tmp_path):
    verdict = judged(replace(GOOD, progress=0.2))
    (tmp_path / "fit.json").write_text(json.dumps({"verdict": verdict.to_dict()}))
    assert read_verdict(tmp_path) == verdict
    assert read_verdict(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    "change",
    [
        {"level": "excellent"},
        {"reasons": "converged"},
        {"reasons": []},
        {"reasons": ["x" * 1_000]},
        {"reasons": [1]},
        {"advice": None},
        {"measures": {"explained": "all"}},
        {"measures": None},
    ],
)
def test_impossible_verdicts_are_not_read(tmp_path, change):
    plain = {**judged(GOOD).to_dict(), **change}
    with pytest.raises(ValueError, match="verdict"):
        Verdict.read(plain)
    (tmp_path / "fit.json").write_text(json.dumps({"verdict": plain}))
    assert read_verdict(tmp_path) is None


def test_control_characters_in_a_verdict_are_escaped():
    plain = {**judged(GOOD).to_dict(), "reasons": ["a\x1b[31mb"]}
    assert Verdict.read(plain).reasons == (r"a\x1b[31mb",)


def test_a_verdict_in_a_notebook_starts_with_its_level():
    read = Verdict("weak", ("<b>1</b> of 2 latents", "2"), "Train longer", {})
    assert Page(read._repr_html_()).texts == ["Weak fit", *read.reasons, read.advice]
    colours = {Verdict(level, ("x",), "")._repr_html_()[:200] for level in LEVELS}
    assert len(colours) == len(LEVELS)


def test_a_fit_records_its_verdict_and_baselines(tmp_path):
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(8))
    settings = {"steps": 2, "seeds": 1, "batch": 8, "latents": 4, "progress": False}
    found = uw.fit(data, "beta-tc-vae", out=tmp_path, **settings)
    assert read_verdict(tmp_path) == found.verdict
    assert found.verdict.level == "failed"
    assert str(found).splitlines()[0] == str(found.verdict)
    content = json.loads((tmp_path / "fit.json").read_text())["baselines"]
    assert content["mean_image"] == content["pca"][0] == found.baselines.mean_image
    assert len(content["pca"]) == 5
    images = data[:].astype(float) / 255
    assert content["mean_image"] == pytest.approx(images.var(0).mean(), rel=1e-4)
    decoded = found.best.decode(found.best.encode(data)[0])
    assert content["chosen"] == pytest.approx(np.square(decoded - images).mean(), rel=1e-3)
