"""The page on recipes says what the code says."""

from pathlib import Path

import pytest

from unweave.recipes import PAPERS, RECIPES, SCALES
from unweave.recipes.common_assumptions.studies import STUDIES

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
LIST = PAGE.partition("## All recipes")[2]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_list_is_that_of_the_code(paper):
    section = LIST.partition(f"### {paper}\n")[2].partition("\n### ")[0]
    assert section.strip().splitlines()[0] == PAPERS[paper]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{recipe.slug}` | {recipe.where} | {recipe.title} | {recipe.status} |"
        for recipe in RECIPES.values()
        if recipe.paper == paper
    ]


@pytest.mark.parametrize("scale", SCALES)
def test_the_scales_are_those_of_the_code(scale):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{scale}` |")]
    keys = STUDIES[scale]
    strengths = {
        len(v) for grid in keys["methods"].values() for v in grid.values() if type(v) is list
    }
    models = len(keys["data"]) * 6 * strengths.pop() * keys["seeds"]
    assert f"{models:,} models of {keys['steps']:,} steps" in row
