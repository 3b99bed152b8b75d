"""A user's method, metric, architecture and data set, in one file outside the package, everywhere.

Each file is taken through training, scores, studies (here and on Ray), reports, the explorer and
the command line, in this process and in others.
"""

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from unweave.errors import UnweaveError
from unweave.explorer.model_index import entries_of
from unweave.metrics import MetricError
from unweave.study import Study, run

MODULE = "shop_floor"
SOURCE = '''
"""One method, metric, architecture and data set of somebody's own."""

from dataclasses import dataclass

import numpy as np
import torch

import unweave as uw
from unweave.methods import Batch, Strength
from unweave.methods.vae import VAE, Elbo
from unweave.metrics import Metric
from unweave.metrics.base import table
from unweave.nets.architectures import Architecture, mlp_decoder, mlp_encoder


@dataclass(frozen=True, kw_only=True)
class Scaled(VAE):
    """A VAE whose KL divergence is scaled.

    Args:
        scale: The factor.
    """

    name = "scaled_vae"
    label = "Scaled VAE"
    symbols = {"scale": "ς"}
    scale: Strength = 2.0

    def regularizer(self, elbo: Elbo, batch: Batch) -> torch.Tensor:
        return self.scale * elbo.kl


CALLS = []


def spread(codes, factors, seed=0):
    """Standard deviation of all codes."""
    CALLS.append(seed)
    return {"spread": float(table(codes, factors).codes.std()), "rows": float(len(codes))}


SPREAD = Metric(
    name="spread",
    label="SPREAD OF CODES",
    function=spread,
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="factors",
    cost="seconds",
    reference="nowhere",
    failure="It says nothing about disentanglement.",
)

TINY = Architecture(
    lambda shape, latents: mlp_encoder(shape, latents, 8),
    lambda shape, latents: mlp_decoder(shape, latents, 8),
)


def squares(step: int = 2) -> uw.data.Dataset:
    """Squares at positions of a grid."""
    places = range(0, 16, step)
    images = np.zeros((len(places), len(places), 32, 32, 1), np.uint8)
    for i, row in enumerate(places):
        for j, column in enumerate(places):
            images[i, j, row : row + 16, column : column + 16] = 255
    factors = np.stack(np.unravel_index(np.arange(len(places) ** 2), (len(places),) * 2), 1)
    return uw.data.load(images.reshape(-1, 32, 32, 1), factors=factors)
'''
QUICK = {"steps": 2, "batch": 4, "latents": 3, "progress": False}
NAMES = {n: f"{MODULE}:{n}" for n in ("Scaled", "SPREAD", "TINY", "squares")}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The folder with the user's file."""
    folder = tmp_path_factory.mktemp("home")
    (folder / f"{MODULE}.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module")
def shop(home):
    """The user's module, imported."""
    sys.path.append(str(home))
    yield importlib.import_module(MODULE)
    sys.path.remove(str(home))
    del sys.modules[MODULE]


@pytest.fixture(scope="module")
def runs(shop, tmp_path_factory):
    """A folder of saved models of the user's method and architecture, on the user's data."""
    folder = tmp_path_factory.mktemp("trained") / "runs"
    data = uw.data.load(NAMES["squares"])
    method = shop.Scaled(scale=[1, 3])
    uw.train(method, data, architecture=shop.TINY, out=folder, **QUICK)
    return folder


def typed(*words, cwd):
    """Run `unweave …` in a new Python, exactly as users type it."""
    source = str(Path(uw.__file__).parents[1])
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": source, "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-m", "unweave", *map(str, words)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def begin(start, home):
    """Returns a function that starts `unweave …` in a forked process.

    The process has not imported the user's file and finds it only in its own folder, or in one
    that is given as `path`.
    """
    others = [folder for folder in sys.path if folder not in ("", str(home))]

    def begun(*words, cwd, path=None):
        paths = [*([] if path is None else [str(path)]), *others]
        code = f"import sys; sys.path[:] = {paths}; from unweave.cli import main; main()"
        return start(*words, code=code, cwd=cwd, COLUMNS="200")

    return begun


@pytest.fixture
def command(begin):
    """Returns a function that runs `unweave …` in such a process to its end."""

    def run(*words, **where):
        process = begin(*words, **where)
        process.wait(300)
        return process

    return run


def test_train_saves_references_and_load_resolves_them(runs, shop):
    folder = min(runs.glob("[0-9a-f]*"))
    plain = json.loads((folder / "config.json").read_text())
    assert plain["method"]["name"] == NAMES["Scaled"]
    assert plain["architecture"] == NAMES["TINY"]
    assert plain["data"] == [["load", NAMES["squares"], {}]]
    model = uw.load(folder)
    assert type(model.config.method) is shop.Scaled
    assert model.config.hash == folder.name


