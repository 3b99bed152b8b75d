"""The page of published scores: methods at their published settings, beside what was obtained."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tools.markdown import mean
from tools.markdown import table as markdown
from tools.results.agreement import agreement
from tools.results.kept import RESULTS, Kept, ResultsError, every
from unweave.papers import find
from unweave.papers.inductive_biases.studies import FIELDS, STRENGTHS
from unweave.papers.recipe import Recipe
from unweave.papers.vae_ensemble.models import ORIGINAL, kinds
from unweave.papers.vae_ensemble.studies import SINGLE

METRICS = {"factor_vae": "FactorVAE", "dci": "DCI", "mig": "MIG", "sap": "SAP"}
ALONE = {
    "udr_h200.csv": {"data": "dsprites", "paper": "udr"},
    "literature_h200.json": {"data": "dsprites", "method": "beta_vae"},
}
"""Files with models outside a folder, and what is the same for all of these."""
SORTED = ("isa-vae/figure-7",)
"""Recipes whose numbers have the published order in any case, since they are sorted."""
USUAL = {"architecture": "conv", "latents": 10, "batch": 64}


@dataclass(frozen=True)
class Setting:
    """A method as a paper trained it, and its published scores.

    Args:
        title: In words.
        method: Its name.
        data: The data set.
        values: Its settings, by their columns.
        scores: By metric, as printed.
        trained: What the paper says of steps, seeds and networks.
        where: The recipe that has the numbers.
    """

    title: str
    method: str
    data: str
    values: Mapping[str, float]
    scores: Mapping[str, str]
    trained: tuple[str, str, str]
    where: str
    aliases: tuple[tuple[str, Mapping[str, float]], ...] = field(default=())

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """The models of a table that were trained so."""
        wanted = ((self.method, self.values), *self.aliases)
        chosen = [_trained_so(table, method, values) for method, values in wanted]
        return table[pd.concat(chosen, axis=1).any(axis=1) & (table["data"] == self.data)]


@dataclass(frozen=True)
class Source:
    """Models that were trained here, all in one file.

    Args:
        name: The file, below benchmarks/results.
        table: One row per model.
        networks: How they were set up, in words.
    """

    name: str
    table: pd.DataFrame
    networks: str


def ensemble_settings() -> Iterator[Setting]:
    """Table 1 of the VAE ensemble: single methods, then ensembles."""
    frame = find("vae-ensemble/table-1").published()
    trained = ("not said", "10", "`conv4x4`, 10 latents")
    fields = {name: _first(values) for name, values in SINGLE.items()}
    for name, rows in frame[frame["members"] == 1].groupby("method", sort=False):
        method = str(name).split(" ")[0]
        same: Any = (("beta_vae", {"beta": 1.0}),) if method == "vae" else ()
        yield Setting(
            str(name), method, "dsprites", fields[method], _printed(rows), trained,
            "vae-ensemble/table-1", same,
        )  # fmt: skip
    ensembles = frame[frame["members"] > 1]
    for (members, gamma), rows in ensembles.groupby(["members", "gamma"], sort=True):
        yield Setting(
            f"ensemble of {members}, γ = {gamma:g}", "vae_ensemble", "dsprites",
            {"members": float(members), "gamma": float(gamma)}, _printed(rows), trained,
            "vae-ensemble/table-1",
        )  # fmt: skip


def inductive_settings() -> Iterator[Setting]:
    """Tables 2 to 4 and main Table 1 of the inductive biases, on original images."""
    slugs = ("table-2", "table-3", "table-4", "main-table-1")
    frame = pd.concat([find(f"inductive-biases/{slug}").published() for slug in slugs])
    for data in frame["data"].unique():
        for method, name in FIELDS.items():
            here = (frame["data"] == data) & (frame["images"] == "original")
            value = STRENGTHS[data][method]
            yield Setting(
                f"{method} ({name} = {value:g})", method, data, {name: float(value)},
                _printed(frame[here & (frame["method"] == method)]),
                ("300,000", "10", f"`conv`, {STRENGTHS[data]['latents']} latents"),
                "inductive-biases/table-2",
            )  # fmt: skip


def sources(results: Path = RESULTS) -> list[Source]:
    """All models that are kept, file by file."""
    found = []
    for kept in every(results):
        table, settings = kept.table, {**USUAL, **kept.settings}
        if "vae_ensemble" in set(table["method"]):
            kind = kinds(table)
            table = table[kind.isna() | (kind == ORIGINAL)]
        found.append(Source(f"{kept.folder.name}/study.csv", table, _networks(settings)))
    for name, same in ALONE.items():
        if (results / name).exists():
            found.append(_alone(results / name, same))
    if not found:
        raise ResultsError(f"there are no results in {results}; run a study and keep its table")
    return found


def page(results: Path = RESULTS) -> str:
    """The whole page."""
    here, kept = sources(results), every(results)
    parts = [
        "# Published and obtained",
        "Every method at its published setting, on original images, beside models which were "
        "trained here: means ± standard deviations over seeds. Made by `python -m tools.results` "
        "from the files that are named. **Read the steps**: most of these models were trained for "
        "a fraction of the usual 300,000, and of few seeds a mean says little.",
        "## Single methods and ensembles on dSprites",
        "Published: Table 1 of *VAE Ensemble* ([recipe](../recipes.md#vae-ensemble)), which "
        "prints FactorVAE and DCI. A VAE is a β-VAE with β = 1, wherever it was trained.",
        beside(ensemble_settings(), here),
        "## Four methods on dSprites and Shapes3D",
        "Published: Tables 2 to 4 and Table 1 of the main paper of *the inductive biases* "
        "([recipe](../recipes.md#inductive-biases)), original images, as many latents as factors; "
        "its MIG is second-hand. Models here with ten latents are another set-up.",
        beside(inductive_settings(), here),
        "## Claims, and numbers that are compared by their order",
        "Recipes of which the comparisons are kept. Rows are compared word by word, numbers by "
        "the order of every pair, of which half agree by chance; *mostly* is three quarters and "
        "more. Where a paper prints no numbers (ISA-VAE prints none of MIG), its claims are all "
        "there is.",
        claims(kept),
    ]
    return "\n\n".join(parts)


def beside(settings: Iterator[Setting], here: list[Source]) -> str:
    """A row for what was published of each setting, then one for each file with such models."""
    rows = []
    for setting in settings:
        printed = [setting.scores.get(metric, "") for metric in METRICS]
        steps, seeds, networks = setting.trained
        title = f"**{setting.title}**, {setting.data}"
        rows.append([title, *printed, steps, seeds, networks, "*published*"])
        found = [
            (int(str(steps)), _obtained(models, source))
            for source in here
            for steps, models in setting.of(source.table).groupby("steps")
        ]
        rows += [row for _, row in sorted(found)]
    heads = ["", *METRICS.values(), "steps", "models", "networks", "from"]
    return markdown(heads, rows)


def claims(kept: list[Kept]) -> str:
    """A line for each comparison that is kept."""
    rows = []
    for one in kept:
        for recipe, frame in one.comparisons():
            if recipe.name in SORTED:
                continue
            found = agreement(frame)
            file = f"../../benchmarks/results/{one.folder.name}/{recipe.slug}.csv"
            name = f"[{recipe.name}]({file})"
            rows.append([name, recipe.claim, _steps(one, recipe), str(found), found.verdict])
    return markdown(["recipe", "published claim", "steps", "as published", ""], rows)


def _steps(kept: Kept, recipe: Recipe) -> str:
    """Of the recipe's study; of the shortest and the longest in the folder, where it differs."""
    if not recipe.studies:
        return "–"
    tables = [pd.read_csv(path)["steps"] for path in sorted(kept.folder.glob("study*.csv"))]
    trained = {int(steps) for table in tables for steps in table}
    study = recipe.studies.get("hour", {})
    if study.get("steps") not in trained:
        return _range(trained)
    second = _of_second_stages(study)
    return f"{study['steps']:,}" + (f", then {_range(second)}" if second else "")


