"""`unweave reproduce`, run as a user runs it."""

import os
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

import unweave.cli.reproduce as command
from unweave.papers import PAPERS, RECIPES, RecipeError, find
from unweave.papers.common_assumptions.studies import STUDIES


def run(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "unweave", "reproduce", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160"},
    )


def test_every_recipe_is_listed_and_torch_is_not_needed_for_it(capsys):
    done = run()
    assert done.returncode == 0, done.stderr
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
    said = capsys.readouterr().out
    assert "isa-vae/figure-7" in said
    assert "ms-vae/" not in said
    assert "vae-ensemble/" not in said


def test_help_has_an_example():
    assert "Example: unweave reproduce common-assumptions/variance-explained" in run("-h").stdout


def test_a_recipe_that_waits_shows_its_numbers_and_refuses(tmp_path, monkeypatch, capsys):
    waiting = replace(find("inductive-biases/table-2"), waits_for="a method")
    monkeypatch.setattr(command, "find", lambda name: waiting)
    with pytest.raises(RecipeError, match="table-2 cannot be run yet: it waits for a method"):
        command.Reproduce(name=waiting.name, out=tmp_path).run()
    assert "0.73" in capsys.readouterr().out


def test_an_unknown_recipe_is_refused_with_the_nearest():
    done = run("common-assumptions/variance")
    assert done.returncode == 2
    assert (
        "no recipe of common-assumptions is called 'variance'; did you mean 'variance-explained'"
        in done.stderr
    )


def test_settings_are_shown(capsys):
    command.Reproduce(name="vae-ensemble/tables-3-4", out=None).run()
    said = capsys.readouterr().out
    assert "learning rate" in said
    assert "for reference" in said


def test_the_papers_scale_is_planned_and_stops_without_a_gpu(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_has_gpu", lambda: False)
    name = "common-assumptions/variance-explained"
    with pytest.raises(command.RecipeError, match="meant for a GPU, and there is none here"):
        command.Reproduce(name=name, scale="paper", out=tmp_path / "p").run()
    assert "12,600" in capsys.readouterr().out
    assert not (tmp_path / "p").exists()


def test_only_the_plan(capsys, tmp_path):
    name = "common-assumptions/transfer"
    command.Reproduce(name=name, scale="hour", out=tmp_path / "p", plan=True).run()
    said = capsys.readouterr().out
    assert "144" in said
    assert "color_dsprites" in said
    assert not (tmp_path / "p").exists()


def test_a_recipe_from_beginning_to_end(capsys, monkeypatch, tmp_path):
    """Two methods on two small slices, two steps each."""
    few = {"shape": [0, 2], "scale": [1, 5], "orientation": 0, "posX": [0, 16], "posY": [0, 16]}
    small = {
        **STUDIES["smoke"],
        "data": [{"load": name, "slice": few} for name in ("dsprites", "color_dsprites")],
        "methods": {"beta_vae": {"beta": [1, 8]}, "dip_vae_i": {"lambda_od": [1, 50]}},
        "steps": 2,
        "metrics": ["mig", "sap", "factor_vae", "beta_vae", "modularity", "dci"],
        "sampled": [],
        "settings": {"batch": 4},
    }
    monkeypatch.setitem(STUDIES, "smoke", small)
    name = "common-assumptions/variance-explained"
    command.Reproduce(name=name, out=tmp_path).run()
    said = capsys.readouterr().out
    for part in (
        "Plan at scale smoke",
        "published",
        "obtained",
        "Of 84 published rows the study has nothing to set beside",
        "Cells are ordered as published by adjusted R², objective: holds for ",
        "it shows that everything works, not what the paper found",
        "variance-explained.csv",
    ):
        assert part in said
    frame = pd.read_csv(tmp_path / "variance-explained.csv").dropna(subset="obtained")
    assert set(frame["data"]) == {"dsprites", "color_dsprites"}
    assert frame["obtained"].between(0, 1).all()
    assert frame["models"].unique().tolist() == [8]
    assert (tmp_path / "variance-explained.svg").exists()

    command.Reproduce(name="common-assumptions/transfer", out=tmp_path).run()
    said = capsys.readouterr().out
    assert "16 runs are trained already" in said
    assert "0.549" in said
    assert (tmp_path / "transfer.csv").exists()


def test_all_recipes_of_a_paper_and_one_that_fails_costs_itself_only(
    capsys, monkeypatch, tmp_path
):
    def broken(table):
        raise RecipeError("a broken table")

    first = replace(RECIPES["isa-vae/figure-3"], obtain=broken)
    recipes = [first, RECIPES["isa-vae/appendix-b"]]
    monkeypatch.setattr(command, "ready", lambda paper: recipes)
    monkeypatch.setattr(command, "find", {one.name: one for one in recipes}.get)
    with pytest.raises(RecipeError, match=r"1 of 2 recipes of isa-vae failed, .*: figure-3"):
        command.Reproduce(name="isa-vae", out=tmp_path, every=True).run()
    said = capsys.readouterr().out
    assert "isa-vae/figure-3 failed: a broken table" in said
    assert "isa-vae/appendix-b (2 of 2)" in said
    assert (tmp_path / "appendix-b.csv").exists()
    assert not (tmp_path / "figure-3.csv").exists()


def test_all_is_of_a_paper():
    done = run("isa", "--all")
    assert done.returncode == 2
    assert "no paper is called 'isa'; did you mean 'isa-vae'" in done.stderr
