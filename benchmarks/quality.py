"""FID and KID of the full example in the documentation of torchmetrics.

    python benchmarks/quality.py [--weights FILE] [--device cpu] [--features FILE.npz]

The documented values are FID(64) 12.6388 and KID 0.0312 ± 0.0025. Also prints the time per image.
`--features` saves the 2048 features of both sets, as used in `tests/quality/golden`.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import unweave as uw

DRAWN_BEFORE = 21_751_136 + 2_048 * 1_008 + 1_008
"""Number of initial weights of torchmetrics' network, sampled before the images."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, help="Weights of the Inception network.")
    parser.add_argument("--device", help="Device (default: a GPU if available).")
    parser.add_argument("--features", type=Path, help="Output file for features (.npz).")
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
    print(f"KID {own.mean:.4f} ± {own.std:.4f} with random subsets")
    one, other = uw.quality.Statistics.of(x), uw.quality.Statistics.of(y)
    print(f"FID {uw.quality.frechet_distance(one, other):.4f}")
    if arguments.features:
        np.savez_compressed(
            arguments.features, real=x.astype(np.float16), generated=y.astype(np.float16)
        )


if __name__ == "__main__":
    main()
