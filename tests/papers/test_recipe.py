"""Recipes as data: entries are complete, and all files are used."""

from importlib.resources import files

import pandas as pd
import pytest
import yaml

from tests.raising import about
from unweave.errors import DataError, UnknownNameError
from unweave.papers import PAPERS, RECIPES, Recipe, RecipeError, find, recipe, udr
from unweave.papers.claims import Comparison, Finding
from unweave.papers.recipe import data_file, recipes_of
from unweave.papers.udr import ranking

PACKAGES = {paper: f"unweave.papers.{paper.replace('-', '_')}" for paper in PAPERS}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_entries_are_consistent(recipe):
    comparisons = [Comparison(**keys) for keys in recipe.comparisons]
    assert {one.claim for one in comparisons} <= {*recipe.claims, *recipe.controls}
    for keys in recipe.findings:
        finding = Finding(**keys)
        assert [bool(finding.test), bool(finding.order), bool(finding.compare)].count(True) <= 1
        assert finding.test or finding.order or finding.compare or finding.numbers
        if finding.compare:
            Comparison(**finding.compare)
    if comparisons and recipe.status == "ready":
        printed = {one.claim for one in comparisons if not one.control}
        assert printed & set(recipe.claims)


@pytest.mark.parametrize(("paper", "package"), PACKAGES.items())
def test_every_table_and_study_belongs_to_a_recipe(paper, package):
    entries = data_file(package, "recipes.yaml")
    folder = files(package) / "published"
    tables = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    assert tables <= {f"{slug}.csv" for slug in entries}
    for part, key in (("studies", "study"), ("settings", "settings")):
        there = set(data_file(package, "studies.yaml").get(part, {}))
        assert there == {entry[key] for entry in entries.values() if key in entry}


def test_claims_are_the_published_frame():
    recipe = find("vae-ensemble/figure-4")
    frame = recipe.published()
    assert frame["claim"].tolist() == list(recipe.claims.values())
    assert set(frame["published"]) == {"holds"}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ({"draw": "ranking.plot"}, "draw"),
        ({"plot": "ranking._row"}, "ranking._row"),
        ({"plot": "ranking.pd"}, "ranking.pd"),
        ({"plot": "os.remove"}, "os.remove"),
        ({"obtain": ["os.remove", "a file"]}, "os.remove"),
    ],
)
def test_entries_can_only_name_public_functions_of_their_paper(monkeypatch, code, name):
    entry = {"where": "Table 1", "title": "t", "claim": "c.", "code": code}
    monkeypatch.setattr(recipe, "data_file", lambda package, file: {"one": entry})
    with pytest.raises(UnknownNameError) as refused:
        recipes_of(PACKAGES["udr"], ranking)
    assert refused.value.value == name


def test_a_function_may_be_given_its_first_arguments(monkeypatch):
    text = "{one: {where: w, title: t, claim: c, code: {obtain: [ranking.extend, some table]}}}"
    monkeypatch.setattr(recipe, "data_file", lambda package, file: yaml.safe_load(text))
    (found,) = recipes_of(PACKAGES["udr"], ranking)
    assert (found.code["obtain"].func, found.code["obtain"].args) == (
        ranking.extend,
        ("some table",),
    )
    assert udr.RECIPES[0].plot is ranking.plot


def test_unknown_names_and_scales_are_rejected_with_suggestions():
    with pytest.raises(UnknownNameError, check=about("recipe of vae-ensemble", "table1")) as found:
        find("vae-ensemble/table1")
    assert "table-1" in found.value.valid
    with pytest.raises(RecipeError, match="isa-vae", check=about("recipe", "isavae")):
        find("isavae")
    with pytest.raises(RecipeError, match="common-assumptions/transfer"):
        find("transfr")
    with pytest.raises(UnknownNameError, check=about("scale", "day")):
        find("common-assumptions/transfer").study("day")


def test_results_on_another_variant_of_mpi3d_are_refused():
    def recipe_on(*names):
        published = pd.DataFrame({"data": names, "published": 0.5})
        code = {"published": lambda: published, "obtain": lambda table: table}
        return Recipe(name="a/b", where="", title="", claim="", data="MPI3D", code=code)

    toy = pd.DataFrame({"data": ["mpi3d_toy", "dsprites"], "mig": 0.5})
    for names in (("mpi3d_toy",), ("mpi3d_toy", "mpi3d_real"), ("shapes3d",)):
        pd.testing.assert_frame_equal(recipe_on(*names).obtain(toy), toy)
    for names in (("mpi3d_real",), ("mpi3d_real", "dsprites")):
        with pytest.raises(DataError, check=about("data", ["mpi3d_real", "mpi3d_toy"])):
            recipe_on(*names).obtain(toy)


def test_a_recipe_may_train_nothing():
    recipe = Recipe(
        name="a/b", title="t", where="Table 1", claim="c.", code={"obtain": pd.DataFrame}
    )
    assert recipe.status == "ready"
    assert recipe.study("paper") is None
