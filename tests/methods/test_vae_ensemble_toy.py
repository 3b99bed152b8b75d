"""Ensembles of linear VAEs, whose minimum is known, and small ones on a grid of images.

In the linear ones, images are x = B s of three standard normal factors, an encoder is N(W x, σ²)
with σ of its own, a decoder N(A z, 0.05). The loss is then quadratic in factors and noise, so that
its mean over few points of the right covariance is its expectation, which L-BFGS minimises.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from tests.methods.small_fleet import random
from unweave.analysis.maps import distance_to_orthogonality
from unweave.methods import VAE, Batch, Nets, VAEEnsemble
from unweave.methods.batch import member_seeds
from unweave.nets.layers import Linear, Maps, Reshape
from unweave.nets.likelihoods import bernoulli, gaussian
from unweave.nets.network import Network
from unweave.select import Latents, least_squares_maps, map_distances

D = 3
VARIANCE = 0.05
DISTINCT, EQUAL = (1.0, 0.7, 0.5), (0.7, 0.7, 0.7)
SEEDS = 2


@dataclass(frozen=True, eq=False)
class Exact(Batch):
    """A batch whose noise, `[M · n, B, d]`, is given."""

    given: Tensor | None = None

    def noise(self, purpose, like):
        return self.given


def batch_of(x, n):
    """The same images for all ensembles."""
    seeds = torch.arange(SEEDS)
    own = member_seeds(seeds, n) if n > 1 else None
    images = x[:, :, None, None].expand(SEEDS, -1, -1, -1, -1)
    return Batch(images, seeds, torch.tensor(0), len(x), None, own)


def expectation(scales, n):
    """Points at which factors and every member's noise have mean 0, variance 1, covariance 0."""
    width = D * (1 + n)
    points = width**0.5 * torch.cat([torch.eye(width), -torch.eye(width)]).double()
    factors, *noise = points.split(D, 1)
    given = torch.stack(noise).repeat(SEEDS, 1, 1)
    return Exact(**vars(batch_of(factors * torch.tensor(scales), n)), given=given)


def beginning(n):
    """The parameters of `SEEDS` ensembles, each `[M · n, …]`."""
    rows = SEEDS * n
    return {
        "W": random(rows, D, D, seed=1),
        "logvar": random(rows, 1, D, seed=2) - 1,
        "A": random(rows, D, D, seed=3),
        "maps": random(rows, n - 1, D, D, seed=4),
    }


def losses(method, parameters, batch):
    """Of the method, `[M]`."""
    W, logvar, A, maps = parameters.values()

    def encode(images):
        mu = images.flatten(2) @ W.mT
        return torch.cat([mu, logvar.expand_as(mu)], -1)

    apply = {
        "encoder": encode,
        "decoder": lambda z: (z @ A.mT)[..., None, None],
        "maps": lambda z: Network((Maps(maps.shape[1], D),))({"0.weight": maps}, z),
    }
    nets = Nets(apply, lambda means, images: gaussian(means, images) / (2 * VARIANCE))
    return method.losses(nets, batch).groups["model"]


def minimum(method, scales, n=2):
    """Where L-BFGS arrives."""
    batch = expectation(scales, n)
    parameters = {name: value.requires_grad_() for name, value in beginning(n).items()}
    optimiser = torch.optim.LBFGS(
        parameters.values(),
        max_iter=2000,
        tolerance_grad=1e-5,
        tolerance_change=0,
        history_size=50,
        line_search_fn="strong_wolfe",
    )

    def loss():
        optimiser.zero_grad()
        value = losses(method, parameters, batch).sum()
        value.backward()
        return value

    optimiser.step(loss)
    return {name: value.detach() for name, value in parameters.items()}


def variances(parameters):
    """σ² of every member's latents, in order."""
    return parameters["logvar"].exp().squeeze(1).sort(-1).values


def of_factors(parameters, scales):
    """The correlation of every latent's mean with the factor it tells most of, `[M · n, d]`."""
    mu = parameters["W"] * torch.tensor(scales)
    return (mu.abs() / mu.norm(dim=-1, keepdim=True)).max(-1).values


def distances(parameters, norm):
    return [distance_to_orthogonality(M)[norm] for M in parameters["maps"].flatten(0, 1)]


def test_the_mean_over_few_points_is_the_expectation(double):
    method = VAEEnsemble(members=2, gamma=3)
    x = random(50_000, D, seed=0) * torch.tensor(DISTINCT)
    expected = losses(method, beginning(2), expectation(DISTINCT, 2))
    drawn = losses(method, beginning(2), batch_of(x, 2))
    torch.testing.assert_close(drawn, expected, rtol=0.01, atol=0)


def test_variances_of_a_vae_and_half_of_them_in_two_that_share_their_decoders(double):
    alone = minimum(VAE(), DISTINCT, n=1)
    of_two = minimum(VAEEnsemble(members=2, alignment=False), DISTINCT)
    expected = VARIANCE / torch.tensor(DISTINCT).double() ** 2
    torch.testing.assert_close(variances(alone), expected.expand(SEEDS, -1), rtol=1e-3, atol=0)
    half = (expected / 2).expand(2 * SEEDS, -1)
    torch.testing.assert_close(variances(of_two), half, rtol=1e-3, atol=0)
    assert of_factors(alone, DISTINCT).min() > 0.999
    assert of_factors(of_two, DISTINCT).min() > 0.999
    assert max(distances(of_two, "frobenius")) < 0.002