@pytest.mark.parametrize("given", ["object", "function", "reference", "name"])
def test_evaluate(given, runs, shop):
    metric = {
        "object": shop.SPREAD,
        "function": shop.spread,
        "reference": NAMES["SPREAD"],
        "name": "spread",
    }[given]
    table = uw.evaluate(runs, metrics=["mig", metric], progress=False)
    assert table["method"].tolist() == ["scaled_vae"] * 2
    assert table["spread"].gt(0).all()
    assert table["spread.rows"].tolist() == [64.0, 64.0]


def test_scores_are_cached(runs, shop):
    folder = min(runs.glob("[0-9a-f]*"))
    first = uw.evaluate(folder, metrics=shop.SPREAD, progress=False)
    before = len(shop.CALLS)
    again = uw.evaluate(folder, metrics=NAMES["SPREAD"], progress=False)
    assert len(shop.CALLS) == before
    pd.testing.assert_frame_equal(first, again)
    uw.evaluate(folder, metrics=shop.spread, progress=False)
    assert len(shop.CALLS) == before + 1


def test_two_metrics_with_the_same_name_are_an_error(runs, shop):
    other = dataclasses.replace(shop.SPREAD, failure="Another one.")
    with pytest.raises(UnweaveError, match="'spread'"):
        uw.evaluate(runs, metrics=[shop.SPREAD, other], progress=False)


def test_metrics_without_a_headline_are_an_error(shop):
    wrong = dataclasses.replace(shop.SPREAD, name="width")
    with pytest.raises(MetricError, match="'width'"):
        wrong(np.eye(3), np.arange(3))


def test_select(runs, shop):
    data = uw.data.load(NAMES["squares"])
    ranking = uw.select.supervised(runs, data, labels=20, metric=shop.SPREAD)
    assert ranking["score"].is_monotonic_increasing  # lower is better
    same = uw.select.supervised(runs, data, labels=20, metric=NAMES["SPREAD"])
    pd.testing.assert_frame_equal(ranking, same)


def a_study(**more):
    return {
        "data": [NAMES["squares"]],
        "seeds": 1,
        "steps": 2,
        "settings": {"batch": 4, "latents": 3, "architecture": NAMES["TINY"]},
        **more,
    }


@pytest.mark.parametrize("kind", ["class", "instance", "reference"])
def test_studies_with_objects_and_with_references_are_equal(kind, shop):
    methods = {
        "class": {shop.Scaled: {"scale": [1, 3]}},
        "instance": [shop.Scaled(scale=[1, 3])],
        "reference": {NAMES["Scaled"]: {"scale": [1, 3]}},
    }[kind]
    study = Study(**a_study(methods=methods, metrics=[shop.SPREAD, "mig"]))
    assert [type(config.method) for config in study.runs()] == [shop.Scaled] * 2
    again = Study.from_dict(json.loads(json.dumps(study.to_dict())))
    assert again.runs() == study.runs()
    assert again.metrics == (NAMES["SPREAD"], "mig")


@pytest.mark.parametrize("on", ["here", "ray"])
def test_study_report_and_explorer(on, shop, tmp_path):
    study = Study(**a_study(methods={shop.Scaled: {"scale": [1, 3]}}, metrics=[shop.SPREAD]))
    results = run(study, tmp_path / "study", on=on, progress=False, scorers=1)
    assert results.counts["scored"] == 2, results.failures.to_dict("records")
    table = results.table
    assert table["method"].unique().tolist() == ["scaled_vae"]
    assert table["strength"].tolist() == [1.0, 3.0]
    assert table["spread"].gt(0).all()
    page = uw.show.report(tmp_path / "study", tmp_path / "report.html", rows=20, progress=False)
    for text in ("SPREAD OF CODES", "Standard deviation of all codes.", "Scaled VAE ς=3"):
        assert text in page.read_text()
    entries = entries_of(tmp_path / "study")
    assert all(not entry.trouble and entry.scores["spread"] > 0 for entry in entries)


def test_second_stage_over_a_users_method(shop):
    study = Study(
        data=["dsprites"],
        methods={
            shop.Scaled: {"scale": 1},
            "ms_vae": {"first": shop.Scaled, "settings": {"latents": 2}},
        },
        steps=2,
    )
    first, second = study.runs()
    assert second.first == first


STUDY_FILE = f"""
name: own
data: [{NAMES["squares"]}]
methods: {{{NAMES["Scaled"]}: {{scale: [1, 3]}}}}
steps: 2
metrics: [{NAMES["SPREAD"]}]
settings: {{batch: 4, latents: 3, architecture: {NAMES["TINY"]}}}
"""


