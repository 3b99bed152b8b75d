"""MIG-sup against its definition, with tables that are not square."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score as information

from unweave.metrics import mig, mig_sup


def textbook(codes, factors):
    gaps = []
    for code in codes.T:
        binned = np.digitize(code, np.histogram(code, 20)[1][:-1])
        shares = sorted(information(v, binned) / information(v, v) for v in factors.T)
        gaps.append(shares[-1] - shares[-2])
    return np.mean(gaps)


@pytest.fixture
def factors():
    return np.random.default_rng(0).integers(0, [3, 6, 10], (2000, 3))


def test_equals_the_definition(factors):
    rng = np.random.default_rng(1)
    codes = factors @ rng.normal(size=(3, 5)) + 0.1 * rng.normal(size=(2000, 5))
    assert mig_sup(codes, factors)["mig_sup"] == pytest.approx(textbook(codes, factors), abs=1e-9)


def test_golden_codes_match_the_definition(golden):
    codes, factors = golden.train
    assert mig_sup(codes, factors)["mig_sup"] == pytest.approx(textbook(codes, factors), abs=1e-6)


def test_it_supplements_mig(factors):
    """One code mixing two factors hurts MIG-sup; one factor in two codes hurts MIG."""
    mixing = np.column_stack([factors[:, 0] + 3 * factors[:, 1], factors[:, 2]])
    copying = factors[:, [0, 0, 1, 1, 2, 2]]
    assert mig_sup(copying, factors)["mig_sup"] > 0.98
    assert mig(copying, factors)["mig"] == pytest.approx(0)
    assert mig(mixing, factors)["mig"] > 0.9
    assert mig_sup(mixing, factors)["mig_sup"] < 0.7


def test_passive_latents_lower_only_the_mean_over_all_codes(factors):
    passive = np.column_stack([factors, 1e-3 * np.random.default_rng(1).normal(size=(2000, 3))])
    scores = mig_sup(passive, factors)
    plain = mig_sup(factors, factors)["mig_sup"]
    assert scores["mig_sup"] < plain / 1.8
    assert scores["mig_sup_active"] == pytest.approx(plain)
    assert mig_sup(1e-3 * factors, factors)["mig_sup_active"] == 0


def test_a_single_factor_is_compared_with_nothing(factors):
    assert mig_sup(factors[:, 0], factors[:, 0])["mig_sup"] == pytest.approx(1)
