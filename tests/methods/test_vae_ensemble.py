"""The VAE ensemble against a literal double loop, its limits, and what it tends to."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.small_fleet import (
    IMAGES,
    LATENTS,
    MODELS,
    NETWORKS,
    SmallFleet,
    equal,
    kl_to_prior,
    mean,
    random,
    same,
    sample,
)
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import (
    VAE,
    Batch,
    BetaVAE,
    EnsembleMember,
    Nets,
    VAEEnsemble,
)
from unweave.methods.batch import for_members, member_seeds
from unweave.models.config import Config
from unweave.models.networks import networks_of
from unweave.nets.layers import Maps
from unweave.nets.likelihoods import gaussian
from unweave.nets.network import Network
from unweave.random import Stream

N = 3
GAMMAS = (0.5, 2.0, 7.0)
STRENGTHS = (1.0, 4.0, 0.25)


@pytest.fixture
def fleet(double):
    """Three ensembles of three, with their networks and a batch."""
    return SmallFleet.make(members=N)


def ensembles(**settings):
    return [
        VAEEnsemble(gamma=gamma, strength=strength, members=N, **settings)
        for gamma, strength in zip(GAMMAS, STRENGTHS, strict=True)
    ]


def map_of(fleet, m, i, j):
    """M_ij of ensemble m: its members stand in a ring, and a member's maps lead onwards."""
    if i == j:
        return torch.eye(LATENTS, dtype=torch.float64)
    ((_, weight),) = NETWORKS["maps"].named(fleet.rows("maps"))
    return weight[m * N + i, (j - i - 1) % N]


def textbook(fleet, m, method):
    """Equation 2 for ensemble m: two loops over members, one over images."""
    images = fleet.images[m]
    posteriors = [fleet.posteriors(m, member=i) for i in range(N)]
    codes = [
        [
            sample(*q, noise)
            for q, noise in zip(posteriors[i], fleet.noise(m, member=i), strict=True)
        ]
        for i in range(N)
    ]
    own, cross, distances = [], [], []
    for i in range(N):
        for j in range(N):
            mapped = [
                (map_of(fleet, m, i, j) @ torch.tensor(z, dtype=torch.float64)).tolist()
                for z in codes[i]
            ]
            loss = mean(
                fleet.cross_entropy(m, z, x, member=j) for z, x in zip(mapped, images, strict=True)
            )
            distance = mean(
                sum((a - b) ** 2 for a, b in zip(target, z, strict=True))
                for target, z in zip(codes[j], mapped, strict=True)
            )
            if i == j:
                assert distance == 0
                own.append(loss)
            else:
                cross.append(loss)
                distances.append(distance)
    kls = [mean(kl_to_prior(*q) for q in posteriors[i]) for i in range(N)]
    assert (len(own) + len(cross), len(kls), len(distances)) == (N**2, N, N * (N - 1))
    objectives = TURNS.get(method.objective, [(method.objective, None)] * N)
    loss = sum(own) + sum(
        REGULARISERS[name](strength or method.strength, posteriors[i], codes[i], kls[i])
        for i, (name, strength) in enumerate(objectives)
    )
    terms = {"reconstruction": mean(own), "kl": mean(kls)}
    if method.cross_reconstruction:
        loss += sum(cross)
        terms["cross_reconstruction"] = mean(cross)
    if method.alignment:
        share = min(1, int(fleet.step) / method.gamma_steps) if method.gamma_steps else 1
        loss += share * method.gamma * sum(distances)
    if method.alignment or method.cross_reconstruction:
        terms["alignment"] = mean(distances)
    return {"model": loss, **terms}


def total_correlation(posteriors, codes):
    """E [log q(z) - Σ_l log q(z_l)] with q(z) = Σ_i q(z|x_i) over the batch."""

    def log_density(z, mu, logvar):
        return -0.5 * ((z - mu) ** 2 / math.exp(logvar) + logvar + math.log(2 * math.pi))

    total = 0.0
    for z in codes:
        of_images = [
            [log_density(*one) for one in zip(z, mu, logvar, strict=True)]
            for mu, logvar in posteriors
        ]
        total += math.log(sum(math.exp(sum(latents)) for latents in of_images))
        for latent in range(LATENTS):
            total -= math.log(sum(math.exp(latents[latent]) for latents in of_images))
    return total / len(codes)


