"""Training throughput of one fleet of several methods, and of one fleet per method.

    python benchmarks/mixed.py [--data dsprites] [--seeds 2] [--strengths 6] [--methods NAME …]
                               [--precision bf16] [--out FILE]

The models are those of the large study: six methods with six strengths each, two seeds. Times are
per model and step, with ratios to the plain loop of `benchmarks/fleet.py` in the same run. The
losses of both ways are compared after 50 steps; they differ by rounding on a GPU, because matrix
products of other sizes may round differently.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fleet import STEPS_AT_ONCE, free_memory, load_data, machine, plain_step, seconds

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.methods import METHODS
from unweave.models.config import Config, group_into_fleets

STUDY: dict[str, dict[str, list[float]]] = {
    "beta_vae": {"beta": [1, 2, 4, 6, 8, 16]},
    "factor_vae": {"gamma": [10, 20, 30, 40, 50, 100]},
    "dip_vae_i": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "dip_vae_ii": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "beta_tc_vae": {"beta": [1, 2, 4, 6, 8, 10]},
    "annealed_vae": {"c_max": [5, 10, 25, 50, 75, 100]},
}
COMPARED_STEPS = 50


def time_fleet(
    configs: Sequence[Config], data: uw.data.Dataset, device: torch.device
) -> tuple[float, dict[str, float], float]:
    """Return microseconds per step, the loss of each run after some steps, and megabytes."""
    cuda = device.type == "cuda"
    before = free_memory(device)
    engine = Engine(configs, data, device)
    engine.advance(COMPARED_STEPS - 10)
    engine.fetch()
    engine.advance(10)
    loss = dict(zip((one.hash for one in engine.configs), engine.fetch()[0].tolist(), strict=True))
    steps = STEPS_AT_ONCE if cuda else 1
    each = seconds(lambda: engine.advance(steps), 2.0, device) / steps
    used = (torch.cuda.max_memory_reserved() if cuda else free_memory(device)) - before
    return each * 1e6, loss, used / 1e6


def row(
    name: str,
    methods: Sequence[str],
    strengths: int,
    seeds: int,
    precision: str,
    device: torch.device,
    plain: float,
) -> dict[str, Any]:
    """Compare both ways of training the study's models on a data set."""
    data = load_data(name).to(device)
    configs = [
        Config(method=method, seed=seed, precision=precision)
        for kind in methods
        for method in METHODS[kind](**{n: v[:strengths] for n, v in STUDY[kind].items()}).grid()
        for seed in range(seeds)
    ]
    together, losses, memory = time_fleet(configs, data, device)
    apart, worst, by_method = 0.0, 0.0, {}
    for fleet in group_into_fleets(configs, mixed=False):
        each, own, _ = time_fleet(fleet, data, device)
        apart += each
        by_method[fleet[0].method.name] = each / len(fleet)
        worst = max(worst, *(abs(losses[run] / loss - 1) for run, loss in own.items()))
    found = {"one fleet": together / len(configs), "a fleet per method": apart / len(configs)}
    return {
        "data": name,
        "models": len(configs),
        "us_per_model_step": found,
        "times_plain": {way: plain / each for way, each in found.items()},
        "us_by_method": by_method,
        "largest_relative_difference_of_losses": worst,
        "megabytes": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["dsprites"], help="Data sets.")
    parser.add_argument("--methods", nargs="+", default=list(STUDY), help="Methods.")
    parser.add_argument("--strengths", type=int, default=6, help="Strengths per method.")
    parser.add_argument("--seeds", type=int, default=2, help="Seeds per strength.")
    parser.add_argument("--precision", help="Precision (default: bf16 on a GPU).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = args.precision or ("bf16" if device.type == "cuda" else "float32")
    plain = seconds(plain_step(device), 3.0, device)
    rows = [
        row(name, args.methods, args.strengths, args.seeds, precision, device, plain * 1e6)
        for name in args.data
    ]
    about = {"device": machine(), "torch": torch.__version__, "precision": precision}
    result = {**about, "plain_us": plain * 1e6, "rows": rows}
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