def test_command_line(home, tmp_path, begin, command):
    """Run commands in the folder of the user's file."""
    small = ("--steps", 2, "--batch", 4, "--latents", 3, "--out", tmp_path / "runs")
    named = begin("train", NAMES["squares"], "scaled-vae", *small, "--plugin", MODULE, cwd=home)
    done = typed(
        "train",
        NAMES["squares"],
        NAMES["Scaled"],
        *("--scale", 1, 3, "--architecture", NAMES["TINY"]),
        *small,
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    assert named.wait() == 0, named.stderr
    scored = command(
        "evaluate",
        tmp_path / "runs",
        "--metrics",
        NAMES["SPREAD"],
        f"--plugin={MODULE}",
        cwd=home,
    )
    assert scored.returncode == 0, scored.stderr
    assert "spread" in scored.stdout
    shown = command(
        "report", tmp_path / "runs", "-o", tmp_path / "r.html", "--plugin", MODULE, cwd=home
    )
    assert shown.returncode == 0, shown.stderr
    page = (tmp_path / "r.html").read_text()
    assert f"unweave train {NAMES['squares']} {NAMES['Scaled']}" in page
    assert "SPREAD OF CODES" in page


def test_study_files(home, tmp_path, command):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY_FILE)
    refused = command("study", "run", file, "--out", tmp_path / "study", cwd=home)
    assert refused.returncode == 2
    assert f"--plugin {MODULE}" in refused.stderr
    done = command("study", "run", file, "--out", tmp_path / "study", "--plugin", MODULE, cwd=home)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(tmp_path / "study" / "study.parquet")
    assert table["spread"].gt(0).all()
    checked = command("study", "check", tmp_path / "study", "--repair", cwd=home)
    assert checked.returncode == 2
    assert f"--plugin {MODULE}" in checked.stderr
    assert not (tmp_path / "study" / "damaged").exists()


def test_saved_runs_do_not_import_modules_that_are_not_allowed(
    runs, home, tmp_path, begin, command
):
    """Not even if the module could be imported."""
    trap = tmp_path / "trap"
    trap.mkdir()
    witness = tmp_path / "imported"
    (trap / f"{MODULE}.py").write_text(
        f"open({str(witness)!r}, 'w').close()\n" + (home / f"{MODULE}.py").read_text()
    )
    folder = min(runs.glob("[0-9a-f]*"))
    commands = (
        ("evaluate", folder),
        ("show", folder, "-o", tmp_path / "p.png"),
        ("encode", folder, "dsprites", "-o", tmp_path / "c.csv"),
        ("explore", folder, "--no-open"),
    )
    for refused in [begin(*words, cwd=trap, path=trap) for words in commands]:
        assert refused.wait() == 2, refused.stderr
        assert f"--plugin {MODULE}" in refused.stderr
    assert not witness.exists()
    opened = command("show", folder, "-o", tmp_path / "p.png", "--plugin", MODULE, cwd=trap)
    assert opened.returncode == 0, opened.stderr
    assert witness.exists()


def test_reports_without_the_plugin_say_what_is_missing(shop, tmp_path, command):
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(4))
    uw.train(shop.Scaled(), data, seeds=2, out=tmp_path / "runs", **QUICK)
    page = tmp_path / "r.html"
    done = command("report", tmp_path / "runs", "-o", page, "--rows", 20, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "2 models could not be loaded" in text
    assert f"--plugin {MODULE}" in text
    assert "too large" not in text


def test_installed_plugins_need_no_flag(runs, home, tmp_path, command):
    """Those of the entry-point group `unweave.plugins`, as pip installs them."""
    installed = tmp_path / "site"
    about = installed / "shop-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[unweave.plugins]\nshop = {MODULE}\n")
    (installed / f"{MODULE}.py").write_text((home / f"{MODULE}.py").read_text())
    folder = min(runs.glob("[0-9a-f]*"))
    scored = command("evaluate", folder, "--metrics", "spread", cwd=tmp_path, path=installed)
    assert scored.returncode == 0, scored.stderr
    assert "spread" in scored.stdout


def test_scripts_may_define_everything_themselves(tmp_path):
    """What is in `__main__` trains and is scored here; workers on Ray could not import it."""
    (tmp_path / "script.py").write_text(
        f"""{SOURCE}
from unweave.study import Study, run

if __name__ == "__main__":
    data = [{{"load": "__main__:squares", "step": 4}}]
    settings = {{"batch": 4, "latents": 3, "architecture": TINY}}
    study = Study(
        methods=[Scaled(scale=[1, 3])], data=data, metrics=[SPREAD], settings=settings, steps=2
    )
    assert run(study, "study", progress=False, scorers=1).counts["scored"] == 2
    run(study, "study", progress=False, on="ray")
"""
    )
    paths = str(Path(uw.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stderr.splitlines()[-1].startswith("unweave.errors.UnweaveError: __main__:")
    assert len(list((tmp_path / "study" / "runs").iterdir())) == 2
