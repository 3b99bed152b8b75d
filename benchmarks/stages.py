"""Cost of a second stage: MS-VAE in fleets, compared with a plain loop and a lower bound.

    python benchmarks/stages.py [--models 1 4 8] [--architecture dcgan] [--batch 32] [--out FILE]

A model-step is one update of one second stage on images of textured dSprites: the frozen first
stage encodes and decodes them, the residual is encoded, the generator decodes, and about 80
million parameters are updated. The plain loop is the same network in `torch.nn` with one model,
cuDNN and Adam, in the same precision (autocast on a GPU).

The lower bound is the time to move parameters, gradients and moments through Adam at the device's
memory bandwidth (`--bandwidth`, in TB/s), and the matrix products at its peak throughput
(`--peak`, in TFLOP/s).
"""

import argparse
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fleet import machine, seconds
from many_models import PlainVAE
from torch import nn
from torch.nn import functional as F

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.methods import MSVAE, BetaTCVAE
from unweave.methods.base import MODEL
from unweave.models.config import Config
from unweave.models.networks import networks_of
from unweave.nets.dcgan import WIDTHS
from unweave.nets.layers import Conv, ConvTranspose, Linear
from unweave.nets.network import Network

LATENTS = 5
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
PRECISION = "bf16" if CUDA else "float32"
ADAM_BYTES = 4 + 4 + 8 + 8 + 4 + 2
"""Bytes per parameter: read the gradient, read and write parameter and moments, write bf16."""


