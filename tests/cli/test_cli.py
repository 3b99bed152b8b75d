"""The command line: once for each kind of command in a process, as a user runs it, else here."""

import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unweave as uw
from benchmarks.attacks.inputs import attacks, prepare
from unweave.cli import main
from unweave.data import DATASETS

COMMANDS = [
    *(f"data {word}" for word in ("list", "prepare", "show", "export")),
    *("fit", "train", "evaluate", "score", "show", "encode", "export", "report", "explore"),
    *("manipulate", "reproduce", "completion"),
    *(f"study {word}" for word in ("plan", "run", "status", "table", "check")),
    *("theory vi-bias", "theory d-separation", "theory impossibility", "theory pca-alignment"),
]

NOTHING = re.compile(r"\{None|default: None")
"""What help says of options that are None if they are not given, which helps nobody."""


class Done(NamedTuple):
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


def run(*words, cwd=None, **environment):
    """A command in this process, which has imported everything already."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as here, redirect_stdout(out), redirect_stderr(err):
        for name, value in {"COLUMNS": "160", **environment}.items():
            here.setenv(name, value)
        if cwd is not None:
            here.chdir(cwd)
        try:
            main([str(word) for word in words])
        except SystemExit as left:
            return Done(left.code or 0, out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())


def start(*words, cwd=None, **environment):
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "unweave", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160", **environment},
    )


def computed():
    """For how long processes that have ended have computed, whatever else the machine did."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def test_help_is_quick_and_does_not_import_torch():
    times = []
    for _ in range(3):
        before = computed()
        done = start("--help")
        times.append(computed() - before)
        assert done.returncode == 0
    assert "unweave data list" in done.stdout
    assert min(times) < 0.5
    code = "import sys, unweave.cli, unweave.data; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_reader_that_has_read_enough_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "unweave", "reproduce"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    done = run(*command.split(), "--help")
    assert done.returncode == 0
    assert f"Example: unweave {command}" in done.stdout
    assert not NOTHING.search(done.stdout)


def test_list_names_every_data_set_and_says_what_is_ready(tmp_path):
    done = run("data", "list", UNWEAVE_CACHE=str(tmp_path))
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for name, entry in DATASETS.items():
        row = rows[name.replace("_", "-")]
        assert f"{len(entry):,}" in row
        ready = "with --path" if name.endswith("_modified") else "no"
        assert row.rstrip().endswith("yes" if name == "pendulum" else ready)


def test_prepare_makes_a_data_set_ready(tmp_path):
    assert start("data", "prepare", "dsprites", UNWEAVE_CACHE=str(tmp_path)).returncode == 0
    listing = run("data", "list", UNWEAVE_CACHE=str(tmp_path)).stdout
    (row,) = [line for line in listing.splitlines() if line.split()[:1] == ["dsprites"]]
    assert "377 MB" in row
    assert row.rstrip().endswith("yes")


