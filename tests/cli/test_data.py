"""`unweave data …`, as a user runs it."""

import shutil

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.cli.calling import run, start
from unweave.data import DATASETS


def test_list_shows_every_data_set_and_whether_it_is_ready(tmp_path):
    done = run("data", "list", UNWEAVE_CACHE=str(tmp_path))
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for name, entry in DATASETS.items():
        row = rows[name.replace("_", "-")]
        assert f"{len(entry):,}" in row
        ready = "with --path" if name.endswith("_modified") else "no"
        uncached = name in ("pendulum", "infinite_dsprites")
        assert row.rstrip().endswith("yes" if uncached else ready)


def test_prepare_makes_a_data_set_ready(tmp_path):
    assert run("data", "prepare", "dsprites", UNWEAVE_CACHE=str(tmp_path)).returncode == 0
    listing = run("data", "list", UNWEAVE_CACHE=str(tmp_path)).stdout
    (row,) = [line for line in listing.splitlines() if line.split()[:1] == ["dsprites"]]
    assert "377 MB" in row
    assert row.rstrip().endswith("yes")


def test_show_writes_a_figure_and_prints_its_path(tmp_path):
    done = run("data", "show", "dsprites", "-o", "sheet.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sheet.png" in done.stdout
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[0] > 10 * 64
        assert np.asarray(sheet).std() > 10
    again = run("data", "show", "dsprites", "-o", "sheet.png", cwd=tmp_path)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert (
        run("data", "show", "dsprites", "-o", "sheet.png", "--overwrite", cwd=tmp_path).returncode
        == 0
    )


def test_notes_on_the_images_are_printed(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for k in range(12):
        Image.new("RGB", (80, 70), (k * 20, 0, 0)).save(folder / f"{k}.png")
    shutil.copy(folder / "3.png", folder / "copy.png")
    done = run("data", "show", folder, "-o", tmp_path / "sheet.png")
    assert done.returncode == 0, done.stderr
    notes = uw.data.load(folder).notes
    assert len(notes) == 3  # about the copy, the crop and the size
    assert all(note in done.stdout for note in notes)
    padded = run("data", "show", folder, "--non-square", "pad", "-o", tmp_path / "pad.png")
    assert uw.data.load(folder, non_square="pad").notes[1] in padded.stdout


def test_a_folder_of_images_can_be_shown(tmp_path):
    for k in range(12):
        Image.new("RGB", (80, 70), (k * 20, 0, 255 - k * 20)).save(tmp_path / f"{k}.png")
    done = run("data", "show", tmp_path, "--size", 32, "-o", tmp_path / "sheet.png")
    assert done.returncode == 0, done.stderr
    assert "12 images of 32 × 32 × 3" in done.stdout


@pytest.mark.parametrize(
    ("args", "datum"),
    [
        (["data", "show", "dsprits"], "'dsprites'"),
        (["data", "show", "nowhere/images"], "'nowhere/images'"),
        (["data", "prepare", "pendulum", "--path", "x"], "path"),
        (["data", "export", "pendulum"], "curves"),
        (["data", "shwo", "dsprites"], "show"),
        (["fit", "imagse"], "'imagse'"),
        (["data", "show", "pendulum", "-o", "sheet.xyz"], ".jpeg"),
        (["data", "show", "pendulum", "-o", "nowhere/sheet.png"], "nowhere"),
        (["data", "show", "pendulum", "--columns", "0"], "columns"),
        (["data", "show", ".", "--path", "x"], "path"),
        (["data", "show", "dsprites", "--colums", "3"], "--columns"),
    ],
)
def test_errors_are_one_sentence_with_exit_code_2(args, datum, tmp_path):
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert datum in done.stderr + done.stdout


def test_an_error_in_a_separate_process(tmp_path):
    done = start("data", "show", "dsprits", cwd=tmp_path)
    assert done.returncode == 2
    assert "'dsprites'" in done.stderr
    assert "Traceback" not in done.stderr