class PlainAdaIN(nn.Module):
    """γ(z) (h - μ) / σ + β(z), then an activation."""

    def __init__(self, channels: int, activation: nn.Module) -> None:
        super().__init__()
        self.norm, self.activation = nn.InstanceNorm2d(channels), activation
        self.style = nn.Linear(LATENTS, 2 * channels)

    def forward(self, h: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        scale, shift = self.style(z)[..., None, None].chunk(2, 1)
        return self.activation((1 + scale) * self.norm(h) + shift)


class PlainSecondStage(nn.Module):
    """Residual encoder and generator in ordinary PyTorch."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        w = [width * 2**k for k in range(4)]
        leaky, pairs = nn.LeakyReLU(0.2), list(zip([channels, *w], w, strict=False))
        down: list[nn.Module] = []
        for a, b in pairs:
            norm = [] if a == channels else [nn.InstanceNorm2d(b)]
            down += [nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(a, b, 5, 2), *norm, leaky]
        self.encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(16 * w[-1], 2 * LATENTS))
        self.down = nn.ModuleList([nn.Conv2d(a, b, 5, 2) for a, b in pairs])
        self.down_norms = nn.ModuleList([PlainAdaIN(b, leaky) for b in w[1:]])
        self.dense = nn.Linear(16 * w[-1], 16 * w[-1])
        reverse = zip(w[::-1], [*w[2::-1], channels], strict=True)
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 5, 2, 2, 1) for a, b in reverse])
        self.up_norms = nn.ModuleList([PlainAdaIN(b, nn.ReLU()) for b in w[::-1]])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mu, spread = self.encoder(x - y).float().chunk(2, -1)
        sigma = F.softplus(spread)
        z = mu + sigma * torch.randn_like(mu)
        kl = (0.5 * (mu**2 + sigma**2) - sigma.log() - 0.5).sum(1)
        h = F.leaky_relu(self.down[0](F.pad(y, (1, 2, 1, 2))), 0.2)
        for conv, norm in zip(self.down[1:], self.down_norms, strict=True):
            h = norm(conv(F.pad(h, (1, 2, 1, 2))), z)
        h = self.dense(h.flatten(1)).unflatten(1, (-1, 4, 4))
        for norm, conv in zip(self.up_norms, self.up, strict=True):
            h = conv(norm(h, z))
        return h, kl


def plain_step(data: uw.data.Dataset, batch: int, width: int) -> Callable[[], None]:
    """Step of one second stage on one first stage, in a plain loop."""
    first = PlainVAE(data.shape[2]).to(DEVICE).requires_grad_(requires_grad=False)
    model = PlainSecondStage(data.shape[2], width).to(DEVICE)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    context = torch.autocast("cuda", torch.bfloat16) if CUDA else nullcontext()

    def step() -> None:
        indices = torch.randint(len(data), (batch,), device=DEVICE)
        x = data.images(indices).permute(0, 3, 1, 2).float() / 255
        with context:
            with torch.no_grad():
                y = first(x)[0].sigmoid()
            logits, kl = model(x, y)
        reconstruction = F.binary_cross_entropy_with_logits(logits.float(), x, reduction="none")
        loss = reconstruction.sum((1, 2, 3)).mean() + kl.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def bound(
    config: Config, shape: tuple[int, int, int], peak: float, bandwidth: float
) -> dict[str, float]:
    """Numbers of parameters and multiplications of a step, and lower bounds on its time."""
    networks = networks_of(config, shape)[MODEL]
    parameters = sum(len(network) for network in networks.values())
    products = 0
    for network in networks.values():
        side = shape[0]
        for layer in network.layers if isinstance(network, Network) else ():
            if isinstance(layer, Conv):
                side = side * 2 if isinstance(layer, ConvTranspose) else side // 2
                small = side // 2 if isinstance(layer, ConvTranspose) else side
                products += small**2 * layer.kernel**2 * layer.inputs * layer.outputs
            elif isinstance(layer, Linear):
                products += layer.inputs * layer.outputs
                side = 4 if layer.outputs > layer.inputs // 2 else side
    flops = 3 * 2 * products * config.batch
    return {
        "parameters": parameters,
        "gflop_per_step": flops / 1e9,
        "us_products": flops / peak / 1e6,
        "us_adam": parameters * ADAM_BYTES / bandwidth / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    text = "(default: %(default)s)."
    models, network, batch = ([1, 4, 8], "dcgan", 32) if CUDA else ([1, 2], "small_dcgan", 8)
    parser.add_argument("--models", type=int, nargs="+", default=models, help=f"Sizes {text}")
    parser.add_argument("--architecture", default=network, help=f"Network {text}")
    parser.add_argument("--batch", type=int, default=batch, help=f"Batch size {text}")
    parser.add_argument("--peak", type=float, default=790.0, help=f"Peak TFLOP/s {text}")
    parser.add_argument("--bandwidth", type=float, default=4.8, help=f"Memory TB/s {text}")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    name = machine()
    print(name)
    data = uw.data.load("textured_dsprites").slice(scale=5, orientation=0).to(DEVICE)
    first = Config(method=BetaTCVAE(), precision=PRECISION)
    one = Config(
        method=MSVAE(),
        first=first,
        batch=args.batch,
        latents=LATENTS,
        architecture=args.architecture,
        init="normal",
        precision=PRECISION,
    )
    least = bound(one, data.shape, args.peak, args.bandwidth)
    plain = seconds(plain_step(data, args.batch, WIDTHS[args.architecture]), 2.0, DEVICE) * 1e6
    print(f"plain loop: {plain:,.0f} µs per model-step; lower bound: {least}")
    rows: list[dict[str, Any]] = []
    steps = 10 if CUDA else 1
    for models in args.models:
        engine = Engine([replace(one, seed=seed) for seed in range(models)], data, DEVICE)
        engine.advance(Engine.STEPS_TO_FULL_MEMORY if CUDA else 1)
        each = seconds(partial(engine.advance, steps), 2.0, DEVICE) / steps / models * 1e6
        row = {"models": models, "us_per_model_step": each, "times_plain": plain / each}
        if CUDA:
            row["megabytes"] = torch.cuda.max_memory_reserved() / 1e6
        rows.append(row)
        print(
            f"{models} models: {each:,.0f} µs per model-step, "
            f"{plain / each:.1f} × as fast as the plain loop"
        )
        del engine
        if CUDA:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    if args.out:
        result = {
            "device": name,
            "torch": torch.__version__,
            "precision": PRECISION,
            "architecture": args.architecture,
            "batch": args.batch,
            "plain_us": plain,
            "bound": least,
            "rows": rows,
        }
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
