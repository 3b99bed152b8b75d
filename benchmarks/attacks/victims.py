"""Targets of the attacks: images, trained models, a fit, a study and an interrupted training.

All are created by the commands of users, and are small enough to be created in seconds.
"""

import hashlib
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from .calling import call

__all__ = [
    "FIT",
    "LONGER",
    "SMALL",
    "STUDY",
    "TRAIN",
    "Victims",
    "leftovers",
    "make",
    "scores",
    "weights",
]

SMALL = ("--size", "32", "--channels", "1", "--factors", "factors.csv")
TRAIN = (
    "train",
    "images",
    "beta-vae",
    "--beta",
    "1",
    "4",
    "--seeds",
    "2",
    "--steps",
    "40",
    "--batch",
    "8",
    "--no-pictures",
    *SMALL,
)
FIT = ("fit", "images", "--steps", "30", "--seeds", "2", "--batch", "8", *SMALL, "--out", "fit")
LONGER = "400"
"""Steps of the interrupted training, instead of 40."""
STUDY = """
name: small
data: {load: images, size: 32, channels: 1, factors: factors.csv}
methods: {beta_vae: {beta: [1, 4]}, factor_vae: {gamma: 10}}
seeds: 2
steps: 30
metrics: [mig, sap]
settings: {batch: 8}
"""


@dataclass(frozen=True)
class Victims:
    """Folders that are copied and attacked.

    Args:
        start: Images, their factors and a study file.
        trained: `start` with the outputs `runs`, `fit` and the study `small`.
        interrupted: `start` with a checkpoint of an interrupted training in `runs`.
    """

    start: Path
    trained: Path
    interrupted: Path

    def copy(self, victim: Path, to: Path) -> Path:
        """Make a fresh copy to attack, replacing the previous one."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(victim, to, symlinks=True)
        return to


def make(folder: Path) -> Victims:
    """Create all targets."""
    start = folder / "start"
    _pictures(start)
    (start / "small.yaml").write_text(STUDY)
    trained, interrupted = folder / "trained", folder / "interrupted"
    for copy in (trained, interrupted):
        shutil.copytree(start, copy)
    for args in ((*TRAIN, "--out", "runs"), FIT, ("study", "run", "small.yaml")):
        _demand(args, trained)
    longer = [word if word != "40" else LONGER for word in TRAIN]
    outcome = call(
        [*longer, "--out", "runs"], interrupted, stop_after=2, by=signal.SIGINT, seconds=120
    )
    if outcome.code != 130 or not list((interrupted / "runs").glob("*.safetensors")):
        raise RuntimeError(f"training was not interrupted ({outcome.code}): {outcome.text}")
    return Victims(start, trained, interrupted)


def _pictures(folder: Path) -> None:
    """Draw discs of two sizes at eight positions in each direction."""
    (folder / "images").mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    ys, xs = np.mgrid[:32, :32]
    for x in range(8):
        for y in range(8):
            for radius in (3, 5):
                disc = np.hypot(xs - 4 - 3.4 * x, ys - 4 - 3.4 * y) <= radius
                name = f"{x}-{y}-{radius}.png"
                Image.fromarray(disc.astype(np.uint8) * 255).save(folder / "images" / name)
                rows.append({"file": name, "x": x, "y": y, "radius": radius})
    pd.DataFrame(rows).to_csv(folder / "factors.csv", index=False)


def _demand(args: Sequence[str], folder: Path) -> None:
    outcome = call(args, folder, seconds=300)
    if outcome.code != 0:
        raise RuntimeError(f"unweave {' '.join(args)} failed: {outcome.text}")


def weights(folder: Path) -> dict[str, str]:
    """Digest of the tensors of every model in a folder of runs, by name."""
    from safetensors.numpy import load_file

    found = {}
    for file in sorted(folder.glob("[!.]*/weights.safetensors")):
        digest = hashlib.sha256()
        for name, value in sorted(load_file(file).items()):
            digest.update(name.encode() + value.tobytes())
        found[file.parent.name] = digest.hexdigest()[:16]
    return found


def scores(folder: Path) -> str:
    """Table of a study without columns that depend on time."""
    table = pd.read_parquet(folder / "study.parquet").sort_values("run")
    columns = [name for name in table.columns if "second" not in name and name != "worker"]
    return table[columns].round(6).to_csv(index=False)


def leftovers(folder: Path) -> list[str]:
    """Temporary files that were not removed."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob(".*")
        if path.name != ".log" and not path.name.endswith((".checked", ".sum"))
    ]
