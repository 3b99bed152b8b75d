"""Check that a GPU gives the same results as a CPU, and a fleet the same as a single model.

    python benchmarks/check_gpu.py [--methods NAME …] [--out FILE]

Fails if random bits, samples, pairs or images differ between CPU and GPU in any bit, or if
rounding differences of noise, losses or weights exceed the stated tolerance.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fleet import load_data
from torch import Tensor

import unweave as uw
from unweave.data import LaplaceTransitions, UniformTransitions, WeakPairs
from unweave.fleet.engine import Engine
from unweave.fleet.parameters import NetworkGroup
from unweave.kernels import bernoulli as bernoulli_loss
from unweave.models.config import Config
from unweave.models.networks import networks_of
from unweave.nets.adam import Adam
from unweave.nets.network import Network
from unweave.papers.inductive_biases.manipulation import manipulate, with_noise
from unweave.papers.inductive_biases.manipulation.pairs import OPTIMISER as ADAM
from unweave.papers.inductive_biases.manipulation.pairs import PairLearner, joined
from unweave.random import Stream

STEPS = 50
VARIANTS = ("color_dsprites", "noisy_dsprites", "scream_dsprites")
NOISY = ("dsprites_noise", "rooms3d_noise")
TWO, PRECISIONS = ("ms_gan", "cgan", "infogan"), ("float32", "bf16")
"""Methods with two network groups."""


def same_random_numbers() -> dict[str, float]:
    seeds = torch.tensor([3, 2**40 + 1])
    host, device = Stream(seeds, "check", 5), Stream(seeds.cuda(), "check", torch.tensor(5).cuda())
    assert torch.equal(host.words(1000, 7), device.words(1000, 7).cpu())
    difference = (host.normal(1000, 7) - device.normal(1000, 7).cpu()).abs().max()
    return {"normal numbers, largest difference": float(difference)}


def same_data() -> dict[str, float]:
    results = {}
    for name in ("dsprites", *VARIANTS, "textured_dsprites", "rooms3d", *NOISY):
        host = load_data(name)
        device = host.to("cuda")
        one, other = host.draw(256, seed=9), device.draw(256, seed=9)
        assert np.array_equal(one.indices, other.indices.cpu().numpy())
        worst = np.abs(one.images.astype(int) - other.images.cpu().numpy().astype(int)).max()
        results[f"{name} images, largest difference in grey levels"] = float(worst)
        for rule in (WeakPairs(), UniformTransitions(), LaplaceTransitions()):
            pairs = host.draw_pairs(256, 9, rule=rule), device.draw_pairs(256, 9, rule=rule)
            moved = (pairs[0][1].indices != pairs[1][1].indices.cpu().numpy()).mean()
            results[f"{name} {type(rule).__name__}, share of differing pairs"] = float(moved)
    return results


def same_pixels_in_a_graph() -> dict[str, float]:
    """Compare random pixels of a fleet in a captured step that is replayed at other steps."""
    seeds, places, results = torch.tensor([3, 2**40 + 1]), torch.arange(64), {}
    for name in VARIANTS:
        host = load_data(name)
        device, indices = host.to("cuda"), host.draw_indices(64, Stream(seeds, "draw"))
        step = torch.zeros((), dtype=torch.int64, device="cuda")
        there = indices.cuda(), seeds.cuda(), step, places.cuda()
        device.inputs(*there)  # compiles the kernels, which cannot be captured
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            shown = device.inputs(*there)
        for now in (0, 1, 2**31 + 1):
            step.fill_(now)
            graph.replay()
            expected = host.inputs(indices.numpy(), seeds, now, places)
            worst = float((shown.cpu() - expected).abs().max())
            results[f"{name} at step {now}, largest difference of pixels"] = worst
    return results


def networks_agree() -> dict[str, float]:
    """Compare gradients by our kernels and by plain PyTorch, for every network and precision."""
    results = {}
    kinds = itertools.product(("conv", "conv4x4"), (32, 64, 128), (1, 3))
    for architecture, size, channels in kinds:
        config = Config(method=uw.methods.VAE(), architecture=architecture)
        nets = networks_of(config, (size, size, channels))["model"]
        seeds = torch.arange(3).cuda()
        images = Stream(seeds, "images").uniform(5, size * size * channels)
        images = (images * 256).byte().unflatten(-1, (size, size, channels))
        for precision, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16)):
            weights = {n: net.initial(seeds, n, "torch").to(dtype) for n, net in nets.items()}
            ours, plain = (_gradients(nets, weights, images, d) for d in (dtype, torch.float64))
            worst = max(float((ours[n] - plain[n]).norm() / plain[n].norm()) for n in plain)
            results[f"{architecture} {size} × {size} × {channels} {precision}, gradients"] = worst
    return results


def _gradients(
    nets: Mapping[str, Network], weights: Mapping[str, Tensor], images: Tensor, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Gradients of the likelihood of images given mean codes; float64 uses plain PyTorch."""
    own = {name: weight.to(dtype).requires_grad_() for name, weight in weights.items()}
    inputs = images if dtype != torch.float64 else images.double() / 255
    means = nets["encoder"](own["encoder"], inputs)[..., :10]
    loss = bernoulli_loss(nets["decoder"](own["decoder"], means), inputs).sum()
    found = torch.autograd.grad(loss, list(own.values()))
    return {name: one.double() for name, one in zip(own, found, strict=True)}


