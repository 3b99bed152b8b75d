"""The engine: models do not depend on their fleet, and diverged ones do not affect others."""

from dataclasses import replace

import pytest
import torch

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet.diagnostics import diagnose
from unweave.fleet.engine import Engine
from unweave.fleet.train import train
from unweave.kernels import cpu
from unweave.methods import EVERY, VAE, BetaVAE, FactorVAE, SecondStage
from unweave.models.config import Config
from unweave.nets.adam import Adam

STEPS, MANY_STEPS = 5, 40
BATCH = 4

# A fleet mixes seeds and strengths; in each, the method's first strength takes these values.
STRENGTHS = (1.0, 8.0, 3.0)
SMALLER = {"vae_ensemble": {"members": 2}, "factor_vae": {"width": 50}}


def runs(kind, seeds=(3, 11, 7), **settings):
    names = kind.strengths()
    return [
        Config(
            method=kind(**({names[0]: strength} if names else {}), **SMALLER.get(kind.name, {})),
            seed=seed,
            batch=BATCH,
            **settings,
        )
        for seed, strength in zip(seeds, STRENGTHS, strict=True)
    ]


@pytest.mark.parametrize(("architecture", "latents"), [("conv4x4", 10), ("mlp", 3)])
def test_other_architectures_and_sizes_keep_to_it_too(architecture, latents, sprites):
    configs = runs(BetaVAE, architecture=architecture, latents=latents, init="torch")
    fleet, alone = Engine(configs, sprites, "cpu"), Engine(configs[2:], sprites, "cpu")
    fleet.advance(5)
    alone.advance(5)
    assert (weights(fleet, 2) - weights(alone, 0)).abs().max() <= 1e-5


def weights(engine, place):
    parts = [
        group.parameters.unflatten(0, (-1, group.rows_per_model))
        for group in engine.groups.values()
    ]
    return torch.cat([part[place].flatten() for part in parts])


def test_a_member_of_a_fleet_has_the_weights_of_the_run_alone(sprites):
    """After many steps, which add up what rounding changes."""
    configs = runs(BetaVAE)
    fleet, alone = Engine(configs, sprites, "cpu"), Engine(configs[1:2], sprites, "cpu")
    start = weights(alone, 0).clone()
    for engine in (fleet, alone):
        engine.advance(MANY_STEPS)
    assert (weights(alone, 0) - start).abs().max() > 3e-4
    assert (weights(fleet, 1) - weights(alone, 0)).abs().max() <= 1e-5
    assert (weights(fleet, 0) - weights(fleet, 1)).abs().max() > 1e-2


def test_the_order_of_a_fleet_does_not_matter(sprites):
    configs = runs(BetaVAE)
    one, other = Engine(configs, sprites, "cpu"), Engine(configs[::-1], sprites, "cpu")
    one.advance(STEPS)
    other.advance(STEPS)
    for place in range(3):
        assert (weights(one, place) - weights(other, 2 - place)).abs().max() <= 1e-5


def test_a_model_that_diverges_is_stopped_and_its_neighbours_are_untouched(sprites):
    healthy = Config(method=VAE(), seed=0, batch=BATCH)
    sick = Config(method=VAE(), seed=1, batch=BATCH, optimiser=Adam(lr=1e3))
    fleet, alone = Engine([healthy, sick], sprites, "cpu"), Engine([healthy], sprites, "cpu")
    fleet.advance(30)
    alone.advance(30)
    assert fleet.alive.tolist() == [True, False]
    assert 0 < int(fleet.diverged_at[1]) < 30
    assert fleet.diverged_at[0] == -1
    assert torch.isfinite(weights(fleet, 1)).all()
    assert (weights(fleet, 0) - weights(alone, 0)).abs().max() <= 1e-5
    means = fleet.fetch()
    assert torch.isfinite(means[:, 0]).all()
    assert torch.isnan(means[:, 1]).all()


def test_reported_terms_are_means_over_the_steps_since_the_last_report(sprites):
    configs = runs(FactorVAE)
    whole, single = Engine(configs, sprites, "cpu"), Engine(configs, sprites, "cpu")
    assert whole.terms == (
        "loss",
        "reconstruction",
        "kl",
        "total_correlation",
        "discriminator loss",
    )
    whole.advance(3)
    each = []
    for _ in range(3):
        single.advance(1)
        each.append(single.fetch())
    torch.testing.assert_close(whole.fetch(), torch.stack(each).mean(0), rtol=1e-4, atol=1e-5)


def test_only_seeds_and_strengths_may_differ_in_a_fleet(sprites):
    one, other = Config(method=VAE(), batch=4), Config(method=VAE(), batch=8)
    with pytest.raises(UnweaveError, check=about("configs")):
        Engine([one, other], sprites, "cpu")


