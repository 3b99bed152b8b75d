"""The page on recipes agrees with the code."""

import re
from pathlib import Path

import pytest

from unweave.papers import PAPERS, RECIPES, SCALES, find
from unweave.papers.inductive_biases.studies import FIELDS, SEARCHED
from unweave.papers.inductive_biases.studies import SCALES as BIASES

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
LIST = PAGE.partition("## All recipes")[2]


def section_of(paper):
    return LIST.partition(f"### {paper}\n")[2].partition("\n### ")[0]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_list_agrees_with_the_code(paper):
    section = section_of(paper)
    assert section.strip().splitlines()[0] == PAPERS[paper]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{recipe.slug}` | {recipe.where} | {recipe.title} | {recipe.status} |"
        for recipe in RECIPES.values()
        if recipe.paper == paper
    ]


@pytest.mark.parametrize("scale", SCALES)
def test_the_scales_agree_with_the_code(scale):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{scale}` |")]
    keys = find("common-assumptions/transfer").studies[scale]
    strengths = {
        len(v) for grid in keys["methods"].values() for v in grid.values() if type(v) is list
    }
    models = len(keys["data"]) * 6 * strengths.pop() * keys["seeds"]
    assert f"{models:,} models of {keys['steps']:,} steps" in row


def test_numbers_of_models_per_study():
    counted = set()
    for paper in PAPERS:
        table = section_of(paper).partition("| Study | Recipes |")[2].partition("\n\n")[0]
        for row in table.splitlines()[2:]:
            _, _, recipes, *counts, _ = row.split("|")
            for slug in re.findall(r"`([a-z0-9-]+)`", recipes):
                studies = [find(f"{paper}/{slug}").study(scale) for scale in SCALES]
                assert [int(count) for count in counts] == [len(s.runs()) for s in studies], row
                counted.add(slug)
    assert {"table-1", "figure-5b", "beyond", "figures-21-31", "figures-37-40"} <= counted


@pytest.mark.parametrize("scale", SCALES)
def test_numbers_of_models_of_inductive_biases(scale):
    """PCL, the autoencoder and noisy images have one strength; restarts are seeds."""
    settings = BIASES[scale]
    each = len(SEARCHED) * (len(FIELDS) * len(settings["search"]) + 2) + len(FIELDS) + 2
    more = max(0, settings["restarts"] - settings["seeds"])
    models = len(settings["bases"]) * (each * settings["seeds"] + more)
    assert re.search(rf"`{scale}`\s(has\s)?{models:,}\smodels", section_of("inductive-biases"))
