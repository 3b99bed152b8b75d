"""Training throughput of a fleet and of a plain loop, with the same network, batch and data.

    python benchmarks/fleet.py [--models 1 8 64 128] [--methods beta_vae] [--data dsprites]
                               [--precision bf16] [--profile] [--encode] [--alternatives]
                               [--quick] [--turns 5] [--out FILE]

The plain loop is written as a careful user of a peer library would write it: one model, `torch.nn`
modules, `torch.optim.Adam`, data already on the device. A model-step is one update of one model on
64 images of 64 × 64. On a CPU, the loop also runs with the allocator settings of the fleet, which
apply to the whole process. The four variants of dSprites need no download: a random picture
replaces the painting of `scream_dsprites`.

`--profile` adds the time of each kernel for the largest fleet, `--encode` the time to encode the
whole data set. `benchmarks/plots.py` draws the results.

`--alternatives` measures other ways to train a fleet of β-VAEs on the same images
(`benchmarks/many_models.py`): `torch.func.vmap`, grouped convolutions, and HFTA if it is
installed, each also as a CUDA graph where this is possible. The time reported for each is its
fastest turn, relative to that of the plain loop. On a CPU, all ways take turns on one thread and
their CPU time is measured, because other load affects it least. `--quick` measures a β-VAE and the
alternatives in fleets of 1, 8, 12, 64 and 256.
"""

import argparse
import gc
import itertools
import json
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from many_models import (
    BATCH,
    LATENTS,
    LEARNING_RATE,
    Hfta,
    Loop,
    PlainVAE,
    Trainer,
    installed,
    loss_of,
)
from PIL import Image
from torch import Tensor

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.models.config import Config
from unweave.models.model import Fleet
from unweave.nets.device import keep_memory
from unweave.nets.graphs import WARM_UP, GraphRunner
from unweave.text import counted

STEPS_AT_ONCE = 10
TURN = 0.2
"""Approximate duration of a turn of one way, in seconds."""
LONG_STEP = 0.05
"""Steps that take longer, in seconds, are not captured in graphs of several steps."""
QUICK = (1, 8, 12, 64, 256)
PICTURE = (300, 400, 3)
CATEGORIES = {
    "convolutions, both ways": (
        "conv_kernel",
        "transpose_kernel",
        "products_kernel",
        "sum_products_kernel",
    ),
    "weight gradients": ("weight_grad_kernel", "transpose_backward_kernel", "add_up_kernel"),
    "likelihood": ("loss_kernel", "gradient_kernel"),
    "Adam": ("adam_kernel",),
    "matrix products": ("nvjet", "cutlass", "gemm"),
}


def machine() -> str:
    """Description of the device."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {counted(torch.get_num_threads(), 'thread')}"


def load_data(name: str) -> uw.data.Dataset:
    """Load a data set by name, Scream-dSprites with a random picture."""
    if name != "scream_dsprites":
        return uw.data.load(name)
    pixels = np.random.default_rng(0).integers(0, 256, PICTURE, dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.png"
        Image.fromarray(pixels).save(file)
        return uw.data.load(name, picture=file)


def plain_step(device: torch.device) -> Callable[[], None]:
    data = uw.data.load("dsprites").to(device)
    model = PlainVAE(data.shape[2]).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def step() -> None:
        indices = torch.randint(len(data), (BATCH,), device=device)
        x = data.images(indices).permute(0, 3, 1, 2).float() / 255
        logits, mu, logvar = model(x)
        loss = loss_of(logits, x, mu, logvar)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def plain_times(device: torch.device) -> dict[str, float]:
    """Microseconds per step of the plain loop, by settings of the process."""
    times = {"peers' way": seconds(plain_step(device), 3.0, device) * 1e6}
    if device.type != "cuda":
        keep_memory()
        times["peers' way, allocator tuned"] = seconds(plain_step(device), 3.0, device) * 1e6
    for kind, each in times.items():
        print(f"plain loop, {kind:<30}{each:>12,.0f} µs per model-step")
    return times


def seconds(step: Callable[[], Any], at_least: float, device: torch.device) -> float:
    """Seconds per call, after a warm-up, measured for at least `at_least` seconds."""
    for _ in range(3):
        step()
    _wait(device)
    count, start = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - start < at_least:
        step()
        count += 1
        if count % 10 == 0:
            _wait(device)
    _wait(device)
    return (time.perf_counter() - start) / count


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def host_memory() -> int:
    """Peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def make_engine(
    models: int, method: str, precision: str, data: uw.data.Dataset, device: torch.device
) -> Engine:
    make = uw.methods.METHODS[method]
    configs = [Config(method=make(), seed=seed, precision=precision) for seed in range(models)]
    return Engine(configs, data, device)