def test_the_tensorflow_variant_of_adam_is_used(sprites):
    torch_like, tensorflow_like = (
        Engine(runs(VAE, optimiser=Adam(variant=variant, eps=1e-3)), sprites, "cpu")
        for variant in ("torch", "tensorflow")
    )
    torch_like.advance(2)
    tensorflow_like.advance(2)
    assert (weights(torch_like, 0) - weights(tensorflow_like, 0)).abs().max() > 1e-5


@pytest.mark.parametrize(("likelihood", "steps"), [("bernoulli", 60), ("gaussian", 150)])
def test_both_likelihoods_train(likelihood, steps, sprites):
    settings = {"likelihood": likelihood, "optimiser": Adam(lr=1e-3)}
    engine = Engine(runs(VAE, architecture="small_mlp", **settings)[:2], sprites, "cpu")
    engine.advance(5)
    before = engine.fetch()[0]
    engine.advance(steps)
    engine.fetch()
    engine.advance(30)
    assert (engine.fetch()[0] < 0.6 * before).all()


def test_networks_without_an_optimiser_are_frozen(sprites):
    class Frozen(FactorVAE):
        def extra_optimisers(self):
            return {}

        def losses(self, nets, batch):
            losses = super().losses(nets, batch)
            return losses._replace(groups={"model": losses.groups["model"]})

    engine = Engine([Config(method=Frozen(), batch=BATCH)], sprites, "cpu")
    before = {name: group.parameters.clone() for name, group in engine.groups.items()}
    engine.advance(3)
    assert torch.equal(engine.groups["discriminator"].parameters, before["discriminator"])
    assert not torch.equal(engine.groups["model"].parameters, before["model"])


def test_weighted_data_can_be_trained_on(sprites):
    data = sprites.leave_out(shape=1).correlate("posX", "posY", 0.8)
    engine = Engine([Config(method=VAE(), batch=BATCH)], data, "cpu")
    engine.advance(2)
    assert torch.isfinite(engine.fetch()).all()


def test_memory_per_model_does_not_depend_on_the_fleet_size(sprites):
    def kept(configs):
        engine = Engine(configs, sprites, "cpu")
        return sum(
            tensor.nbytes
            for group in engine.groups.values()
            for tensor in (group.parameters, group.moments.first, group.moments.second)
        ) / len(configs)

    configs = [Config(method=FactorVAE(), seed=seed, batch=BATCH) for seed in range(3)]
    padding = 12 + 15 + 62  # encoder, decoder, discriminator, so that parameters are aligned
    assert kept(configs) == kept(configs[:1]) == 3 * 4 * (292_788 + 364_897 + 5_018_002 + padding)


