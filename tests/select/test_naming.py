"""Latents are named after factors that they follow closely, one to one, and only then."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.analysis.activity import shown_activity
from unweave.data.tables import factor_table
from unweave.errors import DataError
from unweave.select.naming import latents_table, matched, name_latents, named_after


def named(codes, factors, noise=0.05):
    """Match codes `[n, d]` with factors, by name."""
    axes, classes = factor_table(factors, np.full(len(codes), True))
    activity = shown_activity(codes, np.full(codes.shape, np.log(noise)))
    return matched(codes, activity, classes, axes)


@pytest.fixture
def factors():
    rng = np.random.default_rng(0)
    return {"size": rng.random(60), "shape": rng.choice(["disc", "heart", "square"], 60)}


def test_latents_are_named_after_the_factors_that_they_follow(factors):
    rng = np.random.default_rng(1)
    shape = np.array([{"disc": 2.0, "heart": -2.0, "square": 0.0}[k] for k in factors["shape"]])
    noise = rng.normal(size=(60, 2))
    codes = np.stack([noise[:, 0], 3 - 2 * factors["size"] ** 3, shape + 0.1 * noise[:, 1]], 1)
    table = named(codes, factors)
    assert table["name"].tolist() == ["", "size", "shape"]
    assert table["factor"].tolist()[1:] == ["size", "shape"]
    assert (table["association"][1:] > 0.9).all()
    assert table["clear"].all()
    assert named_after(table) == {1: "size", 2: "shape"}


def test_a_factor_names_only_its_closest_latent(factors):
    noise = np.random.default_rng(1).normal(size=60)
    codes = np.stack([4 * factors["size"] + 0.4 * noise, 4 * factors["size"]], 1)
    assert named(codes, factors)["name"].tolist() == ["", "size"]


def test_weak_associations_and_inactive_latents_have_no_name(factors):
    noise = np.random.default_rng(1).normal(size=60)
    mixed = factors["size"] - factors["size"].mean() + 0.6 * noise
    faint = 0.1 * (factors["size"] - factors["size"].mean())
    table = named(np.stack([mixed, faint], 1), factors, noise=0.9)
    assert 0.3 < table["association"][0] < 0.7
    assert table["association"][1] == pytest.approx(1)
    assert table["clear"].tolist() == [False, False]
    assert table["name"].tolist() == ["", ""]


def test_few_images_are_not_enough():
    size = np.arange(16) / 4
    assert named(size[:, None], {"size": size})["name"].tolist() == [""]
    size = np.arange(17) / 4
    assert named(size[:, None], {"size": size})["name"].tolist() == ["size"]


def test_long_and_unprintable_names_are_shortened():
    size = np.arange(30) / 4
    table = named(size[:, None], {"a" * 60: size})
    assert named_after(table) == {0: "a" * 40}
    table["name"] = "two\nlines "
    assert named_after(table) == {0: "twolines"}


def test_images_without_factors_raise_an_error():
    data = uw.data.load(np.zeros((4, 16, 16), np.uint8))
    model = uw.train(uw.methods.VAE(), data, steps=1, batch=2, latents=2, progress=False)[0]
    with pytest.raises(DataError, check=about("factors")):
        name_latents(model, data)
    table = latents_table(model, data)
    assert table["name"].tolist() == ["", ""]
    assert table["association"].isna().all()
