"""What latents follow, and which are in use."""

import numpy as np
import pytest

import unweave as uw
from unweave.plots.drawn_codes import DrawnCodes, draw_codes, followed_factors
from unweave.plots.traversals import label_of

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


def test_constant_factors_are_ignored(factors):
    constant = factors.copy()
    constant[:, 1] = 4
    codes = constant[:, [3, 4]] * 1.0
    assert followed_factors(codes, constant, NAMES) == [("posX",), ("posY",)]
    drawn = DrawnCodes(codes, np.full(codes.shape, -4.0), np.zeros((len(codes), 2)), ["a", "b"])
    assert drawn.follows == [(), ()]


def test_kl_bounds_the_information_about_a_factor(factors):
    """Means may give a factor away exactly where the posterior's noise drowns it."""
    codes = factors[:, [3, 3]] / 8 - 0.5
    logvars = np.tile([-4.0, -0.2], (len(codes), 1))
    drawn = DrawnCodes(codes, logvars, factors, NAMES)
    shares = drawn.amounts / np.log(len(np.unique(factors[:, 3])))
    assert drawn.active.all()
    assert shares[0] > 0.2 > shares[1]
    assert drawn.follows == [("posX",), ()]
    assert followed_factors(codes, factors, NAMES) == [("posX",), ("posX",)]


def test_inactive_latents_follow_nothing(factors):
    codes = factors[:, [3, 4]] / 8
    logvars = np.tile([-4.0, 0.0], (len(codes), 1))
    codes[:, 1] = 1e-3 * (codes[:, 1] - 0.5)
    drawn = DrawnCodes(codes, logvars, factors, NAMES)
    assert drawn.active.tolist() == [True, False]
    assert drawn.follows == [("posX",), ()]
    assert label_of(drawn, 0) == ("latent 0", "→ posX")
    assert label_of(drawn, 1) == ("latent 1", "")


def test_long_labels_are_truncated(factors):
    drawn = DrawnCodes(
        factors[:, [3]] * 1.0, np.full((3000, 1), -4.0), factors[:, [3]], ["x" * 40]
    )
    name, note = label_of(drawn, 0)
    assert name == "latent 0"
    assert note == "→ " + "x" * 15 + "…"


def test_only_images_with_positive_weight_are_encoded(model, sprites):
    few = sprites.only(shape=0)
    drawn = draw_codes(model, few)
    assert len(drawn.means) == 128
    assert set(drawn.factors[:, 0]) == {0}
    np.testing.assert_allclose(
        np.sort(drawn.means, 0), np.sort(model.encode(few.images(few.support))[0], 0), atol=1e-5
    )
    assert len(draw_codes(model, sprites, rows=50).means) == 50
    assert draw_codes(model, sprites).active.tolist() == [True, True, False, True]
