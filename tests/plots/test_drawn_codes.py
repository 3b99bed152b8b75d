"""What latents follow, and which are in use."""

import numpy as np
import pytest

import unweave as uw
from unweave.plots.drawn_codes import Seen, followed_factors, look
from unweave.plots.traversal_range import label_of

NAMES = ["shape", "scale", "angle", "posX", "posY"]
SIZES = (3, 6, 10, 8, 8)


@pytest.fixture(scope="module")
def factors():
    full = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), 1)
    return np.random.default_rng(0).permutation(full)[:3000]


def test_planted_codes_follow_their_factors(factors):
    rng = np.random.default_rng(1)
    shape, scale, angle, x, y = factors.T
    codes = np.column_stack(
        [
            -x + 0.3 * rng.normal(size=len(x)),
            np.array([0.0, 5.0, -2.0])[shape],  # no order
            np.cos(2 * np.pi * angle / 10) + 0.05 * rng.normal(size=len(x)),  # not monotone
            rng.normal(size=len(x)),
            x + y,
            np.exp(scale),
        ]
    )
    followed = followed_factors(codes, factors, NAMES)
    assert followed[:4] == [("posX",), ("shape",), ("angle",), ()]
    assert sorted(followed[4]) == ["posX", "posY"]
    assert followed[5] == ("scale",)


def test_few_images_do_not_make_noise_follow_factors():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (30, 2))
    followed = followed_factors(rng.normal(size=(30, 8)), factors, ["a", "b"])
    assert followed == [()] * 8
    # Without the correction for chance, a share of a factor would seem to be known.
    information = uw.metrics.information_matrix(rng.normal(size=(30, 8)), factors)
    assert (information / np.log(3)).max() > 0.4


def test_constant_factors_are_followed_by_none(factors):
    constant = factors.copy()
    constant[:, 1] = 4
    codes = constant[:, [3, 4]] * 1.0
    assert followed_factors(codes, constant, NAMES) == [("posX",), ("posY",)]
    seen = Seen(codes, np.full(codes.shape, -4.0), np.zeros((len(codes), 2)), ["a", "b"])
    assert seen.follows == [(), ()]


def test_a_latent_follows_no_factor_of_which_it_can_tell_too_little(factors):
    """Means may give a factor away exactly where the posterior's noise drowns it."""
    codes = factors[:, [3, 3]] / 8 - 0.5
    logvars = np.tile([-4.0, -0.2], (len(codes), 1))
    seen = Seen(codes, logvars, factors, NAMES)
    shares = seen.amounts / np.log(len(np.unique(factors[:, 3])))
    assert seen.active.all()
    assert shares[0] > 0.2 > shares[1]
    assert seen.follows == [("posX",), ()]
    assert followed_factors(codes, factors, NAMES) == [("posX",), ("posX",)]


def test_latents_that_say_nothing_follow_nothing(factors):
    codes = factors[:, [3, 4]] / 8
    logvars = np.tile([-4.0, 0.0], (len(codes), 1))
    codes[:, 1] = 1e-3 * (codes[:, 1] - 0.5)
    seen = Seen(codes, logvars, factors, NAMES)
    assert seen.active.tolist() == [True, False]
    assert seen.follows == [("posX",), ()]
    assert label_of(seen, 0) == ("latent 0", "→ posX")
    assert label_of(seen, 1) == ("latent 1", "")


def test_long_labels_are_cut(factors):
    seen = Seen(factors[:, [3]] * 1.0, np.full((3000, 1), -4.0), factors[:, [3]], ["x" * 40])
    name, note = label_of(seen, 0)
    assert name == "latent 0"
    assert note == "→ " + "x" * 15 + "…"


def test_a_model_is_looked_at_with_images_that_can_be_drawn(model, sprites):
    few = sprites.only(shape=0)
    seen = look(model, few)
    assert len(seen.means) == 128
    assert set(seen.factors[:, 0]) == {0}
    np.testing.assert_allclose(
        np.sort(seen.means, 0), np.sort(model.encode(few.images(few.support))[0], 0), atol=1e-5
    )
    assert len(look(model, sprites, rows=50).means) == 50
    assert look(model, sprites).active.tolist() == [True, True, False, True]