def small_data() -> uw.data.Dataset:
    return uw.data.load("dsprites").slice(orientation=range(0, 40, 4), posX=range(0, 32, 4))


def config_of(name: str, **settings: Any) -> Config:
    """Small model; second stages have an untrained first stage, GANs few latents."""
    if name in uw.methods.METHODS:
        return Config(method=uw.methods.METHODS[name](), **settings)
    more: dict[str, Any] = {"architecture": "small_dcgan", "latents": 16}
    if name == "from_factors":
        method = uw.methods.FromFactors(known_factors="posX,posY")
        return Config(method=method, **settings, **{**more, "latents": 2})
    if name in uw.methods.SECOND_STAGES:
        seed, precision = settings.get("seed", 0), settings.get("precision", "float32")
        more["first"] = Config(method=uw.methods.BetaVAE(), seed=seed, precision=precision)
    return Config(method=uw.methods.EVERY[name](), **settings, **more)


def fleet_equals_alone(precision: str, names: Sequence[str]) -> dict[str, float]:
    """Largest weight difference, and relative difference of the loss over the last ten steps.

    Our kernels give a model the same bits in any fleet. The library's batched matrix products in
    dense layers may round differently for different numbers of models, and Adam turns the rounding
    of a gradient near zero into a full step. Single weights may therefore differ by the learning
    rate times the number of steps; losses do not.
    """
    data, results = small_data(), {}
    for name in names:
        configs = [config_of(name, seed=seed, batch=32, precision=precision) for seed in range(5)]
        fleet, alone = Engine(configs, data, "cuda"), Engine(configs[3:4], data, "cuda")
        for engine in (fleet, alone):
            engine.advance(STEPS - 10)
            engine.fetch()
            engine.advance(10)
        weights = max(
            float((of_model(fleet.groups[p], 3) - of_model(alone.groups[p], 0)).abs().max())
            for p in fleet.groups
        )
        losses = fleet.fetch()[0, 3], alone.fetch()[0, 0]
        results[f"{name} {precision}, fleet against alone, weights"] = weights
        results[f"{name} {precision}, fleet against alone, loss"] = float(
            abs(losses[0] / losses[1] - 1)
        )
    return results


def mixed_equals_alone(precision: str) -> dict[str, float]:
    """Relative difference of the loss over the last ten steps, in a fleet of several methods."""
    data, names = (
        small_data(),
        ("beta_vae", "factor_vae", "ae", "beta_tc_vae", "slow_vae", "isa_vae"),
    )
    configs = [config_of(name, seed=3, batch=32, precision=precision) for name in names]
    mixed = Engine(configs, data, "cuda")
    mixed.advance(STEPS - 10)
    mixed.fetch()
    mixed.advance(10)
    found, results = mixed.fetch()[0], {}
    for part in mixed.parts:
        alone = Engine(part.configs, data, "cuda")
        alone.advance(STEPS - 10)
        alone.fetch()
        alone.advance(10)
        difference = (found[part.models] / alone.fetch()[0] - 1).abs().max()
        name = part.config.method.name
        results[f"{name} {precision}, several methods against one, loss"] = float(difference)
    return results


def of_model(group: NetworkGroup, place: int) -> torch.Tensor:
    """Parameters of one model, which has as many rows as members."""
    return group.parameters[place * group.rows_per_model : (place + 1) * group.rows_per_model]


def gpu_equals_cpu(names: Sequence[str]) -> dict[str, float]:
    data, results = small_data(), {}
    for name in names:
        config = config_of(name, seed=1, batch=16)
        engines = [Engine([config], data, device) for device in ("cpu", "cuda")]
        for engine in engines:
            engine.advance(10)
        one, other = (engine.groups["model"].parameters.cpu() for engine in engines)
        results[f"{name}, GPU against CPU after 10 steps"] = float((one - other).abs().max())
    return results


