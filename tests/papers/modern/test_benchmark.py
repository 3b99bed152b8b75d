"""Part of the comparison of recent methods: codes in files, which are scored elsewhere."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks import infomec
from tests.papers.modern.tiny import STUDY, sample


@pytest.fixture
def tiny(monkeypatch):
    """The recipe with a tiny study."""
    keys = {name: getattr(STUDY, name) for name in ("metrics", "methods", "data", "settings")}
    keys |= {"name": "tiny", "seeds": 2, "steps": STUDY.steps}
    monkeypatch.setattr(infomec, "RECIPE", replace(infomec.RECIPE, studies={"hour": keys}))


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["infomec.py", *map(str, words)])
    infomec.main()


def test_codes_of_parts_are_scored_as_the_whole_study(tiny, study, monkeypatch, tmp_path):
    monkeypatch.setattr(infomec, "FILE_BYTES", 2 * 3 * 576)  # one model
    for part, methods in (("one", ["qlae", "beta_vae"]), ("two", ["ae"])):
        words = ("--out", tmp_path / part, "--device", "cpu", "--minutes", 10)
        call(monkeypatch, "train", *words, "--methods", *methods)
    assert len(list((tmp_path / "one").glob("*.npz"))) == 4
    assert len(list((tmp_path / "two").glob("*.npz"))) == 2
    out, options = tmp_path / "out", ("--processes", 1)
    call(monkeypatch, "score", tmp_path / "one", *options, "--out", out)
    first = pd.read_csv(out / "study.csv")
    assert set(first["method"]) == {"qlae", "beta_vae"}

    def again(*_):
        raise AssertionError("scored again")

    both = (tmp_path / "one", tmp_path / "two")
    call(monkeypatch, "score", *both, *options, "--out", out, "--picture", tmp_path / "a.svg")
    found = pd.read_csv(out / "study.csv").set_index(["run", "codes"])
    expected = study[2].set_index(["run", "codes"])
    assert set(found.index) == set(expected.index)
    expected = expected.loc[found.index]
    for column in ("udr", "dci", "mig", "infomec.explicitness"):
        np.testing.assert_allclose(found[column], expected[column], atol=0.03, err_msg=column)
    np.testing.assert_array_equal(found["setting"], expected["setting"])
    frame = pd.read_csv(out / "infomec.csv")
    assert frame.dropna(subset="obtained")["method"].nunique() == 4
    assert (tmp_path / "a.svg").stat().st_size > 1_000
    monkeypatch.setattr(infomec, "scores", again)
    call(monkeypatch, "score", *both, *options, "--out", out)
    pd.testing.assert_frame_equal(
        pd.read_csv(out / "study.csv").set_index(found.index.names), found
    )


def test_longer_training_replaces_shorter(tiny, monkeypatch, tmp_path):
    few = ("--methods", "beta_vae", "--seeds", 1, "--device", "cpu")
    call(monkeypatch, "train", *few, "--out", tmp_path / "long")
    keys = {**infomec.RECIPE.studies["hour"], "steps": 5}  # as at a deadline
    monkeypatch.setattr(infomec, "RECIPE", replace(infomec.RECIPE, studies={"hour": keys}))
    call(monkeypatch, "train", *few, "--out", tmp_path / "short")
    both = (tmp_path / "long", tmp_path / "short")
    assert [one.config.steps for one in infomec.read(both)] == [STUDY.steps, 5]
    call(monkeypatch, "score", *both, "--processes", 1, "--out", tmp_path)
    assert pd.read_csv(tmp_path / "study.csv")["steps"].tolist() == [STUDY.steps]


def test_files_hold_random_images_and_known_factors(tiny, monkeypatch, tmp_path):
    words = ("--methods", "qlae", "--seeds", 0, "--device", "cpu", "--out", tmp_path)
    call(monkeypatch, "train", *words)
    (one,) = infomec.read([tmp_path])
    _, rows, factors = sample()
    np.testing.assert_array_equal(one.factors, factors)
    assert (np.diff(rows) < 0).any()
    assert one.means.shape == (len(rows), 3)
    assert one.data == "dsprites"
    (file,) = tmp_path.glob("*.npz")
    with np.load(file) as saved:
        assert saved["means"].dtype == np.float16
        assert json.loads(str(saved["about"]))["device"] == "cpu"


def test_training_needs_no_numba():
    code = "import sys; sys.modules['numba'] = None; import benchmarks.infomec"
    subprocess.run([sys.executable, "-c", code], check=True)
