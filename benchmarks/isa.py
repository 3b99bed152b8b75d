"""What an Lp-nested prior costs: a model-step of ISA-VAE against one of β-VAE, in fleets alike.

    python benchmarks/isa.py [--models 128] [--latents 10 20] [--out FILE]

A model-step is one update of one model on 64 images of dSprites with the protocol's network. The
ratio is what counts, from the same run: ISA-VAE, with fixed and with learned exponents and with
two layouts in one fleet, to β-VAE; ISA-TCVAE to β-TCVAE, which has the same estimate of the total
correlation.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from fleet import STEPS_AT_ONCE, machine, seconds

import unweave as uw
from unweave.fleet.config import Config
from unweave.fleet.engine import Engine
from unweave.methods import ISATCVAE, ISAVAE, BetaTCVAE, BetaVAE, Method

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
        "beta_tc_vae": ([BetaTCVAE()], "beta_tc_vae"),
        "isa_tc_vae": ([ISATCVAE()], "beta_tc_vae"),
    }


def microseconds(methods: list[Method], models: int, latents: int, data: uw.data.Dataset) -> float:
    """Per model and step."""
    configs = [
        Config(
            method=methods[seed % len(methods)], seed=seed, latents=latents, precision=PRECISION
        )
        for seed in range(models)
    ]
    engine = Engine(configs, data, DEVICE)
    engine.advance(Engine.STEPS_TO_FULL_MEMORY if CUDA else 1)
    steps = STEPS_AT_ONCE if CUDA else 1
    return seconds(lambda: engine.advance(steps), 2.0, DEVICE) / steps / models * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=128 if CUDA else 4)
    parser.add_argument("--latents", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    name = machine()
    print(name)
    data = uw.data.load("dsprites").to(DEVICE)
    rows: list[dict[str, Any]] = []
    for latents in args.latents:
        found: dict[str, float] = {}
        for case, (methods, against) in cases(latents).items():
            found[case] = microseconds(methods, args.models, latents, data)
            rows.append(
                {
                    "case": case,
                    "latents": latents,
                    "us_per_model_step": found[case],
                    "against": against,
                    "ratio": found[case] / found[against],
                }
            )
            print(
                f"d = {latents:<3} {case:<22}{found[case]:>10,.1f} µs per model-step, "
                f"{rows[-1]['ratio']:.2f} × {against}",
                flush=True,
            )
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
