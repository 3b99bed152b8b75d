"""`unweave show`, as a user runs it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.cli import main
from unweave.cli.show import KINDS


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return model.save(tmp_path_factory.mktemp("show") / "run")


def call(capsys, *words):
    """The command in this process: its exit code and what it said."""
    try:
        main(["show", *map(str, words)])
        code = 0
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    return code, said.out + said.err


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
    code, said = call(capsys, own.get(kind, folder), "--kind", kind)
    assert code == 0, said
    (path,) = tmp_path.iterdir()
    assert path.name == f"{kind}.gif" if kind == "animation" else f"{kind}.png"
    assert path.name in said
    with Image.open(path) as file:
        assert min(file.size) > 100
        assert np.asarray(file.convert("L")).std() > 10


def test_flags_reach_the_picture_and_data_are_those_of_training(
    folder, model, sprites, tmp_path, capsys
):
    flags = ["--index", 7, "--columns", 3, "--quantiles", 0.1, 0.9, "--inactive", "hide"]
    code, said = call(capsys, folder, "-o", tmp_path / "a.png", *flags)
    assert code == 0, said
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
    code, said = call(capsys, folder, "-o", tmp_path / "b.png", *flags)
    assert code == 0, said
    expected = uw.show.pairwise(model, sprites, (3, 0), columns=2, prior="draw", seed=4)
    with Image.open(tmp_path / "b.png") as file:
        np.testing.assert_array_equal(np.asarray(file), np.asarray(expected))
    words = [folder, "--kind", "position", "--over", "posX", "scale", "-o", tmp_path / "c.svg"]
    code, said = call(capsys, *words)
    assert code == 0, said
    text = (tmp_path / "c.svg").read_text()
    assert "posX →" in text
    assert "scale ↓" in text


def test_members_are_drawn_as_said(together, ensemble, sprites, tmp_path, capsys):
    flags = ["--kind", "members", "--index", 7, "--columns", 2, "--inactive", "hide"]
    code, said = call(capsys, together, "-o", tmp_path / "a.png", *flags)
    assert code == 0, said
    expected = uw.show.members(ensemble[0], sprites, 7, 2, inactive="hide")
    with Image.open(tmp_path / "a.png") as file:
        np.testing.assert_array_equal(np.asarray(file), np.asarray(expected))
    for by, words in (("shape", ["square", "ellipse", "heart", "σ² by shape"]), (2, ["by group"])):
        out = tmp_path / f"{by}.svg"
        code, said = call(capsys, together, "-o", out, "--kind", "activity", "--by", by)
        assert code == 0, said
        assert all(word in out.read_text() for word in words)


def test_files_are_not_overwritten_unasked(folder, tmp_path, capsys):
    out = tmp_path / "s.png"
    words = [folder, "--kind", "samples", "--count", 2, "-o", out]
    assert call(capsys, *words)[0] == 0
    before = out.read_bytes()
    code, said = call(capsys, *words, "--seed", 5)
    assert code == 2
    assert "already there" in said
    assert out.read_bytes() == before
    assert call(capsys, *words, "--seed", 5, "--overwrite")[0] == 0
    assert out.read_bytes() != before


def test_own_images_must_be_named(grey, tmp_path, capsys):
    (model,) = uw.train(uw.methods.VAE(), grey, steps=1, batch=4, latents=2, progress=False)
    folder, out = model.save(tmp_path / "run"), tmp_path / "r.png"
    code, said = call(capsys, folder, "-o", out)
    assert code == 2
    assert "with --data" in said
    np.save(tmp_path / "grey.npy", grey[:])
    code, said = call(capsys, folder, "-o", out, "--data", tmp_path / "grey.npy")
    assert code == 0, said
    with Image.open(out) as file:
        np.testing.assert_array_equal(
            np.asarray(file), np.asarray(uw.show.traversals(model, grey))
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "--kind", "traversal"], "did you mean 'traversals'"),
        (["RUN", "--kind", "samples", "--index", "3"], "--index says nothing about samples"),
        (["RUN", "--kind", "samples", "--data", "dsprites"], "--data says nothing about samples"),
        (["RUN", "--kind", "polarised", "-o", "a.gif"], ".png or .svg"),
        (["RUN", "--kind", "members"], "have no maps between members"),
        (["RUN", "--kind", "members", "--by", "shape"], "--by says nothing about members"),
        (["RUN", "--kind", "subspaces"], "beta_vae models have no subspaces; train isa_vae"),
        (["RUN", "--kind", "exponents"], "none of these models learned exponents"),
        (["RUN", "--kind", "activity", "--by", "shap"], "did you mean 'shape'"),
        (["RUN", "-o", "a.svg"], ".jpeg or .webp"),
        (["RUN", "-o", "nowhere/a.png"], "there is no folder nowhere"),
        (["RUN", "--index", "9999"], "images 0 … 383, but got index 9,999"),
        (["RUN", "--size", "32"], "--size says how to load --data"),
        (["RUN", "--data", "pendulum"], "but these models take 64 × 64 × 1"),
        (["nowhere"], "there is no folder nowhere"),
        (["TWO"], "holds 2 models"),
    ],
)
def test_mistakes_are_one_sentence(words, message, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two = tmp_path / "two"
    if "TWO" in words:
        for name in "ab":
            uw.load(folder).save(two / name)
    places = {"RUN": folder, "TWO": two}
    code, said = call(capsys, *(places.get(word, word) for word in words))
    assert code == 2
    assert message in said
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
