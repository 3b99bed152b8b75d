"""Untrusted folders of studies and fits, with malicious links, pipes, paths, names and numbers."""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd

from .calling import Tally, call
from .hostile import forge
from .victims import FIT, SMALL, Victims

__all__ = ["attack_folders"]

ESCAPE = "\x1b]0;title\x07"
STUDY = (
    ("study", "run", "small.yaml"),
    ("study", "check", "small"),
    ("study", "check", "small", "--repair"),
    ("study", "status", "small"),
    ("study", "table", "small", "-o", "table.csv"),
    ("report", "small", "-o", "page.html"),
)
FITTED = (FIT, ("report", "fit", "-o", "page.html"), ("show", "fit/best", "-o", "traversals.png"))
CURVE = "curve.parquet"
Change = Callable[[Path], None]


def attack_folders(victims: Victims, folder: Path) -> Tally:
    """Open manipulated folders, and check that nothing outside them changes."""
    tally = Tally("hostile: folders")
    for case, change, commands in _cases():
        for command in commands:
            place = folder / "hostile-folders"
            shutil.rmtree(place, ignore_errors=True)
            here, outside = victims.copy(victims.trained, place / "here"), place / "outside"
            _outside(outside)
            change(here)
            before = _contents(outside)
            outcome = call(command, here)
            # Harmless folders may be opened; `study run` trains missing models.
            tally.add(f"{case}: {' '.join(command[:2])}", outcome, unharmed=outcome.code == 0)
            if _contents(outside) != before or "\x1b" in outcome.text:
                tally.breach(f"{case}: {' '.join(command)}")
    return tally


def _cases() -> list[tuple[str, Change, Sequence[Sequence[str]]]]:
    run = ("train", "images", "beta-vae", "--steps", "2", "--no-pictures", *SMALL, "--out", "runs")
    curves = [("show", "one", "--kind", kind, "-o", "curve.png") for kind in ("training", "kl")]
    return [
        *((f"{name} is a link", _link("small", name), STUDY) for name in ("runs", "damaged")),
        ("a run is a link", _link_run, STUDY),
        *((f"{name} is a link", _link("fit", name), FITTED) for name in ("runs", "best")),
        *((f"{end} is a pipe", _pipe(f"small/{end}"), STUDY) for end in PIPES),
        ("a journal is a pipe", _pipe("small/ledger.sqlite-journal"), STUDY),
        ("fit.json is a pipe", _pipe("fit/fit.json"), (FIT,)),
        ("fit.json is endless", _endless("fit/fit.json"), (FIT,)),
        ("fit.json is deep", _text("fit/fit.json", "[" * 100_000), (FIT,)),
        ("infinite steps", _text("fit/fit.json", '{"steps": Infinity, "runs": []}'), (FIT,)),
        ("names.json is a pipe", _pipe("fit/names.json"), NAMED),
        ("names.json is endless", _endless("fit/names.json"), NAMED),
        ("names.json is deep", _text("fit/names.json", "[" * 100_000), NAMED),
        ("source.json is no text", _bytes("fit/source.json", b"\xff\xfe"), FITTED),
        ("a study of the disk", _study_of_the_disk, STUDY[1:]),
        ("control characters", _control_characters, STUDY[1:]),
        ("very large losses", _losses(1e308), curves),
        ("large losses", _losses(3e38), curves),
        ("very many scores", _very_many_scores, STUDY[1:]),
        ("very many settings", _very_many_settings, (("report", "one", "-o", "page.html"),)),
        *((f"{name} is a folder", _folder(f"runs/{name}"), (run,)) for name in CHECKPOINTS),
    ]


NAMED = (("encode", "fit", "images"), ("report", "fit", "-o", "page.html"), FIT)
PIPES = ("ledger.sqlite", "ledger.sqlite-wal", "study.parquet", "study.json")
CHECKPOINTS = (".fleet-x.safetensors", ".fleet-x.safetensors.damaged")


def _outside(folder: Path) -> None:
    """Create unrelated files that look like leftovers of unweave."""
    for name in (".tmpabcdef", ".0123456789abcdef.abcdefgh", "a/.scores.json.x"):
        (folder / name).mkdir(parents=True)
        (folder / name / "thesis.txt").write_text("years of work")


def _contents(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def _link(place: str, name: str) -> Change:
    def change(here: Path) -> None:
        shutil.rmtree(here / place / name, ignore_errors=True)
        (here / place / name).symlink_to(here.parent / "outside")

    return change


def _link_run(here: Path) -> None:
    one = _some_run(here)
    one.rename(here.parent / "outside" / one.name)
    one.symlink_to(here.parent / "outside" / one.name)
    (one / "scores.json").unlink()


def _pipe(name: str) -> Change:
    def change(here: Path) -> None:
        (here / name).unlink(missing_ok=True)
        os.mkfifo(here / name)

    return change


def _endless(name: str) -> Change:
    def change(here: Path) -> None:
        (here / name).unlink(missing_ok=True)
        (here / name).symlink_to("/dev/zero")

    return change


def _text(name: str, text: str) -> Change:
    return _bytes(name, text.encode())


def _bytes(name: str, content: bytes) -> Change:
    def change(here: Path) -> None:
        (here / name).write_bytes(content)

    return change


def _folder(name: str) -> Change:
    return lambda here: (here / name / "inside").mkdir(parents=True)


def _study_of_the_disk(here: Path) -> None:
    file = here / "small" / "study.json"
    content = json.loads(file.read_text())
    content["study"]["data"][0]["load"] = "/"
    for source in content["sources"].values():
        source["load"] = "/"
    del content["checksum"]
    file.write_text(json.dumps(content))


def _control_characters(here: Path) -> None:
    from unweave.study.ledger import Ledger

    ledger = Ledger(here / "small" / "ledger.sqlite")
    ledger.mark(list(ledger.states())[:1], "failed", ESCAPE)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        row = ("w", ESCAPE, os.getpid(), time.time(), ESCAPE)
        connection.execute("INSERT INTO workers VALUES (?, ?, ?, ?, ?)", row)
    (here / "small" / "runs" / f"x{ESCAPE}").mkdir()


def _very_many_scores(here: Path) -> None:
    from unweave.study.ledger import Ledger, RunOutcome

    ledger = Ledger(here / "small" / "ledger.sqlite")
    scores = {f"score {k}": 0.5 for k in range(30_000)}
    ledger.record({next(iter(ledger.states())): RunOutcome("scored", None, scores)})


def _losses(size: float) -> Change:
    def change(here: Path) -> None:
        one = shutil.copytree(_some_run(here), here / "one")
        curve = pd.read_parquet(one / CURVE).assign(kl=size, kl_0=size, kl_1=-size)
        curve.to_parquet(one / CURVE, index=False)
        forge(one, CURVE, (one / CURVE).read_bytes())

    return change


def _very_many_settings(here: Path) -> None:
    one = shutil.copytree(_some_run(here), here / "one")
    config = json.loads((one / "config.json").read_text())
    config["method"] = {"name": "mine", **{f"setting {k}": k for k in range(20_000)}}
    forge(one, "config.json", json.dumps(config).encode())


def _some_run(here: Path) -> Path:
    return sorted((here / "small" / "runs").glob("[!.]*"))[0]
