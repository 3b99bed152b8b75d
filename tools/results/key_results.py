"""The page of the five results: claim, published, obtained, and whether it holds."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tools.markdown import table as markdown
from tools.results.agreement import Agreement, agreement
from tools.results.kept import Kept, ResultsError
from unweave.papers import Recipe, find

PAPER = "common-assumptions"
RESULTS: dict[str, tuple[str, ...]] = {
    "Are the codes uncorrelated?": ("total-correlation",),
    "Do metrics agree?": ("metric-agreement",),
    "Does the objective matter more than the seed?": (
        "method-overlap",
        "seed-against-strength",
        "variance-explained",
    ),
    "Can models be chosen without labels?": (
        "choice-rules",
        "unsupervised-selection",
        "data-agreement",
        "transfer",
    ),
    "Does disentanglement help to learn?": ("downstream-agreement", "downstream-efficiency"),
}
"""The five questions of the paper, and the recipes that answer them."""
SLUGS = tuple(slug for slugs in RESULTS.values() for slug in slugs)
MOST_ROWS = 30
"""Longer tables are only linked."""


def page(kept: Kept) -> str:
    """The whole page."""
    frames = {recipe.slug: frame for recipe, frame in kept.comparisons()}
    parts = [
        "# The five results",
        "What *Challenging Common Assumptions* (arXiv:1811.12359) found, and what came of [the "
        "study that was run here](index.md), which is much smaller: read its differences first.",
        summary(frames),
        "Rows are compared word by word, numbers by the order of every pair, of which half agree "
        "by chance. *Mostly* is three quarters and more. That something is absent, as a rule or a "
        "reliable gain, is easily borne out by few models; that something is there is not.",
    ]
    for number, (question, slugs) in enumerate(RESULTS.items(), 1):
        parts += [f"## {number}. {question}"]
        parts += [section(find(f"{PAPER}/{slug}"), _of(frames, slug), kept) for slug in slugs]
    return "\n\n".join(parts)


def summary(frames: dict[str, pd.DataFrame]) -> str:
    """A line for each claim."""
    rows = []
    for number, slugs in enumerate(RESULTS.values(), 1):
        for slug in slugs:
            recipe, found = find(f"{PAPER}/{slug}"), agreement(_of(frames, slug))
            rows.append([str(number), recipe.where, recipe.claim, str(found), found.verdict])
    return markdown(["", "where", "published claim", "as published", ""], rows)


def section(recipe: Recipe, frame: pd.DataFrame, kept: Kept) -> str:
    """Claim, verdict, published beside obtained, picture."""
    found = agreement(frame)
    file = f"../../benchmarks/results/{kept.folder.name}/{recipe.slug}.csv"
    said = recipe.verdict(frame) if recipe.verdict is not None else []
    parts = [
        f"### {recipe.where}: {recipe.title}",
        f"**Published**: {recipe.claim}",
        f"**Obtained**: {_judged(found)}" + "".join(f" {sentence}" for sentence in said),
        f"![{recipe.where}](images/{picture_of(recipe)})",
        rows(frame, file),
    ]
    return "\n\n".join(parts)


def rows(frame: pd.DataFrame, file: str) -> str:
    """What was obtained beside what was published, or where that is."""
    known = frame.dropna(subset="obtained")
    left = len(frame) - len(known)
    note = f"[All rows]({file})" + (f"; {left} have nothing to set beside." if left else ".")
    if not 0 < len(known) <= MOST_ROWS:
        return note
    cells = [[_cell(value) for value in row] for row in known.itertuples(index=False)]
    return f"{markdown([_heading(name) for name in known], cells)}\n\n{note}"


def picture_of(recipe: Recipe) -> str:
    """The file of a recipe's picture: that of the first recipe that draws the same."""
    same = [slug for slug in SLUGS if find(f"{PAPER}/{slug}").plot is recipe.plot]
    return f"{same[0]}.svg"


def pictures(kept: Kept, folder: Path, slugs: Iterable[str] = SLUGS) -> list[Path]:
    """Draw recipes' pictures into a folder, each of them once."""
    from unweave.io.writing import whole_file

    folder.mkdir(parents=True, exist_ok=True)
    recipes = [find(f"{PAPER}/{slug}") for slug in slugs]
    plots = {picture_of(recipe): recipe.plot for recipe in recipes if recipe.plot is not None}
    for name, plot in plots.items():
        with whole_file(folder / name) as temporary:
            plot(kept.table, temporary)
    return [folder / name for name in plots]


def _judged(found: Agreement) -> str:
    if not found.total:
        return "there is nothing to compare."
    return f"{found.verdict} ({found})."


def _of(frames: dict[str, pd.DataFrame], slug: str) -> pd.DataFrame:
    if slug not in frames:
        raise ResultsError(
            f"the comparison {slug}.csv is missing; `python -m tools.results OUT` makes it from "
            "what a run has left"
        )
    return frames[slug]


def _heading(name: Any) -> str:
    return str(name).replace("_", " ")


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "–"
    # Rounded first, so that what is 0 but for the last bit is 0.
    return f"{round(value, 3) + 0.0:g}" if isinstance(value, float) else str(value)
