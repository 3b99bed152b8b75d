"""`unweave evaluate` and `unweave score`, as a user runs them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.cli.calling import run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small models of a slice of dSprites."""
    folder = tmp_path_factory.mktemp("evaluate") / "runs"
    data = uw.data.load("dsprites").slice(shape=[0, 2], scale=5, orientation=0, posX=range(4))
    uw.train(uw.methods.BetaVAE(), data, seeds=2, steps=2, batch=8, out=folder, progress=False)
    return folder


def test_evaluate_prints_a_row_per_model_and_caches_the_scores(runs):
    args = ["evaluate", runs, "--metrics", "mig", "factor-vae", "--out", runs.parent / "t.csv"]
    done = run(*args)
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
    narrow = run(*args[:-2], FORCE_COLOR="1", COLUMNS="60")
    for row in table.itertuples():
        for score in (row.mig, row.factor_vae):
            assert f"{score:.4g}" in narrow.stdout
    assert narrow.stdout.count(table["run"][0]) == 2
    refused = run(*args)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    again = run(*args, "--overwrite")
    assert again.returncode == 0, again.stderr
    pd.testing.assert_frame_equal(pd.read_csv(runs.parent / "t.csv"), table)


def test_evaluate_on_other_data(runs, tmp_path):
    images = uw.data.load("dsprites").images(np.arange(0, 737_280, 7_000))
    np.save(tmp_path / "images.npy", images)
    args = ["evaluate", runs, "--data", tmp_path / "images.npy", "--metrics"]
    done = run(*args, "active-units", "mig", "--out", tmp_path / "t.parquet", "--sampled")
    assert done.returncode == 0, done.stderr
    assert "mig" in done.stderr
    assert (pd.read_parquet(tmp_path / "t.parquet")["active_units"] == 10).all()
    done = run(*args, "classic")
    assert done.returncode == 2
    assert "factors" in done.stderr


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
def test_score_prints_the_scores(tables, files, tmp_path):
    folder, codes, factors = tables
    paths = [folder / name for name in files]
    args = ["--metrics", "mig", "sap", "beta-vae", "--seed", 2, "-o", tmp_path / "scores.csv"]
    scores = scores_of(run("score", *paths, *args))
    assert list(scores) == ["mig", "sap", "beta_vae", "beta_vae.train_accuracy"]
    for name in ("mig", "sap", "beta_vae"):
        expected = uw.metrics.METRICS[name](codes, factors, 2)[name]
        assert scores[name] == pytest.approx(expected, abs=2e-5)
    written = pd.read_csv(tmp_path / "scores.csv").set_index("score")["value"]
    assert written["mig"] == pytest.approx(scores["mig"], abs=1e-6)


def test_score_draws_matrices_with_the_names_of_factors(tables, tmp_path):
    folder = tables[0]
    picture = tmp_path / "matrices.svg"
    args = ["--metrics", "mig", "--matrices", picture]
    done = run("score", folder / "codes.npy", folder / "factors.csv", *args)
    assert done.returncode == 0, done.stderr
    text = picture.read_text()
    for word in ("orientation", "z9", "DCI importance", "FactorVAE votes"):
        assert f">{word}</text>" in text


def test_score_without_factors_skips_metrics_that_need_them(tables):
    folder, codes, _ = tables
    done = run("score", folder / "codes.npy", "--metrics", "mig", "elbo", "fid", "active-units")
    assert scores_of(done)["active_units"] == uw.metrics.active_units(codes)["active_units"]
    for name in ("mig", "elbo", "fid", "unweave evaluate"):
        assert name in done.stderr


@pytest.mark.parametrize(
    ("args", "datum"),
    [
        (["evaluate", "nowhere"], "nowhere"),
        (["evaluate", "."], ". contains no models"),
        (["evaluate"], "no models were given"),
        (["evaluate", "RUNS", "--metrics", "factorvae"], "'factor_vae'"),
        (["evaluate", "RUNS", "--data", "dsprits"], "'dsprites'"),
        (["evaluate", "RUNS", "--size", "32"], "--size"),
        (["evaluate", "RUNS", "--out", "scores.xlsx"], ".parquet"),
        (["score", "codes.npy", "factors.npy"], "codes.npy"),
        (["score", "CODES", "--metrics", "classic"], "mig"),
        (["score", "CODES", "CODES", "--metrics", "mgi"], "'mig'"),
        (["score", "CODES", "BOTH", "--matrices", "x.jpg"], ".svg"),
        (["score", "CODES", "--metrics", "irs", "elbo"], "irs"),
        (["score", "CODES", "--matrices", "x.png", "--metrics", "active-units"], "factors"),
        (["score", "FEW", "BOTH", "--metrics", "mig", "sap"], "11520"),
    ],
)
def test_errors_in_scoring_are_one_sentence(args, datum, runs, tables, tmp_path):
    np.save(tmp_path / "few.npy", np.ones((5, 2)))
    places = {
        "RUNS": runs,
        "CODES": tables[0] / "codes.npy",
        "BOTH": tables[0] / "both.npz",
        "FEW": tmp_path / "few.npy",
    }
    done = run(*(places.get(word, word) for word in args), cwd=tmp_path)
    assert done.returncode == 2
    assert datum in done.stderr + done.stdout
