"""The command line, run as a user runs it."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.data import DATASETS

COMMANDS = ["data list", "data prepare", "data show", "data export", "train", "evaluate", "score"]


def run(*words, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "unweave", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160", **environment},
    )


def test_help_is_quick_and_does_not_import_torch():
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = run("--help")
        times.append(time.perf_counter() - start)
        assert done.returncode == 0
    assert "unweave data list" in done.stdout
    assert min(times) < 0.5
    code = "import sys, unweave.cli, unweave.data; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    done = run(*command.split(), "--help")
    assert done.returncode == 0
    assert f"Example: unweave {command}" in done.stdout


def test_list_names_every_data_set_and_says_what_is_ready(tmp_path):
    done = run("data", "list", UNWEAVE_CACHE=str(tmp_path))
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for name, entry in DATASETS.items():
        row = rows[name.replace("_", "-")]
        assert f"{len(entry):,}" in row
        assert row.rstrip().endswith("yes" if name == "pendulum" else "no")


def test_prepare_makes_a_data_set_ready(tmp_path):
    assert run("data", "prepare", "dsprites", UNWEAVE_CACHE=str(tmp_path)).returncode == 0
    listing = run("data", "list", UNWEAVE_CACHE=str(tmp_path)).stdout
    (row,) = [line for line in listing.splitlines() if line.split()[:1] == ["dsprites"]]
    assert "377 MB" in row
    assert row.rstrip().endswith("yes")


def test_show_writes_a_picture_and_says_where(tmp_path):
    done = run("data", "show", "dsprites", "-o", "sheet.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Contact sheet: sheet.png" in done.stdout
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[0] > 10 * 64
        assert np.asarray(sheet).std() > 10
    again = run("data", "show", "dsprites", "-o", "sheet.png", cwd=tmp_path)
    assert again.returncode == 2
    assert "already there" in again.stderr
    assert (
        run("data", "show", "dsprites", "-o", "sheet.png", "--overwrite", cwd=tmp_path).returncode
        == 0
    )


def test_a_folder_of_pictures_can_be_shown(tmp_path):
    for k in range(12):
        Image.new("RGB", (80, 70), (k * 20, 0, 255 - k * 20)).save(tmp_path / f"{k}.png")
    done = run("data", "show", tmp_path, "--size", 32, "-o", tmp_path / "sheet.png")
    assert done.returncode == 0, done.stderr
    assert "12 images of 32 × 32 × 3" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "show", "dsprits"], "did you mean 'dsprites'"),
        (["data", "show", "nowhere/images"], "no file or folder 'nowhere/images'"),
        (["data", "prepare", "pendulum", "--path", "x"], "option of pendulum"),
        (["data", "export", "pendulum"], "curves and no images"),
        (["data", "shwo", "dsprites"], "show"),
        (["data", "show", "pendulum", "-o", "sheet.xyz"], ".png, .jpg or .webp"),
        (["data", "show", "pendulum", "-o", "nowhere/sheet.png"], "no folder nowhere"),
        (["data", "show", "pendulum", "--columns", "0"], "at least one image"),
        (["data", "show", ".", "--path", "x"], "option of your own images"),
        (["data", "show", "dsprites", "--colums", "3"], "--columns"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(words, message, tmp_path):
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_train_makes_models_and_pictures_and_goes_on_where_it_was(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for k in range(6):
        Image.new("L", (40, 40), 40 * k).save(images / f"{k}.png")
    words = ["train", images, "beta-vae", "--beta", 1, 4, "--seeds", 2, "--steps", 3]
    words += ["--size", 32, "--batch", 4, "--out", tmp_path / "runs", "--device", "cpu"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "4 beta_vae models of 32 × 32 × 1 images" in done.stdout
    folders = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert len(folders) == 4
    assert len(list((tmp_path / "runs").glob("*.png"))) == 4
    model = uw.load(folders[0])
    assert model.encode(uw.data.load(images, size=32))[0].shape == (6, 10)
    stamps = {path: path.stat().st_mtime_ns for path in folders}
    assert run(*words).returncode == 0
    assert stamps == {path: path.stat().st_mtime_ns for path in folders}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "dsprites", "betavae"], "did you mean 'beta_vae'"),
        (["train", "dsprites", "beta-vae", "--bta", "3"], "--beta"),
        (["train", "--steps", "1", "dsprites", "beta-vae"], "SOURCE METHOD"),
        (["train", "pendulum", "ae", "--device", "cuda", "--architecture", "mlp"], "no GPU"),
        (["train", "dsprites", "beta-vae", "--beta", "-1"], "must be at least 0"),
        (["train", "dsprites", "beta-tc-vae", "--estimator", "mss"], "stratified"),
    ],
)
def test_mistakes_in_training_are_one_sentence(words, message, tmp_path):
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_each_method_has_help_with_its_own_flags_and_an_example():
    done = run("train", "dsprites", "annealed-vae", "--help")
    assert done.returncode == 0
    for text in (
        "--c-max",
        "--gamma",
        "--threshold",
        "Example: unweave train dsprites annealed-vae",
    ):
        assert text in done.stdout