def manipulations_are_replayed() -> dict[str, float]:
    """Compare steps of learning a manipulation, replayed from a graph and taken one by one.

    Then use the manipulation, and noise of the same size, for images in a captured training step.
    """
    data = small_data().slice(posY=range(0, 32, 4))
    quick: dict[str, Any] = {"steps": 1, "batch": 8, "progress": False}
    pair = [uw.train(uw.methods.BetaVAE(), data, seeds=[k], **quick)[0] for k in range(2)]
    settings = {"epsilon": 0.1, "batch": 8, "draws": 2, "held_out": 20, "seed": 1}
    fleet = joined(pair, data).to("cuda")
    learners = [PairLearner(fleet, 1, data, settings, ADAM) for _ in range(2)]
    for _ in range(STEPS):
        learners[0]._step()
    taken = 0
    while taken < STEPS:
        taken += learners[1].advance(STEPS - taken)
    one, other = (learner.tensors() for learner in learners)
    worst = max(float((one[name] - other[name]).abs().max()) for name in one)
    m = manipulate(data, pair[0], pair[1], 0.1, 3, batch=8, held_out=20, progress=False)
    results = {"manipulation, replayed against one by one": worst}
    for changed in (with_noise(data, 0.1), m.modified(data)):
        engine = Engine([Config(method=uw.methods.VAE(), batch=8)], changed, "cuda")
        engine.advance(STEPS)
        assert torch.isfinite(engine.fetch()).all()
        device = changed.to("cuda")
        indices = device.draw_indices(64, Stream(torch.tensor(0, device="cuda"), "draw"))
        there, here = (
            device.inputs(indices).cpu(),
            torch.as_tensor(changed.images(indices.cpu().numpy())),
        )
        worst = float((there.double() - here.double()).abs().max())
        results[f"{changed.name} images, largest difference in grey levels"] = worst
    return results


def weighted_draws() -> dict[str, float]:
    """Compare samples of restricted and correlated data, and train on them in a captured step."""
    data = small_data().leave_out(shape=1, posX=[0, 1]).correlate("posX", "scale", 0.5)
    there = data.to("cuda").draw(4096, seed=3).indices.cpu().numpy()
    engine = Engine([Config(method=uw.methods.VAE(), batch=32)], data, "cuda")
    engine.advance(STEPS)
    assert torch.isfinite(engine.fetch()).all()
    differing = (data.draw(4096, seed=3).indices != there).mean()
    return {"weighted draws, share that differs": float(differing)}


def divergence_is_contained() -> dict[str, float]:
    data = small_data()
    diverging = Adam(lr=1e3)
    configs = [Config(method=uw.methods.VAE(), seed=0, batch=32)]
    configs += [Config(method=uw.methods.VAE(), seed=1, batch=32, optimiser=diverging)]
    fleet, alone = Engine(configs, data, "cuda"), Engine(configs[:1], data, "cuda")
    fleet.advance(STEPS)
    alone.advance(STEPS)
    assert fleet.alive.tolist() == [True, False]
    difference = fleet.groups["model"].parameters[0] - alone.groups["model"].parameters[0]
    return {"neighbour of a diverged model against alone": float(difference.abs().max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = list(uw.methods.EVERY)
    parser.add_argument("--methods", nargs="+", default=every, help="Methods (default: all).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for check in (
        same_random_numbers,
        same_data,
        networks_agree,
        same_pixels_in_a_graph,
        lambda: fleet_equals_alone("float32", args.methods),
        lambda: fleet_equals_alone("bf16", args.methods),
        lambda: mixed_equals_alone("float32"),
        lambda: mixed_equals_alone("bf16"),
        lambda: gpu_equals_cpu(args.methods),
        manipulations_are_replayed,
        weighted_draws,
        divergence_is_contained,
    ):
        for name, value in check().items():
            results[name] = value
            print(f"{name:<75}{value:.3g}", flush=True)
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")
    limits = {
        "grey": 0,
        "share": 0.002,
        "normal": 1e-5,
        "of pixels": 1e-6,
        "alone, weights": 1.5e-4 * STEPS,
        # Two network groups train against each other, so rounding differences grow faster.
        **{f"{name} {p}, fleet against alone, loss": 0.05 for name in TWO for p in PRECISIONS},
        "float32, fleet against alone, loss": 1e-3,
        "bf16, fleet against alone, loss": 1e-2,
        "bf16, several methods against one, loss": 1e-2,
        "float32, gradients": 1e-4,
        "bf16, gradients": 0.1,
    }
    worst = [
        name
        for name, value in results.items()
        if isinstance(value, float)
        and value > next((limit for word, limit in limits.items() if word in name), 2e-3)
    ]
    sys.exit(f"differences above tolerance: {worst}" if worst else 0)


if __name__ == "__main__":
    main()
