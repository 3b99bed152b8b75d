"""Comparison of the models of a report: agreement, shared factors and the choice of a model.

Only models with the same data and the same number of latents are compared; they form a part of
the report. Shapes: M models of a part, n images, d latents.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from unweave.analysis.activity import Activity, kl_in_use, shown_activity
from unweave.data.dataset import Dataset
from unweave.data.origin import origin_of
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.io.arrays import on_host
from unweave.models.encoding import posteriors
from unweave.models.images import NUM_SAMPLED, sample_rows, shape_mismatch
from unweave.models.model import Model
from unweave.nets.device import chosen_device
from unweave.progress import lines
from unweave.report.labels import flat, model_names
from unweave.report.pca import AgainstPCA, against_pca
from unweave.report.saved_runs import DIVERGED
from unweave.report.subject import Given
from unweave.select import (
    Consensus,
    Latents,
    UDRScores,
    consensus,
    fronts,
    mcc_pairs,
    udr_scores,
)

__all__ = ["Findings", "Part", "evenly", "explained", "find", "followed", "settings_of"]

MOST_COMPARED = 300
"""Maximum number of models per part to compare, since cost grows with its square."""
LEAST_IMAGES = 600
ENCODED = 200_000
"""Maximum number of images to encode, summed over models, but at least `LEAST_IMAGES` each."""
ENCODING, COMPARING = "encoding images", "comparing models"


@dataclass(eq=False)
class Part:
    """Models that can be compared, and the results of the comparison."""

    name: str  # name of the data set
    origin: Sequence[Any]  # recipe to load the data set
    runs: list[str]  # the models, as in the table
    data: Dataset | None = None  # the data set, or None if not available
    missing: str = ""  # reason why the data set is not available
    note: str = ""  # remark about the data set
    # The compared models, in the order of the following fields.
    compared: list[str] = field(default_factory=list)
    latents: Latents | None = None  # codes of these models
    # Latent activity of each model; None for a model without codes.
    activity: Sequence[Activity | None] = ()
    udr: UDRScores | None = None  # UDR of every model and pair
    mcc: np.ndarray | None = None  # mean correlation of matched latents of two models, `[M, M]`
    agreed: Consensus | None = None  # factors that the models share
    chosen: str | None = None  # the chosen model
    why: str = ""  # reason for the choice
    # For each shared factor, the known factor that it follows and the share of variance explained.
    follows: list[tuple[str, float]] = field(default_factory=list)
    pca: AgainstPCA | None = None  # for a fit, the chosen model and principal components
    # Indices of the images used for the comparison, `[n]`.
    images_of: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @cached_property
    def classes(self) -> Mapping[str, np.ndarray]:
        """Classes of these images for each known factor, `[n]` each."""
        known = None if self.data is None else self.data.grid or self.data.labels
        if known is None or self.data is None:
            return {}
        columns = on_host(self.data.factors(self.images_of)).T
        return dict(zip(known.names, columns, strict=True))

    @property
    def chosen_activity(self) -> Activity | None:
        """Latent activity of the chosen model; None if it was not encoded."""
        if self.latents is None or self.chosen not in self.compared:
            return None
        return self.activity[self.compared.index(self.chosen)]

    @property
    def num_compared(self) -> int:
        """Number of compared models, without those that diverged."""
        return 0 if self.latents is None else int(self.latents.usable.sum())

    @property
    def num_images(self) -> int:
        """Number of images used for the comparison."""
        return 0 if self.latents is None else int(self.latents.means.shape[1])


@dataclass(eq=False)
class Findings:
    """Contents of the report."""

    given: Given  # subject of the report
    # The study table, with the additional columns `udr`, `clear`, `found` and `front`.
    table: pd.DataFrame
    names: dict[str, str]  # human-readable name of each run
    parts: list[Part]  # parts of the report
    trouble: list[tuple[str, str, str]]  # problems with runs: run, state, description
    device: torch.device  # device of the models

    def open(self, run: str) -> Model:
        """Load the model of a run onto the device."""
        return self.given.model(run).to(self.device)

    @property
    def chosen(self) -> list[str]:
        """The chosen models, at most one per part."""
        return [part.chosen for part in self.parts if part.chosen is not None]

    def alive(self, runs: Sequence[str]) -> list[str]:
        """Return the runs that did not diverge."""
        diverged = set(self.table.loc[self.table["state"] == DIVERGED, "run"])
        return [run for run in runs if run not in diverged]

    def part_of(self, run: str) -> Part:
        """Return the part that contains a run."""
        return next(part for part in self.parts if run in part.runs)


def settings_of(given: Given) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the settings that all models share, and the values of the others."""
    plain = [flat(given.configs[run]) for run in given.table["run"]]
    values: dict[str, list[Any]] = {}
    for settings in plain:
        for name, value in settings.items():
            values.setdefault(name, [])
            if value not in values[name]:
                values[name].append(value)
    everywhere = {name for name in values if all(name in settings for settings in plain)}
    same = {n: v[0] for n, v in values.items() if len(v) == 1 and n in everywhere}
    return same, {n: v for n, v in values.items() if n not in same}


