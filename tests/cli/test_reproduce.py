"""`unweave reproduce`, run as a user runs it."""

import os
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

import unweave.cli.reproduce as command
from tests.cli.calling import run
from tests.raising import about
from unweave.papers import PAPERS, RECIPES, SCALES, RecipeError, find


def test_every_recipe_is_listed_and_torch_is_not_needed_for_it(capsys):
    words = [sys.executable, "-m", "unweave", "reproduce"]
    wide = {**os.environ, "COLUMNS": "160"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=wide)
    for recipe in RECIPES.values():
        assert recipe.name in done.stdout
    for citation in PAPERS.values():
        assert citation in done.stdout
    code = (
        "import sys, unweave.cli.reproduce as c; c.list_recipes(); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_one_paper_can_be_listed(capsys):
    command.list_recipes("isa-vae")
    output = capsys.readouterr().out
    assert "isa-vae/figure-7" in output
    assert "ms-vae/" not in output
    assert "vae-ensemble/" not in output


def test_help_has_an_example():
    done = run("reproduce", "-h")
    assert "Example: unweave reproduce common-assumptions/variance-explained" in done.stdout


def test_an_unknown_recipe_is_an_error_with_a_suggestion():
    done = run("reproduce", "common-assumptions/variance")
    assert done.returncode == 2
    assert "'variance'" in done.stderr
    assert "'variance-explained'" in done.stderr


def test_settings_are_shown(capsys):
    command.Reproduce(name="vae-ensemble/tables-3-4", out=None).run()
    output = capsys.readouterr().out
    assert "learning rate" in output
    assert "for reference" in output


def test_the_scale_paper_prints_a_plan_and_requires_a_gpu(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_has_gpu", lambda: False)
    name = "common-assumptions/variance-explained"
    with pytest.raises(RecipeError, check=about("scale", "paper")):
        command.Reproduce(name=name, scale="paper", out=tmp_path / "p").run()
    assert "12,600" in capsys.readouterr().out
    assert not (tmp_path / "p").exists()


def test_only_the_plan(capsys, tmp_path):
    name = "common-assumptions/transfer"
    command.Reproduce(name=name, scale="hour", out=tmp_path / "p", plan=True).run()
    output = capsys.readouterr().out
    assert "144" in output
    assert "color_dsprites" in output
    assert not (tmp_path / "p").exists()


def test_a_complete_recipe(capsys, monkeypatch, tmp_path):
    """Two methods on two small slices, two steps each."""
    few = {"shape": [0, 2], "scale": [1, 5], "orientation": 0, "posX": [0, 16], "posY": [0, 16]}
    studies = find("common-assumptions/transfer").studies  # shared by all recipes of the paper
    small = {
        **studies["smoke"],
        "data": [{"load": name, "slice": few} for name in ("dsprites", "color_dsprites")],
        "methods": {"beta_vae": {"beta": [1, 8]}, "dip_vae_i": {"lambda_od": [1, 50]}},
        "steps": 2,
        "metrics": ["mig", "sap", "factor_vae", "beta_vae", "modularity", "dci"],
        "sampled": [],
        "settings": {"batch": 4},
    }
    monkeypatch.setitem(studies, "smoke", small)
    name = "common-assumptions/variance-explained"
    command.Reproduce(name=name, out=tmp_path).run()
    output = capsys.readouterr().out
    for part in (
        "Plan at scale smoke",
        "published",
        "obtained",
        "of 84 published rows",
        find("common-assumptions/variance-explained").findings[0]["text"],
        SCALES["smoke"],
        "variance-explained.csv",
    ):
        assert part in output
    frame = pd.read_csv(tmp_path / "variance-explained.csv").dropna(subset="obtained")
    assert set(frame["data"]) == {"dsprites", "color_dsprites"}
    assert frame["obtained"].between(0, 1).all()
    assert frame["models"].unique().tolist() == [8]
    assert (tmp_path / "variance-explained.svg").exists()

    command.Reproduce(name="common-assumptions/transfer", out=tmp_path).run()
    output = capsys.readouterr().out
    assert "16 runs already trained" in output
    assert "0.549" in output
    assert (tmp_path / "transfer.csv").exists()


def test_a_failed_recipe_does_not_stop_the_others(capsys, monkeypatch, tmp_path):
    def broken(table):
        raise RecipeError("a broken table")

    first = RECIPES["isa-vae/figure-3"]
    first = replace(first, code={**first.code, "obtain": broken})
    recipes = [first, RECIPES["isa-vae/appendix-b"]]
    monkeypatch.setattr("unweave.papers.ready", lambda paper: recipes)
    with pytest.raises(RecipeError, check=about("isa-vae", ["figure-3"])):
        command.Reproduce(name="isa-vae", out=tmp_path, every=True).run()
    output = capsys.readouterr().out
    assert "isa-vae/figure-3 failed" in output
    assert "a broken table" in output
    assert "isa-vae/appendix-b (2 of 2)" in output
    assert (tmp_path / "appendix-b.csv").exists()
    assert not (tmp_path / "figure-3.csv").exists()


def test_all_requires_a_paper():
    done = run("reproduce", "isa", "--all")
    assert done.returncode == 2
    assert "'isa'" in done.stderr
    assert "'isa-vae'" in done.stderr
