"""What the recipes of this paper train, at each scale: restarts, a change of images, all methods.

Restarts of β-VAE on the original images give disentangled and entangled examples, from which the
change of images is learned, or else from the images alone; then every method is trained on
original, modified and noisy images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from unweave.papers.catalog import data_file
from unweave.papers.measurements import Trained, computed_once

if TYPE_CHECKING:
    from unweave.models.model import Model
    from unweave.study import Study

__all__ = ["FILE", "IMAGES", "SCALES", "SEARCHED", "STRENGTHS", "examples", "trained"]

SEARCHED, NOISE = ("original", "modified"), "noise"
"""Images on which all strengths are tried, and those on which the usual one is."""
IMAGES = (*SEARCHED, NOISE)
STRENGTHS: dict[str, dict[str, Any]] = data_file(__package__, "studies.yaml")["strengths"]
"""By data set, the usual strength of each method, and the number of factors."""
METRICS = ["mig", "dci", "factor_vae", "sap"]
FIELDS = {"beta_vae": "beta", "beta_tc_vae": "beta", "factor_vae": "gamma", "slow_vae": "beta"}
FILE, DETAILS = "modified-{base}.safetensors", "details.parquet"
PAIRS, DIRECTIONS = "pairs", "directions"
HELD_OUT = 256
"""Images on which the change is followed, and which it is not learned from."""
SCALES: dict[str, dict[str, Any]] = data_file(__package__, "studies.yaml")["settings"][
    "everything"
]


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
    """Train everything, or read what is there.

    Args:
        folder: Where it is kept.
        bases: Data sets, and how each is sliced.
        seeds: Of every method on every kind of images.
        steps: Of all models.
        restarts: Of β-VAE on the original images.
        pairs: How many disentangled and entangled ones the change is learned from.
        change: How the change is learned: `by` `PAIRS` of models or from the `DIRECTIONS` in which
            images vary, `steps`, and `lr`.
        search: By which factors the usual strengths are multiplied, on `SEARCHED` images.
        settings: Of all models.

    Returns:
        The study table with `base`, the data set, and `images`, one of `IMAGES`; `factor`, by
        which the strength is multiplied; `active`, how many latents are; `over_pruned`; and
        `gap_0` …, MIG by factor, of β-VAE.
    """
    parts = []
    for base, classes in bases.items():
        own = {**settings, "latents": _latents(base, classes)}
        _change(base, classes, restarts, pairs, change, folder=folder, steps=steps, settings=own)
        studies = _studies(base, classes, seeds, search, folder=folder, steps=steps, settings=own)
        table = _scores(base, folder, studies)
        parts.append(_detailed(table, folder).assign(base=base))
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
    """The models from which the change was learned: how they encode two factors together.

    Args:
        folder: As of `trained`, and so for all that follows.
        bases: …
        steps: …
        restarts: …
        pairs: …
        change: …
        settings: …
        others: Not used.

    Returns:
        A row per model: `base`, `kind` (`disentangled` or `entangled`), what
        `unweave.papers.inductive_biases.polar.encoding_of` says of it, and `picture`, its
        traversals of two latents as the bytes of a PNG.
    """
    from unweave.papers.inductive_biases.polar import encoding_of, picture_of

    del others
    rows = []
    for base, classes in bases.items():
        own = {**settings, "latents": _latents(base, classes)}
        chosen = _change(
            base, classes, restarts, pairs, change, folder=folder, steps=steps, settings=own
        )
        data = Trained(folder).data(chosen[0][0])
        for kind, models in zip(("disentangled", "entangled"), chosen, strict=True):
            for model in models:
                found = encoding_of(model, data, base)
                said = {"base": base, "kind": kind, "run": model.config.hash}
                rows.append({**said, **found, "picture": picture_of(model, data, found)})
    return pd.DataFrame(rows)


def _latents(base: str, classes: Mapping[str, Any]) -> int:
    """As many as factors vary."""
    fixed = sum(len(kept) == 1 for kept in classes.values())
    return int(STRENGTHS[base]["latents"]) - fixed


def _data(base: str, images: str, classes: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a study says of one kind of images; the modified ones are sliced already."""
    if images == "modified":
        file = folder / FILE.format(base=base)
        return {"name": images, "load": f"{base}_modified", "path": str(file)}
    load = base if images == "original" else f"{base}_{images}"
    return {"name": images, "load": load, **({"slice": dict(classes)} if classes else {})}


