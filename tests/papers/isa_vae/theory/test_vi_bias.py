"""The four experiments: published numbers and claims."""

import numpy as np
import pytest

from tests.raising import about
from unweave.papers.isa_vae.theory import factor_analysis as fa
from unweave.papers.isa_vae.theory import vi_bias
from unweave.papers.theory import TheoryError


@pytest.mark.parametrize("beta", vi_bias.BETAS)
def test_the_free_energy_is_largest_where_weights_are_orthogonal(beta):
    table = vi_bias.rotation([beta], np.arange(-360, 361) * np.pi / 360)
    assert np.ptp(table["log_likelihood"]) < 1e-9
    free = table["free_energy"].to_numpy()
    peaks = np.flatnonzero((free[1:-1] > free[:-2]) & (free[1:-1] > free[2:])) + 1
    assert table["angle"][peaks].tolist() == pytest.approx([-np.pi / 2, 0, np.pi / 2], abs=1e-9)
    assert free[peaks] == pytest.approx(free.max(), abs=1e-9)
    if beta == 1:
        assert (free <= table["log_likelihood"] + 1e-9).all()
        assert table["gap"].to_numpy() == pytest.approx(table["log_likelihood"] - free, abs=1e-9)


def test_the_printed_order_of_the_rotation_would_change_the_likelihood():
    """R(π/4) W has the variances c of W in directions that mix those of the data."""
    turn = np.array([[1, -1], [1, 1]]) / 2**0.5
    second = vi_bias.ML_WEIGHTS @ vi_bias.ML_WEIGHTS.T + np.diag(vi_bias.ML_NOISE)
    printed = fa.log_likelihood(turn @ vi_bias.ML_WEIGHTS, vi_bias.ML_NOISE, second)
    one, other = np.diag(second)
    worse = ((one / other + other / one) / 2 - 1) / 2
    best = vi_bias.rotation(angles=[0.3])["log_likelihood"][0]
    assert 100 * printed == pytest.approx(best - 100 * worse)
    assert 100 * printed == pytest.approx(-137.46, abs=0.005)


@pytest.mark.parametrize("beta", vi_bias.BETAS)
def test_the_free_energy_is_largest_without_the_spare_component(beta):
    """The gap is N/2 log(1 + a² b² / (β² σ⁴ + β σ²))."""
    table = vi_bias.over_complete([beta])
    assert np.ptp(table["log_likelihood"]) < 1e-9
    assert table["free_energy"].idxmax() == 0
    assert (np.diff(table["free_energy"]) < 0).all()
    a, s = table["a"], beta * 0.1
    exact = 50 * np.log(1 + a**2 * (1 - a**2) / (s**2 + s))
    assert table["gap"].to_numpy() == pytest.approx(exact, abs=1e-9)
    fallen = table["free_energy"].max() - table["free_energy"]
    assert fallen.to_numpy() == pytest.approx(exact, abs=1e-9)
    if beta == 1:
        assert table["gap"].iloc[-1] / vi_bias.COUNT == pytest.approx(0.4975, abs=5e-5)


@pytest.mark.parametrize("beta", [1.0, 5.0])
def test_learning_prunes_the_spare_component(beta):
    way = vi_bias.learned_spare(beta)
    assert way.kept[0] == 3
    assert way.kept[-1] == 2
    assert way.norms[-1].min() < 1e-6
    assert way.orthogonality[-1] == pytest.approx(0, abs=1e-9)
    assert np.diff(way.free_energy).min() > -1e-12


def test_effect_of_beta():
    table = vi_bias.effect_of_beta((1, 2, 5, 10)).set_index("beta")
    assert table["angle"].tolist() == [0] * 4
    assert table["best_a"].tolist() == [0] * 4
    assert table["amplitude"].tolist() == pytest.approx([39.34, 30.17, 16.68, 8.49], abs=0.005)
    assert table["beta_amplitude"][5] == pytest.approx(83.4, abs=0.05)
    assert (np.diff(table[["sd_0", "sd_1"]], axis=0) > 0).all()
    assert table["sd_0"][1] == pytest.approx((1 + 0.41259**2 / 0.01) ** -0.5)


def test_free_weights_shrink_with_beta_and_are_pruned():
    """Against learning, and ‖w‖² = c - β σ²."""
    table = vi_bias.effect_of_beta((1.0, 2.0, 5.0)).set_index("beta")
    assert table["norm_1"].tolist()[0] == pytest.approx(0.131014)
    assert table["norm_1"][2] ** 2 == pytest.approx(0.131014**2 - 0.01)
    assert table["norm_1"][5] == 0
    second = vi_bias.ML_WEIGHTS @ vi_bias.ML_WEIGHTS.T + np.diag(vi_bias.ML_NOISE)
    way = fa.ascend(vi_bias.rotated(0.3), vi_bias.ML_NOISE, second, 5.0, steps=300)
    assert np.sort(way.norms[-1]) == pytest.approx([0, table["norm_0"][5]], abs=1e-6)


@pytest.fixture(scope="module")
def ways():
    """Beyond what is needed at β = 5, and up to the stated budget at β = 1."""
    return {1: vi_bias.components(1.0), 5: vi_bias.components(5.0, steps=500)}


def test_beta_5_prunes_one_of_three_components_and_leaves_two_orthogonal(ways):
    way = ways[5]
    assert way.kept[0] == 3
    assert way.kept[-1] == 2
    assert way.shares[-1].min() < 0.05
    assert way.angle[-1] > 85
    assert way.orthogonality[-1] < 0.01


def test_beta_1_keeps_three_more_orthogonal_ones_at_the_stated_budget(ways):
    way = ways[1]
    assert len(way.weights) == 1 + vi_bias.BUDGET
    assert (way.kept == 3).all()
    assert way.shares[-1].min() > 0.4
    assert way.orthogonality[0] == pytest.approx(0.25)
    assert way.orthogonality[-1] < 0.245


def test_beta_1_follows_the_path_of_beta_5_five_times_as_slowly(ways):
    """As far as both have three components; why β = 1 prunes too, beyond the budget."""
    slow, fast = ways[1].weights[:751:5], ways[5].weights[:151]
    assert np.abs(slow - fast).max() < 0.01
    assert np.abs(ways[1].weights[:151] - fast).max() > 0.3
    assert np.abs(fast[-1] - fast[0]).max() > 0.4


def test_more_noise_prunes_at_beta_1_too():
    """What the budget hides at σ² = 0.01 takes a fifth of it at σ² = 0.1."""
    from unweave.papers.isa_vae.theory import ica

    way = ica.learn(ica.draw(0, noise=0.1), beta=1.0, steps=200)
    assert way.kept[-1] == 2
    assert way.angle[-1] > 85


@pytest.mark.parametrize("a", [-0.1, 1.5])
def test_a_share_outside_of_0_and_1_is_rejected(a):
    with pytest.raises(TheoryError, check=about("a", a)):
        vi_bias.spare_weights(a)
