"""The `Recipe` class: a published table or figure and how to reproduce it.

Most of a recipe is data in the folder of its paper: an entry in `recipes.yaml`, the study to train
in `studies.yaml`, and the published numbers in `published/*.csv`. The key `code` of the entry
names the functions that the recipe needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml

from unweave.errors import UnknownNameError, UnweaveError
from unweave.papers import plots
from unweave.papers.claims import (
    HOLDS,
    STATISTICS,
    VARIANTS,
    Comparison,
    Count,
    Finding,
    Statistic,
    check_variants,
    claim_counts,
    compared,
)

if TYPE_CHECKING:
    from unweave.study import Study

__all__ = ["SCALES", "Recipe", "RecipeError", "data_file", "published_table", "recipes_of"]

SCALES = {
    "smoke": "a few minutes on a CPU; tests the software, does not reproduce the paper's results",
    "hour": "less than an hour on one H200, no downloads; fewer data sets, seeds and steps",
    "paper": "as published",
}
STEPS = ("published", "make", "extend", "obtain", "prepare", "more", "findings", "plot")
NOTHING = "There is nothing to compare."
SHOWN = "shown"
"""Entry in the `published` column for a picture that the text does not discuss."""


class RecipeError(UnweaveError):
    """Raised when a recipe cannot be run as requested."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """One published table or figure: what to train, what to measure, what was published.

    Args:
        name: Paper and slug of the table or figure: `vae-ensemble/table-1`.
        where: Location in the paper: `Table 1`, `Figures 9 and 10`.
        title: Short description of what it shows.
        claim: Statement of the paper about it, in one sentence.
        studies: Studies to train, by scale: the keys of a study file. All recipes of a paper
            should share them, so that only the first recipe trains models.
        settings: Arguments of `make`, by scale; `{"device": "cpu"}` marks a recipe that needs no
            GPU at any scale.
        adds: Metrics that this recipe needs in addition to those of its studies.
        needs: Columns that `extend` adds.
        data: Names of the paper's data sets, for recipes that may use substitutes.
        data_names: Names of these data sets in tables.
        claims: Statements of the paper by key, for recipes that evaluate each one separately.
        controls: Additional statements to test that are not in the paper, by key.
        pictures: Contents of a figure that the text does not discuss.
        comparisons: Criteria for the claims: arguments of `Comparison`.
        findings: Statements to count in the obtained frame: arguments of `Finding`.
        notes: Sentences to append to every verdict.
        statistics: Additional statistics for comparisons.
        code: Functions by step; a recipe without any is for reference only.

            - `published()` returns the published frame (default: claims, pictures or the CSV).
            - `make(**settings)` trains and measures models outside of a single study and returns
              a table, which is saved. It also receives `folder` if it has that parameter.
            - `extend(table, folder)` adds columns that require the models to the study table, such
              as their similarity, or returns rows for parts of models, such as latents.
            - `obtain(table)` converts the study table or the result of `make` into the published
              frame with a column `obtained` (default: the comparisons). The table is empty if
              the recipe trains nothing.
            - `prepare(table)` returns the table for the comparisons.
            - `more(table, texts)` returns further rows of comparisons.
            - `findings(frame)` returns counts from the obtained frame.
            - `plot(table, path)` draws the figure from the same table into an SVG or PNG file.
    """

    name: str
    where: str
    title: str
    claim: str
    studies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    code: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def paper(self) -> str:
        """Paper of the recipe: the first half of its name."""
        return self.name.split("/")[0]

    @property
    def slug(self) -> str:
        """Second half of the name, also used for file names."""
        return self.name.split("/")[1]

    @property
    def status(self) -> str:
        """`ready` if the recipe can be run; `for reference` if it only has published values."""
        return "ready" if self.code else "for reference"

    @property
    def make(self) -> Callable[..., pd.DataFrame] | None:
        """The step `make` of `code`, if any."""
        return self.code.get("make")

    @property
    def extend(self) -> Callable[..., pd.DataFrame] | None:
        """The step `extend` of `code`, if any."""
        return self.code.get("extend")

    @property
    def plot(self) -> Callable[..., object] | None:
        """The step `plot` of `code`, if any."""
        return self.code.get("plot")

    def study(self, scale: str) -> "Study | None":
        """Return the study to train at a scale, or None if the recipe has no study."""
        from unweave.study import Study

        _check(scale)
        if not self.studies:
            return None
        keys = dict(self.studies[scale])
        return Study(**{**keys, "metrics": [*keys["metrics"], *self.adds]})

    def settings_at(self, scale: str) -> dict[str, Any] | None:
        """Return the arguments of `make` at a scale, or None if the recipe has no `make`."""
        _check(scale)
        return None if self.make is None else dict(self.settings[scale])

    def published(self) -> pd.DataFrame:
        """Return a tidy frame with a column `published`: numbers, or words if none are printed."""
        if "published" in self.code:
            found: pd.DataFrame = self.code["published"]()
            return found
        if self.claims:
            return pd.DataFrame({"claim": list(self.claims.values()), "published": HOLDS})
        if self.pictures:
            return pd.DataFrame({"picture": list(self.pictures), "published": SHOWN})
        return published_table(f"{__package__}.{self.paper.replace('-', '_')}", self.slug)

    def obtain(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the published frame with a column `obtained`, computed from a study table."""
        if not self.code:
            raise RecipeError(
                f"{self.name} is for reference only and cannot be run", subject=self.name
            )
        for column in self.needs:
            if column not in table:
                raise RecipeError(
                    f"the table has no column {column!r}; `extend` adds it", subject=column
                )
        self._check_data(table)
        if "obtain" in self.code:
            found: pd.DataFrame = self.code["obtain"](table)
            return found
        prepared = self.code["prepare"](table) if "prepare" in self.code else table
        texts = {**self.claims, **self.controls}
        statistics = {**STATISTICS, **self.statistics}
        rows: list[dict[str, Any]] = []
        for one in [Comparison(**keys) for keys in self.comparisons]:
            rows += one.rows(prepared, texts[one.claim], statistics)
        rows += self.code["more"](prepared, texts) if "more" in self.code else []
        controls = pd.DataFrame({"claim": list(self.controls.values()), "published": None})
        return compared(pd.concat([self.published(), controls], ignore_index=True), rows)

    def _check_data(self, table: pd.DataFrame) -> None:
        """Refuse results on another variant of MPI3D than the paper's."""
        names = {self.data, *self.data_names, *self.published().get("data", ())}
        for name in {*table.get("data", ())} - names:
            if name in VARIANTS:
                check_variants([name, *names])

    def verdict(self, frame: pd.DataFrame) -> list[str]:
        """Return sentences that say how far the obtained results agree with the published ones."""
        sentences = []
        if self.pictures:
            sentences += [f"{row.picture}: {row.obtained}." for row in frame.itertuples()]
        if self.data and "data" in frame:
            names = frame["data"].dropna().astype(str).unique()
            others = [name for name in names if name not in (self.data, *self.data_names)]
            sentences += [f"{name} stands in for {self.data}." for name in others]
        return [*sentences, *map(str, self.counts(frame)), *self.notes] or [NOTHING]

    def counts(self, frame: pd.DataFrame) -> list[Count]:
        """Count how often each claim and finding holds in the obtained frame."""
        judged = self.comparisons or "more" in self.code
        counts = claim_counts(frame) if judged else []
        for keys in self.findings:
            counts += Finding(**keys).counts(frame)
        counts += self.code["findings"](frame) if "findings" in self.code else []
        return counts


