"""The command `unweave manipulate`: adversarial manipulation of images."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.app import app
from unweave.cli.options import Device, given
from unweave.errors import DataError
from unweave.io.paths import check_out

ENDING = ".safetensors"


@app.add("manipulate")
@dataclass(frozen=True, kw_only=True)
class Manipulate:
    """Learn a small change of the images that makes VAE-based methods learn entangled codes.

    With --disentangled and --entangled, the change is learned from saved runs, as published.
    Without them, it is learned from the images alone, by rotating their directions of largest
    variation. Safe to interrupt: run the same command again to resume.

    Train on the changed images: unweave train dsprites-modified beta-vae --path FILE. As a
    control, dsprites-noise adds random noise instead.

    Example: unweave manipulate dsprites --disentangled runs/0f3a… --entangled runs/77c1…
    """

    source: Annotated[
        Positional[str],
        arg(
            metavar="DATA",
            help="dsprites, rooms3d, shapes3d, or images with a full grid of factors.",
        ),
    ]
    disentangled: Annotated[
        tuple[Path, ...],
        arg(
            metavar="RUN…",
            help="Saved runs on these images with disentangled codes.",
            help_behavior_hint="",
        ),
    ] = ()
    entangled: Annotated[
        tuple[Path, ...],
        arg(metavar="RUN…", help="Saved runs with entangled codes.", help_behavior_hint=""),
    ] = ()
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="Output file (.safetensors).")
    ] = Path("m.safetensors")
    epsilon: float | None = None
    """Largest change of a pixel, in [0, 1] (default: 0.175 for rooms3d, otherwise 0.1)."""
    steps: int | None = None
    """Number of training steps (default: 30,000 with runs, 6,000 without)."""
    batch: int = 64
    """Batch size."""
    draws: int | None = None
    """Number of codes sampled per image, with runs only (default: 5)."""
    seed: int = 0
    """Random seed."""
    picture: Annotated[
        Path | None,
        arg(
            metavar="FILE", help="Figure of original images, changed images and their difference."
        ),
    ] = None
    precision: Literal["float32", "tf32"] = "float32"
    """Precision of matrix multiplications on a GPU; tf32 is faster."""
    device: Device = None
    factors: Path | None = None
    """For custom images: CSV of known factors."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.data import load
        from unweave.data.catalog import DATASETS
        from unweave.papers.inductive_biases.manipulation import (
            change_sizes,
            manipulate,
            show_changes,
            turn_directions,
        )
        from unweave.papers.inductive_biases.manipulation.training import Training
        from unweave.plots.saving import PICTURES

        # The file may exist: the same command, run again, resumes from it.
        check_out(self.out, (ENDING,), overwrite=True)
        check_out(self.picture, PICTURES, self.overwrite)
        attack = bool(self.disentangled)
        if attack != bool(self.entangled) or (self.draws is not None and not attack):
            raise DataError(
                "the published attack requires both --disentangled and --entangled; to learn "
                "from the images alone, leave out both and --draws"
            )
        data = load(self.source, **({} if self.factors is None else {"factors": self.factors}))
        shared = {"draws", *(field.name for field in fields(Training))}
        settings = {name: value for name, value in given(self).items() if name in shared}
        if attack:
            m = manipulate(data, self.disentangled, self.entangled, **settings)
        else:
            m = turn_directions(data, **settings)
        modified = m.modified(data)
        sizes = change_sizes(data, modified)
        print(f"{m.course[0].upper()}{m.course[1:]}")
        print(
            f"Change per pixel: at most {sizes['linf']:.3g}, {sizes['rms']:.3g} on average (RMS); "
            f"{sizes['changed']:.0%} of the pixels change"
        )
        if self.picture is not None:
            show_changes(data, {"modified": modified}, scale=m.epsilon).save(self.picture)
            print(f"Changes: {self.picture}")
        name = f"{data.name}_modified"
        if name in DATASETS:
            use = f"to train: unweave train {name.replace('_', '-')} beta-vae --path {self.out}"
        else:
            use = f"in Python: Manipulation.load({str(self.out)!r}).modified(data)"
        print(f"Data set: {self.out}; {use}")
