"""A paper's data files: `recipes.yaml`, `studies.yaml` and `published/*.csv`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from unweave.papers.claims import (
    HOLDS,
    Comparison,
    Count,
    Finding,
    Statistic,
    compared,
    compared_rows,
    held_claims,
    stand_ins,
)
from unweave.papers.recipe import Recipe, RecipeError

__all__ = ["Steps", "data_file", "published_table", "recipes_of"]

NOTHING = "There is nothing to compare."
SHOWN = "shown"
"""What is published of a picture of which the text says nothing."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What of a recipe is code; see `Recipe` for most of it.

    Args:
        published: … (default: what the data files say)
        extend: …
        make: …
        obtain: … (default: the comparisons of `recipes.yaml`)
        plot: …
        prepare: Turns the table into the one that comparisons are made of.
        statistics: Statistics of comparisons beside those that all recipes have.
        more: Further rows of comparisons, given the table and the texts of claims.
        findings: Counts in what was obtained, beside those of `recipes.yaml`.
    """

    published: Callable[[], pd.DataFrame] | None = None
    extend: Callable[[pd.DataFrame, Path], pd.DataFrame] | None = None
    make: Callable[..., pd.DataFrame] | None = None
    obtain: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    plot: Callable[[pd.DataFrame, Path], object] | None = None
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    more: Callable[[pd.DataFrame, Mapping[str, str]], Iterable[dict[str, Any]]] | None = None
    findings: Callable[[pd.DataFrame], Iterable[Count]] | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of `recipes.yaml`.

    Args:
        where: See `Recipe`, and so for the next two.
        title: …
        claim: …
        study: A name under `studies` in `studies.yaml`.
        settings: A name under `settings` in `studies.yaml`: the arguments of `make`.
        adds: See `Recipe`.
        needs: Columns that `extend` adds.
        data: The paper's data sets in words, where others may stand in for them.
        data_names: What these are called in tables.
        claims: What the paper says, by short names.
        controls: What we ask beside.
        pictures: What a figure shows of which the text says nothing.
        comparisons: How claims are judged.
        findings: What is counted in what was obtained.
        notes: Sentences that belong to the verdict in any case.
    """

    where: str
    title: str
    claim: str
    study: str = ""
    settings: str = ""
    adds: Sequence[str] = ()
    needs: Sequence[str] = ()
    data: str = ""
    data_names: Sequence[str] = ()
    claims: Mapping[str, str] = field(default_factory=dict)
    controls: Mapping[str, str] = field(default_factory=dict)
    pictures: Sequence[str] = ()
    comparisons: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()

    @property
    def texts(self) -> dict[str, str]:
        """All claims by their short names."""
        return {**self.claims, **self.controls}


def recipes_of(package: str, steps: Mapping[str, Steps]) -> tuple[Recipe, ...]:
    """The recipes of a paper, in the order of its `recipes.yaml`.

    Args:
        package: The paper's.
        steps: By the second half of a recipe's name; those for reference have none.
    """
    entries = {slug: Entry(**keys) for slug, keys in data_file(package, "recipes.yaml").items()}
    unknown = [slug for slug in steps if slug not in entries]
    if unknown:
        raise RecipeError(f"recipes.yaml of {package} has no entry {unknown[0]!r}")
    return tuple(_recipe(package, slug, one, steps.get(slug)) for slug, one in entries.items())


@cache
def data_file(package: str, name: str) -> dict[str, Any]:
    """The plain data in a YAML file of a paper's folder: `recipes.yaml` or `studies.yaml`."""
    # Part of the package, and so trusted: read by the fast parser where there is one.
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (files(package) / name).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, Loader=parser)  # noqa: S506 - both are safe loaders
    return found


def published_table(package: str, slug: str) -> pd.DataFrame:
    """Published numbers, or words, as they stand in `published/<slug>.csv`."""
    with (files(package) / "published" / f"{slug}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, keep_default_na=False, na_values=[""])


def _recipe(package: str, slug: str, entry: Entry, steps: Steps | None) -> Recipe:
    said = None if steps is None else steps.published
    published = said or partial(_published, package, slug, entry)
    found = Recipe(
        name=f"{package.rpartition('.')[2].replace('_', '-')}/{slug}",
        title=entry.title,
        where=entry.where,
        claim=entry.claim,
        published=published,
        claims=entry.texts,
        studies=_trained(package, "studies", entry.study),
        settings=_trained(package, "settings", entry.settings),
        adds=tuple(entry.adds),
    )
    if steps is None:
        return found
    code = {
        "extend": steps.extend,
        "make": steps.make,
        "obtain": partial(_obtained, entry, steps, published),
        "verdict": partial(_verdict, entry, steps),
        "plot": steps.plot,
    }
    return Recipe(**{**vars(found), **code})


def _trained(package: str, part: str, name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]]
    found = data_file(package, "studies.yaml")[part][name] if name else {}
    return found


def _published(package: str, slug: str, entry: Entry) -> pd.DataFrame:
    if entry.claims:
        return pd.DataFrame({"claim": list(entry.claims.values()), "published": HOLDS})
    if entry.pictures:
        return pd.DataFrame({"picture": list(entry.pictures), "published": SHOWN})
    return published_table(package, slug)


def _obtained(
    entry: Entry, steps: Steps, published: Callable[[], pd.DataFrame], table: pd.DataFrame
) -> pd.DataFrame:
    for column in entry.needs:
        if column not in table:
            raise RecipeError(f"the table has no column {column!r}; `extend` adds it")
    if steps.obtain is not None:
        return steps.obtain(table)
    prepared = steps.prepare(table)
    entries = [Comparison(**keys) for keys in entry.comparisons]
    rows = [*compared_rows(prepared, entries, entry.texts, steps.statistics)]
    rows += steps.more(prepared, entry.texts) if steps.more is not None else []
    ours = pd.DataFrame({"claim": list(entry.controls.values()), "published": None})
    return compared(pd.concat([published(), ours], ignore_index=True), rows)


def _verdict(entry: Entry, steps: Steps, frame: pd.DataFrame) -> list[str]:
    said = []
    if entry.pictures:
        said += [f"{row.picture}: {row.obtained}." for row in frame.itertuples()]
    if entry.data and "data" in frame:
        said += stand_ins(frame, entry.data, entry.data_names)
    if entry.comparisons or steps.more is not None:
        said += held_claims(frame)
    counts = [count for keys in entry.findings for count in Finding(**keys).counts(frame)]
    counts += steps.findings(frame) if steps.findings is not None else []
    return [*said, *map(str, counts), *entry.notes] or [NOTHING]
