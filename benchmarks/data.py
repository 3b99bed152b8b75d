"""Rendering time and sampling throughput of every data set that needs no download.

    .venv/bin/python benchmarks/data.py [--real FILE] [--out benchmarks/results/data.json]

Prints, per data set, the seconds to render it into an empty cache, the seconds to open it
afterwards, and the images per second sampled in batches of 64 as bytes on the CPU (including
factors). With `--real FILE`, an `.npz` of published dSprites images (`bits`: packed rows,
`classes`: the five factor classes), it also counts how many are reproduced bit for bit.
"""

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import unweave as uw

BATCH = 64
SECONDS = 2.0
NAMES = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites", "rooms3d", "pendulum")


def measure(name: str, options: dict[str, Any]) -> dict[str, float]:
    start = time.perf_counter()
    uw.data.load(name, **options)
    rendered = time.perf_counter() - start
    start = time.perf_counter()
    data = uw.data.load(name, **options)
    opened = time.perf_counter() - start
    data.draw(BATCH)
    drawn, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        drawn += len(data.draw(BATCH, seed=0, step=drawn).images)
    rate = drawn / (time.perf_counter() - start)
    return {
        "images": len(data),
        "render_seconds": rendered,
        "open_seconds": opened,
        "images_per_second": rate,
    }


def read_everything(name: str) -> float:
    """Seconds to produce every image of a data set once, in order."""
    data = uw.data.load(name)
    start = time.perf_counter()
    for first in range(0, len(data), 4096):
        data.images(np.arange(first, min(first + 4096, len(data))))
    return time.perf_counter() - start


def published_matches(file: Path) -> tuple[int, int]:
    with np.load(file) as real:
        packed, classes = real["bits"], real["classes"]
    ours = np.packbits(
        uw.data.load("dsprites").images(uw.data.load("dsprites").index(classes)) > 0
    )
    same = (ours.reshape(len(packed), -1) == packed).all(axis=1)
    return int(same.sum()), len(same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path, help="Published dSprites images (.npz).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    results: dict[str, Any] = {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UNWEAVE_CACHE"] = folder
        picture = Path(folder) / "picture.png"
        noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
        Image.fromarray(noise).save(picture)
        print(f"{'data set':<18}{'images':>10}{'render s':>10}{'open s':>9}{'images/s':>12}")
        for name in NAMES:
            row = measure(name, {"picture": picture} if name == "scream_dsprites" else {})
            results[name] = row
            print(
                f"{name:<18}{row['images']:>10,}{row['render_seconds']:>10.2f}"
                f"{row['open_seconds']:>9.3f}{row['images_per_second']:>12,.0f}"
            )
        for name in ("dsprites", "rooms3d"):
            results[name]["all_images_seconds"] = seconds = read_everything(name)
            print(f"every image of {name}: {seconds:.1f} s")
        sizes = {path.parent.name: path.stat().st_size for path in Path(folder).glob("*/*.npy")}
        results["cache_bytes"] = sizes
        print(", ".join(f"cache of {name}: {size / 1e6:.1f} MB" for name, size in sizes.items()))
        if args.real:
            same, total = published_matches(args.real)
            results["published_images_reproduced"] = [same, total]
            print(f"published dSprites images reproduced bit for bit: {same:,} of {total:,}")
    results["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {results['peak_memory_mb']:.0f} MB")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
