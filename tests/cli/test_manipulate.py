"""The command `unweave manipulate`, from saved runs to a file, a picture and a data set."""

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.cli import main
from unweave.papers.inductive_biases.manipulation import Manipulation


@pytest.fixture
def runs(tmp_path):
    """Two runs on 12 custom images with a table of factors."""
    x, y = np.meshgrid(range(4), range(3), indexing="ij")
    images = np.zeros((12, 32, 32), np.uint8)
    images[:, :16] = (60 * x).reshape(-1, 1, 1)
    images[:, 16:] = (80 * y).reshape(-1, 1, 1)
    np.save(tmp_path / "squares.npy", images)
    lines = ["x,y", *(f"{a},{b}" for a, b in zip(x.ravel(), y.ravel(), strict=True))]
    (tmp_path / "factors.csv").write_text("\n".join(lines) + "\n")
    data = uw.data.load(tmp_path / "squares.npy", factors=tmp_path / "factors.csv")
    settings = {"steps": 1, "batch": 4, "architecture": "small_mlp", "progress": False}
    fleet = uw.train(uw.methods.BetaVAE(), data, seeds=2, out=tmp_path / "runs", **settings)
    return [tmp_path / "runs" / config.hash for config in fleet.configs]


def test_learning_from_runs_writes_a_file_and_a_figure(runs, tmp_path, capsys):
    out, sheet = tmp_path / "m.safetensors", tmp_path / "changes.png"
    args = [
        "manipulate",
        str(tmp_path / "squares.npy"),
        "--factors",
        str(tmp_path / "factors.csv"),
    ]
    args += ["--disentangled", str(runs[0]), "--entangled", str(runs[1]), "-o", str(out)]
    args += ["--steps", "2", "--batch", "4", "--draws", "2", "--device", "cpu"]
    main([*args, "--epsilon", "0.2", "--picture", str(sheet)])
    output = capsys.readouterr().out
    m = Manipulation.load(out)
    before, after = m.curve["difference"].iloc[[0, -1]]
    assert f"L_ent - L_dis from {before:.4g} to {after:.4g}" in output
    assert m.epsilon == 0.2
    assert (m.settings["steps"], m.settings["held_out"]) == (2, 3)
    assert f"Manipulation.load({str(out)!r})" in output
    with Image.open(sheet) as picture:
        assert picture.size[0] > 10 * 64
    # Another training must not replace it by mistake.
    with pytest.raises(SystemExit) as stopped:
        main([*args, "--epsilon", "0.1"])
    assert stopped.value.code == 2
    assert str(out) in capsys.readouterr().err
    main([*args, "--epsilon", "0.1", "--overwrite"])
    assert Manipulation.load(out).epsilon == 0.1


def test_a_wrong_file_extension_is_an_error_before_any_work(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["manipulate", "dsprites", "--disentangled", "a", "--entangled", "b", "-o", "m.npz"])
    assert ".safetensors" in capsys.readouterr().err


def test_learning_from_images_alone(runs, tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    args = ["manipulate", str(tmp_path / "squares.npy"), "--factors"]
    args += [str(tmp_path / "factors.csv"), "-o", str(out), "--batch", "4", "--device", "cpu"]
    main([*args, "--steps", "2", "--epsilon", "0.2"])
    m = Manipulation.load(out)
    before, after = m.curve["excess"].iloc[[0, -1]]
    assert f"from {before:.4g} to {after:.4g}" in capsys.readouterr().out
    assert m.settings["steps"] == 2
    for more in (["--draws", "3"], ["--entangled", str(runs[0])]):
        with pytest.raises(SystemExit):
            main([*args, *more])
        assert "--disentangled" in capsys.readouterr().err
