"""JEMMIG and RMIG against their definitions, with and without posteriors."""

import math

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, jemmig, mig, rmig


@pytest.fixture
def factors():
    return np.random.default_rng(0).integers(0, [3, 5], (300, 2))


def entropy(p):
    p = np.asarray(p, float).ravel()
    return -sum(x * math.log(x) for x in p if x > 0)


def textbook(joints, bins):
    """JEMMIG and RMIG from joint tables p[factor][code] = [bins, values]."""
    rmigs, jemmigs = [], []
    for tables in joints:
        known = sorted(
            (entropy(p.sum(0)) + entropy(p.sum(1)) - entropy(p), entropy(p)) for p in tables
        )
        gap, of_factor = known[-1][0] - known[-2][0], entropy(tables[0].sum(0))
        rmigs.append(gap / of_factor)
        jemmigs.append(1 - (known[-1][1] - gap) / (of_factor + math.log(bins)))
    return np.mean(jemmigs), np.mean(rmigs)


def test_without_posteriors_rmig_is_mig(golden):
    assert rmig(*golden.train)["rmig"] == pytest.approx(golden.fixed["mig"], abs=1e-6)


def test_bins_equal_the_definition(factors):
    rng = np.random.default_rng(1)
    codes = factors @ rng.normal(size=(2, 4)) + 0.2 * rng.normal(size=(300, 4))
    joints = []
    for k, size in enumerate((3, 5)):
        joints.append([])
        for code in codes.T:
            p = np.zeros((7, size))
            edges = np.histogram(code, 7)[1][:-1]
            np.add.at(p, (np.digitize(code, edges) - 1, factors[:, k]), 1 / 300)
            joints[-1].append(p)
    expected = textbook(joints, 7)
    assert jemmig(codes, factors, count=7)["jemmig"] == pytest.approx(expected[0], abs=1e-9)
    assert rmig(codes, factors, count=7)["rmig"] == pytest.approx(expected[1], abs=1e-9)


def test_posteriors_equal_the_published_quantisation(factors):
    """Density at the centres of 100 bins between -4 and 4, times their width, scaled to 1."""
    rng = np.random.default_rng(1)
    means = factors - 2 + 0.3 * rng.normal(size=(300, 2))
    logvars = rng.normal(-2, 0.5, size=(300, 2))
    centres = np.linspace(-4, 4, 101)[:-1] + 0.04
    joints = []
    for k, size in enumerate((3, 5)):
        joints.append([])
        for j in range(2):
            p = np.zeros((100, size))
            for mu, lv, value in zip(means[:, j], logvars[:, j], factors[:, k], strict=True):
                q = 0.08 * np.exp(-((centres - mu) ** 2) / (2 * math.exp(lv)))
                p[:, value] += q / q.sum() / 300
            joints[-1].append(p)
    expected = textbook(joints, 100)
    scores = jemmig(means, factors, logvars=logvars)
    assert scores["jemmig"] == pytest.approx(expected[0], abs=1e-9)
    assert rmig(means, factors, logvars=logvars)["rmig"] == pytest.approx(expected[1], abs=1e-9)


def test_noise_of_the_posterior_costs_information(factors):
    means = factors - 2.0
    sharp, blurred = (rmig(means, factors, logvars=np.full((300, 2), v))["rmig"] for v in (-6, 0))
    assert sharp > 0.98
    assert blurred < 0.6
    far_and_narrow = rmig(100.0 * factors, factors, logvars=np.full((300, 2), -1000.0))
    assert 0 < far_and_narrow["rmig"] < 1


def test_code_with_more_than_its_factor_is_penalised():
    """Ten factor values in twenty bins: a bit that no factor explains costs log 2 of log 200."""
    factor = np.repeat(np.arange(10), 2)
    finer = np.arange(20)
    assert jemmig(factor, factor, count=20)["jemmig"] == pytest.approx(1)
    assert mig(finer, factor)["mig"] == pytest.approx(1)
    expected = 1 - math.log(2) / math.log(200)
    assert jemmig(finer, factor, count=20)["jemmig"] == pytest.approx(expected)


def test_log_variances_need_the_shape_of_codes(factors):
    with pytest.raises(MetricError, check=about("logvars", [300, 1])):
        jemmig(factors, factors, logvars=np.zeros(300))
