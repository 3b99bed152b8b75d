"""Error, time and best launch configuration of each kernel on each layer of the networks.

    python benchmarks/kernels.py [--models 128] [--search] [--out FILE]

Errors are relative to a float64 reference on the same bf16 numbers. Times are per model with
batches of 64, next to the time to move the layer's tensors at the measured speed of a copy.
`--search` tries many launch configurations per kernel, which are first compiled in parallel.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unweave import kernels
from unweave.kernels import gpu_conv, reference
from unweave.kernels.gpu_conv import Launch

BATCH = 64


class Layer(NamedTuple):
    """A stride-2 layer: size and channels of its large side, channels of its small side, taps."""

    size: int
    channels: int
    outputs: int
    kernel: int


LAYERS = (
    Layer(64, 1, 32, 4),
    Layer(64, 3, 32, 4),
    Layer(32, 32, 32, 4),
    Layer(16, 32, 64, 4),
    Layer(8, 64, 64, 4),
    Layer(16, 32, 64, 2),
    Layer(8, 64, 64, 2),
)
THIN, THIN_COLOUR, WIDE, *SQUARE = LAYERS
MIDDLE, INNER, MIDDLE_2, INNER_2 = SQUARE
USES: dict[str, tuple[Layer, ...]] = {
    "conv": (THIN, THIN_COLOUR, WIDE, MIDDLE_2, INNER_2),
    "conv, mask": (MIDDLE, INNER),
    "transpose": (THIN, THIN_COLOUR, WIDE, MIDDLE, INNER),
    "weight grad": (THIN, THIN_COLOUR, MIDDLE, INNER),
    "conv backward": (WIDE, MIDDLE_2, INNER_2),
    "transpose backward": (THIN, THIN_COLOUR, WIDE),
}
"""Layers of the protocol's networks in which each kernel is used."""


def launches(kind: str, layer: Layer) -> list[Launch]:
    """Launch configurations to try."""
    thin = layer.channels < 16
    if kind == "conv backward":
        choices = itertools.product((32, 64, 128), (4, 8), (1, 2), (8,), (128,))
    elif kind == "transpose backward" and thin:
        choices = itertools.product((128, 256, 512), (4, 8), (1, 2), (8, 16), (64,))
    elif kind == "transpose backward":
        choices = itertools.product((32, 64), (4, 8, 16), (1, 2, 3), (8,), (512,))
    elif kind == "weight grad" and not thin:
        choices = itertools.product((64, 128), (4, 8), (3,), (2, 4), (128, 256))
    elif kind == "transpose" and not thin:
        choices = itertools.product((64, 128), (4, 8), (1,), (1,), (128,))
    elif kind.startswith("conv") and not thin:
        choices = itertools.product((64, 128), (4, 8), (3, 4), (1,), (64, 32))
    else:
        return []
    return [Launch(rows=r, warps=w, stages=n, splits=p, taps=t) for r, w, n, p, t in choices]


