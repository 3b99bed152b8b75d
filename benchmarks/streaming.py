"""Throughput of images that are streamed from disk, compared with images in memory.

    python benchmarks/streaming.py [--images 20000] [--models 1 8] [--out FILE]

Writes random colour images of 64 × 64 pixels to a temporary folder, as a `.npy` file and as Zarr
arrays if zarr is installed, trains β-VAEs on them and encodes them. Files have just been written,
so that most reads come from the page cache of the system: the ratio is the cost of streaming apart
from the disk. Both ways must have bit-identical codes.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import unweave as uw
from unweave.data import streaming
from unweave.fleet.engine import Engine
from unweave.fleet.train import all_runs

SIDE, CHUNKS = 64, (1, 64)


@contextmanager
def share_of_memory(share: float) -> Iterator[None]:
    """Set the share of memory above which arrays are streamed."""
    before, streaming.SHARE = streaming.SHARE, share
    try:
        yield
    finally:
        streaming.SHARE = before


def sources(folder: Path, count: int) -> Iterator[tuple[str, Path]]:
    """Write images in several formats."""
    images = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    np.save(folder / "images.npy", images)
    yield "npy", folder / "images.npy"
    try:
        import zarr
    except ImportError:
        return
    for chunk in CHUNKS:
        path = folder / f"chunks-of-{chunk}.zarr"
        chunks = (chunk, *images.shape[1:])
        zarr.create_array(str(path), shape=images.shape, chunks=chunks, dtype="u1")[:] = images
        yield f"zarr, {counted(chunk)} a chunk", path


def counted(count: int) -> str:
    return "1 image" if count == 1 else f"{count} images"


def step_time(data: uw.data.Dataset, models: int, device: torch.device, steps: int) -> float:
    """Measure the seconds of a training step, after some steps to warm up."""
    runs = all_runs("beta_vae", data, models, steps, latents=10, batch=64)
    engine = Engine(runs, data, device)
    engine.advance(max(20, steps // 10) if device.type == "cuda" else 2)
    engine.fetch()
    start = time.perf_counter()
    engine.advance(steps)
    engine.fetch()
    return (time.perf_counter() - start) / steps


def measured(
    path: Path, models: list[int], device: torch.device, steps: int
) -> tuple[dict[str, Any], Any]:
    """Measure training and encoding; return the results and the codes."""
    data = uw.data.load(path)
    kind = type(data.to(device).store).__name__
    train = {str(count): step_time(data, count, device, steps) for count in models}
    fleet = uw.train("vae", data, steps=5, batch=64, device=device, progress=False)
    uw.encode(fleet[0], data, device=device, progress=False)
    start = time.perf_counter()
    codes = uw.encode(fleet[0], data, device=device, progress=False)
    rate = len(data) / (time.perf_counter() - start)
    return {"store": kind, "ms_per_step": train, "encoded_per_second": rate}, codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000, help="Number of images.")
    parser.add_argument("--models", type=int, nargs="+", default=[1, 8], help="Sizes of fleets.")
    parser.add_argument("--steps", type=int, default=20, help="Steps that are timed.")
    parser.add_argument("--device", help="Device (default: a GPU if available).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in sources(Path(folder), args.images):
            found = {}
            for kind, share in {"memory": 0.9, "streamed": 0.0}.items():
                with share_of_memory(share):
                    found[kind] = measured(path, args.models, device, args.steps)
            (memory, expected), (streamed, codes) = found.values()
            rows.append(
                {
                    "source": name,
                    "identical": bool(expected.equals(codes)),
                    "ms_per_step": {
                        each: {
                            "memory": round(1e3 * one, 3),
                            "streamed": round(1e3 * streamed["ms_per_step"][each], 3),
                            "ratio": round(streamed["ms_per_step"][each] / one, 3),
                        }
                        for each, one in memory["ms_per_step"].items()
                    },
                    "encoded_per_second": {
                        kind: round(each["encoded_per_second"])
                        for kind, each in {"memory": memory, "streamed": streamed}.items()
                    },
                    "stores": [memory["store"], streamed["store"]],
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    about = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "cores": os.cpu_count(),
        "images": args.images,
        "shape": [SIDE, SIDE, 3],
        "batch": 64,
        "steps": args.steps,
    }
    if args.out:
        args.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
