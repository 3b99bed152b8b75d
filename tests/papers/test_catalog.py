"""Recipes as data: every entry is complete, and nothing in the folders is left over."""

from importlib.resources import files

import pytest

from unweave.papers import PAPERS, RECIPES, find
from unweave.papers.catalog import Entry, Steps, data_file, recipes_of
from unweave.papers.claims import Comparison, Finding
from unweave.papers.recipe import RecipeError

PACKAGES = {paper: f"unweave.papers.{paper.replace('-', '_')}" for paper in PAPERS}
ENTRIES = [
    (paper, slug, Entry(**keys))
    for paper, package in PACKAGES.items()
    for slug, keys in data_file(package, "recipes.yaml").items()
]


@pytest.mark.parametrize(("paper", "slug", "entry"), ENTRIES, ids=lambda v: str(v)[:40])
def test_what_entries_name_is_there(paper, slug, entry):
    comparisons = [Comparison(**keys) for keys in entry.comparisons]
    judged = {one.claim for one in comparisons}
    assert judged <= set(entry.texts)
    for keys in entry.findings:
        finding = Finding(**keys)
        assert [bool(finding.test), bool(finding.order), bool(finding.compare)].count(True) <= 1
        assert finding.test or finding.order or finding.compare or finding.numbers
        if finding.compare:
            Comparison(**finding.compare)
    if comparisons and find(f"{paper}/{slug}").status == "ready":
        printed = {one.claim for one in comparisons if not one.control}
        assert printed & set(entry.claims)


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


def test_steps_without_an_entry_are_refused():
    with pytest.raises(RecipeError, match="no entry 'figure-99'"):
        recipes_of(PACKAGES["udr"], {"figure-99": Steps()})


def test_ready_recipes_tell_what_they_found():
    for recipe in RECIPES.values():
        assert (recipe.verdict is None) == (recipe.obtain is None)
