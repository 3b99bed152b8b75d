"""Fitting of images: train a fleet over strengths and seeds, and choose a model without labels."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch

from unweave.data import load_with
from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnweaveError
from unweave.fleet.capacity import fleet_capacity, fleet_sizes
from unweave.fleet.engine import Engine
from unweave.fleet.train import all_runs, train_runs
from unweave.io.arguments import renamed_arguments
from unweave.io.paths import check_folder, refuse_inner_links
from unweave.io.plain_data import read_json
from unweave.io.writing import whole_file
from unweave.methods import BetaVAE, Method
from unweave.models.config import LIMITS, Config, group_into_fleets
from unweave.models.files import BEST, RUNS
from unweave.models.images import NUM_SAMPLED, sample_rows
from unweave.models.model import Fleet, Model
from unweave.models.networks import check_disk, networks_by_name
from unweave.nets.device import chosen_device, faster_precision
from unweave.nets.layers import Conv
from unweave.progress import say
from unweave.select import consensus, udr
from unweave.select.consensus import Consensus
from unweave.select.latents import encoded
from unweave.text import canonical_name, counted, shown

__all__ = ["MANIFEST", "MINUTES", "MIN_IMAGES", "Fit", "FitError", "fit"]

MINUTES = 8.0
"""Default time budget for training, in minutes."""
MAX_MINUTES = 1_000_000
MIN_STEPS, MAX_STEPS = 200, 100_000
MIN_IMAGES = 64
"""Smallest number of images (one batch); models memorise fewer."""
STRENGTHS = {"cpu": (1.0, 4.0), "cuda": (1.0, 2.0, 4.0, 8.0, 16.0)}
SEEDS = {"cpu": 4, "cuda": 10}
"""Default strengths and seeds: 8 models on a CPU, 50 on a GPU."""
FIXED_PRECISION = {"cpu": "float32", "cuda": "bf16"}
"""Precision without a measurement: that of `Unweaver`, dense networks and version 0.1."""
RATE = 1e-3
"""Default learning rate: ten times that of the studies, which train 100 times as long."""
WARM_UP, TRIAL, TRIALS = {"cpu": 2, "cuda": 100}, {"cpu": 1, "cuda": 50}, 5
"""Warm-up steps before the speed is measured, steps per trial, and number of trials."""
MANIFEST = "fit.json"


class FitError(UnweaveError):
    """A fit that cannot be run with the given arguments."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of a fit.

    Args:
        fleet: All models.
        ranking: Ranking of the models by `uw.select.udr`, best first: `run`, `score`, `reason`, ….
        agreed: Factors shared by the models, see `uw.select.consensus`.
    """

    fleet: Fleet
    ranking: pd.DataFrame
    agreed: Consensus

    @property
    def best(self) -> Model:
        """The model most similar to the others."""
        return self.fleet[int(self.ranking["model"].iloc[0])]

    def __str__(self) -> str:
        """Summarise the result in two sentences."""
        return f"{self.agreed}. Chosen: {self.best!r}: {self.ranking['reason'].iloc[0]}."


@renamed_arguments(fewest="min_images")
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
    min_images: int = MIN_IMAGES,
    **settings: Any,
) -> Fit:
    """Train a fleet over regularisation strengths and seeds, and choose a model without labels.

    Disentangled models resemble each other, while entangled ones all differ. The chosen model is
    therefore the one most similar to the others (`uw.select.udr` with the Lasso).

    Args:
        data: Data set, or an argument of `uw.data.load`: a name, a folder of images, an array.
        method: Method with one or several strengths, `BetaVAE(beta=[1, 4])`, or its name (default:
            a β-VAE with β of 1 and 4 on a CPU, five values from 1 to 16 on a GPU).
        seeds: Number of random seeds per strength, or a list of seeds (default 4, on a GPU 10).
        steps: Number of training steps (default: as many as fit into `minutes`, measured first).
        minutes: Approximate time budget for training, in minutes (default 8).
        out: Output folder. Models are saved in its subfolder `runs`, and the same call resumes an
            interrupted fit.
        device: Device (default: a GPU if available).
        progress: Whether to show progress.
        fleet_size: Number of models to train at once (default: as many as fit in memory).
        min_images: Smallest allowed number of images (default 64).
        settings: Settings of `Config`: batch, latents, architecture, likelihood, optimiser,
            precision (default: bf16 for convolutions where it is faster); `learning_rate`
            (default 1e-3), short for `optimiser=uw.Adam(lr=…)`; and options of `uw.data.load`
            (size, channels, factors, path, picture) if `data` is to be loaded.

    Returns:
        All models, their ranking, the factors they share, and the chosen model `best`.

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
    if len(data) < min_images:
        raise DataError(
            f"{data.name} must have at least {min_images} images, got {len(data)}; several "
            "thousand are recommended",
            subject="data",
            value=len(data),
        )
    if steps is not None and steps < 1:
        raise FitError(
            f"steps must be at least 1, got {steps}",
            subject="steps",
            value=steps,
        )
    if fleet_size is not None and fleet_size < 1:
        raise FitError(
            f"fleet_size must be at least 1, got {fleet_size}",
            subject="fleet_size",
            value=fleet_size,
        )
    if not 0 < minutes <= MAX_MINUTES:
        raise FitError(
            f"minutes must be greater than 0 and at most {MAX_MINUTES:,}, got {minutes:g}",
            subject="minutes",
            value=minutes,
        )
    target = chosen_device(device)
    rate = {} if "optimiser" in settings else {"learning_rate": RATE}
    folder = None if out is None else Path(out)
    settings = {**rate, **settings}
    if method is None or (isinstance(method, str) and canonical_name(method) == BetaVAE.name):
        method = BetaVAE(beta=list(STRENGTHS[target.type]))
    seeds = SEEDS[target.type] if seeds is None else seeds
    runs = all_runs(method, data, seeds, steps or 1, **settings)
    if "precision" not in settings:
        precision = _precision(runs[0], data, target, folder)
        runs = [replace(run, precision=precision) for run in runs]
    if folder is not None:
        check_folder(folder)
        refuse_inner_links(folder, (RUNS, BEST))
    planned = None if folder is None else _recorded_steps(folder, runs, steps)
    if planned is not None and steps is None and progress:
        say(f"Resuming the fit in {folder}, with {planned:,} steps as before")
    if steps is None and planned is None:
        planned = _steps_within(minutes, runs, data, target, fleet_size, progress)
    runs = [replace(run, steps=planned or run.steps) for run in runs]
    if folder is not None:
        check_disk(runs, data.shape, folder / RUNS)
        _write_manifest(folder, runs)
    fleet = train_runs(
        runs,
        data,
        out=None if folder is None else folder / RUNS,
        device=target,
        progress=progress,
        fleet_size=fleet_size,
    )
    return choose(fleet, data)


