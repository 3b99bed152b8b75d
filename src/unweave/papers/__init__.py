"""Recipes that reproduce published tables and figures.

Each paper is a sub-package, and each of its tables or figures is a recipe: what to train, what to
measure and what was published. `RECIPES` holds all of them by name, and `find` returns one.
"""

import difflib

from unweave.errors import UnknownNameError
from unweave.papers import (
    common_assumptions,
    inductive_biases,
    isa_vae,
    modern,
    ms_vae,
    udr,
    vae_ensemble,
)
from unweave.papers.recipe import SCALES, Recipe, RecipeError, data_file

__all__ = ["PAPERS", "RECIPES", "SCALES", "Recipe", "RecipeError", "find", "ready"]

PAPERS: dict[str, str] = data_file(__package__, "papers.yaml")
"""Citations of the papers, in the order in which they are listed."""

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for paper in (
        common_assumptions,
        vae_ensemble,
        isa_vae,
        ms_vae,
        inductive_biases,
        udr,
        modern,
    )
    for recipe in paper.RECIPES
}
"""All recipes by name, grouped by paper."""


def find(name: str) -> Recipe:
    """Return the recipe with the given name.

    Example:
        >>> find("common-assumptions/transfer").where
        'Key result 4, in the text'
    """
    if name in RECIPES:
        return RECIPES[name]
    paper, _, slug = name.partition("/")
    if paper not in PAPERS:
        known = {recipe.slug: recipe.name for recipe in RECIPES.values()}
        known |= {one: f"a recipe of {one}" for one in PAPERS}
        similar = difflib.get_close_matches(slug or paper, known, cutoff=0.5)
        hint = f"did you mean {' or '.join(known[one] for one in similar)}? " if similar else ""
        raise RecipeError(
            f"unknown recipe {name!r}; {hint}`unweave reproduce` lists all recipes",
            subject="recipe",
            value=name,
        )
    slugs = [recipe.slug for recipe in RECIPES.values() if recipe.paper == paper]
    raise UnknownNameError(f"recipe of {paper}", slug, slugs)


def ready(paper: str) -> list[Recipe]:
    """Return the recipes of a paper that can be run, in the order of the paper.

    Example:
        >>> [recipe.name for recipe in ready("udr")]
        ['udr/ranking']
    """
    return [one for one in RECIPES.values() if one.paper == paper and one.status == "ready"]
