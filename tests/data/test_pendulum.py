"""The pendulum against an independent integrator, its physics, and its grid."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj

import unweave as uw
from tests.raising import about
from unweave.data.pendulum import simulate
from unweave.errors import DataError


@pytest.mark.parametrize(
    ("length", "damping", "mass"), [(1, 0.1, 2), (3, 2, 0.1), (2.2, 0.7, 0.5)]
)
def test_curves_solve_the_equation_of_motion(length, damping, mass):
    def slope(_, state):
        return [state[1], -damping / mass * state[1] - 9.8 / length * np.sin(state[0])]

    times = np.arange(100) * 0.1
    exact = solve_ivp(slope, (0, 9.9), [0, 3], t_eval=times, rtol=1e-11, atol=1e-12).y[0]
    np.testing.assert_allclose(simulate(length, damping, mass), exact, atol=2e-6)


def test_without_damping_energy_is_conserved_and_mass_does_not_matter():
    angle = simulate(1.7, 0.0, 0.3).astype(float)
    assert angle.max() == pytest.approx(np.arccos(1 - 9 * 1.7 / (2 * 9.8)), abs=2e-3)
    np.testing.assert_allclose(angle, simulate(1.7, 0.0, 2.0), atol=1e-6)


@pytest.mark.parametrize("length", [1.0, 1.7, 3.0])
def test_without_damping_curves_are_jacobis_sine(length):
    """sin(θ / 2) = k sn(ω t), with k = θ'(0) / 2ω and ω² = g / L."""
    speed = (9.8 / length) ** 0.5
    k = 3 / (2 * speed)
    sine = ellipj(speed * np.arange(100) * 0.1, k**2)[0]
    np.testing.assert_allclose(simulate(length, 0.0), 2 * np.arcsin(k * sine), atol=2e-6)


def energy(angle, length):
    """Return θ'² / 2 + (g / L) (1 - cos θ) at all times except four at either end."""
    weights = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
    speed = np.correlate(angle.astype(float), weights, "valid") / 0.1
    return speed**2 / 2 + 9.8 / length * (1 - np.cos(angle[4:-4]))


def test_energy_is_conserved_without_damping_and_decreases_with_it():
    """The energy starts at 9 / 2; the speed is computed with a nine-point stencil."""
    kept = energy(simulate(2.0, 0.0), 2.0)
    np.testing.assert_allclose(kept, 4.5, atol=1e-4)
    lost = energy(simulate(2.0, 0.3, 1.0), 2.0)
    assert (np.diff(lost) < 0).all()
    assert lost[-1] < 0.1 * lost[0]


def test_stages_differ_only_in_damping_and_mass():
    """Length first, then damping at mass 1, then mass, which acts through b / m only."""
    length = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(simulate(length, 0.0, 1.0), simulate(length, 0.0, 0.5))
    np.testing.assert_allclose(simulate(length, 0.6, 1.5), simulate(length, 0.4, 1.0), atol=1e-6)
    first, second, third = (simulate(length, b, m) for b, m in ((0, 1), (0.6, 1), (0.6, 1.5)))
    assert (np.abs(first - second).max(1) > 0.1).all()
    assert (np.abs(second - third).max(1) > 0.1).all()


def test_the_data_set_is_the_grid_of_the_paper():
    data = uw.data.load("pendulum")
    assert data.grid.sizes == (21, 20, 5)
    index = data.index([[20, 0, 2]])
    np.testing.assert_array_equal(data.curves(index)[0], simulate(3.0, 0.1, 1.0))
    batch = data.draw(8, seed=1)
    np.testing.assert_array_equal(batch.images, data.curves(batch.indices))
    assert data.to("cpu").pixels([4, 5]).shape == (2, *data.shape) == (2, 100, 1, 1)
    with pytest.raises(DataError, check=about("images", "pendulum")):
        data.images([0])
    with pytest.raises(DataError, check=about("length")):
        simulate(0, 1, 1)
