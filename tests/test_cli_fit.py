"""`unweave fit` from a folder of pictures to a report, through the real command line."""

import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unweave as uw
from unweave.cli import main

QUICK = ["--size", "32", "--steps", "3", "--seeds", "2", "--batch", "4", "--latents", "3"]


def write_pictures(folder, count=80):
    """Squares at random places, each in a file of its own, of different sizes."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        side = 32 if number % 2 else 40
        image = np.zeros((side, side), np.uint8)
        x, y = rng.integers(0, side - 8, 2)
        image[y : y + 8, x : x + 8] = 255
        Image.fromarray(image).save(folder / f"square-{number:03}.png")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder of pictures, one of them not, and what `unweave fit` made of it."""
    place = tmp_path_factory.mktemp("fit")
    write_pictures(place / "images")
    (place / "images" / "notes.png").write_text("not a picture")
    main(["fit", str(place / "images"), *QUICK, "-o", str(place / "out")])
    return place


def refused(words, capsys):
    """The one sentence with which a command is refused."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


def test_all_is_left_that_a_person_wants(fitted):
    out = fitted / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "best",
        "codes.csv",
        "fit.json",
        "ranking.csv",
        "reconstructions.png",
        "report.html",
        "runs",
        "samples.png",
        "what-the-latents-do.gif",
        "what-the-latents-do.png",
    ]
    ranking, best = pd.read_csv(out / "ranking.csv"), uw.load(out / "best")
    assert len(ranking) == 4
    assert best.config.hash == ranking["run"][0]
    with Image.open(out / "what-the-latents-do.gif") as animation:
        assert animation.n_frames > 10


def test_codes_are_those_of_the_chosen_model_with_their_files(fitted):
    codes = pd.read_csv(fitted / "out" / "codes.csv")
    assert codes["file"].tolist() == [f"square-{number:03}.png" for number in range(80)]
    data = uw.data.load(fitted / "images", size=32)
    mean, _ = uw.load(fitted / "out" / "best").encode(data)
    np.testing.assert_allclose(codes[["z0", "z1", "z2"]], mean, atol=1e-5)


def test_the_report_is_about_this_fit(fitted):
    page = (fitted / "out" / "report.html").read_text()
    best = uw.load(fitted / "out" / "best").config
    assert f"β={best.method.beta:g}, seed {best.seed}" in page
    assert "80 images" in page
    command = (
        f"unweave fit {fitted / 'images'} --steps 3 --size 32 --seeds 2 --latents 3 --batch 4"
    )
    assert command in page
    assert len(page) < 5e6


def test_the_same_again_trains_nothing_and_says_where_things_are(fitted, capsys):
    out = fitted / "out"
    files = sorted(out.glob("**/weights.safetensors"))
    assert len(files) == 5
    written = [file.stat().st_mtime_ns for file in files]
    main(["fit", str(fitted / "images"), *QUICK, "-o", str(out)])
    assert [file.stat().st_mtime_ns for file in files] == written
    said = capsys.readouterr().out.strip().splitlines()
    assert said[-1].endswith(f"Report: {out / 'report.html'}")
    assert any(line.endswith(f"unweave explore {out}") for line in said)


def test_a_damaged_model_is_named_and_nothing_is_lost(fitted, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(fitted / "out", out)
    weights = out / "best" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    said = refused(["fit", str(fitted / "images"), *QUICK, "-o", str(out)], capsys)
    assert said == (
        f"unweave: the model in {out / 'best'} is damaged; remove that folder and ask again"
    )
    assert len(list(out.glob("runs/*/weights.safetensors"))) == 4


def test_three_images_are_too_few(tmp_path, capsys):
    write_pictures(tmp_path / "few", count=3)
    said = refused(["fit", str(tmp_path / "few"), *QUICK], capsys)
    assert said == (
        "unweave: few has 3 images, which is too few to learn from; give at least 64, better some "
        "thousands"
    )


def test_a_picture_too_large_for_memory_costs_only_itself(tmp_path, caplog):
    write_pictures(tmp_path / "images", count=64)
    Image.new("1", (20_000, 20_000)).save(tmp_path / "images" / "zz-huge.png")
    main(["fit", str(tmp_path / "images"), *QUICK, "-o", str(tmp_path / "out")])
    assert re.search(r"zz-huge\.png: .*pixels", caplog.text)
    assert len(pd.read_csv(tmp_path / "out" / "codes.csv")) == 64


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "vae"], r"no method with a strength is called 'vae'.*beta_vae"),
        (["--strengths", "-1"], "beta"),
        (["--minutes", "0"], "more than 0 minutes"),
    ],
)
def test_nonsense_is_one_sentence(fitted, tmp_path, capsys, words, sentence):
    few = [word for word in QUICK if word != "--steps"]
    few.remove("3")  # steps, of which --minutes is to decide
    said = refused(["fit", str(fitted / "images"), *few, "-o", str(tmp_path), *words], capsys)
    assert re.search(sentence, said)


def test_killed_it_goes_on_to_the_same_models(fitted, tmp_path):
    out = tmp_path / "out"
    words = ["fit", str(fitted / "images"), *QUICK, "--steps", "200", "-o", str(out)]
    command = [sys.executable, "-m", "unweave", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (out / "fit.json").exists():  # training begins
        time.sleep(0.05)
    time.sleep(1.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    assert list((out / "runs").glob(".fleet-*.safetensors"))
    subprocess.run(command, check=True, capture_output=True)
    best = uw.load(out / "best")
    data = uw.data.load(fitted / "images", size=32)
    (alone,) = uw.train(
        best.config.method,
        data,
        seeds=[best.config.seed],
        steps=200,
        batch=4,
        latents=3,
        optimiser=best.config.optimiser,
        progress=False,
    )
    np.testing.assert_allclose(
        best.parameters["encoder"], alone.parameters["encoder"], rtol=1e-4, atol=1e-5
    )