def dip(strength, posteriors, kl, d_factor, spread):
    covariance = np.cov(np.array([mu for mu, _ in posteriors]).T, bias=True)
    covariance += spread * np.diag(np.exp([logvar for _, logvar in posteriors]).mean(0))
    diagonal = np.diag(covariance)
    off_diagonal = (covariance**2).sum() - (diagonal**2).sum()
    return kl + strength * (off_diagonal + d_factor * ((diagonal - 1) ** 2).sum())


REGULARISERS = {
    "beta_vae": lambda strength, posteriors, codes, kl: strength * kl,
    "beta_tc_vae": lambda strength, posteriors, codes, kl: (
        kl + (strength - 1) * total_correlation(posteriors, codes)
    ),
    "dip_vae_i": lambda strength, posteriors, codes, kl: dip(strength, posteriors, kl, 10, 0),
    "dip_vae_ii": lambda strength, posteriors, codes, kl: dip(strength, posteriors, kl, 1, 1),
}


TURNS = {
    "beta_tc_vae=3 + dip_vae_i": [("beta_tc_vae", 3), ("dip_vae_i", None), ("beta_tc_vae", 3)],
    "dip_vae_ii+beta_vae=2+beta_vae=7+beta_vae": [
        ("dip_vae_ii", None),
        ("beta_vae", 2),
        ("beta_vae", 7),
    ],
}
"""What the three members of a mixture minimise, and their own strengths."""


@pytest.mark.parametrize("alignment", [True, False])
@pytest.mark.parametrize("cross_reconstruction", [True, False])
@pytest.mark.parametrize("objective", [*REGULARISERS, *TURNS])
def test_losses_are_those_of_the_textbook(fleet, objective, cross_reconstruction, alignment):
    methods = ensembles(
        objective=objective, cross_reconstruction=cross_reconstruction, alignment=alignment
    )
    same(fleet.losses(*methods), [textbook(fleet, m, one) for m, one in enumerate(methods)])


def test_the_published_ensemble_is_the_default_but_for_numbers():
    method = VAEEnsemble()
    assert (method.objective, method.strength, method.mapped) == ("beta_vae", 1, 2)
    assert method.cross_reconstruction
    assert method.alignment
    assert not method.stop_grad_target
    assert method.gamma_steps == 0


def test_a_single_member_is_the_vae_to_the_bit(double):
    fleet = SmallFleet.make()
    found, vae = fleet.losses(*[VAEEnsemble(members=1)] * 3), fleet.losses(*[VAE()] * 3)
    equal(found, vae)
    assert torch.equal(found.groups["model"], vae.groups["model"])
    stronger = fleet.losses(*[VAEEnsemble(members=1, strength=4)] * 3)
    assert torch.equal(stronger.groups["model"], fleet.losses(*[BetaVAE()] * 3).groups["model"])


@pytest.mark.parametrize("n", [2, 3, 5])
def test_there_are_n_squared_decodes_in_one_batch_and_maps_for_all_pairs(n):
    seen = []

    def decoder(z):
        seen.append(z.shape)
        return torch.zeros(*z.shape[:2], 4, 4, 1)

    d = 2
    ((name, maps),) = VAEEnsemble(members=n).extra_networks(d)["model"].items()
    assert name == "maps"
    assert n * len(maps) == n * (n - 1) * d**2
    buffer = maps.initial(torch.arange(2 * n), "maps")
    apply = {
        "encoder": lambda images: torch.zeros(*images.shape[:2], 2 * d),
        "decoder": decoder,
        "maps": partial(maps, buffer),
    }
    losses = VAEEnsemble(members=n).losses(Nets(apply, gaussian), batch_of(2, n, 6))
    assert seen == [(2 * n, n * 6, d)]
    assert losses.groups["model"].shape == (2,)


def batch_of(models, n, images, step=0, pixels=1):
    seeds = torch.arange(models)
    return Batch(
        torch.zeros(models, images, 4, 4, pixels),
        seeds,
        torch.tensor(step),
        100,
        member_seeds=member_seeds(seeds, n) if n > 1 else None,
    )


