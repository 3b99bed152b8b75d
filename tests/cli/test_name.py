"""`unweave name`: latents are named by hand and from labelled images, and names are used."""

import json

import numpy as np
import onnx
import pandas as pd
import pytest
from PIL import Image

import unweave as uw
from tests.explorer.conftest import plant
from unweave.cli import main


@pytest.fixture
def fit(tmp_path):
    """Save a model of images of squares, 40 of them labelled with a code of the model."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(40):
        image = np.zeros((64, 64), np.uint8)
        x, y = rng.integers(0, 48, 2)
        image[y : y + 16, x : x + 16] = 255
        Image.fromarray(image).save(tmp_path / "images" / f"{number:02}.png")
    data = uw.data.load(tmp_path / "images")
    quick = {"steps": 2, "batch": 4, "latents": 5, "progress": False}
    model = plant(uw.train(uw.methods.VAE(), data, architecture="conv", **quick))[0]
    model.save(tmp_path / "fit" / "best")
    codes = uw.encode(model, data, progress=False)
    table = pd.DataFrame({"file": codes["file"], "tilt": -codes["z3"], "luck": rng.random(40)})
    table.to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path


def run(capsys, *words):
    """Return exit code, output and errors of a command."""
    try:
        main([str(word) for word in words])
        code = 0
    except SystemExit as stopped:
        code = stopped.code
    return code, *capsys.readouterr()


def headings(fit, capsys):
    out = fit / "codes.csv"
    code, *_ = run(capsys, "encode", fit / "fit", fit / "images", "-o", out, "--overwrite")
    assert code == 0
    return pd.read_csv(out).columns.tolist()[1:]


def test_latents_are_named_after_the_factor_that_they_follow(fit, capsys):
    labelled = ["--data", fit / "images", "--factors", fit / "labels.csv"]
    code, output, errors = run(capsys, "name", fit / "fit", *labelled)
    assert code == 0, errors
    lines = output.splitlines()
    assert lines[3] == f"{'z3':<5}{'tilt':<24}1.00 with tilt"
    assert sum("–" in line for line in lines) == 4
    assert "(inactive)" in lines[2]
    assert headings(fit, capsys) == ["z0", "z1", "z2", "z3_tilt", "z4"]


def test_names_given_by_hand_are_added_and_removed(fit, capsys):
    assert run(capsys, "name", fit / "fit", "--names", "0=left – right", "4=x=y")[0] == 0
    assert headings(fit, capsys) == ["z0_left_right", "z1", "z2", "z3", "z4_x_y"]
    assert run(capsys, "name", fit / "fit" / "best", "--names", "0=")[0] == 0
    (names,) = json.loads((fit / "fit" / "names.json").read_text())["latents"].values()
    assert names == {"4": "x=y"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--names 0=size"),
        (["--names", "size"], "LATENT=NAME"),
        (["--names", "5=size"], "0 to 4"),
        (["--names", f"{'9' * 5000}=size"], "LATENT=NAME"),
        (["--names", "0=\x1b[31m"], "printable"),
    ],
)
def test_mistakes_print_one_line_and_write_nothing(fit, words, reason, capsys):
    code, _, errors = run(capsys, "name", fit / "fit", *words)
    assert code == 2
    assert reason in errors
    assert "\x1b" not in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (fit / "fit" / "names.json").exists()


def test_models_of_the_zoo_are_not_named(capsys):
    code, _, errors = run(capsys, "name", "zoo:dsprites", "--names", "0=size")
    assert code == 2
    assert "zoo:dsprites" in errors


def test_images_without_factors_name_nothing(fit, capsys):
    code, _, errors = run(capsys, "name", fit / "fit", "--data", fit / "images")
    assert code == 2
    assert "factors" in errors


def test_names_are_exported_and_drawn(fit, capsys):
    run(capsys, "name", fit / "fit", "--names", "3=größe")
    assert run(capsys, "export", fit / "fit", "-o", fit / "onnx")[0] == 0
    about = json.loads((fit / "onnx" / "model.json").read_text())
    assert about["latent_names"] == {"3": "größe"}
    for name in ("encoder.onnx", "decoder.onnx"):
        file = onnx.load(fit / "onnx" / name)
        (entry,) = file.metadata_props
        assert (entry.key, json.loads(entry.value)) == ("latent_names", {"3": "größe"})
        onnx.checker.check_model(file, full_check=True)
    data = uw.data.load(fit / "images")
    command = ["show", fit / "fit", "--data", fit / "images", "-o"]
    assert run(capsys, *command, fit / "named.png")[0] == 0
    model = uw.load(fit / "fit" / "best")
    uw.show.traversals(model, data, names={3: "größe"}).save(fit / "same.png")
    uw.show.traversals(model, data).save(fit / "unnamed.png")
    drawn = (fit / "named.png").read_bytes()
    assert drawn == (fit / "same.png").read_bytes()
    assert drawn != (fit / "unnamed.png").read_bytes()
