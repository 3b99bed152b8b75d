"""From images to one encoder: a fleet over strengths and seeds, and the model others resemble."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch

from unweave.data import load_with
from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnweaveError
from unweave.fleet.capacity import fits, shares
from unweave.fleet.engine import Engine
from unweave.fleet.train import all_runs, train_runs
from unweave.io.paths import check_folder, refuse_inner_links
from unweave.io.plain_data import read_json
from unweave.io.writing import whole_file
from unweave.methods import BetaVAE, Method
from unweave.models.config import LIMITS, Config, group_into_fleets
from unweave.models.drawn_images import NUM_DRAWN, drawn_rows
from unweave.models.files import BEST, RUNS
from unweave.models.model import Fleet, Model
from unweave.models.size import check_disk
from unweave.nets.device import chosen_device
from unweave.progress import say
from unweave.select import consensus, udr
from unweave.select.consensus import Consensus
from unweave.select.latents import encoded
from unweave.text import shown, spelled

__all__ = ["FEWEST_IMAGES", "MINUTES", "NOTE", "Fit", "FitError", "fit"]

MINUTES = 8.0
"""How long training may take where no number of steps is given."""
MOST_MINUTES = 1_000_000
FEWEST_STEPS, MOST_STEPS = 200, 100_000
FEWEST_IMAGES = 64
"""A batch; from fewer, models learn images by heart."""
STRENGTHS = {"cpu": (1.0, 4.0), "cuda": (1.0, 2.0, 4.0, 8.0, 16.0)}
SEEDS = {"cpu": 4, "cuda": 10}
"""What a device trains by default: eight models, or fifty."""
PRECISION = {"cpu": "float32", "cuda": "bf16"}
RATE = 1e-3
"""Ten times the studies', which train a hundred times as long."""
WARM_UP, TRIAL, TRIALS = {"cpu": 2, "cuda": 100}, {"cpu": 1, "cuda": 50}, 5
"""Steps before the speed is measured, steps in a trial, and trials."""
NOTE = "fit.json"


class FitError(UnweaveError):
    """A fit that cannot be made as it was asked for."""


@dataclass(frozen=True, eq=False)
class Fit:
    """What comes of a fit.

    Args:
        fleet: All models.
        ranking: They, best first, as `uw.select.udr` ranks them: `run`, `score`, `reason`, ….
        agreed: The factors that they share, see `uw.select.consensus`.
    """

    fleet: Fleet
    ranking: pd.DataFrame
    agreed: Consensus

    @property
    def best(self) -> Model:
        """The model that the others resemble most."""
        return self.fleet[int(self.ranking["model"].iloc[0])]

    def __str__(self) -> str:
        """What was found, in two sentences."""
        return f"{self.agreed}. Chosen: {self.best!r}: {self.ranking['reason'].iloc[0]}."


def fit(
    data: Any,
    method: Method | str | None = None,
    *,
    seeds: int | Iterable[int] | None = None,
    steps: int | None = None,
    minutes: float = MINUTES,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    fleet_size: int | None = None,
    fewest: int = FEWEST_IMAGES,
    **settings: Any,
) -> Fit:
    """Train a fleet over strengths and seeds, and choose a model without labels.

    Disentangled models are alike, entangled ones each in their own way, so the model chosen is the
    one that the others resemble most: `uw.select.udr`, by Lasso.

    Args:
        data: A data set, or what `uw.data.load` takes: a name, a folder of images, an array.
        method: With several strengths, `BetaVAE(beta=[1, 4])`, or a name. The default,
            `"beta_vae"`, has these two strengths; on a GPU there are five, from 1 to 16.
        seeds: How many for each strength, or which; by default 4, on a GPU 10.
        steps: Updates of the parameters; by default as many as fit into `minutes`, which is
            measured first.
        minutes: That training may take, about.
        out: A folder: models are kept in `runs` there, and the same call goes on where it was
            stopped.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        fleet_size: How many models to train at once; by default as many as fit.
        fewest: Fewer images than these are an error.
        settings: Of `Config`: batch, latents, architecture, likelihood, optimiser, precision (by
            default bf16 on a GPU); `learning_rate` (by default 1e-3), short for
            `optimiser=uw.Adam(lr=…)`; and options of `uw.data.load` (size, channels, factors,
            path, picture) where it loads the data.

    Returns:
        The models, their ranking, what they agree on, and `best`.

    References:
        Duan et al., Unsupervised Model Selection for Variational Disentangled Representation
        Learning, arXiv:1905.12614.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> found = fit(data, seeds=2, steps=2, batch=8, progress=False)
        >>> len(found.fleet), len(found.ranking), found.best.config.steps
        (4, 4, 2)
    """
    data, settings = load_with(data, settings)
    if len(data) < fewest:
        raise DataError(
            f"{data.name} has {len(data)} images, which is too few to learn from; give at least "
            f"{fewest}, better some thousands"
        )
    if steps is not None and steps < 1:
        raise FitError(f"models are trained for at least one step, but got {steps=}")
    if fleet_size is not None and fleet_size < 1:
        raise FitError(f"a fleet has at least one model, but got {fleet_size=}")
    if not 0 < minutes <= MOST_MINUTES:
        raise FitError(f"minutes must be above 0 and at most {MOST_MINUTES:,}, got {minutes:g}")
    place = chosen_device(device)
    rate = {} if "optimiser" in settings else {"learning_rate": RATE}
    settings = {**rate, "precision": PRECISION[place.type], **settings}
    if method is None or (isinstance(method, str) and spelled(method) == BetaVAE.name):
        method = BetaVAE(beta=list(STRENGTHS[place.type]))
    seeds = SEEDS[place.type] if seeds is None else seeds
    runs = all_runs(method, data, seeds, steps or 1, **settings)
    folder = None if out is None else Path(out)
    if folder is not None:
        check_folder(folder)
        refuse_inner_links(folder, (RUNS, BEST))
    kept = None if folder is None else _kept_steps(folder, runs, steps)
    if kept is not None and steps is None and progress:
        say(f"{folder} holds this fit already, begun with {kept:,} steps: going on with it")
    if steps is None and kept is None:
        kept = _steps_within(minutes, runs, data, place, fleet_size, progress)
    runs = [replace(run, steps=kept or run.steps) for run in runs]
    if folder is not None:
        check_disk(runs, data.shape, folder / RUNS)
        _keep(folder, runs)
    fleet = train_runs(
        runs,
        data,
        out=None if folder is None else folder / RUNS,
        device=place,
        progress=progress,
        fleet_size=fleet_size,
    )
    return choose(fleet, data)


