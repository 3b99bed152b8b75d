"""The command `unweave manipulate`: what it reads, writes and prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unweave.data import load
from unweave.data.catalog import DATASETS
from unweave.errors import DataError
from unweave.io.paths import check_out
from unweave.papers.inductive_biases.manipulation import (
    change_sizes,
    manipulate,
    show_changes,
    turn_directions,
)
from unweave.plots.saving import PICTURES
from unweave.progress import tell

__all__ = ["manipulate_images"]

ENDING = ".safetensors"


def manipulate_images(
    source: str,
    disentangled: Sequence[Path],
    entangled: Sequence[Path],
    out: Path,
    picture: Path | None,
    overwrite: bool,
    *,
    loading: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> None:
    """Train m, write its file, and say how large the change is and how to train on it.

    Args:
        source: The images.
        disentangled: Runs; without them and the next, m is learned from the images alone.
        entangled: Runs.
        out: The file of m.
        picture: A file for a sheet of changed images.
        overwrite: Whether files may be there already.
        loading: Options of loading the images.
        settings: Of `manipulate`, or `turn_directions`.
    """
    # A file that this same command wrote before is no mistake: it is found and taken.
    check_out(out, (ENDING,), overwrite=True)
    check_out(picture, PICTURES, overwrite)
    if bool(disentangled) != bool(entangled) or ("draws" in settings and not disentangled):
        raise DataError(
            "the published attack needs both --disentangled and --entangled; give neither of "
            "them, nor --draws, to learn from the images alone"
        )
    data = load(source, **loading)
    if disentangled:
        m = manipulate(data, disentangled, entangled, out=out, overwrite=overwrite, **settings)
    else:
        m = turn_directions(data, out=out, overwrite=overwrite, **settings)
    modified = m.modified(data)
    sizes = change_sizes(data, modified)
    tell(f"{m.course[0].upper()}{m.course[1:]}")
    tell(
        f"Pixels move by at most {sizes['linf']:.3g}, in the mean by {sizes['rms']:.3g} (rms); "
        f"{sizes['changed']:.0%} of them change"
    )
    if picture is not None:
        show_changes(data, {"modified": modified}, scale=m.epsilon).save(picture)
        tell(f"Changes: {picture}")
    name = f"{data.name}_modified"
    if name in DATASETS:
        named = name.replace("_", "-")
        tell(f"Data set: {out}; for example, unweave train {named} beta-vae --path {out}")
    else:
        tell(f"Data set: {out}; in Python, Manipulation.load({str(out)!r}).modified(data)")