def choose(fleet: Fleet, data: Dataset) -> Fit:
    """Rank trained models by their similarity to the others; see `fit`."""
    latents = encoded(fleet, data, sample_rows(data, NUM_SAMPLED, seed=0))
    if not latents.usable.any():
        raise FitError(
            "all models diverged; use a smaller learning rate or smaller strengths",
            subject="fleet",
            value=len(fleet),
        )
    ranking = udr(latents)
    if ranking["score"].isna().all():  # a single model has no others to compare with
        usable = latents.usable[ranking["model"]]
        ranking = pd.concat([ranking[usable], ranking[~usable]], ignore_index=True)
    return Fit(fleet, ranking, consensus(latents))


def _precision(run: Config, data: Dataset, device: torch.device, folder: Path | None) -> str:
    """Return the precision recorded in the folder; for a new fit, the faster one.

    On a CPU, dense networks stay in float32: they gain less from bf16 and reach higher losses.
    """
    if folder is not None and os.path.lexists(folder / MANIFEST):
        with suppress(OSError, ValueError, AttributeError):  # reported by `_recorded_steps`
            return str(read_json(folder / MANIFEST).get("precision", FIXED_PRECISION[device.type]))
    networks = networks_by_name(run, data.shape).values()
    convolutional = any(isinstance(layer, Conv) for each in networks for layer in each.layers)
    return faster_precision(device) if convolutional else FIXED_PRECISION[device.type]


def _recorded_steps(folder: Path, runs: Sequence[Config], steps: int | None) -> int | None:
    """Return the number of steps of this fit recorded in the folder; None if it is new."""
    manifest = folder / MANIFEST
    if not os.path.lexists(manifest):
        return None
    try:
        recorded, names = _read_manifest(manifest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FitError(
            f"{manifest} is damaged ({error}); choose another folder", subject=manifest
        ) from error
    same = [replace(run, steps=recorded).hash for run in runs] == names
    if not same or steps not in (None, recorded):
        raise FitError(
            f"{folder} contains another fit of {len(names)} models and {recorded:,} steps; use "
            "the same images and options to resume it, or choose another folder",
            subject=folder,
            value=(len(names), recorded),
        )
    return recorded


def _read_manifest(file: Path) -> tuple[int, list[str]]:
    """Return the steps and runs of a fit; the file is untrusted."""
    content = read_json(file)
    steps, names = content["steps"], content["runs"]
    if type(steps) is not int or not 0 < steps <= LIMITS["steps"][1]:
        raise ValueError(f"steps cannot be {shown(steps)}")
    if not isinstance(names, list):
        raise TypeError(f"runs cannot be {shown(names)}")
    return steps, names


def _write_manifest(folder: Path, runs: Sequence[Config]) -> None:
    """Record the runs of the fit, so that the same call can resume it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / MANIFEST) as temporary:
            manifest = {
                "steps": runs[0].steps,
                "precision": runs[0].precision,
                "runs": [run.hash for run in runs],
            }
            temporary.write_text(json.dumps(manifest, indent=1) + "\n")
    except OSError as error:
        raise FitError(
            f"cannot write to {folder}: {error.strerror or error}; choose another folder",
            subject=folder,
            value=error.errno,
        ) from error


def _steps_within(
    minutes: float,
    runs: Sequence[Config],
    data: Dataset,
    device: torch.device,
    fleet_size: int | None,
    progress: bool,
) -> int:
    """Return the number of steps that fit into the time budget, by timing a few steps."""
    seconds = sum(
        _seconds_of_fleet(fleet, data, device, fleet_size) for fleet in group_into_fleets(runs)
    )
    steps = int(60 * minutes / seconds)
    steps = max(MIN_STEPS, min(MAX_STEPS, steps // 100 * 100))
    if progress:
        say(
            f"Training {counted(len(runs), 'model')} for {steps:,} steps (about "
            f"{max(1, round(steps * seconds / 60))} min on this machine)"
        )
    return steps


def _seconds_of_fleet(
    runs: Sequence[Config], data: Dataset, device: torch.device, fleet_size: int | None
) -> float:
    """Return the time of one step of all runs, trained in one fleet or several in turn."""
    size = fleet_size or fleet_capacity(runs, data, device)
    largest = max(fleet_sizes(len(runs), size))
    return _seconds_per_step(runs[:largest], data, device) * len(runs) / largest


def _seconds_per_step(runs: Sequence[Config], data: Dataset, device: torch.device) -> float:
    """Return the time of one step of a fleet: the median of a few trials."""
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