def fleet_row(
    models: int,
    method: str,
    precision: str,
    data: uw.data.Dataset,
    device: torch.device,
    before: int,
) -> dict[str, Any]:
    cuda = device.type == "cuda"
    before = free_memory(device) if cuda else before
    engine = make_engine(models, method, precision, data, device)
    steps = STEPS_AT_ONCE if cuda else 1
    engine.advance(Engine.STEPS_TO_FULL_MEMORY if cuda else 1)
    each = seconds(lambda: engine.advance(steps), 1.0 if cuda else 2.0, device) / steps / models
    used = (torch.cuda.max_memory_reserved() if cuda else host_memory()) - before
    return {
        "models": models,
        "method": method,
        "data": data.name,
        "precision": precision,
        "us_per_model_step": each * 1e6,
        "megabytes": (used - (data.store.nbytes if cuda else 0)) / 1e6,
    }


class Way:
    """A way to train M β-VAEs, ready to be timed.

    Args:
        advance: Function that trains for some steps.
        models: Number of models that it trains.
        device: Device on which it runs.
    """

    def __init__(self, advance: Callable[[int], None], models: int, device: torch.device) -> None:
        self.advance, self.models, self.device = advance, models, device
        self.times: list[float] = []
        advance(WARM_UP)
        advance(1)  # captured as a graph here, so that only its replay is timed
        usual = self._time(1)
        self.steps = STEPS_AT_ONCE if usual < LONG_STEP and device.type == "cuda" else 1
        advance(self.steps)
        self.steps *= max(1, round(TURN / max(usual * self.steps, self._time(self.steps))))

    def take_turn(self) -> None:
        """Train for some steps and record the time per model-step."""
        self.times.append(self._time(self.steps) / self.steps / self.models)

    def _time(self, steps: int) -> float:
        clock = time.perf_counter if self.device.type == "cuda" else time.process_time
        _wait(self.device)
        start = clock()
        self.advance(steps)
        _wait(self.device)
        return clock() - start


def makers_of_ways(
    models: int, precision: str, data: uw.data.Dataset, device: torch.device
) -> dict[str, Callable[[], Way]]:
    """Functions that create each way to train a fleet."""

    def ours() -> Way:
        engine = make_engine(models, "beta_vae", precision, data, device)
        return Way(engine.advance, models, device)

    def of(kind: type[Trainer], graph: bool) -> Way:
        # The time of a loop per model does not depend on the number of models.
        count = 1 if kind is Loop else models
        torch.manual_seed(0)
        trainer = kind([PlainVAE(data.shape[2]).to(device) for _ in range(count)], graph)
        draw = batches(data.to(device), count, device)

        def step() -> None:
            trainer.step(*draw(), precision)

        def repeat(steps: int) -> None:
            for _ in range(steps):
                step()

        runner = GraphRunner(device)
        return Way(partial(runner.run, step) if graph else repeat, count, device)

    ways = {name: partial(of, kind, graph=False) for name, kind in installed().items()}
    if device.type == "cuda":
        ways |= {
            f"{name}, CUDA graph": partial(of, kind, graph=True)
            for name, kind in installed().items()
            if kind is not Hfta
        }
    return {"unweave": ours, **ways}


