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


class Subject:
    """Training and encoding of images from one source, in memory or streamed."""

    def __init__(self, path: Path, share: float, models: list[int], device: torch.device) -> None:
        self.share, self.device = share, device
        with share_of_memory(share):
            self.data = uw.data.load(path)
            self.store = type(self.data.to(device).store).__name__
            fleet = uw.train("vae", self.data, steps=5, batch=64, device=device, progress=False)
            self.model = fleet[0]
            self.engines = {}
            for count in models:
                runs = all_runs("beta_vae", self.data, count, 10**6, latents=10, batch=64)
                self.engines[count] = Engine(runs, self.data, device)
                self.engines[count].advance(20 if device.type == "cuda" else 1)

    def step_time(self, models: int, steps: int) -> float:
        """Measure the seconds of a training step."""
        engine = self.engines[models]
        engine.fetch()
        start = time.perf_counter()
        engine.advance(steps)
        engine.fetch()
        return (time.perf_counter() - start) / steps

    def encode(self) -> tuple[float, Any]:
        """Measure the seconds of encoding all images; return them and the codes."""
        with share_of_memory(self.share):
            start = time.perf_counter()
            codes = uw.encode(self.model, self.data, device=self.device, progress=False)
            return time.perf_counter() - start, codes


def compared(
    path: Path, models: list[int], device: torch.device, steps: int, repeats: int
) -> dict[str, Any]:
    """Measure both ways in turn, and return the shortest times, which other programs lengthen."""
    both = {
        kind: Subject(path, share, models, device)
        for kind, share in {"memory": 0.9, "streamed": 0.0}.items()
    }
    train: dict[str, Any] = {}
    for count in models:
        times: dict[str, list[float]] = {kind: [] for kind in both}
        for _ in range(repeats):
            for kind, one in both.items():
                times[kind].append(one.step_time(count, steps))
        least = {kind: min(found) for kind, found in times.items()}
        train[str(count)] = {kind: round(1e3 * each, 3) for kind, each in least.items()}
        train[str(count)]["ratio"] = round(least["streamed"] / least["memory"], 3)
    found = [{kind: one.encode() for kind, one in both.items()} for _ in range(repeats)]
    fastest = {kind: min(each[kind][0] for each in found) for kind in both}
    return {
        "stores": {kind: one.store for kind, one in both.items()},
        "identical": bool(found[0]["memory"][1].equals(found[0]["streamed"][1])),
        "ms_per_step": train,
        "encoded_per_second": {
            kind: round(len(both[kind].data) / seconds) for kind, seconds in fastest.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000, help="Number of images.")
    parser.add_argument("--models", type=int, nargs="+", default=[1, 8], help="Sizes of fleets.")
    parser.add_argument("--steps", type=int, default=20, help="Steps that are timed.")
    parser.add_argument("--repeats", type=int, default=5, help="Measurements; the best counts.")
    parser.add_argument("--device", help="Device (default: a GPU if available).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in sources(Path(folder), args.images):
            found = compared(path, args.models, device, args.steps, args.repeats)
            rows.append({"source": name, **found})
            print(json.dumps(rows[-1]), flush=True)
    about = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "cores": os.cpu_count(),
        "images": args.images,
        "shape": [SIDE, SIDE, 3],
        "batch": 64,
        "steps": args.steps,
        "repeats": args.repeats,
        "threads": torch.get_num_threads(),
    }
    if args.out:
        args.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