def find(
    given: Given,
    rows: int | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: bool = True,
) -> Findings:
    """Compare the models of every part; arguments as for `report`."""
    if given.table.empty:
        raise UnweaveError(
            f"{given.place} has no trained models yet; train some first", subject=given.place
        )
    if rows is not None and rows < 2:
        raise UnweaveError.must("rows", "be at least 2", rows)
    names = model_names({run: given.configs[run] for run in given.table["run"]})
    parts = _parts(given)
    found = Findings(given, given.table, names, parts, list(given.trouble), chosen_device(device))
    for part in parts:
        _open_data(given, part)
        part.compared = evenly(given.table, part.runs, MOST_COMPARED)
    _discard_mismatched_data(given, parts)
    work = {ENCODING: sum(len(p.compared) for p in parts if p.data), COMPARING: len(parts)}
    with lines({job: total for job, total in work.items() if total}, progress) as advance:
        for part in parts:
            if part.data is not None:
                _encode(found, part, rows, seed, lambda: advance(ENCODING, 1))
            _compare(part)
            _choose(found, part)
            _compare_with_pca(found, part)
            advance(COMPARING, 1)
    found.table = _board(given, parts)
    return found


def evenly(table: pd.DataFrame, runs: Sequence[str], count: int) -> list[str]:
    """Select at most `count` runs in table order, spread evenly over methods and strengths.

    Example:
        >>> table = pd.DataFrame({"run": list("abcd"), "method": "vae", "strength": [1, 1, 1, 4]})
        >>> evenly(table, list("abcd"), 2)
        ['a', 'd']
    """
    rows = table[table["run"].isin(runs)]
    turn = rows.groupby(["method", "strength"], dropna=False).cumcount()
    selected = rows["run"][turn.sort_values(kind="stable").index[:count]].sort_index()
    return [str(run) for run in selected]


def code_size(config: Mapping[str, Any]) -> int:
    """Return the number of latents of a model, including its earlier stages."""
    before = code_size(config["first"]) if "first" in config else 0
    return int(config["latents"]) + before


def _parts(given: Given) -> list[Part]:
    """Group models by data and number of latents, in the order of the table."""
    parts: dict[tuple[str, int], Part] = {}
    sizes: dict[str, set[int]] = {}
    for run, name in zip(given.table["run"], given.table["data"], strict=True):
        config = given.configs[run]
        key = origin_text(config["data"]), code_size(config)
        parts.setdefault(key, Part(str(name), config["data"], [])).runs.append(run)
        sizes.setdefault(key[0], set()).add(key[1])
    for (text, latents), part in parts.items():
        if len(sizes[text]) > 1:
            part.name = f"{part.name}, {latents} latents"
    return list(parts.values())


