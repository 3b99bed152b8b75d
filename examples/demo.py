"""Make a folder of small pictures, and do with it what anybody would do with their own.

python examples/demo.py [--minutes 1.8] [--out demo]

It runs `unweave fit demo/images --size 32 --factors demo/factors.csv --minutes 1.8 -o demo/fit`:
eight models side by side, one chosen without labels, pictures, codes and a report.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import unweave as uw
from unweave.cli import main as unweave

FACTORS = ("shape", "scale", "turn", "x", "y")


def write_pictures(folder: Path, factors: Path) -> None:
    """3,072 sprites of 32 × 32: three shapes, two sizes, two turns, 16 × 16 places."""
    data = uw.data.load("dsprites").slice(
        scale=[2, 5], orientation=[0, 5], posX=range(0, 32, 2), posY=range(0, 32, 2)
    )
    folder.mkdir(parents=True, exist_ok=True)
    images = data[:].reshape(len(data), 32, 2, 32, 2).mean((2, 4)).astype(np.uint8)
    names = [f"{number:04}.png" for number in range(len(data))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image).save(folder / name)
    table = pd.DataFrame(data.factors(np.arange(len(data))), columns=list(FACTORS))
    table.insert(0, "file", names)
    table.to_csv(factors, index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.8)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    args = parser.parse_args()
    images, factors = args.out / "images", args.out / "factors.csv"
    write_pictures(images, factors)
    words = f"fit {images} --size 32 --factors {factors} --minutes {args.minutes:g}"
    print(f"unweave {words} --out {args.out / 'fit'}")
    unweave([*words.split(), "--out", str(args.out / "fit")])
    if shutil.which("unweave") is None:
        print("To have the command unweave in this shell: source .venv/bin/activate")


if __name__ == "__main__":
    main()
