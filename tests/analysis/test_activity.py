"""Active latents by each criterion."""

import numpy as np
import pytest

import unweave as uw
from unweave.analysis.activity import (
    KL,
    NOISE,
    RELATIVE_SPREAD,
    VARIANCE,
    WEAK_NOISE,
    kl_in_use,
    kl_of_latents,
    shown_activity,
)
from unweave.analysis.latents import Latents
from unweave.methods import EVERY


@pytest.mark.parametrize("criterion", [KL, VARIANCE, NOISE, WEAK_NOISE, RELATIVE_SPREAD])
def test_values_at_the_threshold_are_not_active(criterion):
    step = -1e-9 if criterion.below else 1e-9
    values = np.array([criterion.threshold, criterion.threshold + step])
    assert criterion.holds(values).tolist() == [False, True]


def test_the_criteria_differ_where_they_should():
    """A used latent, a constant one, one with a weak signal, and one like the prior."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2_000, 4)) * [0.95, 0, 0.13, 0.001]
    logvars = np.log(np.tile([0.1, 0.05, 0.97, 1.0], (2_000, 1)))
    assert VARIANCE.holds(means.var(0)).tolist() == [True, False, True, False]
    assert NOISE.holds(np.exp(logvars).mean(0)).tolist() == [True, True, False, False]
    assert KL.holds(kl_of_latents(means, logvars)).tolist() == [True, True, False, False]
    assert KL.holds(kl_in_use(means, logvars)).tolist() == [True, False, False, False]


@pytest.mark.parametrize("method", ["vae_ensemble", "isa_vae", "isa_tc_vae", "jacobian"])
def test_nearly_constant_latent_with_other_noise_is_unused(method):
    means = np.random.default_rng(0).normal(size=(1, 500, 3)) * [1, 0.05, 0.2]
    logvars = np.log(np.full(means.shape, 0.05))
    kl = kl_in_use(means, logvars, [EVERY[method].standard_noise])
    assert Latents(means, logvars, kl).informative.tolist() == [[True, False, True]]
    assert kl[0, 1] == KL.threshold
    assert kl[0, 0] == pytest.approx(1.52, abs=0.1)
    plain = kl_in_use(means, logvars, uw.methods.VAE.standard_noise)
    np.testing.assert_array_equal(plain, Latents(means, logvars).kl)


def test_codes_without_a_prior_are_compared_with_each_other():
    codes = np.random.default_rng(0).normal(size=(500, 3)) * [5, 1, 0.2]
    for scale in (1, 1e-3):
        found = shown_activity(codes * scale, np.zeros(codes.shape), deterministic=True)
        assert found.criterion is RELATIVE_SPREAD
        assert found.active.tolist() == [True, True, False]
        assert found.order.tolist() == [0, 1, 2]


def test_non_finite_codes_are_not_active():
    codes = np.full((10, 2), np.nan)
    for points in (True, False):
        assert not shown_activity(codes, codes, deterministic=points).active.any()
