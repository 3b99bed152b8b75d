"""Untrusted studies and fits, opened with commands as users do."""

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing, contextmanager

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from unweave.cli import main
from unweave.io.checksums import write_sums
from unweave.models.files import FILES
from unweave.study.ledger import Ledger, RunOutcome

STUDY = """
name: small
data: {load: images, size: 32}
methods: {beta_vae: {beta: [1, 4]}}
steps: 2
metrics: [active_units]
settings: {batch: 4, latents: 3}
"""
FEW = ("--size", "32", "--steps", "2", "--seeds", "1", "--batch", "4")
FIT = ("fit", "images", *FEW, "-o", "fit")
REPORT, CHECK = ("report", "small", "-o", "page.html"), ("study", "check", "small")
RUN = ("study", "run", "small.yaml")
METRIC = ("--metrics", "gaussian_total_correlation")
LONGEST = 60.0
"""Time limit of a test in seconds, because it could otherwise block forever."""
_watched: list[str] = []
_opened: list[str] = []


def _note_what_is_opened(event, arguments):
    if _watched and event in ("open", "os.scandir", "os.listdir") and arguments:
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
        if os.path.realpath(path).startswith(_watched[0]):
            _opened.append(path)


sys.addaudithook(_note_what_is_opened)


@contextmanager
def watching(folder):
    """Record all files that are opened or listed in a folder."""
    _opened.clear()
    _watched.append(str(folder))
    try:
        yield _opened
    finally:
        _watched.clear()


