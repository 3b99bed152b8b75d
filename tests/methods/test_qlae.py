"""QLAE against the textbook, the gradients of its quantiser, and what it does to weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.small_fleet import LATENTS, MODELS, mean, random
from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.fleet.engine import Engine
from unweave.fleet.train import train_runs
from unweave.methods import AE, QLAE, Nets
from unweave.methods.batch import Batch
from unweave.methods.qlae import nearest
from unweave.models.config import Config
from unweave.nets.likelihoods import LIKELIHOODS

VALUES, PIXELS = 10, 16


def textbook(fleet, m, method):
    start = np.linspace(-0.5, 0.5, VALUES)
    offsets = fleet.parameters["codebook"][m][: LATENTS * VALUES].reshape(LATENTS, VALUES)
    codebook = (torch.from_numpy(start) + offsets).tolist()
    used, reconstructions, errors = [set() for _ in range(LATENTS)], [], []
    for (c, _), image in zip(fleet.posteriors(m), fleet.images[m], strict=True):
        nearest_values = []
        for latent, code in enumerate(c):
            distances = [abs(code - value) for value in codebook[latent]]
            place = distances.index(min(distances))
            used[latent].add(place)
            nearest_values.append(codebook[latent][place])
        reconstructions.append(fleet.cross_entropy(m, nearest_values, image))
        errors.append(mean((a - b) ** 2 for a, b in zip(c, nearest_values, strict=True)))
    error = mean(errors)
    return {
        "model": mean(reconstructions) / PIXELS + (method.lambda_q + method.lambda_c) * error,
        "codebook": method.lambda_q * error,
        "reconstruction": mean(reconstructions),
        "quantisation": error,
        "usage": mean(len(one) / VALUES for one in used),
    }


class Toy:
    """Codes and codebook offsets as leaves, with a linear decoder."""

    def __init__(self, codes, offsets=None, values=4):
        models, size, latents = codes.shape
        self.codes = codes.clone().requires_grad_()
        offsets = torch.zeros(latents * values) if offsets is None else offsets
        self.offsets = offsets.to(codes.dtype).repeat(models, 1, 1).requires_grad_()
        self.weight = random(models, latents, PIXELS, seed=5).to(codes)
        self.images = random(models, size, 4, 4, 1, seed=6).sigmoid().to(codes)
        self.method = QLAE(values=values, lambda_q=0.3, lambda_c=0.7)
        self.decoded = []

    def losses(self):
        apply = {
            "encoder": lambda _: torch.cat([self.codes, self.codes], -1),
            "decoder": self.decode,
            "codebook": lambda start: start + self.offsets,
        }
        seeds, step = torch.zeros(len(self.codes), dtype=torch.int64), torch.tensor(0)
        batch = Batch(self.images, seeds, step, 9)
        return self.method.losses(Nets(apply, LIKELIHOODS["bernoulli"]), batch)

    def decode(self, z):
        z.retain_grad()
        self.decoded.append(z)
        return (z @ self.weight).unflatten(-1, (4, 4, 1))


def gradient(loss, of):
    (found,) = torch.autograd.grad(loss.sum(), of, allow_unused=True, retain_graph=True)
    return found


@pytest.fixture
def toy(double):
    return Toy(random(2, 5, 3, seed=1) / 3)


def test_the_reconstruction_passes_straight_through_to_codes_and_not_to_codebooks(toy):
    reconstruction = toy.losses().terms["reconstruction"]
    (z,) = toy.decoded
    assert gradient(reconstruction, toy.offsets) is None
    of_codes = gradient(reconstruction, toy.codes)
    assert (of_codes != 0).all()
    assert torch.equal(of_codes, gradient(reconstruction, z))


def test_the_decoder_receives_values_of_the_codebook_exactly(toy):
    toy.losses()
    values = torch.linspace(-0.5, 0.5, 4, dtype=torch.float64)
    assert set(toy.decoded[0].flatten().tolist()) <= set(values.tolist())


def test_each_penalty_trains_one_side_and_their_gradients_are_opposite(toy):
    found = toy.losses()
    values, codes = found.groups["codebook"] / 0.3, found.terms["quantisation"]
    commitment = found.groups["model"] - found.terms["reconstruction"] / PIXELS
    assert gradient(values, toy.codes) is None
    of_values, of_codes = gradient(values, toy.offsets), gradient(commitment, toy.codes) / 0.7
    assert gradient(found.groups["model"], toy.offsets) is None
    torch.testing.assert_close(values, codes)
    torch.testing.assert_close(commitment, values * (0.3 + 0.7))
    of_latents = of_values.unflatten(-1, (3, 4)).sum((1, 3))
    torch.testing.assert_close(of_latents, -of_codes.sum(1))
    assert (of_codes != 0).all()


def test_codes_on_the_codebook_cost_nothing(double):
    values = torch.linspace(-0.5, 0.5, 4, dtype=torch.float64)
    toy = Toy(values[torch.tensor([[[0, 1, 3], [2, 2, 0]]])])
    found = toy.losses()
    assert found.terms["quantisation"].tolist() == [0.0]
    assert found.groups["codebook"].tolist() == [0.0]
    assert found.terms["usage"].tolist() == [pytest.approx((2 + 2 + 2) / 12)]


def test_many_values_are_an_autoencoder_per_pixel(fleet):
    """With 1,000 values, 0.001 apart, a quantised code differs from c by 0.0005 at most."""
    parameters = {
        **fleet.parameters,
        "encoder": fleet.parameters["encoder"] / 20,
        "codebook": torch.zeros(MODELS, LATENTS * 1001, dtype=torch.float64),
    }
    quiet, method = (
        replace(fleet, parameters=parameters),
        QLAE(values=1001, lambda_q=0, lambda_c=0),
    )
    networks = {**fleet.networks, **method.extra_networks(LATENTS)["codebook"]}
    width = networks["codebook"].width
    parameters["codebook"] = torch.zeros(MODELS, width, dtype=torch.float64)
    found = replace(quiet, networks=networks).losses(*[method] * MODELS).groups["model"]
    expected = quiet.losses(*[AE()] * MODELS).groups["model"] / PIXELS
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


def test_ties_choose_the_first_value():
    codebook = torch.tensor([[[0.0, 1.0, 1.0]]])
    assert nearest(torch.tensor([[[0.5], [1.0]]]), codebook).flatten().tolist() == [0, 1]


@pytest.mark.parametrize("values", [1, 1025, 2.5])
def test_the_number_of_values_is_checked(values):
    with pytest.raises(UnweaveError, check=about("values", values)):
        QLAE(values=values)


@pytest.fixture(scope="module")
def data():
    few = range(0, 32, 4)
    return uw.data.load("dsprites").slice(shape=2, scale=5, orientation=0, posX=few, posY=few)


def engine_of(data, **settings):
    shared = {"batch": 8, "latents": 5, "architecture": "small_mlp", **settings}
    return Engine([Config(method=QLAE(), **shared)], data, "cpu")


def named(engine, buffer=lambda group: group.parameters):
    return {
        f"{group}/{network}/{name}": value.clone()
        for group, one in engine.groups.items()
        for network, own in one.named(buffer(one)).items()
        for name, value in own.items()
    }


def test_only_values_in_use_have_a_gradient(toy):
    of_values = gradient(toy.losses().groups["codebook"], toy.offsets)[:, 0].unflatten(-1, (3, 4))
    codebook = torch.linspace(-0.5, 0.5, 4).double().expand(2, 3, 4)
    used = (nearest(toy.codes, codebook)[..., None] == torch.arange(4)).any(1)
    assert torch.equal(of_values != 0, used)
    assert not used.all()


def test_values_that_no_code_uses_do_not_move(data):
    engine = engine_of(data)
    engine.advance(1)
    offsets = named(engine)["codebook/codebook/0.offset"]
    assert set(offsets.abs().mul(1e3).round().flatten().tolist()) == {0, 1}


def test_decay_applies_to_weights_only(data):
    """Without gradients, θ = θ₀ (1 - lr λ)ⁿ; biases and codebooks stay as they are."""
    adam = uw.Adam(lr=0.01, weight_decay=0.5)
    engine = engine_of(data, optimiser=adam, init="torch")
    before = named(engine)
    for group in engine.groups.values():
        zeros = [
            torch.zeros_like(leaf) for own in group.leaves().values() for leaf in own.values()
        ]
        for step in range(3):
            flags = torch.ones(2, 1, dtype=torch.bool)
            group.update(zeros, torch.tensor(step), *flags)
    for name, value in named(engine).items():
        factor = (1 - 0.01 * 0.5) ** 3 if name.endswith("weight") else 1
        torch.testing.assert_close(value, before[name] * factor, rtol=1e-6, atol=0)
        assert (before[name] != 0).any() == (not name.endswith("offset"))


def test_clipping_applies_to_weights_only(data):
    """The first moments are the clipped gradient times 1 - β₁."""
    engine = engine_of(data, optimiser=uw.Adam(clip=1e-9), init="torch")
    engine.advance(1)
    for name, first in named(engine, lambda group: group.moments.first).items():
        largest = first.abs().max().item() / 0.1
        assert (largest <= 1.001e-9) == name.endswith("weight")


@pytest.fixture(scope="module")
def fleet_of_two(data):
    runs = [uw.methods.QLAE(values=4), uw.methods.BetaVAE()]
    shared = {"steps": 5, "batch": 8, "latents": 3, "architecture": "small_mlp"}
    return uw.train(runs, data, **shared, init="torch", progress=False)


def test_codes_are_encoded_to_values_indices_and_continuous_codes(fleet_of_two, data):
    (model,) = (one for one in fleet_of_two if one.config.method.name == "qlae")
    (value, logvar), (index, _), (continuous, _) = (
        model.encode(data, representation=kind) for kind in ("value", "index", "continuous")
    )
    codebook = model.codebook
    assert (abs(codebook - np.linspace(-0.5, 0.5, 4)) <= 5 * 1.01e-3).all()
    assert index.dtype == np.int64
    assert value.dtype == continuous.dtype == np.float32
    assert np.array_equal(value, codebook[np.arange(3), index])
    assert np.array_equal(index, abs(continuous[..., None] - codebook).argmin(-1))
    assert all(len(np.unique(column)) <= 4 for column in value.T)
    assert (logvar == -20).all()
    assert np.array_equal(model.encode(data)[0], value)
    table = uw.encode(model, data, representation="index", progress=False)
    assert np.array_equal(table.to_numpy(), index)
    assert model.decode(value).shape == (len(data), *data.shape)


def test_representations_are_checked(fleet_of_two, data):
    with pytest.raises(UnweaveError, check=about("representation", "index")):
        fleet_of_two.encode(data, representation="index")
    with pytest.raises(UnweaveError, check=about("representation", "index")):
        uw.encode(fleet_of_two[1], data, representation="index", progress=False)
    with pytest.raises(UnknownNameError, check=about("representation", "values")):
        fleet_of_two[0].encode(data, representation="values")
    (plain,) = (one for one in fleet_of_two if one.config.method.name == "beta_vae")
    with pytest.raises(UnweaveError, check=about("codebook")):
        plain.codebook  # noqa: B018 (only the error matters)


def test_only_collapsed_models_are_counted(data, caplog):
    """Weight decay of 1 / lr sets all weights to 0 in one step."""
    adams = [uw.Adam(lr=1e-3), uw.Adam(lr=1e-3, weight_decay=1e3)]
    shared = {"steps": 2, "batch": 8, "latents": 3, "architecture": "small_mlp", "init": "torch"}
    runs = [Config(method=QLAE(values=100), optimiser=adam, **shared) for adam in adams]
    one, other = train_runs(runs, data, progress=False)
    assert "1 of 2 qlae models collapsed" in caplog.text
    assert "0 of 3 latents in use" in repr(other)
    assert "0 of 3 latents in use" not in repr(one)
