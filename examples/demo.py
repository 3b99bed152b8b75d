"""Train eight models side by side on a small grid of sprites, and draw what their latents do.

python examples/demo.py [--steps 800] [--out demo]
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np

import unweave as uw


def small_sprites() -> uw.data.Dataset:
    """3,072 sprites of 32 × 32: three shapes, two sizes, two turns, 16 × 16 places."""
    full = uw.data.load("dsprites").slice(
        scale=[2, 5], orientation=[0, 5], posX=range(0, 32, 2), posY=range(0, 32, 2)
    )
    images = full[:].reshape(len(full), 32, 2, 32, 2).mean((2, 4)) / 255
    factors = full.factors(np.arange(len(full)))
    table = {name: factors[:, k] for k, name in enumerate(("shape", "scale", "turn", "x", "y"))}
    return uw.data.load(images, factors=table, name="small_sprites")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data = small_sprites()
    print(data)
    uw.show.contact_sheet(data).save(args.out / "data.png")
    fleet = uw.train(
        uw.methods.BetaVAE(beta=[1, 4]),
        data,
        seeds=4,
        steps=args.steps,
        out=args.out / "runs",
        optimiser=uw.Adam(lr=1e-3),
    )
    for model in fleet:
        strength = dataclasses.asdict(model.config.method)["beta"]
        picture = args.out / f"beta-{strength:g}-seed-{model.config.seed}.png"
        uw.show.traversals(model, data).save(picture)
        last = model.curve.iloc[-1]
        print(f"{picture}  reconstruction {last.reconstruction:.1f} nats, KL {last.kl:.1f} nats")
    print(f"{len(fleet)} models: {args.out / 'runs'}; what their latents do: {args.out}/*.png")


if __name__ == "__main__":
    main()