def test_show_writes_a_picture_and_says_where(tmp_path):
    done = start("data", "show", "dsprites", "-o", "sheet.png", cwd=tmp_path)
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
        (["fit", "imagse"], "no file or folder here and no data set is called 'imagse'"),
        (["data", "show", "pendulum", "-o", "sheet.xyz"], ".png, .jpg, .jpeg or .webp"),
        (["data", "show", "pendulum", "-o", "nowhere/sheet.png"], "no folder nowhere"),
        (["data", "show", "pendulum", "--columns", "0"], "columns must be a whole number"),
        (["data", "show", ".", "--path", "x"], "option of your own images"),
        (["data", "show", "dsprites", "--colums", "3"], "--columns"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(words, message, tmp_path):
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout


def test_a_mistake_as_a_user_makes_it(tmp_path):
    done = start("data", "show", "dsprits", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'dsprites'" in done.stderr
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
    # A run knows where its images are.
    words = ["show", folders[0], "--kind", "reconstructions", "-o", tmp_path / "seen.png"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen.png").stat().st_size > 500


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
    assert not NOTHING.search(done.stdout)
    assert "--device {cpu,cuda} " in done.stdout


def test_help_begins_with_what_most_people_want():
    commands = re.search(r"\{(.*?)\}", run("--help").stdout)[1].split(",")
    assert commands[0] == "fit"
    assert commands[-3:] == ["data", "study", "theory"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small models of a slice of dSprites."""
    folder = tmp_path_factory.mktemp("evaluate") / "runs"
    data = uw.data.load("dsprites").slice(shape=[0, 2], scale=5, orientation=0, posX=range(4))
    uw.train(uw.methods.BetaVAE(), data, seeds=2, steps=2, batch=8, out=folder, progress=False)
    return folder


def test_evaluate_prints_a_row_per_model_and_keeps_the_scores(runs):
    words = ["evaluate", runs, "--metrics", "mig", "factor-vae", "--out", runs.parent / "t.csv"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(runs.parent / "t.csv")
    assert table.columns.tolist()[-3:] == [
        "factor_vae",
        "factor_vae.train_accuracy",
        "factor_vae.active",
    ]
    for row in table.itertuples():
        (line,) = [line for line in done.stdout.splitlines() if row.run in line]
        assert f"{row.mig:.4g}" in line
        assert (runs / row.run / "scores.json").is_file()
    narrow = run(*words[:-2], FORCE_COLOR="1", COLUMNS="60")
    for row in table.itertuples():
        for score in (row.mig, row.factor_vae):
            assert f"{score:.4g}" in narrow.stdout
    assert narrow.stdout.count(table["run"][0]) == 2
    refused = run(*words)
    assert refused.returncode == 2
    assert "already there" in refused.stderr
    again = run(*words, "--overwrite")
    assert again.returncode == 0, again.stderr
    pd.testing.assert_frame_equal(pd.read_csv(runs.parent / "t.csv"), table)


def test_evaluate_on_other_data(runs, tmp_path):
    images = uw.data.load("dsprites").images(np.arange(0, 737_280, 7_000))
    np.save(tmp_path / "images.npy", images)
    words = ["evaluate", runs, "--data", tmp_path / "images.npy", "--metrics"]
    done = run(*words, "active-units", "mig", "--out", tmp_path / "t.parquet", "--sampled")
    assert done.returncode == 0, done.stderr
    assert "factors of images are not known: without mig" in done.stderr
    assert (pd.read_parquet(tmp_path / "t.parquet")["active_units"] == 10).all()
    done = run(*words, "classic")
    assert done.returncode == 2
    assert "need factors" in done.stderr


GOLDEN = Path(__file__).parents[1] / "metrics" / "golden" / "codes.npz"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The golden codes `aligned` and their factors, in every format."""
    folder = tmp_path_factory.mktemp("score")
    with np.load(GOLDEN) as file:
        codes, sizes = file["aligned"], file["sizes"]
    factors = np.stack(np.unravel_index(np.arange(sizes.prod()), sizes), 1)
    np.save(folder / "codes.npy", codes)
    np.save(folder / "factors.npy", factors)
    np.savez(folder / "both.npz", codes=codes, factors=factors)
    names = ["shape", "scale", "orientation", "posX", "posY"]
    pd.DataFrame(codes).to_csv(folder / "codes.csv", header=False, index=False)
    pd.DataFrame(factors, columns=names).to_csv(folder / "factors.csv", index=False)
    pd.DataFrame(codes, columns=list("abcdefghij")).to_parquet(folder / "codes.parquet")
    return folder, codes, factors


def scores_of(done):
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 2]
    return {name: float(value) for name, value in lines if name[-1] != ":"}


@pytest.mark.parametrize(
    "files",
    [
        ("codes.npy", "factors.npy"),
        ("both.npz", "both.npz"),
        ("codes.csv", "factors.csv"),
        ("codes.parquet", "factors.csv"),
    ],
)
def test_score_prints_what_the_metrics_say(tables, files, tmp_path):
    folder, codes, factors = tables
    paths = [folder / name for name in files]
    words = ["--metrics", "mig", "sap", "beta-vae", "--seed", 2, "-o", tmp_path / "scores.csv"]
    scores = scores_of(run("score", *paths, *words))
    assert list(scores) == ["mig", "sap", "beta_vae", "beta_vae.train_accuracy"]
    for name in ("mig", "sap", "beta_vae"):
        expected = uw.metrics.METRICS[name](codes, factors, 2)[name]
        assert scores[name] == pytest.approx(expected, abs=2e-5)
    written = pd.read_csv(tmp_path / "scores.csv").set_index("score")["value"]
    assert written["mig"] == pytest.approx(scores["mig"], abs=1e-6)


def test_score_draws_matrices_with_the_names_of_factors(tables, tmp_path):
    folder = tables[0]
    picture = tmp_path / "matrices.svg"
    words = ["--metrics", "mig", "--matrices", picture]
    done = run("score", folder / "codes.npy", folder / "factors.csv", *words)
    assert done.returncode == 0, done.stderr
    text = picture.read_text()
    for word in ("orientation", "z9", "DCI importance", "FactorVAE votes"):
        assert f">{word}</text>" in text


def test_score_without_factors_computes_what_needs_none(tables):
    folder, codes, _ = tables
    done = run("score", folder / "codes.npy", "--metrics", "mig", "elbo", "fid", "active-units")
    assert scores_of(done)["active_units"] == uw.metrics.active_units(codes)["active_units"]
    assert "factors are not given: without mig" in done.stderr
    assert "a model is needed (unweave evaluate): without elbo, fid" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "nowhere"], "there is no folder nowhere"),
        (["evaluate", "."], "holds no model"),
        (["evaluate"], "no model was given"),
        (["evaluate", "RUNS", "--metrics", "factorvae"], "did you mean 'factor_vae'"),
        (["evaluate", "RUNS", "--data", "dsprits"], "did you mean 'dsprites'"),
        (["evaluate", "RUNS", "--size", "32"], "--size says how to load --data"),
        (["evaluate", "RUNS", "--out", "scores.xlsx"], ".csv or .parquet"),
        (["score", "codes.npy", "factors.npy"], "there is no file codes.npy"),
        (["score", "CODES", "--metrics", "classic"], "factors are not given"),
        (["score", "CODES", "CODES", "--metrics", "mgi"], "did you mean 'mig'"),
        (["score", "CODES", "BOTH", "--matrices", "x.jpg"], ".png or .svg"),
        (["score", "CODES", "--metrics", "irs", "elbo"], "nothing can be computed"),
        (["score", "CODES", "--matrices", "x.png", "--metrics", "active-units"], "need a file"),
        (["score", "FEW", "BOTH", "--metrics", "mig", "sap"], "must have the same rows"),
    ],
)
def test_mistakes_in_scoring_are_one_sentence(words, message, runs, tables, tmp_path):
    np.save(tmp_path / "few.npy", np.ones((5, 2)))
    places = {
        "RUNS": runs,
        "CODES": tables[0] / "codes.npy",
        "BOTH": tables[0] / "both.npz",
        "FEW": tmp_path / "few.npy",
    }
    done = run(*(places.get(word, word) for word in words), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout


def test_the_help_of_train_names_every_method(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = capsys.readouterr().out
    listed = set(re.findall(r"[a-z-]+", said.split("Methods: ")[1].split("Their flags")[0]))
    assert {name.replace("_", "-") for name in uw.methods.EVERY} <= listed


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A folder with every bad file there is."""
    here = tmp_path_factory.mktemp("attacked")
    prepare(here)
    return here


@pytest.mark.parametrize("attack", attacks()[::16], ids=lambda attack: attack.name[:80])
def test_bad_inputs_are_refused_in_a_sentence(attack, attacked):
    before = {path: path.lstat().st_mtime_ns for path in attacked.rglob("*")}
    done = run(*attack.words, cwd=attacked)
    assert done.returncode in attack.expected, done.stderr
    if attack.expected == (2,):
        assert "--help" in done.stderr or done.stderr.splitlines()[-1].startswith("unweave: ")
        assert {path: path.lstat().st_mtime_ns for path in attacked.rglob("*")} == before


@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}])
def test_any_name_can_be_printed(tmp_path, environment):
    folder = tmp_path / os.fsdecode(b"im\xe9ges \xe2\x98\x83")
    folder.mkdir()
    for name in (b"caf\xe9.png", b"two\nlines.png", "\u2603.png".encode()):
        Image.new("L", (32, 32)).save(folder / os.fsdecode(name))
    (folder / os.fsdecode(b"bro\xe9ken.png")).write_text("no picture")
    done = start("data", "show", folder, "-o", tmp_path / "sheet.png", **environment)
    assert done.returncode == 0, done.stderr
    assert r"im\xe9ges" in done.stdout
    assert r"bro\xe9ken.png" in done.stderr
    done = start("data", "show", folder / os.fsdecode(b"caf\xe9"), **environment)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "caf" in done.stderr


def test_a_disk_that_is_too_small_is_found_before_training(attacked, monkeypatch):
    usage = shutil.disk_usage(attacked)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    done = run("train", "images", "beta-vae", "--size", "32", "--steps", "2", cwd=attacked)
    assert done.returncode == 2
    assert "1 model need about" in done.stderr
    assert not (attacked / "runs").exists()


@pytest.mark.parametrize("flag", ["--learning-rate", "--lr"])
def test_the_learning_rate_has_one_name_and_a_short_one(flag, tmp_path):
    done = run("train", "dsprites", "vae", flag, "0.01", "--steps", "0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("*/config.json")
    assert json.loads(folder.read_text())["optimiser"]["lr"] == 0.01
    assert flag in run("fit", "--help").stdout
