"""Training throughput of a fleet and of a plain loop, with the same network, batch and data.

    python benchmarks/fleet.py [--models 1 8 64 128] [--methods beta_vae] [--data dsprites]
                               [--precision bf16] [--profile] [--encode] [--out FILE]

The plain loop is written as a careful user of a peer library would write it: one model, `torch.nn`
modules, `torch.optim.Adam`, data already on the device. A model-step is one update of one model on
64 images of 64 × 64. On a CPU, the loop also runs with the allocator settings of the fleet, which
apply to the whole process. The four variants of dSprites need no download: a random picture
replaces the painting of `scream_dsprites`.

`--profile` adds the time of each kernel for the largest fleet, `--encode` the time to encode the
whole data set. `benchmarks/plots.py` draws the results.
"""

import argparse
import gc
import json
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.models.config import Config
from unweave.models.model import Fleet
from unweave.nets.device import keep_memory

BATCH, LATENTS, BETA = 64, 10, 4.0
STEPS_AT_ONCE = 10
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


class PlainVAE(nn.Module):
    """The protocol's network in ordinary PyTorch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, 64, 2, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * LATENTS),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(LATENTS, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)), nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(32, channels, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mu, logvar = self.encoder(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (logvar / 2).exp()
        return self.decoder(z), mu, logvar


def machine() -> str:
    """Description of the device."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.get_num_threads()} cores"


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
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        indices = torch.randint(len(data), (BATCH,), device=device)
        x = data.images(indices).permute(0, 3, 1, 2).float() / 255
        logits, mu, logvar = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
        kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(1)
        loss = reconstruction.sum((1, 2, 3)).mean() + BETA * kl.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="+", help="Fleet sizes.")
    parser.add_argument("--methods", nargs="+", default=["beta_vae"], help="Methods.")
    parser.add_argument("--data", nargs="+", default=["dsprites"], help="Data sets.")
    parser.add_argument("--precision", nargs="+", help="Precisions (default: bf16 on a GPU).")
    parser.add_argument("--profile", action="store_true", help="Measure each kernel.")
    parser.add_argument("--encode", action="store_true", help="Measure encoding.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    name = machine()
    plain = {"peers' way": seconds(plain_step(device), 3.0, device) * 1e6}
    if not cuda:
        keep_memory()
        plain["peers' way, allocator tuned"] = seconds(plain_step(device), 3.0, device) * 1e6
    print(name)
    for kind, each in plain.items():
        print(f"plain loop, {kind:<30}{each:>12,.0f} µs per model-step")
    result: dict[str, Any] = {"device": name, "torch": torch.__version__, "plain_us": plain}
    if cuda:
        result["ceilings"] = ceilings()
        print(result["ceilings"])
    fastest, before = min(plain.values()), host_memory()
    result["fleet"] = []
    counts = args.models or ([1, 8, 64, 128] if cuda else [1, 8, 64])
    precisions = args.precision or (["bf16"] if cuda else ["float32"])
    sources = {source: load_data(source) for source in args.data}
    for source, data in sources.items():
        for method in args.methods:
            for precision in precisions:
                for models in counts:
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
    first = next(iter(sources.values()))
    if args.profile:
        result["steps"] = steps_row(min(counts), first, device)
        result["profile"] = profile(max(counts), precisions[0], first)
        print(result["profile"]["us_by_category"])
    if args.encode:
        result["encode"] = encode_row(min(64, max(counts)), precisions[0], first)
        print(result["encode"], flush=True)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
