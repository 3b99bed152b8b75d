"""DAVA against the formula, the paths of its gradients, and the state behind its capacity."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

from tests.methods.second_stages import blobs
from tests.methods.small_fleet import (
    IMAGES,
    LATENTS,
    MODELS,
    SmallFleet,
    probability,
    random,
)
from tests.raising import about
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet import checkpoint, train
from unweave.fleet.engine import Engine
from unweave.methods import DAVA, BetaVAE
from unweave.methods.base import NetworkSpec
from unweave.methods.dava import direction, resample
from unweave.models.config import Config
from unweave.nets.layers import Conv
from unweave.nets.norms import InstanceNorm
from unweave.random import Stream

QUICK = {"batch": 6, "latents": 3, "architecture": "small_mlp", "steps": 8}


def entropy(label, logit):
    p = probability(logit)
    return -label * math.log(p) - (1 - label) * math.log(1 - p)


def judge(fleet, m, z):
    """The logit of the discriminator of model m for a decoded code."""
    image = torch.tensor(fleet.network("decoder", m, z)).double().sigmoid().reshape(4, 4, 1)
    return fleet.network("discriminator", m, image)[0]


def textbook(fleet, m, method):
    reconstruction, kl, codes, _ = fleet.textbook_elbo(m)
    seed, step = int(fleet.seeds[m]), int(fleet.step)
    drawn = Stream(seed, "resample", step).integers(IMAGES, IMAGES, LATENTS).tolist()
    mixed = [[codes[row[j]][j] for j in range(LATENTS)] for row in drawn]
    real, fake = ([judge(fleet, m, z) for z in points] for points in (codes, mixed))
    noise = Stream(seed, "labels", step).uniform(IMAGES, 2).tolist()
    of_real = [entropy(1 - 0.6 * u, x) for (u, _), x in zip(noise, real, strict=True)]
    of_mixed = [entropy(0.6 * u, x) for (_, u), x in zip(noise, fake, strict=True)]
    right = sum(probability(x) >= 0.6 for x in real)
    right += sum(probability(x) < 0.6 for x in fake)
    accuracy = right / (2 * IMAGES)
    weight = max(100 * (accuracy - 0.5), 0)
    (count,) = fleet.network("progress", m, [0.0])
    capacity = method.c_max * min(max(count * IMAGES / 2 / method.threshold, 0), 1)
    loss = reconstruction + method.gamma * (kl / LATENTS - capacity) ** 4
    loss += method.lambda_encoder * weight * sum(entropy(0, x) for x in real)
    loss += method.lambda_decoder * min(weight, 1) * sum(entropy(1, x) for x in fake)
    change = 1 if accuracy <= 0.501 else -1 if accuracy > 0.51 and count > 0 else 0
    return {
        "model": loss,
        "discriminator": sum(of_real) + sum(of_mixed),
        "progress": -change * count,
        "reconstruction": reconstruction,
        "kl": kl,
        "capacity": capacity,
        "accuracy": accuracy,
    }


@pytest.fixture
def dava(double):
    """Three models; the discriminator of the second is better than chance."""
    return SmallFleet.of(DAVA())


def test_the_published_capacity_grows_by_4e_5_per_step_of_128_images():
    assert DAVA().capacity(torch.tensor(64.0)).item() == pytest.approx(4e-5, rel=1e-6)


def test_the_capacity_stays_between_0_and_its_maximum():
    images = torch.tensor([-1e9, 0.0, 12.8e6 / 4, 12.8e6, 1e9])
    assert DAVA().capacity(images).tolist() == [0, 0, 2, 8, 8]


@pytest.mark.parametrize(
    ("accuracy", "count", "expected"),
    [(0.3, 0, 1), (0.501, 5, 1), (0.5055, 5, 0), (0.51, 5, 0), (0.5101, 5, -1), (0.9, 0, 0)],
)
def test_the_capacity_follows_the_accuracy(accuracy, count, expected):
    found = direction(torch.tensor([accuracy]), torch.tensor([float(count)]))
    assert found.tolist() == [expected]


def test_the_threshold_must_not_be_0():
    with pytest.raises(UnweaveError, check=about("threshold")):
        DAVA(threshold=0)


def test_a_discriminator_at_chance_has_no_weight(dava):
    usual = dava.losses(*[DAVA()] * MODELS)
    without = dava.losses(*[DAVA(lambda_encoder=0, lambda_decoder=0)] * MODELS)
    better = usual.terms["accuracy"] > 0.5
    assert better.tolist() == [False, True, False]
    changed = usual.groups["model"] != without.groups["model"]
    assert torch.equal(changed, better)


def test_the_discriminator_trains_the_encoder_and_the_decoder_separately(dava):
    tracked, method = dava.tracked(), DAVA(lambda_encoder=0.7, lambda_decoder=0.3)
    losses, nets, batch = tracked.losses(*[method] * MODELS), tracked.nets(), tracked.batch()
    posterior = nets.encode(batch.images)
    z = posterior.sample(batch.noise("posterior", posterior.mu))
    mixed = resample(z.detach(), batch.stream("resample"))
    real, fake = (
        nets.apply["discriminator"](nets.decode(codes).sigmoid())[..., 0] for codes in (z, mixed)
    )
    elbo = nets.reconstruction(z, batch.images)
    elbo = (
        elbo + 500 * (posterior.kl().mean(-1) / LATENTS - losses.terms["capacity"].detach()) ** 4
    )
    weight = 100 * (losses.terms["accuracy"].double() - 0.5)
    expected = {
        "encoder": elbo + 0.7 * weight * F.softplus(real).sum(-1),
        "decoder": elbo + 0.3 * weight.clamp(max=1) * F.softplus(-fake).sum(-1),
    }
    assert weight[1] > 1
    for name, loss in expected.items():
        found, wanted, plain = (
            torch.autograd.grad(one[1], tracked.parameters[name], retain_graph=True)[0][1]
            for one in (losses.groups["model"], loss, elbo)
        )
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
        assert (wanted - plain).abs().max() > 1e-3


def test_resampling_keeps_the_distribution_of_each_latent_and_removes_their_correlation():
    z = random(2, 4000, 1, seed=1).repeat(1, 1, 3)
    drawn = resample(z, Stream(torch.tensor([1, 2]), "resample", 7))
    assert torch.isin(drawn, z).all()
    assert not torch.equal(drawn[0], drawn[1])
    assert len(drawn[0, :, 0].unique()) < 3000  # with replacement
    for latent in range(3):
        assert stats.ks_2samp(drawn[0, :, latent], z[0, :, latent]).pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(drawn[0].T), np.eye(3), atol=0.06)


def test_the_discriminator_is_an_encoder_with_instance_norm():
    networks = DAVA().networks(NetworkSpec("conv", (64, 64, 1), 10))
    judge = networks["discriminator"]["discriminator"]
    assert len(judge) == 304_578
    kinds = [type(layer) for layer in judge.layers]
    assert kinds[:8] == [Conv, InstanceNorm] * 4
    assert InstanceNorm not in kinds[8:]


def engine_of(*methods, **settings):
    configs = [Config(method=one, seed=3, **{**QUICK, **settings}) for one in methods]
    return Engine(configs, blobs(), "cpu")


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_state_counts_half_batches_exactly(precision):
    engine, count, seen = engine_of(DAVA(), precision=precision), 0, set()
    discriminator = engine.groups["discriminator"]
    discriminator.parameters.mul_(20)  # so that it is sometimes right
    discriminator.refresh()
    for _ in range(20):
        engine.advance(1)
        accuracy = engine.fetch()[engine.terms.index("accuracy"), 0]
        change = direction(accuracy, torch.tensor(float(count))).item()
        count, seen = count + change, seen | {change}
        assert engine.groups["progress"].parameters[0, 0].item() == count
    assert {1, -1} <= seen


def test_a_resumed_run_has_the_capacity_and_weights_of_a_run_without_a_stop(tmp_path):
    config = Config(method=DAVA(threshold=100), seed=1, **QUICK)
    expected = train.train_runs([config], blobs(), progress=False)[0]
    with pytest.raises(InterruptedTrainingError):
        train.train_runs(
            [config], blobs(), out=tmp_path, progress=False, on_progress=lambda _: True
        )
    (path,) = checkpoint.checkpoints(tmp_path)
    engine = Engine([config], blobs(), "cpu")
    checkpoint.restore(engine, path)
    assert 0 < engine.step < 8
    assert engine.groups["progress"].parameters[0, 0] > 0
    resumed = train.train_runs([config], blobs(), out=tmp_path, progress=False)[0]
    for name, value in expected.parameters.items():
        assert torch.equal(resumed.parameters[name], value)
    assert resumed.curve["capacity"].tolist() == expected.curve["capacity"].tolist()


def test_a_mixed_fleet_trains_the_same_model():
    methods = (BetaVAE(beta=4), DAVA(), DAVA(gamma=100))
    mixed, alone = engine_of(*methods), engine_of(methods[1])
    assert len(mixed.parts) == 2
    for engine in (mixed, alone):
        engine.advance(3)
    part = next(part for part in mixed.parts if isinstance(part.method, DAVA))
    place = [config.method for config in part.configs].index(methods[1])
    found = {name: buffer[place] for name, _, buffer in mixed.networks(part)}
    for name, _, buffer in alone.networks(alone.parts[0]):
        assert torch.equal(found[name], buffer[0]), name
    # As on a GPU: shared networks are computed for all parts at once.
    together, own = engine_of(*methods), engine_of(*methods[1:])
    for engine in (together, own):
        engine._runner.run(engine._step, 2)
    found = {name: buffer for name, _, buffer in together.networks(part)}
    for name, _, buffer in own.networks(own.parts[0]):
        torch.testing.assert_close(found[name], buffer, rtol=0, atol=1e-5)
