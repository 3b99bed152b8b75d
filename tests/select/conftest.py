"""Codes of models that found the same factors, and of models that did not."""

import numpy as np
import pytest


@pytest.fixture
def models():
    """Five models with 4 latents `[5, 400, 4]`: correlated, curved, noisy views of 4 factors."""
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(400, 4))
    mixing = [np.eye(4) + 0.4 * rng.normal(size=(4, 4)) for _ in range(5)]
    return np.stack([np.tanh(factors @ m) + 0.1 * rng.normal(size=(400, 4)) for m in mixing])


@pytest.fixture
def kl():
    """KL of their latents `[5, 4]`: two passive latents, in models 1 and 3."""
    carried = np.random.default_rng(4).uniform(0.5, 4, size=(5, 4))
    carried[1, 2] = carried[3, 0] = 0.004
    return carried