def test_codes_are_mapped_once_to_every_other_member():
    n, d = 4, 2
    method = VAEEnsemble(members=n)
    z = torch.arange(2.0 * n)[:, None, None].expand(-1, 3, d)  # of member i of model m: 4 m + i
    weight = torch.arange(1.0, n)[:, None, None] * torch.eye(d)  # times 1, 2, 3
    buffer = weight.flatten()[None].expand(2 * n, -1)
    network = Network((Maps(n - 1, d),))
    nets = Nets(
        {"maps": lambda x: network({"0.weight": buffer.unflatten(1, weight.shape)}, x)}, None
    )
    codes = method.codes(nets, z)
    assert codes.shape == (2 * n, n, 3, d)
    for m in range(2):
        for j in range(n):
            for k in range(n):
                i = (j - k) % n
                assert (codes[n * m + j, k] == (n * m + i) * max(k, 1)).all()


def test_maps_begin_glorot_uniform_and_far_from_identities():
    (maps,) = VAEEnsemble(members=16).extra_networks(10)["model"].values()
    ((_, weight),) = maps.named(maps.initial(torch.arange(64), "maps"))
    assert weight.shape == (64, 15, 10, 10)
    bound = math.sqrt(6 / 20)
    assert 0.99 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
    assert abs(weight.diagonal(dim1=-2, dim2=-1).mean().item()) < 0.01


def with_gradients(fleet):
    parameters = {name: p.clone().requires_grad_() for name, p in fleet.parameters.items()}
    return replace(fleet, parameters=parameters)


def gradient(fleet, name, methods):
    tracked = with_gradients(fleet)
    loss = tracked.losses(*methods).groups["model"].sum()
    (found,) = torch.autograd.grad(loss, tracked.parameters[name], allow_unused=True)
    return torch.zeros_like(tracked.parameters[name]) if found is None else found.detach()


