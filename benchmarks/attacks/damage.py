"""Damaged files: every command that reads them must report the damage or be unaffected."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .calling import Tally, call
from .victims import LONGER, TRAIN, Victims, scores, weights

__all__ = ["damage"]


@dataclass(frozen=True)
class Reader:
    """A command that reads some files.

    Args:
        args: Arguments of the command.
        result: Function that reads the result; after success it must equal that of intact files.
    """

    args: Sequence[str]
    result: Callable[[Path], Any]


def _file(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).read_bytes()


def _nothing(_: Path) -> None:
    """Result of a command whose exit code alone is compared."""


RUN_READERS = {
    "encode": Reader(("encode", "RUN", "images", "-o", "codes.csv"), _file("codes.csv")),
    "evaluate": Reader(
        (
            "evaluate",
            "RUN",
            "--data",
            "images",
            "--size",
            "32",
            "--channels",
            "1",
            "--factors",
            "factors.csv",
            "--metrics",
            "mig",
            "-o",
            "scores.csv",
        ),
        _file("scores.csv"),
    ),
    "show": Reader(
        ("show", "RUN", "--kind", "samples", "-o", "samples.png"), _file("samples.png")
    ),
    "report": Reader(
        ("report", "runs", "-o", "page.html", "--data", "images", "--size", "32"), _nothing
    ),
}
STUDY_READERS = {
    "study table": Reader(
        ("study", "table", "small", "-o", "table.csv"), lambda folder: scores(folder / "small")
    ),
    "study check": Reader(("study", "check", "small"), _nothing),
    "study run": Reader(("study", "run", "small.yaml"), lambda folder: scores(folder / "small")),
}


def damage(victims: Victims, folder: Path, flips: int, seed: int = 0) -> list[Tally]:
    """Damage every file of a run, a study, a checkpoint and the cache in many ways.

    Args:
        victims: Folders to copy and damage.
        folder: Working folder.
        flips: Number of single bits of each file to flip, one at a time.
        seed: Seed of the flipped bits.
    """
    generator = np.random.default_rng(seed)
    place = folder / "damaged"
    return [
        _run_files(victims, place, flips, generator),
        _study_files(victims, place, flips, generator),
        _checkpoints(victims, place, flips, generator),
        _cache(victims, place, flips, generator),
    ]


def _run_files(victims: Victims, place: Path, flips: int, generator: np.random.Generator) -> Tally:
    tally = Tally("damage: runs")
    runs = sorted((victims.trained / "runs").glob("[!.]*"))
    run, other = runs[0].name, runs[1]
    wanted = _wanted(victims, place, RUN_READERS, run)
    for name in ("config.json", "weights.safetensors", "curve.parquet", "SHA256SUMS"):
        for how, harm in _harms(other / name, flips, generator):
            for command, reader in _some(RUN_READERS, how, name):
                victims.copy(victims.trained, place)
                harm(place / "runs" / run / name)
                case = f"{name} {how}: {command}"
                _judge(tally, case, reader, place, wanted[command], run)
    return tally


def _study_files(
    victims: Victims, place: Path, flips: int, generator: np.random.Generator
) -> Tally:
    """Damage the files of a study; damage that changes results without an error is silent."""
    tally = Tally("damage: studies")
    wanted = _wanted(victims, place, STUDY_READERS, "")
    study = victims.trained / "small"
    scored = next(study.glob("runs/*/scores.json")).relative_to(study)
    for name in ("ledger.sqlite", "study.json", str(scored)):
        for how, harm in _harms(victims.trained / "small.yaml", flips, generator):
            for command, reader in STUDY_READERS.items():
                victims.copy(victims.trained, place)
                for log in (place / "small").glob("ledger.sqlite-*"):
                    log.unlink()
                harm(place / "small" / name)
                _judge(tally, f"{name} {how}: {command}", reader, place, wanted[command], "")
    return tally


def _checkpoints(
    victims: Victims, place: Path, flips: int, generator: np.random.Generator
) -> Tally:
    """Resume from damaged checkpoints: training must give the same weights or report an error."""
    tally = Tally("damage: checkpoints")
    args = [*(word if word != "40" else LONGER for word in TRAIN), "--out", "runs"]
    victims.copy(victims.interrupted, place)
    whole = call(args, place, seconds=600)
    if whole.code != 0:
        raise RuntimeError(f"resuming failed: {whole.text}")
    wanted = weights(place / "runs")
    for how, harm in _harms(victims.start / "small.yaml", flips, generator):
        victims.copy(victims.interrupted, place)
        for file in (place / "runs").glob("*.safetensors"):
            harm(file)
        outcome = call(args, place, seconds=600)
        tally.add(f"{how}", outcome, weights(place / "runs") == wanted)
    return tally


def _cache(victims: Victims, place: Path, flips: int, generator: np.random.Generator) -> Tally:
    """Damage the files of a cached data set: `data check` must report it."""
    tally = Tally("damage: cached data")
    prepared = place.parent / "prepared"
    shutil.rmtree(prepared, ignore_errors=True)
    victims.copy(victims.start, prepared)
    cache = {"UNWEAVE_CACHE": "cache"}
    call(("data", "prepare", "dsprites"), prepared, environment=cache)
    for how, harm in _harms(victims.start / "small.yaml", flips, generator):
        victims.copy(prepared, place)
        file = place / "cache" / "dsprites" / "bits.npy"
        harm(file)
        outcome = call(("data", "check"), place, environment=cache)
        # A missing file is rendered again at its next use.
        tally.add(f"bits.npy {how}", outcome, not file.exists())
    return tally


def _wanted(victims: Victims, place: Path, readers: dict[str, Reader], run: str) -> dict[str, Any]:
    """Results of all readers for intact files."""
    wanted = {}
    for command, reader in readers.items():
        victims.copy(victims.trained, place)
        outcome = call(_named(reader, run), place)
        if outcome.code != 0:
            raise RuntimeError(f"{command} failed: {outcome.text}")
        wanted[command] = reader.result(place)
    return wanted


def _judge(tally: Tally, case: str, reader: Reader, place: Path, wanted: Any, run: str) -> None:
    outcome = call(_named(reader, run), place)
    same = outcome.code == 0 and reader.result(place) == wanted
    tally.add(case, outcome, same)


def _named(reader: Reader, run: str) -> list[str]:
    return [f"runs/{run}" if word == "RUN" else word for word in reader.args]


def _some(readers: dict[str, Reader], how: str, name: str) -> Iterator[tuple[str, Reader]]:
    """All readers for missing or replaced files; for single bits, only those that read codes."""
    few = "bit" in how and name != "weights.safetensors"
    for command, reader in readers.items():
        if not few or command in ("encode", "evaluate"):
            yield command, reader


def _harms(
    other: Path, flips: int, generator: np.random.Generator
) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield ways to damage a file; `other` is a file that replaces it."""

    def empty(path: Path) -> None:
        path.write_bytes(b"")

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    def swap(path: Path) -> None:
        shutil.copy(other, path)

    def noise(path: Path) -> None:
        path.write_bytes(generator.bytes(path.stat().st_size))

    def zeros(path: Path) -> None:
        content = bytearray(path.read_bytes())
        start = len(content) // 3
        content[start : start + 512] = bytes(len(content[start : start + 512]))
        path.write_bytes(content)

    def pipe(path: Path) -> None:
        path.unlink()
        os.mkfifo(path)

    yield "emptied", empty
    yield "removed", lambda path: path.unlink()
    yield "cut in half", cut
    yield "replaced by another's", swap
    yield "replaced by noise", noise
    yield "with a block of zeros", zeros
    yield "replaced by a pipe", pipe
    for number in range(flips):
        yield f"bit {number} flipped", _flip(generator)


def _flip(generator: np.random.Generator) -> Callable[[Path], None]:
    where, bit = generator.random(), int(generator.integers(8))

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(where * len(content))] ^= 1 << bit
        path.write_bytes(content)

    return flip