@pytest.fixture(autouse=True)
def _no_waiting():
    def stop(*_):
        pytest.fail("the command hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Images, a study of them and a fit."""
    place = tmp_path_factory.mktemp("made")
    (place / "images").mkdir()
    rng = np.random.default_rng(0)
    for number in range(64):
        image = np.zeros((32, 32), np.uint8)
        x, y = rng.integers(0, 24, 2)
        image[y : y + 8, x : x + 8] = 255
        Image.fromarray(image).save(place / "images" / f"{number:02}.png")
    (place / "small.yaml").write_text(STUDY)
    before = os.getcwd()  # noqa: PTH109 - to come back to
    os.chdir(place)
    try:
        main(list(FIT))
        with pytest.raises(SystemExit) as done:
            main(list(RUN))
        assert done.value.code == 0
    finally:
        os.chdir(before)
    return place


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of these as the current folder; the images are not copied."""
    folder = tmp_path / "here"
    shutil.copytree(made, folder, ignore=shutil.ignore_patterns("images"))
    (folder / "images").symlink_to(made / "images")
    monkeypatch.chdir(folder)
    return folder


def code_of(*words):
    """Return the exit code of a command."""
    try:
        main(list(words))
    except SystemExit as stopped:
        return stopped.code
    return 0


def refused(capsys, *words):
    """Return the one-line error message of a command."""
    capsys.readouterr()
    assert code_of(*words) == 2, words
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1, said
    return said


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def victim(tmp_path):
    """A folder of files that look like leftovers, outside of the others."""
    folder = tmp_path / "victim"
    (folder / ".tmpabcdef").mkdir(parents=True)
    (folder / ".tmpabcdef" / "thesis.txt").write_text("years of work")
    (folder / ".0123456789abcdef.abcdefgh").mkdir()
    (folder / "a" / ".scores.json.x").mkdir(parents=True)
    (folder / "notes").write_text("more of it")
    return folder


@pytest.mark.parametrize("name", ["runs", "damaged", "best"])
def test_links_within_a_study_are_not_followed(here, victim, capsys, name):
    shutil.rmtree(here / "small" / name, ignore_errors=True)
    (here / "small" / name).symlink_to(victim)
    next((here / "small").glob("runs/*/curve.parquet"), here / "x").write_bytes(b"damaged")
    before = files_in(victim)
    for words in (RUN, CHECK, (*CHECK, "--repair"), REPORT, ("study", "table", "small")):
        assert "symbolic link" in refused(capsys, *words)
    assert files_in(victim) == before


def test_a_run_that_is_a_link_is_not_followed(here, tmp_path, capsys):
    run = sorted((here / "small" / "runs").iterdir())[0]
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "scores.json").unlink()
    before = files_in(tmp_path / "elsewhere")
    for words in (RUN, (*CHECK, "--repair"), REPORT):
        assert "symbolic link" in refused(capsys, *words)
    assert files_in(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("name", ["runs", "best"])
def test_links_within_a_fit_are_not_followed(here, victim, capsys, name):
    shutil.rmtree(here / "fit" / name)
    (here / "fit" / name).symlink_to(victim)
    before = files_in(victim)
    for words in (FIT, ("report", "fit", "-o", "page.html"), ("explore", "fit", "--no-open")):
        assert "symbolic link" in refused(capsys, *words)
    assert files_in(victim) == before


def test_a_study_may_itself_be_a_link(here):
    (here / "link").symlink_to("small")
    assert code_of("study", "check", "link", "--repair") == 0


@pytest.mark.parametrize("end", ["journal", "wal", "shm"])
def test_a_pipe_beside_the_ledger_does_not_hang(here, capsys, end):
    os.mkfifo(here / "small" / f"ledger.sqlite-{end}")
    for words in (("study", "status", "small"), REPORT):
        assert "not a regular file" in refused(capsys, *words)
    assert code_of(*CHECK) == 1
    assert code_of(*CHECK, "--repair") == 0
    assert code_of(*CHECK) == 0


@pytest.mark.parametrize(
    "note",
    ["[" * 100_000, '{"steps": Infinity, "runs": []}', '{"steps": 1}', "[]", "pipe", "zero"],
)
def test_the_manifest_of_a_fit_is_bounded(here, capsys, note):
    (here / "fit" / "fit.json").unlink()
    if note == "pipe":
        os.mkfifo(here / "fit" / "fit.json")
    elif note == "zero":
        (here / "fit" / "fit.json").symlink_to("/dev/zero")
    else:
        (here / "fit" / "fit.json").write_text(note)
    assert "fit.json" in refused(capsys, *FIT)


@pytest.mark.parametrize("note", ["[" * 100_000, '{"latents": {"../x": {}}}', "pipe", "zero"])
def test_names_of_latents_are_bounded(here, capsys, note):
    if note == "pipe":
        os.mkfifo(here / "fit" / "names.json")
    elif note == "zero":
        (here / "fit" / "names.json").symlink_to("/dev/zero")
    else:
        (here / "fit" / "names.json").write_text(note)
    assert "names.json" in refused(capsys, "encode", "fit", "images", "-o", "codes.csv")
    assert "names.json" in refused(capsys, *FIT)
    assert code_of("report", "fit", "-o", "page.html") == 0
    assert "names.json is damaged" in (here / "page.html").read_text()


def test_a_table_that_is_a_pipe_is_reported_and_replaced(here, capsys):
    (here / "small" / "study.parquet").unlink()
    os.mkfifo(here / "small" / "study.parquet")
    assert code_of(*CHECK) == 1
    assert "not a regular file" in capsys.readouterr().out
    assert code_of(*CHECK, "--repair") == 0
    assert code_of(*CHECK) == 0


def test_tables_of_codes_are_bounded(here, capsys):
    wide = pd.DataFrame(np.zeros((2, 10_001)), columns=[f"c{k}" for k in range(10_001)])
    wide.to_parquet(here / "wide.parquet", index=False)
    assert "too large" in refused(capsys, "score", "wide.parquet", *METRIC)


def test_the_index_of_a_table_of_codes_is_not_a_code(here, capsys):
    rng = np.random.default_rng(0)
    codes = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"])
    codes.to_parquet(here / "plain.parquet", index=False)
    codes.set_index(pd.Index(rng.permutation(50), name="row")).to_parquet(here / "index.parquet")
    said = []
    for name in ("plain", "index"):
        assert code_of("score", f"{name}.parquet", *METRIC) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_lone_surrogates_are_errors(here, capsys, resettled):
    run = sorted((here / "small" / "runs").iterdir())[0]
    alone = shutil.copytree(run, here / "alone" / "run")
    said = json.loads((alone / "config.json").read_text())
    for point, changed in {
        "U+D800": {**said, "data": [["own", "\ud800", "0" * 16]]},
        "U+DFFF": {**said, "method": {"name": "mine", "\udfff": 1}},
        "U+D83D": {**said, "method": {"name": "\ud83d"}},
    }.items():
        resettled(alone, changed)
        for words in (
            ("report", "alone", "-o", "page.html", "--overwrite"),
            ("evaluate", "alone/run", "--metrics", "active_units"),
            ("show", "alone/run", "-o", "a.png"),
            ("explore", "alone", "--no-open"),
        ):
            assert point in refused(capsys, *words) or words[0] == "report"


def test_lone_surrogates_in_scores_and_sources(here, capsys):
    run = sorted((here / "fit" / "runs").iterdir())[0]
    (run / "scores.json").write_text(json.dumps([{"metric": "\ud800", "scores": {"\ud800": 1}}]))
    assert code_of("report", "fit", "-o", "page.html", "--data", "images", "--size", "32") == 0
    (here / "fit" / "source.json").write_text(json.dumps({"source": "\ud800", "options": {}}))
    for words in (("show", "fit/best", "-o", "a.png"), ("explore", "fit", "--no-open")):
        assert "source.json" in refused(capsys, *words)


def test_read_only_commands_do_not_open_files_named_in_a_study(here, made, capsys):
    with watching(made / "images") as opened:
        assert code_of(*CHECK) == 0
        assert code_of("study", "status", "small") == 0
        assert code_of("study", "table", "small") == 0
        assert code_of(*REPORT) == 0
        assert opened == []
    assert "2 runs are intact" in capsys.readouterr().out
    assert code_of("report", "small", "-o", "b.html", "--data", "images", "--size", "32") == 0
    pictures = [(here / name).read_text().count("data:image") for name in ("page.html", "b.html")]
    assert pictures[0] < pictures[1]
    with watching(made / "images") as opened:
        assert code_of(*RUN) == 0
        assert opened


def test_a_study_whose_images_changed_is_checked_as_it_was_planned(here, made):
    (here / "images").unlink()
    shutil.copytree(made / "images", here / "images")
    Image.new("L", (32, 32), 99).save(here / "images" / "00.png")
    assert code_of(*CHECK) == 0
    assert code_of(*RUN) == 0
    assert code_of(*CHECK) == 0
    assert len(list((here / "small" / "runs").iterdir())) == 4


def test_terminals_get_no_control_characters(here, capsys):
    escape = "\x1b]0;gotcha\x07"
    ledger = Ledger(here / "small" / "ledger.sqlite")
    ledger.mark(list(ledger.states())[:1], "failed", escape)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        row = ("w", escape, os.getpid(), time.time(), escape)
        connection.execute("INSERT INTO workers VALUES (?, ?, ?, ?, ?)", row)
    (here / "small" / "runs" / f"x{escape}").mkdir()
    capsys.readouterr()
    assert code_of("study", "status", "small") == 0
    assert code_of(*CHECK) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert out.count("gotcha") >= 4


def changed_curve(run, **columns):
    curve = pd.read_parquet(run / "curve.parquet")
    curve.assign(**columns).to_parquet(run / "curve.parquet", index=False)
    write_sums(run, FILES)


@pytest.mark.parametrize("kind", ["training", "kl"])
def test_implausible_curves_are_errors(here, capsys, kind):
    run = sorted((here / "small" / "runs").iterdir())[0]
    changed_curve(run, kl=1e308, kl_0=1e308, kl_1=-1e308)
    assert "curve.parquet" in refused(capsys, "show", str(run), "--kind", kind, "-o", "a.png")
    changed_curve(run, kl=3e38, kl_0=3e38, kl_1=-3e38)
    assert code_of("show", str(run), "--kind", kind, "-o", "a.png") == 0


@pytest.mark.parametrize("name", [".fleet-x.safetensors", ".fleet-x.safetensors.damaged"])
def test_a_folder_in_place_of_a_checkpoint_is_an_error_before_training(here, capsys, name):
    for words, folder in (
        (("train", "images", "beta-vae", "--size", "32", "--steps", "2", "--out", "new"), "new"),
        (FIT, "fit/runs"),
    ):
        (here / folder / name / "inside").mkdir(parents=True)
        assert name in refused(capsys, *words)
        assert (here / folder / name / "inside").exists()
    (here / "small" / "runs" / name / "inside").mkdir(parents=True)
    shutil.rmtree(sorted((here / "small" / "runs").glob("[!.]*"))[0])
    assert code_of(*CHECK, "--repair") == 0
    assert (here / "small" / "damaged" / name.lstrip(".") / "inside").exists()
    assert code_of(*RUN) == 0


def test_a_folder_in_place_of_an_output_is_an_error_before_training(here, capsys):
    for name in ("report.html", "source.json", "codes.csv"):
        shutil.copytree(here / "fit", here / name)
        (here / name / name).unlink(missing_ok=True)
        (here / name / name).mkdir()
        assert "is a folder" in refused(capsys, *FIT[:-1], name)


def test_a_ledger_of_too_many_scores_is_an_error(here, capsys):
    ledger = Ledger(here / "small" / "ledger.sqlite")
    scores = {f"score {k}": 0.5 for k in range(30_000)}
    ledger.record({next(iter(ledger.states())): RunOutcome("scored", None, scores)})
    assert "30,00" in refused(capsys, *REPORT)
    assert "30,00" in refused(capsys, "study", "table", "small")


def test_an_unknown_method_with_too_many_settings_is_an_error(here, capsys, resettled):
    for run in sorted((here / "small" / "runs").iterdir()):
        said = json.loads((run / "config.json").read_text())
        method = {**said["method"], "name": "mine", **{f"s{k}": k for k in range(20_000)}}
        resettled(run, {**said, "method": method})
    assert "2 runs in small/runs" in refused(capsys, "report", "small/runs", "-o", "page.html")
