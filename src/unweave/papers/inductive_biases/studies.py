"""Studies of this paper at each scale: restarts, a change of images, all methods.

Restarts of β-VAE on the original images give disentangled and entangled examples. The change of
images is learned from these, or from the images alone. Every method is then trained on original,
modified and noisy images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from unweave.papers.measurements import Trained
from unweave.papers.recipe import data_file

if TYPE_CHECKING:
    from unweave.models.model import Model
    from unweave.study import Study

__all__ = [
    "DIRECTIONS",
    "FIELDS",
    "FILE",
    "IMAGES",
    "SCALES",
    "SEARCHED",
    "STRENGTHS",
    "Base",
    "examples",
    "trained",
]

SEARCHED, NOISE = ("original", "modified"), "noise"
"""Images for all strengths, and images for the usual strength only."""
IMAGES = (*SEARCHED, NOISE)
STRENGTHS: dict[str, dict[str, Any]] = data_file(__package__, "studies.yaml")["strengths"]
"""Usual strength of each method and number of factors, by data set."""
METRICS = ["mig", "dci", "factor_vae", "sap"]
FIELDS = {"beta_vae": "beta", "beta_tc_vae": "beta", "factor_vae": "gamma", "slow_vae": "beta"}
FILE, DETAILS = "modified-{base}.safetensors", "details.parquet"
PAIRS, DIRECTIONS = "pairs", "directions"
HELD_OUT = 256
"""Number of held-out images on which the change is evaluated."""
SCALES: dict[str, dict[str, Any]] = data_file(__package__, "studies.yaml")["settings"][
    "everything"
]


@dataclass(frozen=True, kw_only=True)
class Base:
    """A data set with original, modified and noisy images, and the studies on it.

    Args:
        name: Name of the data set.
        classes: Classes of each factor in its slice.
        folder: Output folder.
        steps: Training steps of all models.
        settings: Settings of all models, except the number of latents.
    """

    name: str
    classes: Mapping[str, Any]
    folder: Path
    steps: int
    settings: Mapping[str, Any]

    @property
    def latents(self) -> int:
        """Number of latents: the number of varying factors."""
        fixed = sum(len(classes) == 1 for classes in self.classes.values())
        return int(STRENGTHS[self.name]["latents"]) - fixed

    @property
    def file(self) -> Path:
        """File of the change of images."""
        return self.folder / FILE.format(base=self.name)

    def source(self, images: str) -> dict[str, Any]:
        """Data entry of a study for one kind of images; modified images are already sliced."""
        if images == "modified":
            return {"name": images, "load": f"{self.name}_modified", "path": str(self.file)}
        load = self.name if images == "original" else f"{self.name}_{images}"
        sliced = {"slice": dict(self.classes)} if self.classes else {}
        return {"name": images, "load": load, **sliced}

    def study(self, kinds: Sequence[str], part: str = "", **keys: Any) -> "Study":
        """Return the study that trains on the given kinds of images, such as `original`."""
        from unweave.study import Study

        return Study(
            name=f"{self.name}-{part or '-'.join(kinds)}",
            data=[self.source(images) for images in kinds],
            steps=self.steps,
            settings={**self.settings, "latents": self.latents},
            **keys,
        )

    def studies(self, seeds: int, search: Sequence[float]) -> "list[Study]":
        """Studies of all strengths on `SEARCHED` images, and of the usual one on noisy images."""
        usual, found = STRENGTHS[self.name], []
        for kinds, factors in ((SEARCHED, search), ([NOISE], [1.0])):
            methods: dict[str, Any] = {
                name: {field: [factor * usual[name] for factor in factors]}
                for name, field in FIELDS.items()
            }
            methods |= {"pcl": {}, "ae": {}}
            found.append(self.study(kinds, methods=methods, seeds=seeds, metrics=METRICS))
        return found

    def scores(self, seeds: int, search: Sequence[float]) -> pd.DataFrame:
        """Scores of every method on all kinds of images, with the multiple of its strength."""
        from unweave.study import run

        studies = self.studies(seeds, search)
        table = pd.concat([run(one, self.folder).table for one in studies], ignore_index=True)
        table = table.rename(columns={"data": "images"})
        return table.assign(factor=self.factors(table["method"], table["strength"]))

    def factors(
        self, methods: "pd.Series[str]", strengths: "pd.Series[float]"
    ) -> "pd.Series[float]":
        """Strengths as multiples of the usual ones; 1 for methods without a strength."""
        usual = methods.map({name: float(STRENGTHS[self.name][name]) for name in FIELDS})
        return (strengths / usual).where(methods.isin(FIELDS), 1.0)

    def change(
        self, restarts: int, pairs: int, change: Mapping[str, Any]
    ) -> "tuple[list[Model], list[Model]]":
        """Train restarts of β-VAE and learn the change; return the best and the worst models."""
        from unweave.papers.inductive_biases.manipulation import (
            exemplars,
            manipulate,
            over_pruned,
            turn_directions,
        )
        from unweave.papers.inductive_biases.manipulation.pairs import OPTIMISER
        from unweave.study import run

        methods = {"beta_vae": {"beta": STRENGTHS[self.name]["beta_vae"]}}
        study = self.study(
            ["original"], "restarts", methods=methods, seeds=restarts, metrics=["mig"]
        )
        table = run(study, self.folder).table
        known = Trained(self.folder)
        models = [known.model(name) for name in table.loc[table["state"] == "scored", "run"]]
        data = known.data(models[0])
        pruned = over_pruned(models, data)
        whole = table[~table["run"].isin(pruned.loc[pruned["over_pruned"], "run"])]
        best, worst = exemplars(models, whole if len(whole) >= 2 * pairs else table, pairs)
        options = {
            "steps": change["steps"],
            "out": self.file,
            "optimiser": replace(OPTIMISER, lr=change["lr"]),
            "precision": "tf32",  # bf16 is for the models only
            "overwrite": True,
        }
        if change["by"] == DIRECTIONS:
            turn_directions(data, **options)
        else:
            manipulate(data, best, worst, held_out=min(HELD_OUT, len(data) // 4), **options)
        return best, worst


def trained(
    folder: Path,
    bases: Mapping[str, Mapping[str, Any]],
    seeds: int,
    steps: int,
    restarts: int,
    pairs: int,
    change: Mapping[str, Any],
    search: list[float],
    settings: Mapping[str, Any],
) -> pd.DataFrame:
    """Train all models, or read existing results.

    Args:
        bases: Data sets, and the classes of each slice.
        restarts: Restarts of β-VAE on the original images.
        pairs: Number of disentangled and of entangled models from which the change is learned.
        change: Settings of the change: `by` (`PAIRS` of models, or the `DIRECTIONS` in which
            images vary), `steps` and `lr`.
        search: Multiples of the usual strengths, for `SEARCHED` images.

    Returns:
        The study table with `base`, the data set; `images`, one of `IMAGES`; `factor`, the
        multiple of the usual strength; `active`, the number of active latents; `over_pruned`; and
        for β-VAE `gap_0` …, the MIG of each factor.
    """
    parts = []
    for name, classes in bases.items():
        base = Base(name=name, classes=classes, folder=folder, steps=steps, settings=settings)
        base.change(restarts, pairs, change)
        parts.append(_detailed(base.scores(seeds, search), folder).assign(base=name))
    return pd.concat(parts, ignore_index=True)


def examples(
    folder: Path,
    bases: Mapping[str, Mapping[str, Any]],
    steps: int,
    restarts: int,
    pairs: int,
    change: Mapping[str, Any],
    settings: Mapping[str, Any],
    **others: Any,
) -> pd.DataFrame:
    """Measure how the models from which the change was learned encode two factors.

    Takes the arguments of `trained`; `others` are not used.

    Returns:
        A row per model: `base`, `kind` (`disentangled` or `entangled`), the result of
        `unweave.papers.inductive_biases.polar.encoding_of`, and `picture`, its traversals of two
        latents as the bytes of a PNG.
    """
    from unweave.papers.inductive_biases.polar import encoding_of, picture_of

    del others
    rows = []
    for name, classes in bases.items():
        base = Base(name=name, classes=classes, folder=folder, steps=steps, settings=settings)
        chosen = base.change(restarts, pairs, change)
        data = Trained(folder).data(chosen[0][0])
        for kind, models in zip(("disentangled", "entangled"), chosen, strict=True):
            for model in models:
                found = encoding_of(model, data, name)
                keys = {"base": name, "kind": kind, "run": model.config.hash}
                rows.append({**keys, **found, "picture": picture_of(model, data, found)})
    return pd.DataFrame(rows)


def _detailed(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The table with active latents and the MIG of β-VAE by factor, computed once per model."""
    from unweave.papers.inductive_biases.manipulation import factor_gaps, over_pruned

    known = Trained(folder)
    rows = table[table["state"] == "scored"]

    def of_model(model: "Model") -> pd.DataFrame:
        data = known.data(model)
        found = over_pruned([model], data)[["active", "over_pruned"]]
        if model.config.method.name != "beta_vae":
            return found
        gaps = factor_gaps([model], data)["gap"].tolist()
        return found.assign(**{f"gap_{k}": gap for k, gap in enumerate(gaps)})

    return rows.merge(known.measured(DETAILS, rows["run"], of_model, "measuring models"), on="run")
