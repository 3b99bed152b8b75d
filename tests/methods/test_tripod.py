"""Tripod against the textbook, and what is known of its quantiser and penalties."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.methods.small_fleet import IMAGES, LATENTS, MODELS, mean, random
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import AE, Nets, Tripod
from unweave.methods.tripod import bandwidth, differences, hessian_ratio, multi_information
from unweave.random import Stream

VALUES, PIXELS, STEP = 12, 16, 0.1


def log_density(point, centres, widths):
    """Log of the mean of normal densities around all centres."""
    total = 0.0
    for centre in centres:
        total += math.prod(
            math.exp(-0.5 * ((a - b) / w) ** 2) / (w * math.sqrt(2 * math.pi))
            for a, b, w in zip(point, centre, widths, strict=True)
        )
    return math.log(total / len(centres))


def joint_density(codes, spread):
    factor = (4 / (LATENTS + 2)) ** (1 / (LATENTS + 4)) * IMAGES ** (-1 / (LATENTS + 4))
    return mean(log_density(z, codes, [factor * s for s in spread]) for z in codes)


def marginal_densities(codes, spread):
    return mean(
        sum(
            log_density([z[j]], [[other[j]] for other in codes], [spread[j]])
            for j in range(LATENTS)
        )
        for z in codes
    )


def hidden_units(fleet, m, z):
    """The only hidden layer of the tiny decoder."""
    weight, bias = (
        dict(fleet.networks["decoder"].named(fleet.parameters["decoder"]))[name][m]
        for name in ("0.weight", "0.bias")
    )
    return torch.tanh(torch.tensor(z, dtype=torch.float64) @ weight + bias)


def variance_of_differences(fleet, m, z, spread, along):
    """The mean over units of the variance over directions of second differences."""
    found = []
    for r in along:
        moved = [STEP * s * a for s, a in zip(spread, r, strict=True)]
        plus, minus = ([a + sign * b for a, b in zip(z, moved, strict=True)] for sign in (1, -1))
        sides = hidden_units(fleet, m, plus) + hidden_units(fleet, m, minus)
        found.append((sides - 2 * hidden_units(fleet, m, z)) / STEP**2)
    return torch.stack(found).var(0, correction=0).mean().item()


def textbook(fleet, m, method):
    y = [[math.tanh(code) for code in c] for c, _ in fleet.posteriors(m)]
    indices = [[round((value + 1) * (VALUES - 1) / 2) for value in code] for code in y]
    z = [[2 * k / (VALUES - 1) - 1 for k in index] for index in indices]
    z = z if method.quantise else y
    reconstruction = mean(
        fleet.cross_entropy(m, code, image) for code, image in zip(z, fleet.images[m], strict=True)
    )
    spread = (np.std(y, axis=0) + 1e-6).tolist()
    joint = joint_density(z, spread)
    klm = joint - marginal_densities(z, spread)
    seed, step = int(fleet.seeds[m]), int(fleet.step)
    order = Stream(seed, "permutation", step).words(IMAGES, LATENTS).argsort(0).tolist()
    mixed_up = [[z[order[b][j]][j] for j in range(LATENTS)] for b in range(IMAGES)]
    size = (IMAGES, method.directions)
    rows = IMAGES * method.directions
    signs = (2 * Stream(seed, "signs", step).integers(2, rows, LATENTS) - 1).unflatten(0, size)
    normal = Stream(seed, "directions", step).normal(rows, LATENTS).unflatten(0, size)
    above, below = (
        [
            variance_of_differences(fleet, m, code, spread, own.tolist())
            for code, own in zip(z, along, strict=True)
        ]
        for along in (signs, normal)
    )
    if method.pooled:
        above, below = [mean(above)], [mean(below)]
    nhp = mean(a / (b + 1e-10) for a, b in zip(above, below, strict=True))
    used = [len({index[j] for index in indices}) / VALUES for j in range(LATENTS)]
    return {
        "model": reconstruction / PIXELS + method.lambda_k * klm + method.lambda_n * nhp,
        "reconstruction": reconstruction,
        "usage": mean(used),
        "klm": klm,
        "excess": joint - joint_density(mixed_up, spread),
        "nhp": nhp,
    }


def test_without_penalties_it_is_a_quantised_autoencoder(fleet):
    found = fleet.losses(*[Tripod(klm=False, nhp=False)] * MODELS)
    equal_weights = fleet.losses(*[Tripod(lambda_k=0, lambda_n=0)] * MODELS)
    expected = [
        mean(
            fleet.cross_entropy(m, [2 * round((math.tanh(c) + 1) * 5.5) / 11 - 1 for c in mu], x)
            for (mu, _), x in zip(fleet.posteriors(m), fleet.images[m], strict=True)
        )
        / PIXELS
        for m in range(MODELS)
    ]
    np.testing.assert_allclose(found.groups["model"], expected, rtol=1e-9)
    np.testing.assert_allclose(equal_weights.groups["model"], expected, rtol=1e-9)
    assert list(found.terms) == ["reconstruction", "usage"]


def test_without_quantisation_and_penalties_only_the_tanh_remains(fleet):
    """Without quantisation and penalties, only the tanh distinguishes it from an autoencoder."""
    method = Tripod(klm=False, nhp=False, quantise=False)
    quiet = replace(
        fleet, parameters={**fleet.parameters, "encoder": fleet.parameters["encoder"] * 1e-3}
    )
    found = quiet.losses(*[method] * MODELS).groups["model"]
    expected = quiet.losses(*[AE()] * MODELS).groups["model"] / PIXELS
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def nets_of(codes):
    return Nets({"encoder": lambda _: torch.cat([codes, codes], -1)}, None)


def test_values_are_equally_spaced_and_include_both_ends():
    codes = torch.linspace(-9, 9, 9001)[None, :, None].double()
    found = Tripod().quantised(nets_of(codes), torch.zeros(1))
    value, index, continuous = found.value, found.index, found.continuous
    expected = torch.linspace(-1, 1, VALUES)
    torch.testing.assert_close(value.unique().float(), expected, rtol=0, atol=1e-6)
    assert index.unique().tolist() == list(range(VALUES))
    assert torch.equal(continuous, codes.float().tanh())
    assert ((value - continuous).abs() <= 1 / (VALUES - 1) + 1e-6).all()


def test_gradients_pass_through_the_rounding(double):
    """dz/dc = 1 - tanh² c, which a linear decoder multiplies by its weights."""
    codes = random(2, 5, 3, seed=1).requires_grad_()
    weight, seen = random(2, 3, 4, seed=2), []

    def decode(z):
        seen.append(z)
        return (z @ weight).unflatten(-1, (2, 2, 1))

    nets = Nets({**nets_of(codes).apply, "decoder": decode}, lambda x, _: x.flatten(2).sum(-1))
    images, seeds = torch.zeros(2, 5, 2, 2, 1), torch.tensor([0, 1])
    batch = batch_of(images, seeds)
    loss = Tripod(klm=False, nhp=False).losses(nets, batch).terms["reconstruction"]
    (found,) = torch.autograd.grad(loss.sum(), codes)
    expected = (1 - codes.tanh() ** 2) * weight.sum(-1)[:, None] / 5
    torch.testing.assert_close(found, expected)
    assert torch.equal(seen[0], Tripod().quantised(nets, images).value)


def batch_of(images, seeds):
    from unweave.methods import Batch

    return Batch(images, seeds, torch.tensor(0), 9)


def klm(codes):
    codes = codes.double()[None] if codes.ndim == 2 else codes.double()
    return multi_information(codes, codes.std(1, correction=0, keepdim=True) + 1e-6)[0]


def test_multi_information_does_not_depend_on_scale_and_shift():
    codes = random(1, 64, 12, seed=1)
    scale, shift = 0.5 + random(12, seed=2).abs(), random(12, seed=3)
    torch.testing.assert_close(klm(scale * codes + shift), klm(codes), rtol=0, atol=1e-4)


def test_multi_information_has_the_known_values():
    """About 7 for independent latents, more for copies; batches of 64, 12 latents."""
    independent = random(20, 64, 12, seed=1)
    assert klm(independent).mean().item() == pytest.approx(7.03, abs=0.05)
    copies = Stream(torch.arange(20), "copies").integers(VALUES, 64, 1).expand(-1, -1, 12)
    assert klm(copies).mean().item() == pytest.approx(9.3, abs=0.1)
    pairs = random(20, 64, 6, seed=3).repeat(1, 1, 2)
    assert klm(pairs).mean().item() == pytest.approx(7.14, abs=0.05)


def test_the_bandwidth_is_silvermans():
    assert (bandwidth(64, 12), bandwidth(64, 10)) == pytest.approx((0.713, 0.687), abs=5e-4)


def decoder_of(function):
    def decode(z, hidden):
        hidden.append(function(z))

    return Nets({"decoder": decode}, None)


def along(count, seed, latents=3):
    signs = 2.0 * (random(1, 1, count, latents, seed=seed) > 0) - 1
    return torch.cat([signs, random(1, 1, count, latents, seed=seed + 1)], 2)


def parts_of(function, count=300_000):
    """Numerator and denominator of the penalty at one code, with spreads ½, 1 and 2."""
    z, spread = random(1, 1, 3, seed=1), torch.tensor([[[0.5, 1.0, 2.0]]]).double()
    (found,) = differences(decoder_of(function), z, spread, along(count, 7))
    return [each.var(2, correction=0).mean().item() for each in found.chunk(2, 2)]


def test_a_decoder_that_adds_functions_of_single_latents_has_no_penalty():
    mixed, total = parts_of(lambda z: torch.stack([z.sin().sum(-1), z.pow(3).sum(-1)], -1), 50)
    assert mixed < 1e-9 < total


def test_for_quadratic_decoders_it_is_the_share_off_the_diagonal():
    hessian = torch.tensor([[1.0, 0.4, 0.2], [0.4, -0.5, 0.3], [0.2, 0.3, 0.25]]).double()
    spread = torch.tensor([0.5, 1.0, 2.0]).double()
    scaled = (spread[:, None] * hessian * spread).square()
    share = (1 - scaled.diagonal().sum() / scaled.sum()).item()
    mixed, total = parts_of(lambda z: 0.5 * ((z @ hessian) * z).sum(-1, keepdim=True))
    assert mixed / total == pytest.approx(share, rel=0.02)
    assert total == pytest.approx(2 * scaled.sum().item(), rel=0.05)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_scale_of_a_layer_does_not_matter(pooled):
    found = random(2, 5, 4, 7, seed=1)
    expected = hessian_ratio(found, pooled)
    torch.testing.assert_close(hessian_ratio(30 * found, pooled), expected, rtol=1e-6, atol=0)


def test_pooling_divides_the_means():
    found = random(1, 50, 4, 7, seed=1)
    found[:, :, 2:] *= 2  # variances in normal directions are four times as large
    signs, normal = (each.var(2, correction=0).mean() for each in found.chunk(2, 2))
    assert hessian_ratio(found, True).item() == pytest.approx((signs / normal).item(), rel=1e-6)
    assert hessian_ratio(found, False).item() > hessian_ratio(found, True).item()


@pytest.mark.parametrize(("field", "value"), [("values", 1), ("directions", 1)])
def test_settings_are_checked(field, value):
    with pytest.raises(UnweaveError, check=about(field, value)):
        Tripod(**{field: value})