def batches(
    data: uw.data.Dataset, models: int, device: torch.device
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Return a function that draws images `[M, B, C, H, W]` and noise `[M, B, d]`."""

    def draw() -> tuple[Tensor, Tensor]:
        indices = torch.randint(len(data), (models, BATCH), device=device)
        images = torch.as_tensor(data.images(indices)).movedim(-1, -3)
        return images.float() / 255, torch.randn(models, BATCH, LATENTS, device=device)

    return draw


def in_turns(makers: Iterable[Callable[[], Way]], turns: int) -> list[list[float]]:
    """Seconds per model-step of each way in every turn."""
    ways = [make() for make in makers]
    for _ in range(turns):
        for way in ways:
            way.take_turn()
    return [way.times for way in ways]


def alternatives(
    models: int, precision: str, data: uw.data.Dataset, device: torch.device, turns: int
) -> list[dict[str, Any]]:
    """Time all ways to train a fleet: in turns on a CPU, one after the other on a GPU."""
    makers = makers_of_ways(models, precision, data, device)
    # A GPU has no other load, but no space for all ways at once.
    groups = [[name] for name in makers] if device.type == "cuda" else [list(makers)]
    times: dict[str, list[float]] = {}
    for group in groups:
        free_memory(device)
        try:
            times |= zip(group, in_turns((makers[name] for name in group), turns), strict=True)
        except torch.cuda.OutOfMemoryError:
            print(f"{', '.join(group)}: out of memory at M = {models}", flush=True)
    plain, rows = times["plain loop"], []
    for name, own in times.items():
        ratios = [other / each for other, each in zip(plain, own, strict=True)]
        rows.append({
            "models": models,
            "way": name,
            "precision": precision,
            "us_per_model_step": 1e6 * min(own),
            "times_plain": min(plain) / min(own),
            "times_plain_by_turn": statistics.median(ratios),
        })  # fmt: skip
        print(
            f"{name:<50}{precision:<8} M = {models:<4}{1e6 * min(own):>12,.1f} µs per model-step"
            f"{min(plain) / min(own):>8.2f} × as fast as the plain loop"
            f" ({statistics.median(ratios):.2f} turn by turn)",
            flush=True,
        )
    return rows


def disagreement(device: torch.device) -> dict[str, float]:
    """Largest relative difference of float32 losses from the plain loop's, over three steps."""
    torch.manual_seed(0)
    models = [PlainVAE(1).to(device) for _ in range(2)]
    trainers = {name: kind(models) for name, kind in installed().items()}
    found = dict.fromkeys(trainers, 0.0)
    for _ in range(3):
        x = torch.rand(2, 8, 1, 64, 64, device=device)
        noise = torch.randn(2, 8, LATENTS, device=device)
        losses = {name: trainer.step(x, noise) for name, trainer in trainers.items()}
        for name, loss in losses.items():
            away = ((loss - losses["plain loop"]) / losses["plain loop"]).abs().max()
            found[name] = max(found[name], float(away))
    return found


def free_memory(device: torch.device) -> int:
    """Release memory of earlier engines; return the memory that is still in use."""
    gc.collect()
    if device.type != "cuda":
        return host_memory()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_reserved()


def profile(models: int, precision: str, data: uw.data.Dataset) -> dict[str, Any]:
    """Microseconds per model and step, by category of kernel and by kernel."""
    from torch.profiler import ProfilerActivity

    engine = make_engine(models, "beta_vae", precision, data, torch.device("cuda"))
    engine.advance(2)
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as recorded:
        engine.advance(1)
        torch.cuda.synchronize()
    times = {
        one.key: one.self_device_time_total / models
        for one in recorded.key_averages()
        if one.self_device_time_total > 0
    }
    parts = dict.fromkeys(CATEGORIES, 0.0)
    for kernel, each in times.items():
        category = next(
            (c for c, names in CATEGORIES.items() if any(n in kernel for n in names)), "the rest"
        )
        parts[category] = parts.get(category, 0.0) + each
    largest = sorted(times.items(), key=lambda item: -item[1])[:20]
    return {
        "models": models,
        "kernels": sum(one.count for one in recorded.key_averages()),
        "us_by_category": parts,
        "us_by_kernel": {name[:80]: each for name, each in largest},
    }


def steps_row(models: int, data: uw.data.Dataset, device: torch.device) -> list[dict[str, float]]:
    """Measure time and memory of one fleet as steps increase."""
    before = free_memory(device)
    engine = make_engine(models, "beta_vae", "bf16", data, device)
    engine.advance(Engine.STEPS_TO_FULL_MEMORY)
    rows, taken, start = [], 0, time.perf_counter()
    for _ in range(5):
        engine.advance(200)
        _wait(device)
        taken += 200
        memory = torch.cuda.max_memory_reserved() if device.type == "cuda" else host_memory()
        used = (memory - before) / 1e6
        rows.append({"steps": taken, "seconds": time.perf_counter() - start, "megabytes": used})
    return rows


def encode_row(models: int, precision: str, data: uw.data.Dataset) -> dict[str, Any]:
    """Seconds per model to encode the whole data set into host memory."""
    device = torch.device("cuda")
    engine = make_engine(models, "beta_vae", precision, data, device)
    group = engine.groups["model"]
    parameters = dict(group.buffers(group.parameters))
    diverged = engine.diverged_at.cpu().numpy()
    import pandas as pd

    fleet = Fleet(engine.configs, data.shape, parameters, pd.DataFrame(), diverged)
    moved = data.to(device)
    fleet.encode(moved.images(torch.arange(64, device=device)))
    start = time.perf_counter()
    fleet.encode(moved)
    each = (time.perf_counter() - start) / models
    return {"models": models, "precision": precision, "seconds_per_model": each}


def ceilings() -> dict[str, float]:
    """Measured limits of the device: TB/s of memory traffic, TFLOP/s of bf16 products."""
    device = torch.device("cuda")
    source = torch.zeros(2**29, device=device)
    target = torch.empty_like(source)
    passing = seconds(lambda: torch.add(source, 1, out=target), 0.5, device)
    square = torch.randn(8192, 8192, device=device).bfloat16()
    product = seconds(lambda: square @ square, 0.5, device)
    return {"TB/s": 8 * len(source) / passing / 1e12, "TFLOP/s": 2 * 8192**3 / product / 1e12}


def fleets(
    counts: Sequence[int],
    methods: Sequence[str],
    precisions: Sequence[str],
    sources: Mapping[str, uw.data.Dataset],
    device: torch.device,
) -> dict[str, Any]:
    """Time a plain loop and fleets of all methods and sizes."""
    plain = plain_times(device)
    result: dict[str, Any] = {"plain_us": plain}
    if device.type == "cuda":
        result["ceilings"] = ceilings()
        print(result["ceilings"])
    fastest, before = min(plain.values()), host_memory()
    result["fleet"] = []
    for (source, data), method, precision, models in itertools.product(
        sources.items(), methods, precisions, counts
    ):
        row = fleet_row(models, method, precision, data, device, before)
        row["times_plain"] = fastest / row["us_per_model_step"]
        result["fleet"].append(row)
        print(
            f"fleet {source:<16}{method:<14}{precision:<8} M = {models:<4}"
            f"{row['us_per_model_step']:>10,.1f} µs per model-step"
            f"{row['times_plain']:>8.1f} × as fast as the plain loop"
            f"{row['megabytes']:10,.0f} MB",
            flush=True,
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="+", help="Fleet sizes.")
    parser.add_argument("--methods", nargs="+", help="Methods (default: beta_vae).")
    parser.add_argument("--data", nargs="+", default=["dsprites"], help="Data sets.")
    parser.add_argument("--precision", nargs="+", help="Precisions (default: bf16 on a GPU).")
    parser.add_argument("--profile", action="store_true", help="Measure each kernel.")
    parser.add_argument("--encode", action="store_true", help="Measure encoding.")
    parser.add_argument("--alternatives", action="store_true", help="Measure other ways only.")
    parser.add_argument("--quick", action="store_true", help="Measure a β-VAE and other ways.")
    parser.add_argument("--turns", type=int, default=5, help="Turns of each way (default: 5).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    if args.quick:
        args.models, args.alternatives = args.models or list(QUICK), True
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    counts = args.models or ([1, 8, 64, 128] if cuda else [1, 8, 64])
    precisions = args.precision or (["bf16"] if cuda else ["float32"])
    methods = args.methods or (["beta_vae"] if args.quick or not args.alternatives else [])
    sources = {source: load_data(source) for source in args.data}
    if args.alternatives and not cuda:
        torch.set_num_threads(1)
    result: dict[str, Any] = {"device": machine(), "torch": torch.__version__}
    print(result["device"])
    if methods:
        result |= fleets(counts, methods, precisions, sources, device)
    first = next(iter(sources.values()))
    save(result, args.out)
    if args.alternatives:
        keep_memory()
        # Without it, cuDNN chooses slow algorithms for some grouped convolutions.
        torch.backends.cudnn.benchmark = True
        result["disagreement"] = disagreement(device)
        print(result["disagreement"], flush=True)
        result["alternatives"] = []
        for models in counts:
            result["alternatives"] += alternatives(
                models, precisions[0], first, device, args.turns
            )
            save(result, args.out)
    if args.profile:
        result["steps"] = steps_row(min(counts), first, device)
        result["profile"] = profile(max(counts), precisions[0], first)
        print(result["profile"]["us_by_category"])
    if args.encode:
        result["encode"] = encode_row(min(64, max(counts)), precisions[0], first)
        print(result["encode"], flush=True)
    save(result, args.out)


def save(result: dict[str, Any], out: Path | None) -> None:
    """Write the result so far."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
