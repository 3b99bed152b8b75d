"""MIG."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.metrics import mutual_info_score

from unweave.metrics import information_matrix, mig


def test_golden(golden):
    assert_allclose(mig(*golden.train)["mig"], golden.fixed["mig"], atol=1e-9)
    reference = np.array([scores["mig"] for scores in golden.sampled])
    found = np.array([mig(golden.codes, golden.factors, seed)["mig"] for seed in range(20)])
    assert abs(found.mean() - reference.mean()) < 3 * found.std() * (1 / 3 + 1 / 20) ** 0.5


def test_textbook():
    generator = np.random.default_rng(0)
    factors = generator.integers(0, (4, 9, 2), (1000, 3))
    codes = factors @ generator.normal(size=(3, 4)) + generator.normal(size=(1000, 4))
    gaps = []
    for v in factors.T:
        information = []
        for z in codes.T:
            edges = np.histogram(z, 20)[1]
            information.append(mutual_info_score(v, np.digitize(z, edges[:-1])))
        second, first = sorted(information)[-2:]
        gaps.append((first - second) / mutual_info_score(v, v))
    assert_allclose(mig(codes, factors)["mig"], np.mean(gaps), rtol=1e-12)


def test_by_hand():
    # The second code contains one of the two bits of the only factor.
    factor = np.array([0, 1, 2, 3])
    codes = np.stack([factor, factor // 2], 1).astype(float)
    assert_allclose(mig(codes, factor)["mig"], 0.5)
    assert_allclose(mig(codes[:, :1], factor)["mig"], 1)


def test_a_copy_closes_the_gap():
    factors = np.stack(np.unravel_index(np.arange(16), (4, 4)), 1)
    codes = factors.astype(float)
    assert_allclose(mig(codes, factors)["mig"], 1)
    assert_allclose(mig(codes[:, [0, 1, 1]], factors)["mig"], 0.5)


def test_information_matrix_is_codes_by_factors():
    factors = np.random.default_rng(0).integers(0, (3, 5), (500, 2))
    codes = np.stack([factors[:, 1], np.zeros(500), factors[:, 0]], 1)
    found = information_matrix(codes, factors)
    assert found.shape == (3, 2)
    assert found[0].argmax() == 1
    assert found[2].argmax() == 0
    assert (found[1] == 0).all()