def test_a_target_that_is_held_fixed_gets_no_gradient(fleet):
    """With one map per ring (n = 2) the gradient is that of the two sides, one at a time."""
    two = SmallFleet.make(members=2)
    seen = {}

    def aligned(stop):
        """∂ alignment / ∂ z_jj by hand, through codes that are leaves."""
        z = random(2, IMAGES, LATENTS, seed=3).requires_grad_()
        weight = random(2, 1, LATENTS, LATENTS, seed=4)
        network = Network((Maps(1, LATENTS),))
        apply = {
            "encoder": lambda images: torch.cat([z, torch.full_like(z, -200.0)], -1),
            "decoder": lambda z: torch.zeros(*z.shape[:2], 4, 4, 1, dtype=z.dtype),
            "maps": partial(network, {"0.weight": weight}),
        }
        method = VAEEnsemble(
            members=2, gamma=3.0, strength=0.0, cross_reconstruction=False, stop_grad_target=stop
        )
        loss = method.losses(Nets(apply, gaussian), batch_of(1, 2, IMAGES)).groups["model"]
        seen[stop] = torch.autograd.grad(loss.sum(), z)[0]
        with torch.no_grad():
            zero, one = z
            to_one, to_zero = zero @ weight[0, 0].T, one @ weight[1, 0].T
            as_source = torch.stack(
                [-2 * (one - to_one) @ weight[0, 0], -2 * (zero - to_zero) @ weight[1, 0]]
            )
            as_target = torch.stack([2 * (zero - to_zero), 2 * (one - to_one)])
        return 3.0 * as_source / IMAGES, 3.0 * as_target / IMAGES

    as_source, as_target = aligned(False)
    aligned(True)
    torch.testing.assert_close(seen[False], as_source + as_target, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(seen[True], as_source, rtol=1e-6, atol=1e-9)
    loss = two.losses(*[VAEEnsemble(members=2, stop_grad_target=stop) for stop in (True,) * 3])
    other = two.losses(*[VAEEnsemble(members=2, stop_grad_target=stop) for stop in (False,) * 3])
    equal(loss, other)  # the value is the same


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_uncoupled_members_have_the_gradients_of_vaes(fleet, name):
    methods = ensembles(cross_reconstruction=False, alignment=False)
    apart = replace(
        fleet,
        parameters={
            key: buffer.unflatten(1, (N, -1)).flatten(0, 1)
            for key, buffer in fleet.parameters.items()
        },
        images=fleet.images.repeat_interleave(N, 0),
        seeds=fleet.member_seeds(),
        members=1,
    )
    vaes = [BetaVAE(beta=strength) for strength in STRENGTHS for _ in range(N)]
    expected = gradient(apart, name, vaes)
    found = gradient(fleet, name, methods).unflatten(1, (N, -1)).flatten(0, 1)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert (gradient(fleet, "maps", methods) == 0).all()


@pytest.mark.parametrize("switch", ["cross_reconstruction", "alignment"])
def test_either_coupling_trains_all_maps(fleet, switch):
    off = {"cross_reconstruction": False, "alignment": False}
    found = gradient(fleet, "maps", ensembles(**{**off, switch: True}))
    ((_, weight),) = NETWORKS["maps"].named(found.unflatten(1, (N, -1)).flatten(0, 1))
    assert (weight != 0).all()


def test_the_expected_distance_is_its_closed_form(double):
    """E‖z_i - M z_j‖² = ‖μ_i - M μ_j‖² + Σ_k ‖c_k‖² σ_jk² + Σ_k σ_ik², c_k columns of M."""
    d, images = 4, 200_000
    mu, logvar = random(2, 1, d, seed=1), random(2, 1, d, seed=2)
    maps = Network((Maps(1, d),))
    weight = random(2, 1, d, d, seed=3)
    apply = {
        "encoder": lambda x: torch.cat([mu, logvar], -1).expand(-1, images, -1),
        "decoder": lambda z: torch.zeros(*z.shape[:2], 1, 1, 1),
        "maps": partial(maps, {"0.weight": weight}),
    }
    seeds = torch.tensor([3])
    batch = Batch(
        torch.zeros(1, images, 1, 1, 1),
        seeds,
        torch.tensor(0),
        10,
        member_seeds=member_seeds(seeds, 2),
    )
    method = VAEEnsemble(members=2, cross_reconstruction=False)
    found = method.losses(Nets(apply, gaussian), batch).terms["alignment"].item()
    expected, variance = 0.0, logvar.exp()[:, 0]
    for i, j in ((0, 1), (1, 0)):  # from j to i
        M = weight[j, 0]
        expected += ((mu[i, 0] - M @ mu[j, 0]) ** 2).sum()
        expected += ((M**2).sum(0) * variance[j]).sum() + variance[i].sum()
    assert found == pytest.approx(expected.item() / 2, rel=0.01)


@pytest.mark.parametrize(
    ("n", "gamma", "stop", "expected"),
    [
        (2, 1.0, False, 1 / 3),
        (2, 10.0, False, 1 / 21),
        (3, 10.0, False, 1 / 41),
        (2, 10.0, True, 1),
    ],
)
def test_the_variance_of_unused_latents(n, gamma, stop, expected):
    d, images = 2, 2048
    logvar = torch.zeros(n, 1, d, requires_grad=True)
    maps = Network((Maps(n - 1, d),))
    weight = maps.initial(torch.arange(n), "maps").requires_grad_()
    apply = {
        "encoder": lambda x: torch.cat([0 * logvar, logvar], -1).expand(-1, images, -1),
        "decoder": lambda z: torch.zeros(*z.shape[:2], 4, 4, 1),
        "maps": lambda z: maps(weight, z),
    }
    method = VAEEnsemble(members=n, gamma=gamma, stop_grad_target=stop)
    optimiser = torch.optim.Adam([logvar, weight], lr=0.05, betas=(0.9, 0.9))
    batch = batch_of(1, n, images)  # always the same noise, so that small gradients are seen
    for _ in range(200):
        loss = method.losses(Nets(apply, gaussian), batch).groups["model"]
        optimiser.zero_grad()
        loss.sum().backward()
        optimiser.step()
    found = logvar.detach().exp()
    assert found.mean().item() == pytest.approx(expected, rel=0.05)
    assert found.std() < 0.1 * expected


def test_gamma_grows_linearly_over_gamma_steps(fleet):
    methods = ensembles(gamma_steps=40_000)
    for step, share in ((0, 0.0), (30_000, 0.75), (40_000, 1.0), (90_000, 1.0)):
        now = replace(fleet, step=torch.tensor(step))
        without = now.losses(*ensembles(alignment=False)).groups["model"]
        full = now.losses(*ensembles()).groups["model"]
        found = now.losses(*methods).groups["model"]
        torch.testing.assert_close(found, without + share * (full - without))


def test_with_fewer_neighbours_codes_go_around_the_ring(fleet):
    """n = 3 with one neighbour: 0 → 1 → 2 → 0, whose maps are the first of each member."""
    first = Network((Maps(1, LATENTS),))
    ((_, weight),) = NETWORKS["maps"].named(fleet.rows("maps"))
    nets = fleet.nets()
    apply = {**nets.apply, "maps": partial(first, {"0.weight": weight[:, :1]})}
    stacked = VAEEnsemble.stack(ensembles(neighbours=1))
    assert stacked.mapped == 1
    found = stacked.losses(Nets(apply, nets.likelihood), fleet.batch())
    for m, method in enumerate(ensembles()):
        codes = [
            [
                sample(*q, noise)
                for q, noise in zip(
                    fleet.posteriors(m, member=i), fleet.noise(m, member=i), strict=True
                )
            ]
            for i in range(N)
        ]
        distance = mean(
            sum((a - b) ** 2 for a, b in zip(codes[(i + 1) % N][b], mapped, strict=True))
            for i in range(N)
            for b in range(IMAGES)
            for mapped in [
                (
                    map_of(fleet, m, i, (i + 1) % N)
                    @ torch.tensor(codes[i][b], dtype=torch.float64)
                ).tolist()
            ]
        )
        assert found.terms["alignment"][m].item() == pytest.approx(distance, rel=1e-9)
        assert method.mapped == 2


def test_the_numbers_of_parameters_are_the_published_ones():
    n, d = 4, 10
    config = Config(method=VAEEnsemble(members=n), architecture="conv4x4")
    networks = networks_of(config, (64, 64, 1))["model"]
    sizes = {name: len(network) for name, network in networks.items()}
    assert sizes == {"encoder": 382_932, "decoder": 380_353, "maps": (n - 1) * d**2}
    colour = networks_of(config, (64, 64, 3))["model"]
    assert (len(colour["encoder"]), len(colour["decoder"])) == (383_956, 381_379)


@pytest.mark.parametrize(
    ("settings", "subject", "value"),
    [
        ({"members": 0}, "members", 0),
        ({"members": 17}, "members", 17),
        ({"members": [2, 2.5]}, "members", 2.5),
        ({"neighbours": -2}, "neighbours", -2),
        ({"gamma_steps": -1}, "gamma_steps", -1),
        ({"alignment": 1}, "alignment", 1),
        ({"objective": "beta"}, "member objective", "beta"),
        ({"objective": "beta_vae+beta"}, "member objective", "beta"),
        ({"objective": "beta_vae=four"}, "objective", "four"),
        ({"objective": "beta_vae=-1"}, "objective", "-1"),
        ({"gamma": -1}, "gamma", -1),
    ],
)
def test_nonsense_is_refused(settings, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        VAEEnsemble(**settings)


def test_a_member_alone_cannot_be_trained(tiny):
    with pytest.raises(UnweaveError, check=about("method")):
        uw.train(EnsembleMember(), tiny, steps=1, batch=4, progress=False)


# Whole training runs, on dense networks small enough for a second or two.

SMALL = {"batch": 8, "latents": 3, "architecture": "small_mlp"}


@pytest.fixture(scope="module")
def tiny():
    pixels = Stream(0, "test").integers(256, 48, 8 * 8).byte().reshape(48, 8, 8, 1)
    return uw.data.load(pixels.numpy())


def parameters(engine):
    return engine.groups["model"].parameters


@pytest.mark.parametrize("architecture", ["small_mlp", "conv"])
def test_an_ensemble_of_one_trains_as_the_vae_to_the_bit(architecture):
    pixels = Stream(0, "test").integers(256, 48, 32 * 32).byte().reshape(48, 32, 32, 1)
    data = uw.data.load(pixels.numpy())
    settings = {**SMALL, "architecture": architecture}
    one, vae = (
        Engine([Config(method=method, seed=s, **settings) for s in (5, 2**40)], data, "cpu")
        for method in (VAEEnsemble(members=1), VAE())
    )
    for engine in (one, vae):
        engine.advance(5)
    assert torch.equal(parameters(one), parameters(vae))
    assert torch.equal(one.fetch()[0], vae.fetch()[0])
    assert one.terms == vae.terms == ("loss", "reconstruction", "kl")


class SameBatches(Engine):
    """Models that are shown the images of one seed, whatever theirs."""

    def _batches(self):
        (own,) = super()._batches()
        seeds, self.seeds = self.seeds, torch.full_like(self.seeds, self.shown)
        (shown,), self.seeds = super()._batches(), seeds
        return [replace(own, images=shown.images)]


def test_uncoupled_members_train_as_vaes_of_their_seeds(tiny):
    seeds = member_seeds(torch.tensor([11]), 3).tolist()
    SameBatches.shown = 11
    vaes = SameBatches([Config(method=VAE(), seed=s, **SMALL) for s in seeds], tiny, "cpu")
    method = VAEEnsemble(members=3, gamma=0, cross_reconstruction=False)
    ensemble = Engine([Config(method=method, seed=11, **SMALL)], tiny, "cpu")
    width = parameters(vaes).shape[1]
    assert torch.equal(parameters(ensemble)[:, :width], parameters(vaes))
    start = parameters(vaes).clone()
    for engine in (vaes, ensemble):
        engine.advance(20)
    assert (parameters(vaes) - start).abs().max() > 1e-3
    torch.testing.assert_close(
        parameters(ensemble)[:, :width], parameters(vaes), rtol=0, atol=1e-5
    )
    losses, loss = vaes.fetch(), ensemble.fetch()
    assert loss[0].item() == pytest.approx(losses[0].sum().item(), rel=1e-5)
    assert loss[1].item() == pytest.approx(losses[1].mean().item(), rel=1e-5)


def test_members_begin_apart_and_see_the_same_images(tiny):
    engine = Engine([Config(method=VAEEnsemble(members=4), seed=3, **SMALL)], tiny, "cpu")
    own = engine._batches()[0].of_members()
    assert own.images.shape[:2] == (4, 8)
    for member in range(1, 4):
        assert torch.equal(own.images[member], own.images[0])
        assert not torch.isclose(parameters(engine)[0], parameters(engine)[member]).all()
    noise = own.noise("posterior", torch.zeros(4, 8, 3))
    assert len(noise[:, 0, 0].unique()) == 4


def test_a_diverging_member_stops_its_ensemble_and_no_other(tiny):
    configs = [
        Config(method=VAEEnsemble(members=2, gamma=gamma), seed=seed, **SMALL)
        for gamma, seed in ((1.0, 0), (5.0, 1), (2.0, 2))
    ]
    fleet, alone = Engine(configs, tiny, "cpu"), Engine(configs[:1], tiny, "cpu")
    for engine in (fleet, alone):
        engine.advance(3)
    with torch.no_grad():
        parameters(fleet)[3, 0] = torch.nan  # the second member of the second ensemble
    before = parameters(fleet).clone()
    for engine in (fleet, alone):
        engine.advance(4)
    assert fleet.alive.tolist() == [True, False, True]
    assert fleet.diverged_at.tolist() == [-1, 3, -1]
    moved = (parameters(fleet) != before).any(1)
    assert moved.tolist()[:3] == [True, True, False]
    assert moved.tolist()[4:] == [True, True]
    torch.testing.assert_close(parameters(fleet)[:2], parameters(alone), rtol=0, atol=1e-6)


def test_a_gradient_that_is_not_finite_stops_all_members(tiny):
    class Steep(VAEEnsemble):
        """A loss that is finite, with a gradient that is not, for the second member alone."""

        def losses(self, nets, batch):
            found = super().losses(nets, batch)
            z = nets.encode(batch.of_members().images).mu[1::2].sum((-2, -1))
            cliff = (z - z.detach()).abs().sqrt()
            return found._replace(groups={"model": found.groups["model"] + cliff})

    engine = Engine([Config(method=Steep(members=2), **SMALL)], tiny, "cpu")
    engine.advance(2)
    assert engine.alive.tolist() == [False]
    assert engine.diverged_at.tolist() == [0]
    assert parameters(engine).isfinite().all()


def test_ensembles_of_other_objectives_differ_only_by_their_strength(fleet):
    """β-TCVAE with β = 1 is the VAE, in an ensemble too."""
    one = fleet.losses(*[VAEEnsemble(members=N, objective="beta_tc_vae")] * MODELS)
    other = fleet.losses(*[VAEEnsemble(members=N)] * MODELS)
    equal(one, other)


@pytest.mark.parametrize("models", [1, 2])
def test_for_members_repeats_values_of_models(models):
    values = torch.arange(2 * models).unflatten(0, (models, 2))
    rows = for_members(values, 3)
    assert rows.tolist() == [row for row in values.tolist() for _ in range(3)]
    rows[0] = -1  # of the first member, and of no other
    assert (rows[1:] >= 0).all()
