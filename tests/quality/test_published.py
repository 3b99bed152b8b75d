"""Tests with the published weights: the network and documented values of FID and KID."""

import io
import warnings

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.quality.inception import WIDTHS


def test_fid_at_64_features_is_the_documented_value(documented, network):
    (real, generated), _, _ = documented
    assert uw.quality.fid(real, generated, features=64, weights=network) == pytest.approx(
        12.6388, abs=5e-5
    )


def test_kid_is_the_documented_value(documented, network):
    (real, generated), subsets, features = documented
    for images, kept in zip((real, generated), features, strict=True):
        for row in (3, 57):  # the features kept are those of the network
            (seen,) = network(images[row : row + 1]).numpy()
            np.testing.assert_allclose(seen, kept[row], rtol=1e-3, atol=1e-4)
    values = [uw.quality.squared_mmd(features[0][a], features[1][b]) for a, b in subsets]
    assert np.mean(values) == pytest.approx(0.0312, abs=5e-5)
    assert np.std(values) == pytest.approx(0.0025, abs=5e-5)
    own = uw.quality.kid_of_features(*features, subset_size=50)
    assert own.mean == pytest.approx(0.0312, abs=5e-4)
    assert own.std == pytest.approx(0.0025, abs=4e-4)


def test_all_stages_match_the_published_program(published, network):
    """The file in the package is also a program; only this test runs it."""
    images = torch.randint(256, (1, 299, 299, 3), generator=torch.Generator().manual_seed(0))
    maps = ((images - 128) / 128).permute(0, 3, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would like programs in another format
        program = torch.jit.load(io.BytesIO(published[0])).eval().net.layers
    expected = []
    with torch.no_grad():
        for name, layer in program.named_children():
            maps = layer(maps)
            if name in ("pool0", "pool1", "mixed_7", "pool2"):
                expected.append(maps.mean((2, 3)))
    assert [part.shape[1] for part in expected] == list(WIDTHS)
    for width, part in zip(WIDTHS, expected, strict=True):
        torch.testing.assert_close(network(images, width), part, rtol=1e-4, atol=1e-4)


def test_grey_images_and_floats_are_converted_to_colour_bytes(network):
    grey = np.random.default_rng(0).integers(0, 256, (3, 20, 24, 1), dtype=np.uint8)
    colour = uw.quality.inception_features(np.repeat(grey, 3, 3), 64, weights=network)
    assert colour.shape == (3, 64)
    floats = np.clip(grey / 255 + 0.4 / 255, 0, 1)  # rounds to the same bytes
    batches = iter([grey[:1], floats[1:]])
    np.testing.assert_array_equal(
        uw.quality.inception_features(batches, 64, weights=network), colour
    )


def test_fid_of_a_set_with_itself_is_zero_and_accepts_statistics(network):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, 6, 16, 16, 3), dtype=np.uint8)
    known = uw.quality.statistics(images[0], features=64, weights=network)
    assert uw.quality.fid(images[0], known, features=64, weights=network) < 1e-9
    between = uw.quality.fid(known, images[1], features=64, weights=network)
    apart = [uw.quality.inception_features(part, 64, weights=network) for part in images]
    closed = uw.quality.frechet_distance(*map(uw.quality.Statistics.of, apart))
    assert between == pytest.approx(closed, rel=1e-9)
    assert between > 1e-3
    kid = uw.quality.kid(*images, subsets=5, subset_size=4, features=64, weights=network)
    assert kid == uw.quality.kid_of_features(*apart, subsets=5, subset_size=4)
