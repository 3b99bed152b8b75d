"""Render a folder of small images and fit models to it, as you would with your own images.

    python examples/demo.py [--steps 4000] [--out demo]

The images show one white shape: a square, an ellipse or a heart of six sizes at 16 × 8 positions.
Four models are trained on them without labels. The table of factors is only used to label the
latents of the chosen model in the report.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import unweave as uw
from unweave.cli import main as unweave

NAMES = ("shape", "size", "turn", "x", "y")
FIT = "--size 32 --method beta-tc-vae --strengths 6 --seeds 4 --batch 32 --learning-rate 0.002"


def sprites() -> uw.data.Dataset:
    """Return upright sprites of dSprites near the centre, which fill 32 × 32 pixels well."""
    return uw.data.load("dsprites").slice(orientation=0, posX=range(8, 24), posY=range(12, 20))


def write_images(folder: Path, factors: Path) -> None:
    """Write 2,304 PNG files of 32 × 32 pixels, and a CSV of the factors that made them."""
    data = sprites()
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number:04}.png" for number in range(len(data))]
    for name, image in zip(names, data[:][:, 16:48, 16:48, 0], strict=True):
        Image.fromarray(image).save(folder / name)
    values = pd.DataFrame(data.factors(np.arange(len(data))), columns=list(NAMES))
    table = values[[name for name in NAMES if name != "turn"]]
    table.insert(0, "file", names)
    table.to_csv(factors, index=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    args = parser.parse_args()
    images, factors = args.out / "images", args.out / "factors.csv"
    write_images(images, factors)
    options = f"fit {images} --factors {factors} {FIT} --steps {args.steps}"
    print(f"unweave {options} --out {args.out / 'fit'}")
    unweave([*options.split(), "--out", str(args.out / "fit")])
    if shutil.which("unweave") is None:
        print("To use the command unweave in this shell: source .venv/bin/activate")


if __name__ == "__main__":
    main()