def _open_data(given: Given, part: Part) -> None:
    try:
        part.data = given.data(part.origin)
    except (UnweaveError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        part.missing = str(error)
        return
    made = origin_of(part.data)
    if origin_text(made) != origin_text(part.origin):
        part.note = (
            f"The images in this report are from {part.data.name}, not from the data set that the"
            " models were trained on."
        )


def _discard_mismatched_data(given: Given, parts: Sequence[Part]) -> None:
    """Drop the images of parts whose models need another size; raise an error if none fit."""
    reasons = [_misfit(given, part) for part in parts]
    if all(reasons):
        raise UnweaveError(f"{reasons[0]}; load the images as for training", subject="data")
    for part, reason in zip(parts, reasons, strict=True):
        if reason:
            part.data, part.note, part.missing = None, "", reason


def _misfit(given: Given, part: Part) -> str:
    """Return why the models of a part cannot encode the images, or an empty text."""
    for run in part.compared:
        if part.data is None:
            break
        try:
            return shape_mismatch(given.model(run).shape, part.data.shape, part.data.name)
        except UnweaveError:  # reported when the model is encoded
            continue
    return ""


def _encode(
    found: Findings, part: Part, rows: int | None, seed: int, advance: Callable[[], None]
) -> None:
    """Encode the same images with every model; codes of failed models are NaN."""
    assert part.data is not None
    alive = found.alive(part.compared)
    count = rows or max(LEAST_IMAGES, min(NUM_SAMPLED, ENCODED // max(len(alive), 1)))
    part.images_of = sample_rows(part.data, count, seed)
    images = part.data.to("cpu").inputs(part.images_of, seed)
    size = code_size(found.given.configs[part.compared[0]])
    shape = (len(part.compared), len(part.images_of), size)
    means, logvars = np.full(shape, np.nan), np.zeros(shape)
    standard_noise = np.ones(len(part.compared), bool)
    activity: list[Activity | None] = [None] * len(part.compared)
    for place, run in enumerate(part.compared):
        advance()
        if run not in alive:
            continue
        try:
            model = found.open(run)
            (means[place],), (logvars[place],) = posteriors(model, images)
        except UnweaveError as error:
            found.trouble.append((run, "not loaded", str(error)))
            continue
        method = model.config.method
        standard_noise[place] = method.standard_noise
        activity[place] = shown_activity(
            means[place],
            logvars[place],
            deterministic=method.deterministic,
            standard_noise=method.standard_noise,
        )
    kl = kl_in_use(means, logvars, standard_noise)
    part.latents = Latents(means, logvars, kl, runs=part.compared)
    part.activity = activity


def _compare(part: Part) -> None:
    if part.latents is None or part.num_compared < 2:
        return
    part.udr = udr_scores(part.latents)
    part.mcc = mcc_pairs(part.latents)
    part.agreed = consensus(part.latents)
    if part.classes:
        part.follows = [followed(part, codes) for codes in part.agreed.codes.T]


def _choose(found: Findings, part: Part) -> None:
    """Choose the model in the folder `best`, or else by UDR."""
    alive, best = found.alive(part.runs), found.given.best
    best_udr = None
    if part.udr is not None and np.isfinite(part.udr.models).any():
        place = int(np.nanargmax(part.udr.models))
        best_udr = part.compared[place]
        reason = f"it agrees most with the other models (UDR {part.udr.models[place]:.2f})."
    if best in alive:
        part.chosen, part.why = best, "It is the model in the folder “best”."
        if best_udr == best:
            part.why = f"Chosen without labels: {reason} It is in the folder “best”."
    elif len(alive) == 1 and len(part.runs) == 1:
        part.chosen, part.why = alive[0], "It is the only model."
    elif len(alive) == 1:
        part.chosen, part.why = alive[0], "It is the only model that did not diverge."
    elif best_udr is not None:
        part.chosen, part.why = best_udr, f"Chosen without labels: {reason}"


def _compare_with_pca(found: Findings, part: Part) -> None:
    """Compare the chosen model of a fit with principal components."""
    activity = part.chosen_activity
    if found.given.verdict is None or part.data is None or activity is None:
        return
    assert part.chosen is not None
    model = found.open(part.chosen)
    if model.config.method.decodes:
        part.pca = against_pca(model, part.data, int(activity.clear.sum()))


def followed(part: Part, codes: np.ndarray) -> tuple[str, float]:
    """Return the known factor that explains most of a code's variance, and the share.

    Args:
        part: Models of a data set with known factors.
        codes: Codes of the images used for the comparison, `[n]`.
    """
    shares = {name: explained(codes, classes) for name, classes in part.classes.items()}
    return max(shares.items(), key=lambda item: item[1])


def explained(codes: np.ndarray, classes: np.ndarray) -> float:
    """Return the share of a code's variance that a factor explains, corrected for chance.

        ε² = 1 - (n - 1) / (n - c) · Σ_i (z_i - mean of z in i's class)² / Σ_i (z_i - mean z)²

    Args:
        codes: Codes `[n]`.
        classes: Class numbers `[n]` with c different values, in any order.

    Example:
        >>> explained(np.array([1.0, 1.0, 5.0, 5.0, 3.0, 3.0]), np.array([2, 2, 0, 0, 1, 1]))
        1.0
    """
    number = np.unique(classes, return_inverse=True)[1]
    n, c = len(codes), int(number.max()) + 1
    total = float(((codes - codes.mean()) ** 2).sum())
    if c >= n or total == 0:
        return 0.0
    means = np.bincount(number, codes) / np.bincount(number)
    rest = float(((codes - means[number]) ** 2).sum())
    return max(0.0, 1 - (n - 1) / (n - c) * rest / total)


def _board(given: Given, parts: Sequence[Part]) -> pd.DataFrame:
    """Add the results of the comparison to the table."""
    table = given.table.copy()
    new = pd.DataFrame(np.nan, index=table["run"], columns=["udr", "clear", "found", "front"])
    costs = table.set_index("run").reindex(columns=["reconstruction", "kl"]).astype(float)
    for part in parts:
        here = costs.loc[part.runs]
        new.loc[part.runs, "front"] = fronts(
            here["reconstruction"].to_numpy(), here["kl"].to_numpy()
        )
        if part.latents is not None:
            new.loc[part.compared, "clear"] = [
                each.clear.sum() if each is not None and usable else np.nan
                for each, usable in zip(part.activity, part.latents.usable, strict=True)
            ]
        if part.latents is not None and part.udr is not None and part.agreed is not None:
            new.loc[part.compared, "udr"] = part.udr.models
            found = part.agreed.ranking.set_index("model")["found"].sort_index().to_numpy(float)
            new.loc[part.compared, "found"] = np.where(part.latents.usable, found, np.nan)
    return table.assign(**{name: new[name].to_numpy() for name in new})
