"""The page of the five key results: claims, published and obtained numbers, and verdicts."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tools.markdown import table as markdown
from tools.results.agreement import Agreement, agreement
from tools.results.study_results import ResultsError, StudyResults
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
    "Can good models be chosen without labels?": (
        "choice-rules",
        "unsupervised-selection",
        "data-agreement",
        "transfer",
    ),
    "Does disentanglement help downstream tasks?": (
        "downstream-agreement",
        "downstream-efficiency",
    ),
}
"""Questions behind the five key results of the paper, and the recipes that answer them."""
SLUGS = tuple(slug for slugs in RESULTS.values() for slug in slugs)
MOST_ROWS = 30
"""Largest number of rows of a table on the page; longer tables are linked."""


def page(study: StudyResults) -> str:
    """Return the text of the page."""
    frames = {recipe.slug: frame for recipe, frame in study.comparisons()}
    parts = [
        "# The five key results",
        "This page compares the key results of *Challenging Common Assumptions* "
        "(arXiv:1811.12359) with those of [a much smaller study](index.md). Read [the differences]"
        "(index.md#differences-from-the-published-study) first.",
        summary(frames),
        "Words agree if they are equal, and pairs of numbers if they have the published order; "
        "half of all pairs agree by chance. *Mostly* means at least three quarters. A few models "
        "easily confirm that something is absent, such as a rule or a reliable gain, but not that "
        "it exists.",
    ]
    for number, (question, slugs) in enumerate(RESULTS.items(), 1):
        parts += [f"## {number}. {question}"]
        parts += [section(find(f"{PAPER}/{slug}"), _of(frames, slug), study) for slug in slugs]
    return "\n\n".join(parts)


def summary(frames: dict[str, pd.DataFrame]) -> str:
    """Return a table with a row for each claim."""
    rows = []
    for number, slugs in enumerate(RESULTS.values(), 1):
        for slug in slugs:
            recipe, found = find(f"{PAPER}/{slug}"), agreement(_of(frames, slug))
            rows.append([str(number), recipe.where, recipe.claim, str(found), found.verdict])
    return markdown(["Result", "Source", "Published claim", "Agreement", "Verdict"], rows)


def section(recipe: Recipe, frame: pd.DataFrame, study: StudyResults) -> str:
    """Return the section of a recipe: claim, verdict, picture, and table of numbers."""
    found = agreement(frame)
    file = f"../../benchmarks/results/{study.folder.name}/{recipe.slug}.csv"
    parts = [
        f"### {recipe.where}: {recipe.title}",
        f"**Published**: {recipe.claim}",
        " ".join([f"**Obtained**: {_judged(found)}", *recipe.verdict(frame)]),
        f"![{recipe.where}](images/{picture_of(recipe)})",
        rows(frame, file),
    ]
    return "\n\n".join(parts)


def rows(frame: pd.DataFrame, file: str) -> str:
    """Return a table of published and obtained results, or only a link if it is too long."""
    known = frame.dropna(subset="obtained")
    missing = len(frame) - len(known)
    note = f"[All rows]({file})" + (f"; {missing} have no obtained value." if missing else ".")
    if not 0 < len(known) <= MOST_ROWS:
        return note
    cells = [[_cell(value) for value in row] for row in known.itertuples(index=False)]
    return f"{markdown([_heading(name) for name in known], cells)}\n\n{note}"


def picture_of(recipe: Recipe) -> str:
    """Return the file name of a recipe's picture, which recipes with the same plot share."""
    same = [slug for slug in SLUGS if find(f"{PAPER}/{slug}").plot is recipe.plot]
    return f"{same[0]}.svg"


def pictures(study: StudyResults, folder: Path, slugs: Iterable[str] = SLUGS) -> list[Path]:
    """Draw the pictures of recipes into a folder, each once."""
    from unweave.io.writing import whole_file

    folder.mkdir(parents=True, exist_ok=True)
    recipes = [find(f"{PAPER}/{slug}") for slug in slugs]
    plots = {picture_of(recipe): recipe.plot for recipe in recipes if recipe.plot is not None}
    for name, plot in plots.items():
        with whole_file(folder / name) as temporary:
            plot(study.table, temporary)
    return [folder / name for name in plots]


def _judged(found: Agreement) -> str:
    if not found.total:
        return "nothing to compare."
    return f"{found.verdict} ({found})."


def _of(frames: dict[str, pd.DataFrame], slug: str) -> pd.DataFrame:
    if slug not in frames:
        raise ResultsError(
            f"the comparison {slug}.csv was not found; create it from the results of a run with "
            "`python -m tools.results OUT`",
            subject=f"{slug}.csv",
        )
    return frames[slug]


def _heading(name: Any) -> str:
    return str(name).replace("_", " ")


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "–"
    # Rounding before formatting avoids "-0" and tiny exponents.
    return f"{round(value, 3) + 0.0:g}" if isinstance(value, float) else str(value)