@pytest.fixture
def set_threads():
    """Set the number of threads; restored at the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def run_of(kind, seed):
    """A run of any method, whose first strength depends on the seed."""
    known = {
        "from_factors": {"known_factors": "shape,posX,posY"},
        "ivae": {"factor": "shape", "classes": 3},
    }
    values = {**known, **SMALLER}.get(kind.name, {})
    return Config(
        method=kind(**dict.fromkeys(kind.strengths()[:1], 1.0 + seed), **values),
        seed=seed,
        batch=13,  # more than one task of a kernel, and no multiple of a vector's width
        latents=3 if kind.name == "from_factors" else 10,
        architecture="small_dcgan" if "small_dcgan" in kind.architectures else "",
        first=Config(method=VAE(), seed=seed) if issubclass(kind, SecondStage) else None,
    )


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "float32") for name in EVERY), ("beta_vae", "bf16"), ("infogan", "bf16")],
)
def test_weights_depend_neither_on_the_fleet_nor_on_the_threads(
    name, precision, sprites, set_threads, monkeypatch
):
    monkeypatch.setattr(cpu, "IMAGES", 8)
    runs = [replace(run_of(EVERY[name], seed), precision=precision) for seed in (4, 1, 3)]
    found = {}
    for threads, seeds in ((1, [1]), (2, [1]), (2, [4, 3, 1])):
        set_threads(threads)
        engine = Engine([run for run in runs if run.seed in seeds], sprites, "cpu")
        start = weights(engine, 0)
        engine.advance(1)
        engine.advance(1)
        assert torch.get_num_threads() == threads
        assert int(engine.step) == 2
        assert not torch.equal(weights(engine, 0), start)
        place = [config.seed for config in engine.configs].index(1)
        found[threads, len(seeds)] = weights(engine, place), engine.fetch()[:, place]
    assert not torch.equal(weights(engine, 1 - place), weights(engine, place))
    expected_weights, expected_terms = found[1, 1]
    for of_weights, of_terms in found.values():
        assert torch.equal(of_weights, expected_weights)
        assert torch.equal(of_terms, expected_terms)


def test_models_of_a_fleet_may_decay_clip_and_warm_up_differently(sprites):
    settings = [
        {"weight_decay": 0.1},
        {"clip": 1e-3, "lr_floor": 0.5},
        {"clip_norm": 0.1, "warm_up": 4},
        {},
    ]
    adams = [Adam(lr=1e-3, schedule="cosine", **own) for own in settings]
    fleet = [
        Config(method=VAE(), steps=5, batch=BATCH, architecture="small_mlp", optimiser=adam)
        for adam in adams
    ]
    together = Engine(fleet, sprites, "cpu")
    together.advance(5)
    ends = [weights(together, place) for place in range(len(fleet))]
    for config, expected in zip(fleet, ends, strict=True):
        alone = Engine([config], sprites, "cpu")
        alone.advance(5)
        assert torch.equal(weights(alone, 0), expected)
    assert not any(torch.equal(one, ends[-1]) for one in ends[:-1])


def averaging(decays, **settings):
    return [
        Config(
            method=VAE(), seed=seed, batch=BATCH, architecture="small_mlp", **settings,
            optimiser=Adam(lr=1e-2, ema=decay),
        )
        for seed, decay in enumerate(decays)
    ]  # fmt: skip


def test_averages_of_a_fleet_are_those_of_its_models_alone(sprites):
    configs = averaging((0.5, 0.0, 0.9))
    together = Engine(configs, sprites, "cpu")
    (group,) = together.groups.values()
    expected, seen = group.parameters.clone(), []
    for step in range(6):
        together.advance(1)
        seen.append(group.parameters.clone())
        weight = torch.tensor([[0.5], [1.0], [0.1]]) if step else 1.0
        expected = expected + weight * (seen[-1] - expected)
    torch.testing.assert_close(group.trained, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(group.trained[1], group.parameters[1])
    plain = Engine(averaging((0.0, 0.0, 0.0)), sprites, "cpu")
    plain.advance(6)
    assert torch.equal(plain.groups["model"].parameters, group.parameters)
    assert plain.groups["model"].trained is plain.groups["model"].parameters
    for place, config in enumerate(configs):
        alone = Engine([config], sprites, "cpu")
        alone.advance(4)
        alone.advance(2)
        assert torch.equal(alone.groups["model"].trained[0], group.trained[place])


def test_a_diverged_model_keeps_its_average(sprites):
    engine = Engine(averaging((0.5, 0.5)), sprites, "cpu")
    (group,) = engine.groups.values()
    engine.advance(2)
    before = group.trained.clone()
    group.parameters[0] = torch.nan
    engine.advance(2)
    assert engine.alive.tolist() == [False, True]
    assert torch.equal(group.trained[0], before[0])
    assert not torch.equal(group.trained[1], before[1])


def test_threads_of_torch_are_not_used(sprites, set_threads):
    found = []

    class Watched(BetaVAE):
        def losses(self, nets, batch):
            found.append(torch.get_num_threads())
            return super().losses(nets, batch)

        def encode(self, nets, images):
            found.append(torch.get_num_threads())
            return super().encode(nets, images)

        def decode(self, nets, codes):
            found.append(torch.get_num_threads())
            return super().decode(nets, codes)

    set_threads(2)
    engine = Engine([Config(method=Watched(), batch=BATCH)], sprites, "cpu")
    engine.advance(1)
    diagnose(engine)
    fleet = train(Watched(), sprites, steps=1, batch=BATCH, progress=False)
    fleet.decode(fleet.encode(sprites[:3])[0][0])
    assert len(found) >= 8
    assert set(found) == {1}
    assert torch.get_num_threads() == 2


def test_bf16_trains_as_well_as_float32_on_a_cpu(sprites):
    settings = {"batch": 8, "optimiser": Adam(lr=1e-3)}
    losses = {}
    for precision in ("float32", "bf16"):
        configs = [Config(method=VAE(), seed=s, precision=precision, **settings) for s in (0, 1)]
        engine = Engine(configs, sprites, "cpu")
        engine.advance(25)
        start = engine.fetch()[0]
        engine.advance(10)
        losses[precision] = engine.fetch()[0]
        assert (losses[precision] < 0.8 * start).all()
        assert engine.groups["model"].parameters.dtype == torch.float32
    assert not torch.equal(losses["bf16"], losses["float32"])
    between_seeds = (losses["float32"][0] - losses["float32"][1]).abs()
    difference = (losses["bf16"] - losses["float32"]).mean().abs()
    assert difference < max(between_seeds, 0.02 * losses["float32"].mean())
