"""A fleet's codes, encoded once."""

import numpy as np
import pytest

from unweave.evaluation import codes as coding
from unweave.evaluation.codes import encode, models_at_once
from unweave.models.join import join


def test_codes_are_those_of_the_models(fleet, sprites):
    told = []
    codes = encode(fleet, sprites, 0, told.append)
    means, logvars = fleet.encode(sprites)
    np.testing.assert_allclose(codes.means, means, atol=1e-5)
    np.testing.assert_allclose(codes.logvars, logvars, atol=1e-5)
    np.testing.assert_array_equal(codes.factors, sprites.factors(np.arange(len(sprites))))
    assert sum(told) == 4 * len(sprites)


def test_a_joined_fleet_keeps_its_models(fleet, sprites):
    back = join([fleet[3], fleet[1]])
    assert back.configs == [fleet.configs[3], fleet.configs[1]]
    np.testing.assert_allclose(
        back.encode(sprites)[0], fleet.encode(sprites)[0][[3, 1]], atol=1e-5
    )


def test_noise_belongs_to_the_image_whichever_rows_are_asked_for(fleet, sprites):
    codes = encode(fleet, sprites, 0)
    rows = np.array([5, 100, 7])
    np.testing.assert_array_equal(codes.sampled(1, rows), codes.sampled(1)[rows])
    first, second = (
        (codes.sampled(place) - codes.means[place]) / np.exp(codes.logvars[place] / 2)
        for place in (0, 1)
    )
    np.testing.assert_allclose(first, second, atol=1e-4)
    assert first.std() == pytest.approx(1, abs=0.05)
    restricted = encode(fleet, sprites.only(shape=2), 0)
    np.testing.assert_allclose(restricted.sampled(0), codes.sampled(0)[128:], atol=1e-5)


def test_images_and_reconstructions_are_of_the_same_rows(fleet, sprites, monkeypatch):
    monkeypatch.setattr(coding, "DECODED_ROWS", 20)
    data = sprites.leave_out(shape=0)
    codes = encode(fleet, data, 1)
    rows = codes.decoded_rows
    assert len(set(rows.tolist())) == 20
    np.testing.assert_array_equal(codes.images, sprites.images(64 + rows))
    np.testing.assert_allclose(
        codes.reconstructions(2, False), fleet[2].decode(codes.means[2][rows]), atol=1e-6
    )
    other = encode(fleet, data, 2).decoded_rows
    assert (np.sort(rows) != np.sort(other)).any()


def test_memory_is_bounded(sprites):
    rows = models_at_once(sprites, 10) * len(sprites) * 10 * 8
    assert coding.MEMORY - len(sprites) * 80 < rows <= coding.MEMORY
    assert models_at_once(sprites, 10**9) == 1
