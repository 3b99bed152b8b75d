"""Model-steps per second: a plain loop against the fleet, same network, batch, data and run.

    python benchmarks/fleet.py [--models 1 8 64 256] [--precision float32 bf16] [--out FILE]

The plain loop is written as a careful user of a peer library would write it: one model, `torch.nn`
modules, `torch.optim.Adam`, the data already on the device. A model-step is one update of one
β-VAE on 64 images of 64 × 64. On a CPU the loop also runs with the allocator set as the fleet sets
it, since that setting holds for the process.
"""

import argparse
import gc
import json
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import unweave as uw
from unweave.fleet.config import Config
from unweave.fleet.engine import Engine, keep_memory

BATCH, LATENTS, BETA = 64, 10, 4.0


class PlainVAE(nn.Module):
    """The protocol's network, as one writes it in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, 64, 2, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * LATENTS),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(LATENTS, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)), nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mu, logvar = self.encoder(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (logvar / 2).exp()
        return self.decoder(z), mu, logvar


def plain_step(device: torch.device) -> Callable[[], None]:
    model = PlainVAE().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = uw.data.load("dsprites").to(device)

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
    """Seconds per call, after a warm-up, over at least so many seconds."""
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
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fleet_row(
    models: int, method: str, precision: str, device: torch.device, before: int
) -> dict[str, Any]:
    make = uw.methods.METHODS[method]
    configs = [Config(method=make(), seed=seed, precision=precision) for seed in range(models)]
    data = uw.data.load("dsprites")
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    engine = Engine(configs, data, device)
    each = seconds(lambda: engine.advance(1), 2.0, device) / models
    row = {
        "models": models,
        "method": method,
        "precision": precision,
        "us_per_model_step": each * 1e6,
    }
    used = host_memory() - before
    if device.type == "cuda":
        used = torch.cuda.max_memory_allocated() - before - data.store.nbytes
    row["mb_per_model"] = used / models / 1e6
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=["beta_vae"])
    parser.add_argument("--precision", nargs="+")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    name = (
        torch.cuda.get_device_name()
        if cuda
        else f"{platform.machine()}, {torch.get_num_threads()} cores"
    )
    plain = {"peers' way": seconds(plain_step(device), 3.0, device) * 1e6}
    if not cuda:
        keep_memory()
        plain["peers' way, allocator tuned"] = seconds(plain_step(device), 3.0, device) * 1e6
    print(name)
    for kind, each in plain.items():
        print(f"plain loop, {kind:<30}{each:>12,.0f} µs per model-step")
    fastest, before = min(plain.values()), host_memory()
    rows = []
    for method in args.methods:
        for precision in args.precision or (["float32", "tf32", "bf16"] if cuda else ["float32"]):
            for models in args.models or ([1, 8, 64, 256] if cuda else [1, 8, 64]):
                row = fleet_row(models, method, precision, device, before)
                row["times_plain"] = fastest / row["us_per_model_step"]
                rows.append(row)
                memory = f"{row['mb_per_model']:8.1f} MB per model"
                print(
                    f"fleet {method:<14}{precision:<8} M = {models:<4}"
                    f"{row['us_per_model_step']:>12,.0f} µs per model-step"
                    f"{row['times_plain']:>8.1f} × the plain loop{memory}"
                )
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        result = {"device": name, "torch": torch.__version__, "plain_us": plain, "fleet": rows}
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
