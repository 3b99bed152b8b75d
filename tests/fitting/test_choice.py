"""The ranking of models: collapsed ones come last, and those that stopped before them."""

from dataclasses import replace

import numpy as np
import pytest

import unweave as uw
from unweave.analysis.activity import shown_activity
from unweave.analysis.latents import Latents
from unweave.fitting.baselines import baselines
from unweave.fitting.choice import Evidence, comparable, evidence, ranked
from unweave.select.consensus import consensus
from unweave.select.udr import udr

ERRORS = np.array([0.4, 0.1, 0.12, 0.15, np.nan])


@pytest.fixture(scope="module")
def data():
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(0, 32, 4))


@pytest.fixture
def found(data):
    """Five models: one collapsed, two that agree, one that differs, and one that diverged."""
    rng = np.random.default_rng(0)
    shared, other = rng.normal(size=(2, 500, 3))
    noise = rng.normal(size=(500, 3))
    lost = np.full((500, 3), np.nan)
    latents = Latents(np.stack([shared, shared, -shared + 0.1 * noise, other, lost]))
    against = replace(baselines(data, 3), mean_image=0.5)
    activities = [shown_activity(each, np.zeros_like(each)) for each in latents.means]
    return Evidence(latents, ERRORS, against, activities)


def test_collapsed_models_are_excluded(found):
    np.testing.assert_allclose(found.explained[:4], [0.2, 0.8, 0.76, 0.7])
    assert found.collapsed.tolist() == [True, False, False, False, True]
    ranking = ranked(found)
    assert ranking["model"][:3].tolist() in ([1, 2, 3], [2, 1, 3])
    assert set(ranking["model"][3:]) == {0, 4}
    reasons = ranking.set_index("model")["reason"]
    assert "20%" in reasons[0]
    assert ranking.set_index("model")["compared"][1] == 2
    assert ranking.set_index("model")["explained"][1] == 0.8


def evidence_of(codes, errors, data):
    """Evidence of models with these codes, without posterior noise."""
    latents = Latents(codes, np.full(codes.shape, -4.0))
    activities = [shown_activity(*pair) for pair in zip(codes, latents.logvars, strict=True)]
    against = replace(baselines(data, codes.shape[2]), mean_image=1.0)
    return Evidence(latents, np.asarray(errors), against, activities)


def test_a_model_needs_only_some_similar_models(data):
    """Four models agree, five others differ from all: the median says nothing."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(600, 3))
    alike = [shared, shared[:, ::-1], -shared, 2 * shared]
    codes = np.stack([*rng.normal(size=(5, 600, 3)), *alike])
    ranking = ranked(evidence_of(codes, [0.1] * 9, data))
    assert set(ranking["model"][:4]) == {5, 6, 7, 8}
    assert ranking["agreement"][0] == pytest.approx(0.9, abs=0.02)  # of the Lasso
    assert udr(codes)["score"][0] < 0.4


def test_few_models_are_compared_by_the_median(found):
    ranking = ranked(found)
    scores = udr(found.latents.means[1:4]).set_index("model")["score"]
    expected = scores[ranking["model"][:3] - 1]
    np.testing.assert_allclose(ranking["agreement"][:3], expected)


def test_among_models_that_agree_the_more_accurate_and_the_more_compact_come_first(data):
    """Models 0 and 1 have a hue in one latent; in 2 and 3 its sine and cosine take two."""
    rng = np.random.default_rng(0)
    size, hue = rng.normal(size=600), rng.uniform(0, 2 * np.pi, 600)
    nothing = np.zeros(600)
    few = np.column_stack([size, hue / 2, nothing])
    many = np.column_stack([size, 1.4 * np.sin(hue), 1.4 * np.cos(hue)])
    found = evidence_of(np.stack([few, -few, many, -many]), [0.1] * 4, data)
    compact = [replace(each, amounts=each.amounts * [1, 1, 0]) for each in found.activities[:2]]
    found = replace(found, activities=[*compact, *found.activities[2:]])
    ranking = ranked(found)
    assert set(ranking["model"][:2]) == {0, 1}
    assert ranking["clear"].tolist() == [2, 2, 3, 3]
    slightly = replace(found, errors=np.array([0.1, 0.1, 0.06, 0.06]))
    assert set(ranked(slightly)["model"][:2]) == {0, 1}  # as accurate as the others
    assert set(ranked(replace(found, errors=np.array([0.1, 0.1, 0.02, 0.02])))["model"][:2]) == {
        2,
        3,
    }


def test_models_that_stopped_come_after_those_trained_to_the_end(found):
    ranking = ranked(found, [True, False, False, True, True])
    assert ranking["model"][0] == 3
    assert set(ranking["model"][1:3]) == {1, 2}


def test_models_that_collapsed_or_stopped_early_are_not_compared(found):
    assert comparable(found, [9] * 5).usable.tolist() == [False, True, True, True, False]
    compared = comparable(found, [9, 9, 3, 2, 9])
    assert compared.usable.tolist() == [False, True, True, False, False]
    agreed = consensus(compared)  # half of two models, not of five
    assert agreed.factors["found_by"].tolist() == [2, 2, 2]
    assert agreed.factors["of"].tolist() == [2, 2, 2]
    none = replace(found, errors=np.array([0.6, 0.5, 0.55, 0.51, np.nan]))
    assert comparable(none, [9] * 5).usable.tolist() == [True] * 4 + [False]


def test_if_all_collapse_the_others_are_ranked(found):
    ranking = ranked(replace(found, errors=np.array([0.6, 0.5, 0.55, 0.51, np.nan])))
    assert ranking["model"].iloc[-1] == 4
    assert ranking["agreement"][0] > 0.5


def test_errors_are_those_of_reconstructions(data):
    fleet = uw.train("beta-vae", data, seeds=2, steps=2, batch=8, progress=False)
    found = evidence(fleet, data, baselines(data, 10, rows=100))
    images = data.images(found.baselines.rows) / 255
    decoded = fleet[1].decode(fleet[1].encode(data.images(found.baselines.rows))[0])
    assert found.errors[1] == pytest.approx(np.square(decoded - images).mean(), rel=1e-3)
