"""Cost of an Lp-nested prior: a model-step of ISA-VAE compared with one of β-VAE, in equal fleets.

    python benchmarks/isa.py [--models 128] [--latents 10 20] [--batch 64 2048] [--out FILE]

A model-step is one update of one model on dSprites: with the protocol's network, 64 images and
`--latents` latents; and with dense layers, 20 latents and batches of `--batch`, as in the paper.
The results are ratios within the same run: ISA-VAE (with fixed exponents, with learned exponents,
and with two layouts in one fleet) to β-VAE; β-TCVAE to β-VAE, which estimates no total
correlation; ISA-TCVAE to β-TCVAE, which uses the same estimate.

That estimate needs B² d densities: 84 million for a batch of 2,048 and 20 latents. The kernels, as
compiled for an H200, need about 50 instructions and 3 exponentials for each, forward and backward.
At 132 × 4 instructions for 32 threads and 132 × 16 exponentials per cycle, and 1.75 GHz, these
take 0.15 ms and 0.07 ms: the least that β-TCVAE adds to a model-step of β-VAE.
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
    """Timed cases: the methods that alternate in a fleet, and the case to compare with."""
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
    """Settings shared by all cases of one comparison."""

    latents: int
    architecture: str = "conv"
    batch: int = 64


def measure(
    methods: list[Method], models: int, setting: Setting, data: uw.data.Dataset
) -> tuple[float, float]:
    """Microseconds per model-step, and on a GPU the peak gigabytes per model."""
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
    """Measure and print all cases of one setting."""
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
    models, batches = (128, [64, 2048]) if CUDA else (4, [64])
    parser.add_argument("--models", type=int, default=models, help="Models in a fleet.")
    parser.add_argument("--latents", type=int, nargs="*", default=[10, 20], help="Latents.")
    parser.add_argument("--batch", type=int, nargs="*", default=batches, help="Batch sizes.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
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
