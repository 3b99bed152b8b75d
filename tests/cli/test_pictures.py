"""`unweave show`, as a user runs it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.cli import main
from unweave.cli.pictures import KINDS


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return model.save(tmp_path_factory.mktemp("show") / "run")


def call(capsys, *args):
    """Run the command in this process; return its exit code and output."""
    try:
        main(["show", *map(str, args)])
        code = 0
    except SystemExit as stop:
        code = stop.code
    output = capsys.readouterr()
    return code, output.out + output.err


@pytest.fixture(scope="module")
def together(ensemble, tmp_path_factory):
    """The folder of an ensemble."""
    return ensemble[0].save(tmp_path_factory.mktemp("show") / "ensemble")


@pytest.fixture(scope="module")
def learned(sprites, tmp_path_factory):
    """The folder of an ISA-VAE that learned its exponents."""
    quick = {"steps": 1, "batch": 8, "latents": 4, "architecture": "small_mlp"}
    method = uw.methods.ISAVAE(layout="2x2", learned=True)
    (model,) = uw.train(method, sprites, progress=False, **quick)
    return model.save(tmp_path_factory.mktemp("show") / "isa")


@pytest.fixture(scope="module")
def staged(model, sprites, tmp_path_factory):
    """The folder of a second stage over the model."""
    quick = {"steps": 1, "batch": 8, "latents": 2, "architecture": "small_dcgan"}
    (two,) = uw.train(uw.methods.MSVAE(), sprites, first=model, progress=False, **quick)
    return two.save(tmp_path_factory.mktemp("show") / "staged")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(folder, together, learned, staged, tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    own = {"members": together, "subspaces": learned, "exponents": learned}
    own |= dict.fromkeys(("stages", "swaps", "stage-traversals"), staged)
    code, output = call(capsys, own.get(kind, folder), "--kind", kind)
    assert code == 0, output
    (path,) = tmp_path.iterdir()
    assert path.name == f"{kind}.gif" if kind == "animation" else f"{kind}.png"
    assert path.name in output
    with Image.open(path) as file:
        assert min(file.size) > 100
        assert np.asarray(file.convert("L")).std() > 10


def test_flags_are_applied_and_training_data_are_used(folder, model, sprites, tmp_path, capsys):
    flags = ["--index", 7, "--columns", 3, "--quantiles", 0.1, 0.9, "--inactive", "hide"]
    code, output = call(capsys, folder, "-o", tmp_path / "a.png", *flags)
    assert code == 0, output
    expected = uw.show.traversals(model, sprites, 7, 3, quantiles=(0.1, 0.9), inactive="hide")
    with Image.open(tmp_path / "a.png") as file:
        np.testing.assert_array_equal(np.asarray(file), np.asarray(expected))
    flags = [
        "--kind",
        "pairwise",
        "--latents",
        3,
        0,
        "--columns",
        2,
        "--prior",
        "draw",
        "--seed",
        4,
    ]
    code, output = call(capsys, folder, "-o", tmp_path / "b.png", *flags)
    assert code == 0, output
    expected = uw.show.pairwise(model, sprites, (3, 0), columns=2, prior="draw", seed=4)
    with Image.open(tmp_path / "b.png") as file:
        np.testing.assert_array_equal(np.asarray(file), np.asarray(expected))
    args = [folder, "--kind", "position", "--axes", "posX", "scale", "-o", tmp_path / "c.svg"]
    code, output = call(capsys, *args)
    assert code == 0, output
    text = (tmp_path / "c.svg").read_text()
    assert "posX →" in text
    assert "scale ↓" in text


def test_flags_of_ensemble_figures(together, ensemble, sprites, tmp_path, capsys):
    flags = ["--kind", "members", "--index", 7, "--columns", 2, "--inactive", "hide"]
    code, output = call(capsys, together, "-o", tmp_path / "a.png", *flags)
    assert code == 0, output
    expected = uw.show.members(ensemble[0], sprites, 7, 2, inactive="hide")
    with Image.open(tmp_path / "a.png") as file:
        np.testing.assert_array_equal(np.asarray(file), np.asarray(expected))
    for by, args in (("shape", ["square", "ellipse", "heart", "σ² by shape"]), (2, ["by group"])):
        out = tmp_path / f"{by}.svg"
        code, output = call(capsys, together, "-o", out, "--kind", "activity", "--by", by)
        assert code == 0, output
        assert all(word in out.read_text() for word in args)


def test_files_are_not_overwritten_by_default(folder, tmp_path, capsys):
    out = tmp_path / "s.png"
    args = [folder, "--kind", "samples", "--count", 2, "-o", out]
    assert call(capsys, *args)[0] == 0
    before = out.read_bytes()
    code, output = call(capsys, *args, "--seed", 5)
    assert code == 2
    assert "--overwrite" in output
    assert out.read_bytes() == before
    assert call(capsys, *args, "--seed", 5, "--overwrite")[0] == 0
    assert out.read_bytes() != before


def test_custom_images_must_be_passed(grey, tmp_path, capsys):
    (model,) = uw.train(uw.methods.VAE(), grey, steps=1, batch=4, latents=2, progress=False)
    folder, out = model.save(tmp_path / "run"), tmp_path / "r.png"
    code, output = call(capsys, folder, "-o", out)
    assert code == 2
    assert "--data" in output
    np.save(tmp_path / "grey.npy", grey[:])
    code, output = call(capsys, folder, "-o", out, "--data", tmp_path / "grey.npy")
    assert code == 0, output
    with Image.open(out) as file:
        np.testing.assert_array_equal(
            np.asarray(file), np.asarray(uw.show.traversals(model, grey))
        )


@pytest.mark.parametrize(
    ("args", "datum"),
    [
        (["RUN", "--kind", "traversal"], "'traversals'"),
        (["RUN", "--kind", "samples", "--index", "3"], "--index"),
        (["RUN", "--kind", "samples", "--data", "dsprites"], "--data"),
        (["RUN", "--kind", "polarised", "-o", "a.gif"], ".svg"),
        (["RUN", "--kind", "members"], "members"),
        (["RUN", "--kind", "members", "--by", "shape"], "--by"),
        (["RUN", "--kind", "subspaces"], "isa_vae"),
        (["RUN", "--kind", "exponents"], "exponents"),
        (["RUN", "--kind", "activity", "--by", "shap"], "'shape'"),
        (["RUN", "-o", "a.svg"], ".webp"),
        (["RUN", "-o", "nowhere/a.png"], "nowhere"),
        (["RUN", "--index", "9999"], "9,999"),
        (["RUN", "--size", "32"], "--size"),
        (["RUN", "--data", "pendulum"], "64 × 64 × 1"),
        (["nowhere"], "nowhere"),
        (["TWO"], "2 models"),
    ],
)
def test_errors_are_one_sentence(args, datum, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two = tmp_path / "two"
    if "TWO" in args:
        for name in "ab":
            uw.load(folder).save(two / name)
    places = {"RUN": folder, "TWO": two}
    code, output = call(capsys, *(places.get(word, word) for word in args))
    assert code == 2
    assert datum in output
    assert [path.name for path in tmp_path.iterdir() if path != two] == []


def test_help_has_an_example_and_needs_no_torch():
    code = (
        "import sys\nfrom unweave.cli import main\n"
        "try:\n    main(['show', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'matplotlib', 'PIL'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "160"},
    )
    assert done.returncode == 0, done.stderr
    assert "Example: unweave show" in done.stdout
    assert "pairwise, position, polarised" in done.stdout