def choose(fleet: Fleet, data: Dataset) -> Fit:
    """Rank trained models by how far others resemble them; see `fit`."""
    latents = encoded(fleet, data, drawn_rows(data, NUM_DRAWN, seed=0))
    if not latents.usable.any():
        raise FitError("all models diverged; try a smaller learning rate or smaller strengths")
    ranking = udr(latents)
    if ranking["score"].isna().all():  # a single model is compared with nobody
        usable = latents.usable[ranking["model"]]
        ranking = pd.concat([ranking[usable], ranking[~usable]], ignore_index=True)
    return Fit(fleet, ranking, consensus(latents))


def _kept_steps(folder: Path, runs: Sequence[Config], steps: int | None) -> int | None:
    """The number of steps with which this very fit was begun in the folder, if it was."""
    note = folder / NOTE
    if not os.path.lexists(note):
        return None
    try:
        begun, names = _read_note(note)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FitError(f"{note} is damaged ({error}); choose another folder") from error
    same = [replace(run, steps=begun).hash for run in runs] == names
    if not same or steps not in (None, begun):
        raise FitError(
            f"{folder} holds another fit, of {len(names)} models and {begun:,} steps; ask for the "
            "same of the same images to go on with it, or choose another folder"
        )
    return begun


def _read_note(note: Path) -> tuple[int, list[str]]:
    """The steps and the runs of a fit; the note may be a stranger's."""
    kept = read_json(note)
    begun, names = kept["steps"], kept["runs"]
    if type(begun) is not int or not 0 < begun <= LIMITS["steps"][1]:
        raise ValueError(f"steps cannot be {shown(begun)}")
    if not isinstance(names, list):
        raise TypeError(f"runs cannot be {shown(names)}")
    return begun, names


def _keep(folder: Path, runs: Sequence[Config]) -> None:
    """Note what is being made, so that the same call goes on with it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / NOTE) as temporary:
            note = {"steps": runs[0].steps, "runs": [run.hash for run in runs]}
            temporary.write_text(json.dumps(note, indent=1) + "\n")
    except OSError as error:
        raise FitError(
            f"cannot write into {folder}: {error.strerror or error}; choose another folder"
        ) from error


def _steps_within(
    minutes: float,
    runs: Sequence[Config],
    data: Dataset,
    device: torch.device,
    fleet_size: int | None,
    progress: bool,
) -> int:
    """How many steps of all these runs take so many minutes, by a few steps of them."""
    seconds = sum(
        _seconds_of_fleet(fleet, data, device, fleet_size) for fleet in group_into_fleets(runs)
    )
    steps = int(60 * minutes / seconds)
    steps = max(FEWEST_STEPS, min(MOST_STEPS, steps // 100 * 100))
    if progress:
        say(
            f"{len(runs)} models take {seconds * 1e3:.0f} ms a step here: {steps:,} steps, about "
            f"{max(1, round(steps * seconds / 60))} min"
        )
    return steps


def _seconds_of_fleet(
    runs: Sequence[Config], data: Dataset, device: torch.device, fleet_size: int | None
) -> float:
    """For a step of runs that can share a fleet, or several after each other."""
    size = fleet_size or fits(runs, data, device)
    largest = max(shares(len(runs), size))
    return _seconds_per_step(runs[:largest], data, device) * len(runs) / largest


def _seconds_per_step(runs: Sequence[Config], data: Dataset, device: torch.device) -> float:
    """Of one fleet: the median of a few trials, one of which may meet with other work."""
    engine = Engine(runs, data, device)
    engine.advance(WARM_UP[device.type])
    engine.fetch()
    times = []
    for _ in range(TRIALS):
        start = time.perf_counter()
        engine.advance(TRIAL[device.type])
        engine.fetch()
        times.append((time.perf_counter() - start) / TRIAL[device.type])
    return median(times)