def _of_second_stages(study: Mapping[str, Any]) -> set[int]:
    grids = study["methods"].values()
    entries = [entry for grid in grids for entry in (grid if isinstance(grid, list) else [grid])]
    return {entry["steps"] for entry in entries if "first" in entry and "steps" in entry}


def _range(steps: set[int]) -> str:
    return " to ".join(f"{end:,}" for end in sorted({min(steps), max(steps)}))


def _trained_so(table: pd.DataFrame, method: str, values: Mapping[str, float]) -> "pd.Series":
    """Which models are of a method with these settings; one without a column is the strength."""
    here = table["method"] == method
    for name, value in values.items():
        column = table.get(name, table.get("strength"))
        here &= pd.to_numeric(column, errors="coerce").eq(value) if column is not None else False
    return here


def _obtained(models: pd.DataFrame, source: Source) -> list[str]:
    scores = [mean(models[name]) if name in models else "–" for name in METRICS]
    link = f"[{source.name}](../../benchmarks/results/{source.name})"
    steps = f"{models['steps'].max():,}"
    return ["obtained", *scores, steps, str(len(models)), source.networks, link]


def _alone(path: Path, same: Mapping[str, str]) -> Source:
    """Models from a file that is no study's."""
    settings: dict[str, Any] = dict(USUAL)
    if path.suffix == ".json":
        said = json.loads(path.read_text())
        table = pd.DataFrame(said["models"]).assign(steps=said["steps"])
        settings["architecture"] = said["command"]["architecture"]
    else:
        table = pd.read_csv(path)
        settings |= find(f"{same['paper']}/ranking").studies["hour"]["settings"]
    absent = {name: value for name, value in same.items() if name not in table}
    return Source(path.name, table.assign(**absent), _networks(settings))


def _networks(settings: Mapping[str, Any]) -> str:
    batch = "" if settings["batch"] == USUAL["batch"] else f", batch {settings['batch']:,}"
    return f"`{settings['architecture']}`, {settings['latents']} latents{batch}"


def _first(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in list(values.items())[:1]}


def _printed(rows: pd.DataFrame) -> dict[str, str]:
    """Scores with as many digits as are printed."""
    spreads = [*rows["published"], *rows["spread"]]
    digits = max(len(f"{number:g}".partition(".")[2]) for number in spreads)
    return {
        row.metric: f"{row.published:.{digits}f} ± {row.spread:.{digits}f}"
        for row in rows.itertuples(index=False)
    }
