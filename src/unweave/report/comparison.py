"""Comparing the models of a report: encode the same images, then ask who resembles whom.

Shapes: M models of a part, n images, d latents.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from unweave.analysis.activity import Activity, kl_in_use, shown_activity
from unweave.data.origin import origin_of
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.models.drawn_images import drawn_rows
from unweave.models.encoding import posteriors
from unweave.models.shapes import misfit
from unweave.nets.device import chosen_device
from unweave.progress import lines
from unweave.report.agreement import Findings, Part
from unweave.report.labels import model_names
from unweave.report.saved_runs import DIVERGED
from unweave.report.subject import Given
from unweave.select import Latents, consensus, fronts, mcc_pairs, udr_scores

__all__ = ["evenly", "explained", "find", "followed"]

MOST_COMPARED = 300
"""Models of a part of which every two are compared; time and memory grow with the square."""
IMAGES = 3_000
LEAST_IMAGES = 600
ENCODED = 200_000
"""Images that all models together encode, at most, but for `LEAST_IMAGES` of each."""
ENCODING, COMPARING = "encoding images", "comparing models"


def find(
    given: Given,
    rows: int | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: bool = True,
) -> Findings:
    """Compare the models of every part; arguments as for `report`."""
    if given.table.empty:
        raise UnweaveError(f"no model of {given.place} is trained yet; train some first")
    if rows is not None and rows < 2:
        raise UnweaveError(f"models are compared on at least 2 images, but got {rows=}")
    place = chosen_device(device)
    parts = _parts(given)
    trouble = list(given.trouble)
    states = dict(zip(given.table["run"], given.table["state"], strict=True))
    for part in parts:
        _open_data(given, part)
        part.compared = evenly(given.table, part.runs, MOST_COMPARED)
    _put_aside_what_does_not_fit(given, parts)
    work = {ENCODING: sum(len(p.compared) for p in parts if p.data), COMPARING: len(parts)}
    with lines({job: total for job, total in work.items() if total}, progress) as advance:
        for part in parts:
            if part.data is not None:
                alive = [run for run in part.compared if states[run] != DIVERGED]
                count = rows or max(LEAST_IMAGES, min(IMAGES, ENCODED // max(len(alive), 1)))
                _encode(
                    given, part, alive, count, seed, place, trouble, lambda: advance(ENCODING, 1)
                )
            _compare(part)
            _choose(given, part, states)
            advance(COMPARING, 1)
    names = model_names({run: given.configs[run] for run in given.table["run"]})
    return Findings(given, _board(given, parts), names, parts, trouble, place)


def evenly(table: pd.DataFrame, runs: Sequence[str], count: int) -> list[str]:
    """At most so many runs, in the order of the table, evenly over methods and strengths.

    Example:
        >>> table = pd.DataFrame({"run": list("abcd"), "method": "vae", "strength": [1, 1, 1, 4]})
        >>> evenly(table, list("abcd"), 2)
        ['a', 'd']
    """
    rows = table[table["run"].isin(runs)]
    turn = rows.groupby(["method", "strength"], dropna=False).cumcount()
    kept = rows["run"][turn.sort_values(kind="stable").index[:count]].sort_index()
    return [str(run) for run in kept]


def code_size(config: Mapping[str, Any]) -> int:
    """Latents of a model, with those of the stages before it."""
    before = code_size(config["first"]) if "first" in config else 0
    return int(config["latents"]) + before


def _parts(given: Given) -> list[Part]:
    """Models by data and number of latents, in the order of the table."""
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
            f"The images shown and compared here are of {part.data.name}, which are not those that"
            " the models learned from."
        )


def _put_aside_what_does_not_fit(given: Given, parts: Sequence[Part]) -> None:
    """Images of another size are none for a part, and an error where they are none for any."""
    reasons = [_misfit(given, part) for part in parts]
    if all(reasons):
        raise UnweaveError(f"{reasons[0]}; load them as they were for training")
    for part, reason in zip(parts, reasons, strict=True):
        if reason:
            part.data, part.note, part.missing = None, "", reason


def _misfit(given: Given, part: Part) -> str:
    """Why the models of a part cannot see the images, or nothing."""
    for run in part.compared if part.data is not None else ():
        try:
            takes = given.model(run).shape
        except UnweaveError:  # of which more is said where models are encoded
            continue
        assert part.data is not None
        return misfit(takes, part.data.shape, part.data.name)
    return ""


def _encode(
    given: Given,
    part: Part,
    alive: Sequence[str],
    count: int,
    seed: int,
    device: torch.device,
    trouble: list[tuple[str, str, str]],
    advance: Any,
) -> None:
    """Codes of the same images by every model; of those that are lost they are not numbers."""
    assert part.data is not None
    chosen = drawn_rows(part.data, count, seed)
    images = part.data.to("cpu").inputs(chosen, seed)
    size = code_size(given.configs[part.compared[0]])
    shape = (len(part.compared), len(chosen), size)
    means, logvars = np.full(shape, np.nan), np.zeros(shape)
    standard_noise = np.ones(len(part.compared), bool)
    activity: list[Activity | None] = [None] * len(part.compared)
    for place, run in enumerate(part.compared):
        advance()
        if run not in alive:
            continue
        try:
            model = given.model(run).to(device)
            (means[place],), (logvars[place],) = posteriors(model, images)
        except UnweaveError as error:
            trouble.append((run, "not opened", str(error)))
            continue
        method = model.config.method
        standard_noise[place] = method.standard_noise
        activity[place] = shown_activity(
            means[place],
            logvars[place],
            deterministic=method.deterministic,
            standard_noise=method.standard_noise,
        )
    part.images_of = chosen
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


def _choose(given: Given, part: Part, states: dict[str, str]) -> None:
    """The model that was chosen before, or else the one of the best UDR, as `uw.fit` chooses."""
    alive = [run for run in part.runs if states[run] != DIVERGED]
    resembled = None
    if part.udr is not None and np.isfinite(part.udr.models).any():
        place = int(np.nanargmax(part.udr.models))
        resembled = part.compared[place]
        reason = f"other models resemble it most (UDR {part.udr.models[place]:.2f})."
    if given.best in alive:
        part.chosen, part.why = given.best, "It is the model in the folder “best”."
        if resembled == given.best:
            part.why = f"Chosen without labels: {reason} It is in the folder “best”."
    elif len(alive) == 1 and len(part.runs) == 1:
        part.chosen, part.why = alive[0], "It is the only model."
    elif len(alive) == 1:
        part.chosen, part.why = alive[0], "It is the only model that did not diverge."
    elif resembled is not None:
        part.chosen, part.why = resembled, f"Chosen without labels: {reason}"


def followed(part: Part, codes: np.ndarray) -> tuple[str, float]:
    """The known factor that tells most of a code's variance, and how much.

    Args:
        part: Models of data with known factors.
        codes: Of the images on which they were compared, `[n]`.
    """
    told = {name: explained(codes, classes) for name, classes in part.classes.items()}
    return max(told.items(), key=lambda item: item[1])


def explained(codes: np.ndarray, classes: np.ndarray) -> float:
    """How much of a code's variance a factor's classes tell, beyond chance.

        ε² = 1 - (n - 1) / (n - c) · Σ_i (z_i - mean of z in i's class)² / Σ_i (z_i - mean z)²

    Args:
        codes: `[n]`.
        classes: `[n]`, whole numbers; c of them are different. No order is needed.

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
    """The table with what was found."""
    table = given.table.copy()
    new = pd.DataFrame(np.nan, index=table["run"], columns=["udr", "active", "found", "front"])
    costs = table.set_index("run").reindex(columns=["reconstruction", "kl"]).astype(float)
    for part in parts:
        here = costs.loc[part.runs]
        new.loc[part.runs, "front"] = fronts(
            here["reconstruction"].to_numpy(), here["kl"].to_numpy()
        )
        if part.latents is not None:
            new.loc[part.compared, "active"] = [
                each.active.sum() if each is not None and usable else np.nan
                for each, usable in zip(part.activity, part.latents.usable, strict=True)
            ]
        if part.latents is not None and part.udr is not None and part.agreed is not None:
            new.loc[part.compared, "udr"] = part.udr.models
            found = part.agreed.ranking.set_index("model")["found"].sort_index().to_numpy(float)
            new.loc[part.compared, "found"] = np.where(part.latents.usable, found, np.nan)
    return table.assign(**{name: new[name].to_numpy() for name in new})
