"""The page of published and obtained scores of methods at their published settings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tools.markdown import mean
from tools.markdown import table as markdown
from tools.results.agreement import agreement
from tools.results.study_results import RESULTS, ResultsError, StudyResults, all_studies
from unweave.papers import find
from unweave.papers.inductive_biases.studies import FIELDS, STRENGTHS
from unweave.papers.recipe import Recipe
from unweave.papers.vae_ensemble.scores import ORIGINAL, SINGLE, kinds

METRICS = {"factor_vae": "FactorVAE", "dci": "DCI", "mig": "MIG", "sap": "SAP"}
STANDALONE = {
    "udr_h200.csv": {"data": "dsprites", "paper": "udr"},
    "literature_h200.json": {"data": "dsprites", "method": "beta_vae"},
}
"""Files of models that are not in a study folder, and values shared by all their models."""
SORTED = ("isa-vae/figure-7",)
"""Recipes whose numbers are sorted and therefore always have the published order."""
USUAL = {"architecture": "conv", "latents": 10, "batch": 64}


@dataclass(frozen=True)
class Setting:
    """A method with the settings of a paper, and its published scores.

    Args:
        title: Title of the table row.
        method: Name of the method.
        data: Name of the data set.
        values: Settings of the method, by column.
        scores: Scores as printed, by metric.
        trained: Steps, seeds and networks as stated in the paper.
        where: Recipe that contains the numbers.
        aliases: Equivalent methods and their settings.
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
        """Return the models of a table that were trained with this setting."""
        wanted = ((self.method, self.values), *self.aliases)
        chosen = [_has_settings(table, method, values) for method, values in wanted]
        return table[pd.concat(chosen, axis=1).any(axis=1) & (table["data"] == self.data)]


@dataclass(frozen=True)
class Source:
    """A file of models that were trained with unweave.

    Args:
        name: Path of the file in benchmarks/results.
        table: Table with one row per model.
        networks: Description of the architecture, latents and batch size.
    """

    name: str
    table: pd.DataFrame
    networks: str


def ensemble_settings() -> Iterator[Setting]:
    """Yield the settings of Table 1 of the VAE ensemble: single methods, then ensembles."""
    frame = find("vae-ensemble/table-1").published()
    trained = ("not stated", "10", "`conv4x4`, 10 latents")
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
    """Yield the settings of the inductive biases: Tables 2 to 4 and main Table 1."""
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
    """Return all files of trained models."""
    found = []
    for study in all_studies(results):
        table, settings = study.table, {**USUAL, **study.settings}
        if "vae_ensemble" in set(table["method"]):
            kind = kinds(table)
            table = table[kind.isna() | (kind == ORIGINAL)]
        found.append(Source(f"{study.folder.name}/study.csv", table, _networks(settings)))
    for name, same in STANDALONE.items():
        if (results / name).exists():
            found.append(_standalone(results / name, same))
    if not found:
        raise ResultsError(
            f"no results were found in {results}; run a study and save its table", subject=results
        )
    return found


def page(results: Path = RESULTS) -> str:
    """Return the text of the page."""
    here, studies = sources(results), all_studies(results)
    parts = [
        "# Published and obtained scores",
        "This page compares published scores with those of models trained with unweave at the "
        "same settings: means ± standard deviations over seeds, on original images. `python -m "
        "tools.results` generates it from the files in the last column. **Check the steps**: most "
        "of these models were trained for a fraction of the usual 300,000 steps, and means over "
        "few seeds are unreliable.",
        "## Single methods and ensembles on dSprites",
        "Published: Table 1 of *VAE Ensemble* ([recipe](../recipes.md#vae-ensemble)), which "
        "reports FactorVAE and DCI. β-VAEs with β = 1 count as VAEs.",
        score_table(ensemble_settings(), here),
        "## Four methods on dSprites and Shapes3D",
        "Published: Table 1 of the main paper and Tables 2 to 4 of the supplement of "
        "*Demystifying Inductive Biases* ([recipe](../recipes.md#inductive-biases)), on original "
        "images. Its MIG values are second-hand. The published models have as many latents as "
        "factors, so models with ten latents are not directly comparable.",
        score_table(inductive_settings(), here),
        "## Claims and orderings",
        "All recipes with saved comparisons. Words agree if they are equal, and pairs of numbers "
        "if they have the published order; half of all pairs agree by chance. *Mostly* means at "
        "least three quarters. Some papers print no numbers, such as ISA-VAE for MIG; then only "
        "their claims can be compared.",
        claims(studies),
    ]
    return "\n\n".join(parts)


def score_table(settings: Iterator[Setting], here: list[Source]) -> str:
    """Return a table with a published row per setting, followed by a row per file of models."""
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
    heads = ["Setting", *METRICS.values(), "Steps", "Models", "Networks", "Source"]
    return markdown(heads, rows)


def claims(studies: list[StudyResults]) -> str:
    """Return a table with a row for each saved comparison."""
    rows = []
    for one in studies:
        for recipe, frame in one.comparisons():
            if recipe.name in SORTED:
                continue
            found = agreement(frame)
            file = f"../../benchmarks/results/{one.folder.name}/{recipe.slug}.csv"
            name = f"[{recipe.name}]({file})"
            rows.append([name, recipe.claim, _steps(one, recipe), str(found), found.verdict])
    return markdown(["Recipe", "Published claim", "Steps", "Agreement", "Verdict"], rows)


def _steps(study: StudyResults, recipe: Recipe) -> str:
    """Return the steps of the recipe's study, or the range of steps in the folder."""
    if not recipe.studies:
        return "–"
    tables = [pd.read_csv(path)["steps"] for path in sorted(study.folder.glob("study*.csv"))]
    trained = {int(steps) for table in tables for steps in table}
    keys = recipe.studies.get("hour", {})
    if keys.get("steps") not in trained:
        return _range(trained)
    second = _of_second_stages(keys)
    return f"{keys['steps']:,}" + (f", then {_range(second)}" if second else "")


def _of_second_stages(study: Mapping[str, Any]) -> set[int]:
    grids = study["methods"].values()
    entries = [entry for grid in grids for entry in (grid if isinstance(grid, list) else [grid])]
    return {entry["steps"] for entry in entries if "first" in entry and "steps" in entry}


def _range(steps: set[int]) -> str:
    return " to ".join(f"{end:,}" for end in sorted({min(steps), max(steps)}))


def _has_settings(table: pd.DataFrame, method: str, values: Mapping[str, float]) -> "pd.Series":
    """Return whether each model has this method and these settings.

    A setting without a column is looked up in the column `strength`.
    """
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


def _standalone(path: Path, same: Mapping[str, str]) -> Source:
    """Read models from a file that does not belong to a study."""
    settings: dict[str, Any] = dict(USUAL)
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        table = pd.DataFrame(content["models"]).assign(steps=content["steps"])
        settings["architecture"] = content["command"]["architecture"]
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
    """Format scores with as many digits as in the paper."""
    spreads = [*rows["published"], *rows["spread"]]
    digits = max(len(f"{number:g}".partition(".")[2]) for number in spreads)
    return {
        row.metric: f"{row.published:.{digits}f} ± {row.spread:.{digits}f}"
        for row in rows.itertuples(index=False)
    }
