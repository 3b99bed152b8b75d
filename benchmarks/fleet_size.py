"""Accuracy of `--fleet-size auto`: estimated and actual number of FactorVAEs that fit on a GPU.

    python benchmarks/fleet_size.py [--out FILE]

For each precision: the estimated size, the memory of a fleet of that size, and whether a fleet
that is a fifth larger also fits. Then the error message when nearly all memory is in use.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import unweave as uw
from unweave.errors import UnweaveError
from unweave.fleet.capacity import fleet_capacity, memory_of_training
from unweave.models.config import Config

MORE_THAN_FIT = 4_000
DEVICE = torch.device("cuda")
LEFT = 250_000_000
"""Bytes of free memory for the last test."""


def runs(count: int, precision: str) -> list[Config]:
    method = uw.methods.FactorVAE()
    return [Config(method=method, seed=seed, precision=precision) for seed in range(count)]


def at_the_limit(precision: str, data: uw.data.Dataset) -> dict[str, Any]:
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    start = time.perf_counter()
    count = fleet_capacity(runs(MORE_THAN_FIT, precision), data, DEVICE)
    seconds = time.perf_counter() - start
    taken = memory_of_training(runs(count, precision), data, DEVICE)
    try:
        memory_of_training(runs(count * 6 // 5, precision), data, DEVICE)
        larger = True
    except torch.cuda.OutOfMemoryError:
        larger = False
    return {
        "precision": precision,
        "models": count,
        "seconds": seconds,
        "share_of_memory": taken / free,
        "a_fifth_more_fits": larger,
    }


def without_room(models: int, data: uw.data.Dataset) -> str:
    """Error message when not even one model fits."""
    torch.cuda.empty_cache()
    size = torch.cuda.mem_get_info()[0] - LEFT
    taken = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    try:
        uw.train(uw.methods.FactorVAE(), data, seeds=models, steps=3, progress=False)
    except UnweaveError as error:
        return str(error)
    finally:
        del taken
    return "trained"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    data = uw.data.load("dsprites")
    result = {
        "device": torch.cuda.get_device_name(),
        "limits": [at_the_limit(precision, data) for precision in ("bf16", "float32")],
        "without_room": {models: without_room(models, data) for models in (1, 8)},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