def call(kind: str, layer: Layer, models: int, launch: Launch | None) -> Callable[[], Any]:
    size, channels, outputs, kernel = layer
    large = draw(models, BATCH, size, size, channels)
    small = draw(models, BATCH, size // 2, size // 2, outputs)
    weight = draw(models, kernel, kernel, channels, outputs)
    bias = draw(models, max(channels, outputs))
    calls: dict[str, Callable[[], Any]] = {
        "conv": lambda: gpu_conv.conv(large, weight, bias, True, launch=launch),
        "conv, mask": lambda: gpu_conv.conv(large, weight, mask=small, launch=launch),
        "transpose": lambda: gpu_conv.conv_transpose(small, weight, bias, True, launch=launch),
        "weight grad": lambda: gpu_conv.conv_weight_grad(large, small, kernel, "large", launch),
        "conv backward": lambda: kernels.backward(gpu_conv, large, small, weight, large),
        "transpose backward": lambda: (
            gpu_conv.conv_transpose_backward(large, small, weight, small, launch)
            or kernels.backward(gpu_conv, small, large, weight, small, transposed=True)
        ),
    }
    return calls[kind]


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def microseconds(function: Callable[[], Any], repeats: int = 12) -> float:
    """Time of one call, with overlapping launches."""
    function()
    function()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats * 1e3


def megabytes(kind: str, layer: Layer) -> float:
    """Memory traffic of one model if each tensor is moved once."""
    size, channels, outputs, _ = layer
    large, small = BATCH * size**2 * channels * 2, BATCH * (size // 2) ** 2 * outputs * 2
    more = {"conv, mask": small, "conv backward": large, "transpose backward": small}
    return (large + small + more.get(kind, 0)) / 1e6


def copy_speed() -> float:
    """Measured bytes per microsecond of a large copy, counting reads and writes."""
    source = torch.zeros(2**29, device="cuda")
    target = torch.empty_like(source)
    return 8 * len(source) / microseconds(lambda: torch.add(source, 1, out=target))


def error(layer: Layer, dtype: torch.dtype) -> dict[str, float]:
    """Relative errors to a float64 reference, on three models and five images."""
    size, channels, outputs, kernel = layer
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda", generator=generator).to(dtype)

    large, small = normal(3, 5, size, size, channels), normal(3, 5, size // 2, size // 2, outputs)
    weight = normal(3, kernel, kernel, channels, outputs)
    x, y, w = large.double(), small.double(), weight.double()
    gradient, bias = gpu_conv.conv_weight_grad(large, small, kernel, "large")
    assert bias is not None
    pairs = {
        "conv": (gpu_conv.conv(large, weight), reference.conv(x, w)),
        "transpose": (gpu_conv.conv_transpose(small, weight), reference.conv_transpose(y, w)),
        "weight grad": (gradient, reference.conv_weight_grad(x, y, kernel)[0]),
        "bias grad": (bias, x.sum((1, 2, 3))),
    }
    return {k: float((a.double() - b).norm() / b.norm()) for k, (a, b) in pairs.items()}


def compile_all(share: int, shares: int) -> None:
    """Compile this process's share of all launches into the cache."""
    work = [
        (k, at, launch)
        for k, layers in USES.items()
        for at in layers
        for launch in launches(k, at)
    ]
    for kind, layer, launch in work[share::shares]:
        try:
            call(kind, layer, 1, launch)()
        except Exception as reason:
            print(kind, layer, launch, str(reason)[:80])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=128, help="Models (default: 128).")
    parser.add_argument("--search", action="store_true", help="Try many launches per kernel.")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    shares = os.cpu_count() or 1
    if args.share is not None:
        compile_all(args.share, shares)
        return
    if args.search:
        command = [sys.executable, __file__, "--share"]
        workers = [subprocess.Popen([*command, str(share)]) for share in range(shares)]
        for worker in workers:
            worker.wait()
    speed = copy_speed()
    print(f"{torch.cuda.get_device_name()}: a copy moves {speed / 1e6:.2f} TB/s")
    rows: list[dict[str, Any]] = []
    for layer in LAYERS:
        errors = {str(dtype)[6:]: error(layer, dtype) for dtype in (torch.bfloat16, torch.float32)}
        print(layer, {k: {n: f"{e:.1e}" for n, e in v.items()} for k, v in errors.items()})
        for kind in (kind for kind, layers in USES.items() if layer in layers):
            found = []
            for launch in [None, *(launches(kind, layer) if args.search else [])]:
                try:
                    time = microseconds(call(kind, layer, args.models, launch)) / args.models
                except Exception:
                    continue
                found.append((time, launch))
            found.sort(key=lambda one: one[0])
            best = found[0][0]
            floor = megabytes(kind, layer) * 1e6 / speed
            row = {**layer._asdict(), "kind": kind, "us": best, "memory_us": floor}
            rows.append({**row, "errors": errors})
            print(f"  {kind:<16}{best:7.2f} µs, memory alone {floor:5.2f}", flush=True)
            for time, launch in found[:6] if args.search else []:
                print(f"      {time:7.2f} {launch}", flush=True)
    if args.out:
        result = {"device": torch.cuda.get_device_name(), "models": args.models, "rows": rows}
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
