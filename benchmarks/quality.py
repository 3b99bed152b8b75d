"""FID and KID of the example in torchmetrics' documentation, in full.

    python benchmarks/quality.py [--weights FILE] [--device cpu] [--features FILE.npz]

Documented are FID(64) 12.6388 and KID 0.0312 ± 0.0025. Also printed is how long an image takes.
`--features` keeps the 2048 features of both sets, as `tests/quality/golden` has them.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import unweave as uw

DRAWN_BEFORE = 21_751_136 + 2_048 * 1_008 + 1_008
"""The initial weights of torchmetrics' own network, drawn from the same seed before the images."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--features", type=Path)
    arguments = parser.parse_args()
    options = {"weights": arguments.weights, "device": arguments.device}
    generator = torch.Generator().manual_seed(42)
    torch.rand(DRAWN_BEFORE, generator=generator)
    real, generated = (
        torch.randint(*limits, (100, 3, 299, 299), dtype=torch.uint8, generator=generator)
        for limits in ((0, 200), (100, 255))
    )
    sets = [images.permute(0, 2, 3, 1) for images in (real, generated)]
    print(f"FID(64) {uw.quality.fid(*sets, features=64, **options):.4f}")
    start = time.perf_counter()
    x, y = (uw.quality.inception_features(images, **options) for images in sets)
    print(f"{(time.perf_counter() - start) / (len(x) + len(y)) * 1e3:.1f} ms per image")
    subsets = [
        [torch.randperm(100, generator=generator)[:50].numpy() for _ in sets] for _ in range(100)
    ]
    values = [uw.quality.squared_mmd(x[first], y[second]) for first, second in subsets]
    print(f"KID {np.mean(values):.4f} ± {np.std(values):.4f} with torchmetrics' subsets")
    own = uw.quality.kid_of_features(x, y, subset_size=50)
    print(f"KID {own.mean:.4f} ± {own.std:.4f} with our own")
    one, other = uw.quality.Statistics.of(x), uw.quality.Statistics.of(y)
    print(f"FID {uw.quality.frechet_distance(one, other):.4f}")
    if arguments.features:
        np.savez_compressed(
            arguments.features, real=x.astype(np.float16), generated=y.astype(np.float16)
        )


if __name__ == "__main__":
    main()