def recipes_of(package: str, *modules: ModuleType) -> tuple[Recipe, ...]:
    """Load the recipes of a paper, in the order of its `recipes.yaml`.

    Args:
        package: Package of the paper.
        modules: Modules whose public functions entries may name, besides those of `plots`: as
            `module.function`, as a list of that and its first arguments, or as a mapping from it
            to named arguments. Their `STATISTICS` are available in comparisons.
    """
    paper = package.rpartition(".")[2].replace("_", "-")
    known = {module.__name__.rpartition(".")[2]: module for module in (*modules, plots)}
    statistics = {
        name: function
        for module in modules
        for name, function in getattr(module, "STATISTICS", {}).items()
    }
    found = []
    for slug, keys in data_file(package, "recipes.yaml").items():
        given = {key: value for key, value in keys.items() if key not in ("study", "code")}
        code = keys.get("code", {})
        for step in code:
            if step not in STEPS:
                raise UnknownNameError(f"step of {paper}/{slug}", step, STEPS)
        trained = {
            "studies": _trained(package, "studies", keys.get("study")),
            "settings": _trained(package, "settings", keys.get("settings")),
            "code": {step: _function(value, known) for step, value in code.items()},
        }
        found.append(Recipe(**{**given, **trained}, name=f"{paper}/{slug}", statistics=statistics))
    return tuple(found)


def _function(
    named: str | list[Any] | Mapping[str, Mapping[str, Any]], modules: Mapping[str, ModuleType]
) -> Callable[..., Any]:
    options: Mapping[str, Any] = {}
    if isinstance(named, Mapping):
        ((named, options),) = named.items()
    word, *first = [named] if isinstance(named, str) else named
    module, _, function = word.partition(".")
    allowed = [
        f"{place}.{name}"
        for place, one in modules.items()
        for name, value in vars(one).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == one.__name__
    ]
    if word not in allowed:
        raise UnknownNameError("function of this paper", word, allowed)
    found: Callable[..., Any] = getattr(modules[module], function)
    return partial(found, *first, **options) if first or options else found


def _trained(package: str, part: str, name: str | None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]]
    found = data_file(package, "studies.yaml")[part][name] if name else {}
    return found


@cache
def data_file(package: str, name: str) -> dict[str, Any]:
    """Read a YAML file in the folder of a paper: `recipes.yaml` or `studies.yaml`."""
    # The C parser is faster, but is not always available.
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (files(package) / name).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, Loader=parser)  # noqa: S506 - both are safe loaders
    return found


def published_table(package: str, slug: str) -> pd.DataFrame:
    """Read the published numbers or words from `published/<slug>.csv`."""
    with (files(package) / "published" / f"{slug}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, keep_default_na=False, na_values=[""])


def _check(scale: str) -> None:
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