def _change(
    base: str,
    classes: Mapping[str, Any],
    restarts: int,
    pairs: int,
    change: Mapping[str, Any],
    *,
    folder: Path,
    steps: int,
    settings: Mapping[str, Any],
) -> "tuple[list[Model], list[Model]]":
    """Restarts of β-VAE, of which some are chosen, and the change of images; these models."""
    from unweave.papers.inductive_biases.manipulation import (
        exemplars,
        manipulate,
        over_pruned,
        turn_directions,
    )
    from unweave.papers.inductive_biases.manipulation.training import OPTIMISER
    from unweave.study import Study, run

    study = Study(
        name=f"{base}-restarts",
        data=[_data(base, "original", classes, folder)],
        methods={"beta_vae": {"beta": STRENGTHS[base]["beta_vae"]}},
        seeds=restarts,
        steps=steps,
        metrics=["mig"],
        settings=settings,
    )
    table = run(study, folder).table
    known = Trained(folder)
    models = [known.model(name) for name in table.loc[table["state"] == "scored", "run"]]
    data = known.data(models[0])
    pruned = over_pruned(models, data)
    whole = table[~table["run"].isin(pruned.loc[pruned["over_pruned"], "run"])]
    best, worst = exemplars(models, whole if len(whole) >= 2 * pairs else table, pairs)
    how = {
        "steps": change["steps"],
        "out": folder / FILE.format(base=base),
        "optimiser": replace(OPTIMISER, lr=change["lr"]),
        "precision": "tf32",  # the models themselves have bf16
        "overwrite": True,
    }
    if change["by"] == DIRECTIONS:
        turn_directions(data, **how)
    else:
        manipulate(data, best, worst, held_out=min(HELD_OUT, len(data) // 4), **how)
    return best, worst


def _scores(base: str, folder: Path, studies: "Sequence[Study]") -> pd.DataFrame:
    """Every method on every kind of images, and by what its usual strength is multiplied."""
    from unweave.study import run

    table = pd.concat([run(study, folder).table for study in studies], ignore_index=True)
    table = table.rename(columns={"data": "images"})
    return table.assign(factor=_factors(base, table["method"], table["strength"]))


def _factors(
    base: str, methods: "pd.Series[str]", strengths: "pd.Series[float]"
) -> "pd.Series[float]":
    """By what usual strengths are multiplied; 1 for methods that have none."""
    usual = methods.map({name: float(STRENGTHS[base][name]) for name in FIELDS})
    return (strengths / usual).where(methods.isin(FIELDS), 1.0)


def _studies(
    base: str,
    classes: Mapping[str, Any],
    seeds: int,
    search: list[float],
    *,
    folder: Path,
    steps: int,
    settings: Mapping[str, Any],
) -> "list[Study]":
    """All strengths on the images where these are searched, the usual one on noisy images."""
    from unweave.study import Study

    said, found = STRENGTHS[base], []
    for kinds, factors in ((SEARCHED, search), ([NOISE], [1.0])):
        methods: dict[str, Any] = {
            name: {field: [factor * said[name] for factor in factors]}
            for name, field in FIELDS.items()
        }
        study = Study(
            name=f"{base}-{'-'.join(kinds)}",
            data=[_data(base, images, classes, folder) for images in kinds],
            methods={**methods, "pcl": {}, "ae": {}},
            seeds=seeds,
            steps=steps,
            metrics=METRICS,
            settings=settings,
        )
        found.append(study)
    return found


def _detailed(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The table with active latents, and β-VAE's MIG by factor, computed once for each model."""
    from unweave.papers.inductive_biases.manipulation import factor_gaps, over_pruned

    known = Trained(folder)
    rows = table[table["state"] == "scored"]

    def of_run(name: str) -> pd.DataFrame:
        model = known.model(name)
        data = known.data(model)
        found = over_pruned([model], data)[["active", "over_pruned"]]
        if model.config.method.name != "beta_vae":
            return found
        gaps = factor_gaps([model], data)["gap"].tolist()
        return found.assign(**{f"gap_{k}": gap for k, gap in enumerate(gaps)})

    found = computed_once(folder / DETAILS, rows["run"].tolist(), of_run, "looking at models")
    return rows.merge(found, on="run")
