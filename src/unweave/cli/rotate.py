"""The command `unweave rotate`: choose the axes of an autoencoder's codes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from unweave.cli.app import app
from unweave.cli.options import CustomImages, SavedModel, Source, given
from unweave.errors import UnweaveError
from unweave.io.paths import check_folder
from unweave.progress import print_output

__all__ = ["Rotate"]


@app.add("rotate")
@dataclass(frozen=True, kw_only=True)
class Rotate:
    """Rotate the codes of a trained autoencoder, for example to independent components.

    Example: unweave rotate runs/0f3a… dsprites -o rotated
    """

    model: SavedModel
    source: Source
    to: Literal["ica", "pca", "varimax", "random"] = "ica"
    """Independent components, principal components, varimax, or a random rotation as a control."""
    seed: int = 0
    """Random seed of the images and of the algorithm."""
    out: Annotated[Path, arg(aliases=["-o"], help="Output folder; must not exist.")] = Path(
        "rotated"
    )
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.data import load
        from unweave.models.rotating import rotate

        if self.out.exists():
            raise UnweaveError(f"{self.out} already exists; choose another folder", subject="out")
        check_folder(self.out)
        data = load(self.source, **given(self.images))
        rotated = rotate(self.model, data, self.to, seed=self.seed)
        rotated.save(self.out)
        print_output(f"Wrote {self.out}: {rotated!r}")