@pytest.mark.parametrize(
    ("cross_reconstruction", "gammas", "mean_l1", "frobenius", "spread"),
    [
        (True, (1.0, 10.0), (0.005, 0.006), (0.032, 0.036), (2.8, 1.6)),
        (False, (10.0, 10.0), (0.014, 0.014), (0.079, 0.079), (1.44, 1.44)),
    ],
)
def test_factors_of_distinct_scales_are_found_by_all(
    double, cross_reconstruction, gammas, mean_l1, frobenius, spread
):
    method = VAEEnsemble.stack(
        [
            VAEEnsemble(members=2, gamma=gamma, cross_reconstruction=cross_reconstruction)
            for gamma in gammas
        ]
    )
    found = minimum(method, DISTINCT)
    assert distances(found, "mean_l1") == pytest.approx(np.repeat(mean_l1, 2), abs=0.002)
    assert distances(found, "frobenius") == pytest.approx(np.repeat(frobenius, 2), abs=0.002)
    assert of_factors(found, DISTINCT).min() > 0.999
    smallest, _, largest = variances(found).T
    np.testing.assert_allclose(largest / smallest, np.repeat(spread, 2), rtol=0.04)
    R = torch.from_numpy(Rotation.from_euler("xyz", [0.3, 0.2, 0.1]).as_matrix())
    batch = expectation(DISTINCT, 2)
    for turned in (with_images_turned(found, R), with_a_member_turned(found, R)):
        assert (losses(method, turned, batch) > losses(method, found, batch) + 1e-3).all()


@pytest.mark.parametrize("gamma", [1.0, 10.0])
def test_factors_of_equal_scales_are_found_by_none(double, gamma):
    """Codes may be turned at no cost, those of one member by themselves and all together."""
    method, batch = VAEEnsemble(members=2, gamma=gamma), expectation(EQUAL, 2)
    found = minimum(method, EQUAL)
    least = losses(method, found, batch)
    torch.testing.assert_close(least, least.mean().expand(SEEDS), rtol=1e-7, atol=0)
    far = []
    for seed in range(10):
        R = torch.from_numpy(Rotation.random(random_state=seed).as_matrix())
        for turned in (with_images_turned(found, R), with_a_member_turned(found, R)):
            torch.testing.assert_close(losses(method, turned, batch), least, rtol=1e-7, atol=0)
            far += distances(turned, "frobenius")
        assert of_factors(with_images_turned(found, R), EQUAL).min() < 0.95
    assert min(far) < 0.6
    assert max(far) > 1.2
    for M in found["maps"].flatten(0, 1):  # a turn, and a little shorter
        torch.testing.assert_close(M.mT @ M, torch.eye(D).double(), rtol=0, atol=0.05)


def with_images_turned(parameters, R):
    """What the same ensembles would be on images R x."""
    return {**parameters, "W": parameters["W"] @ R.mT, "A": R @ parameters["A"]}


def with_a_member_turned(parameters, R):
    """The first member of each ensemble with codes R z, and its maps with them."""
    turned = {name: value.clone() for name, value in parameters.items()}
    turned["W"][::2] = R @ turned["W"][::2]
    turned["A"][::2] = turned["A"][::2] @ R.mT
    turned["maps"][::2] = turned["maps"][::2] @ R.mT
    turned["maps"][1::2] = R @ turned["maps"][1::2]
    return turned


LEVELS = torch.linspace(0.1, 0.9, 5)
GRID = torch.cartesian_prod(LEVELS, LEVELS, LEVELS)[:, [0, 0, 0, 0, 1, 1, 1, 2]]
"""Three factors, five levels each: how light four, three and one of the rows of an image are."""


def trained(method, latents=5, steps=300):
    """The mean codes `[M, 2, 125, d]` of ensembles of two on the grid, and their maps."""
    images = GRID[:, :, None, None].expand(-1, -1, 8, -1).contiguous()
    networks = {
        "encoder": Network(
            (Reshape((64,)), Linear(64, 32, "tanh"), Linear(32, 2 * latents, "none"))
        ),
        "decoder": Network(
            (Linear(latents, 32, "tanh"), Linear(32, 64, "none"), Reshape((8, 8, 1)))
        ),
        "maps": Network((Maps(1, latents),)),
    }
    seeds = torch.arange(SEEDS)
    own = member_seeds(seeds, 2)
    parameters = {
        name: network.initial(own, name).requires_grad_() for name, network in networks.items()
    }
    nets = Nets(
        {name: partial(network, parameters[name]) for name, network in networks.items()},
        bernoulli,
    )
    optimiser = torch.optim.Adam(parameters.values(), lr=0.01)
    shown = images.expand(SEEDS, *images.shape)
    for step in range(steps):
        batch = Batch(shown, seeds, torch.tensor(step), len(images), None, own)
        optimiser.zero_grad()
        method.losses(nets, batch).groups["model"].sum().backward()
        optimiser.step()
    with torch.no_grad():
        codes = nets.encode(images.expand(2 * SEEDS, *images.shape)).mu
    ((_, maps),) = networks["maps"].named(parameters["maps"].detach())
    return codes.unflatten(0, (SEEDS, 2)).numpy(), maps.unflatten(0, (SEEDS, 2)).numpy()


def test_maps_of_an_ensemble_are_closer_to_permutations_than_those_between_vaes():
    """As published: all latents count, and between those that VAEs leave unused, maps are noise.

    Two of five are of no use here, which is √2 that no map can do without.
    """
    _, maps = trained(VAEEnsemble(members=2, gamma=1))
    vaes, _ = trained(VAEEnsemble(members=2, gamma=0, cross_reconstruction=False))
    same = np.eye(5)
    for ensemble, codes in zip(maps[:, :, 0], vaes, strict=True):
        learned = map_distances([[same, ensemble[0]], [ensemble[1], same]])
        between = map_distances(least_squares_maps(Latents(codes)))
        for norm in ("frobenius", "mean_l1"):
            assert learned[norm].mean() < 0.8 * between[norm].mean()
        assert 1.4 < learned["frobenius"].mean() < 2.0
