"""`unweave theory impossibility`."""

import pandas as pd
import pytest
from PIL import Image

import unweave as uw
from unweave.cli import main
from unweave.papers.common_assumptions.theory import impossibility as imp
from unweave.papers.common_assumptions.theory.entangled_twin import compare


def run(*args):
    main(["theory", "impossibility", *map(str, args)])


def test_a_perfect_code_is_entangled(capsys, tmp_path):
    args = ["-d", 3, "--prior", "laplace", "--alpha", 0.3, "--metrics", "mig", "sap"]
    run("-o", tmp_path / "new", *args, "--seed", 2)
    output = capsys.readouterr().out
    scores = pd.read_csv(tmp_path / "new" / "metrics.csv")
    f = imp.entangle([imp.PRIORS["laplace"]] * 3, 0.3)
    expected = imp.collapse(f, ["mig", "sap"], seed=2)
    assert scores["metric"].tolist() == expected["metric"].tolist()
    assert scores["entangled"].tolist() == pytest.approx(expected["entangled"].tolist())
    measured = pd.read_csv(tmp_path / "new" / "check.csv")
    assert measured["ks"].tolist() == pytest.approx(imp.check(f, seed=2)["ks"].tolist())
    for name in ("grid", "metrics"):
        with Image.open(tmp_path / "new" / f"{name}.png") as picture:
            assert picture.size[0] > 900
    assert f"{measured['ks'].min():.2g}" in output
    assert "check.csv" in output


def test_the_cosine_matrix(tmp_path):
    run("-o", tmp_path, "--cosine", "-d", 3, "--metrics", "mig", "--format", "svg")
    f = imp.entangle_with([imp.PRIORS["uniform"]] * 3, imp.cosine(3))
    scores = pd.read_csv(tmp_path / "metrics.csv")
    assert scores["entangled"].item() == pytest.approx(imp.collapse(f, "mig")["entangled"].item())
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["check.csv", "grid.svg", "metrics.csv", "metrics.svg"]


def test_a_model_and_its_twin(capsys, tmp_path):
    places = range(0, 32, 8)
    data = uw.data.load("dsprites").slice(scale=[5], orientation=[0], posX=places, posY=places)
    model = uw.train(uw.methods.VAE(), data, steps=3, batch=8, latents=3, progress=False)[0]
    folder = model.save(tmp_path / "run")
    run(folder, "-o", tmp_path / "out", "--alpha", 0.2, "--metrics", "mig")
    table = pd.read_csv(tmp_path / "out" / "twin.csv")
    expected = compare(model, data, ["mig", "elbo", "pixel_error"], alpha=0.2)
    assert table["metric"].tolist() == expected["metric"].tolist()
    assert table["twin"].tolist() == pytest.approx(expected["twin"].tolist(), rel=1e-5)
    assert (tmp_path / "out" / "twin.png").exists()
    assert "elbo.kl" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(folder, "-o", tmp_path / "more", "--prior", "uniform")
    assert "--prior" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["-d", 1], "got 1"),
        (["--alpha", 0.5], "0.5"),
        (["--alpha", 0.2, "--cosine"], "--cosine"),
        (["--prior", "norml"], "'normal'"),
        (["--metrics", "elbo"], "elbo"),
        (["--data", "dsprites"], "--data"),
        (["nowhere"], "nowhere"),
    ],
)
def test_errors_are_one_sentence_and_nothing_is_written(args, named, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        run(*args, "-o", tmp_path / "out")
    assert stopped.value.code == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_by_default(capsys, tmp_path):
    args = ["-o", tmp_path, "--metrics", "mig", "--format", "svg"]
    run(*args)
    with pytest.raises(SystemExit):
        run(*args)
    assert "grid.svg" in capsys.readouterr().err
    run(*args, "--overwrite")
