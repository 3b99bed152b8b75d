"""Traversal pictures show what the model decodes."""

import numpy as np
import pytest

import unweave as uw
from unweave.show.contact_sheet import GAP, LABELS, MARGIN
from unweave.show.traversals import mean_kl, traversals


@pytest.fixture(scope="module")
def trained():
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32), dtype=np.uint8)
    data = uw.data.load(images, factors={"a": np.arange(12) // 4, "b": np.arange(12) % 4})
    (model,) = uw.train(uw.methods.VAE(), data, steps=2, batch=4, latents=3, progress=False)
    return model, data


def cell(sheet, row, column, side=32):
    left, top = MARGIN + LABELS + column * (side + GAP), MARGIN + row * (side + GAP)
    return np.asarray(sheet)[top : top + side, left : left + side, 0]


def test_rows_are_latents_by_kl_and_columns_their_values(trained):
    model, data = trained
    sheet = traversals(model, data, index=5, columns=5, reach=2.0)
    mean, _ = model.encode(data.images([5]))
    np.testing.assert_array_equal(cell(sheet, 0, 0), data[5][..., 0])
    np.testing.assert_array_equal(
        cell(sheet, 0, 1), np.rint(model.decode(mean)[0, ..., 0] * 255).astype(np.uint8)
    )
    for row, latent in enumerate(np.argsort(-mean_kl(model, data)), start=1):
        codes = np.repeat(mean, 5, axis=0)
        codes[:, latent] = [-2, -1, 0, 1, 2]
        expected = np.rint(model.decode(codes)[..., 0] * 255).astype(np.uint8)
        for column in range(5):
            np.testing.assert_array_equal(cell(sheet, row, column), expected[column])


def test_kl_is_that_of_the_posterior(trained):
    model, data = trained
    mean, logvar = model.encode(data.draw(512, seed=0).images)
    expected = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1)
    np.testing.assert_allclose(mean_kl(model, data), expected.mean(0), rtol=1e-5)
