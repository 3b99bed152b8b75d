"""What an Lp-nested prior costs: a model-step of ISA-VAE against one of β-VAE, in fleets alike.

    python benchmarks/isa.py [--models 128] [--latents 10 20] [--batch 64 2048] [--out FILE]

A model-step is one update of one model on dSprites: with the protocol's network, 64 images and as
many latents as `--latents` says; and with dense layers, 20 latents and batches of `--batch`, as
the paper trains. The ratio is what counts, from the same run: ISA-VAE, with fixed and with learned
exponents and with two layouts in one fleet, to β-VAE; β-TCVAE to β-VAE, which has no total
correlation to estimate; ISA-TCVAE to β-TCVAE, which has the same estimate.

That estimate has B² d densities: 84 million for a batch of 2,048 and 20 latents. The kernels, as
compiled for an H200, have some 50 instructions and 3 exponentials for each, both ways together. At
132 × 4 instructions for 32 threads and 132 × 16 exponentials a cycle, and 1.75 GHz, these take
0.15 ms and 0.07 ms: what β-TCVAE has at least to add to a β-VAE's model-step.
"""

import argparse
import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fleet import STEPS_AT_ONCE, machine, seconds

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.methods import ISATCVAE, ISAVAE, BetaTCVAE, BetaVAE, Method
from unweave.models.config import Config

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
PRECISION = "bf16" if CUDA else "float32"


def cases(latents: int) -> dict[str, tuple[list[Method], str]]:
    """What is timed: the methods that a fleet takes in turn, and what it is compared with."""
    pairs = f"{latents // 2}x2"
    return {
        "beta_vae": ([BetaVAE()], "beta_vae"),
        "isa_vae": ([ISAVAE()], "beta_vae"),
        "isa_vae, two layouts": ([ISAVAE(), ISAVAE(layout=pairs)], "beta_vae"),
        "isa_vae, learned": ([ISAVAE(learned=True)], "beta_vae"),
        "beta_tc_vae": ([BetaTCVAE()], "beta_vae"),
        "isa_tc_vae": ([ISATCVAE()], "beta_tc_vae"),
    }


@dataclass(frozen=True)
class Setting:
    """What all cases of one comparison have in common."""

    latents: int
    architecture: str = "conv"
    batch: int = 64


def measure(
    methods: list[Method], models: int, setting: Setting, data: uw.data.Dataset
) -> tuple[float, float]:
    """Microseconds per model and step, and gigabytes per model at most, on a GPU."""
    configs = [
        Config(
            method=methods[seed % len(methods)],
            seed=seed,
            precision=PRECISION,
            **dataclasses.asdict(setting),
        )
        for seed in range(models)
    ]
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    engine = Engine(configs, data, DEVICE)
    engine.advance(Engine.STEPS_TO_FULL_MEMORY if CUDA else 1)
    steps = STEPS_AT_ONCE if CUDA else 1
    taken = seconds(lambda: engine.advance(steps), 2.0, DEVICE) / steps / models
    memory = torch.cuda.max_memory_allocated() if CUDA else math.nan
    return taken * 1e6, memory / models / 1e9


def compare(models: int, setting: Setting, data: uw.data.Dataset) -> list[dict[str, Any]]:
    """All cases of one setting, printed as they come."""
    rows: dict[str, dict[str, Any]] = {}
    for case, (methods, against) in cases(setting.latents).items():
        taken, memory = measure(methods, models, setting, data)
        rows[case] = {
            "case": case,
            **dataclasses.asdict(setting),
            "us_per_model_step": taken,
            "gb_per_model": memory if CUDA else None,
            "against": against,
        }
        rows[case]["ratio"] = taken / rows[against]["us_per_model_step"]
        print(
            f"{setting.architecture:<5} d = {setting.latents:<3} B = {setting.batch:<5} "
            f"{case:<22}{taken:>10,.1f} µs per model-step, "
            + (f"{memory:.2f} GB per model, " if CUDA else "")
            + f"{rows[case]['ratio']:.2f} × {against}",
            flush=True,
        )
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=128 if CUDA else 4)
    parser.add_argument("--latents", type=int, nargs="*", default=[10, 20])
    parser.add_argument("--batch", type=int, nargs="*", default=[64, 2048] if CUDA else [64])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    name = machine()
    print(name)
    data = uw.data.load("dsprites").to(DEVICE)
    settings = [Setting(latents) for latents in args.latents]
    settings += [Setting(20, "mlp", batch) for batch in args.batch]
    rows = [row for setting in settings for row in compare(args.models, setting, data)]
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "device": name,
            "torch": torch.__version__,
            "precision": PRECISION,
            "models": args.models,
            "rows": rows,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
