"""Fitting of images: train a fleet over strengths and seeds, and choose a model without labels."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from unweave.data import load_with
from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnweaveError
from unweave.fleet.callbacks import Callback, Callbacks
from unweave.fleet.train import all_runs, check_minutes, train_runs
from unweave.io.arguments import renamed_arguments
from unweave.io.paths import check_folder, refuse_inner_links
from unweave.io.plain_data import is_number, read_json
from unweave.io.writing import temporary_folder, whole_file
from unweave.methods import BetaVAE, Method
from unweave.models.config import LIMITS, Config
from unweave.models.files import BEST, RUNS
from unweave.models.images import NUM_SAMPLED, sample_rows
from unweave.models.lineage import lineage, saved_runs
from unweave.models.model import Fleet, Model, join
from unweave.models.networks import check_disk, networks_by_name
from unweave.models.rotating import can_rotate, rotate
from unweave.models.rotation import RotationError
from unweave.nets.device import chosen_device, faster_precision
from unweave.nets.layers import Conv
from unweave.nets.network import Network
from unweave.progress import say
from unweave.select import consensus, udr
from unweave.select.consensus import Consensus
from unweave.select.latents import encoded
from unweave.text import canonical_name, counted, shown

__all__ = ["MANIFEST", "MINUTES", "MIN_IMAGES", "Fit", "FitError", "fit"]

MINUTES = 8.0
"""Default time budget for training, in minutes."""
MAX_STEPS = 100_000
"""Largest number of steps of a fit whose steps are not given."""
FEW_STEPS = 200
"""Number of steps below which a message recommends more time."""
RESERVE_SHARE, RESERVE = 0.25, 20.0
"""Part of the time limit that is reserved for choosing a model and drawing it, at most so many
seconds (20 s for 8 models of 64 × 64 images on two CPU cores)."""
TOO_SHORT = 1e-3
"""Seconds left when a time limit has passed; no step is that short."""
RECORD_SECONDS = 5.0
"""Time between updates of the time spent in the manifest."""
MIN_IMAGES = 64
"""Smallest number of images (one batch); models memorise fewer."""
STRENGTHS = {"cpu": (1.0, 4.0), "cuda": (1.0, 2.0, 4.0, 8.0, 16.0)}
SEEDS = {"cpu": 4, "cuda": 10}
"""Default strengths and seeds: 8 models on a CPU, 50 on a GPU."""
FIXED_PRECISION = {"cpu": "float32", "cuda": "bf16"}
"""Precision without a measurement: that of `Unweaver`, dense networks and version 0.1."""
RATE = 1e-3
"""Default learning rate: ten times that of the studies, which train 100 times as long."""
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
    minutes: float | None = None,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    fleet_size: int | None = None,
    min_images: int = MIN_IMAGES,
    callbacks: Iterable[Callback] | Callback | None = None,
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
        steps: Number of training steps (default: as many as fit into `minutes`, at most 100,000).
        minutes: Time limit in minutes, including the choice of a model (default 8, or none if
            `steps` is given). Training stops at the limit, and models are as good as they are by
            then. Time spent in earlier calls on the same folder counts.
        out: Output folder. Models are saved in its subfolder `runs` with their optimiser states:
            the same call resumes an interrupted fit, and more `steps` or `minutes` train the
            models further.
        device: Device (default: a GPU if available).
        progress: Whether to show progress.
        fleet_size: Number of models to train at once (default: as many as fit in memory).
        min_images: Smallest allowed number of images (default 64).
        callbacks: Callbacks and trackers, see `uw.trackers.Callback`.
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
    start = time.monotonic()
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
    if minutes is not None:
        check_minutes(minutes, FitError)
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
    plan = _planned(folder, runs, steps, minutes)
    if folder is not None and not plan.finished:
        longest = [replace(run, steps=plan.steps or MAX_STEPS) for run in runs]
        check_disk(longest, data.shape, folder / RUNS, keep_optimiser=True)
    unfinished = min(_trained_steps(runs, folder)) < (plan.steps or MAX_STEPS)
    if progress and (plan.finished or unfinished):
        _announce(plan, folder)
    options = {"device": target, "progress": progress, "fleet_size": fleet_size}
    with Callbacks(callbacks) as calls:
        training = _Training(plan, folder, start, callbacks=calls, **options)
        calls.result = fleet = training.run(runs, data)
    if progress and plan.minutes is not None and fleet.configs[0].steps < FEW_STEPS:
        say(
            f"Only {counted(fleet.configs[0].steps, 'step')} fit into {plan.minutes:g} min; "
            "models improve with more time"
        )
    return choose(fleet, data)


def _announce(plan: "Plan", folder: Path | None) -> None:
    """Print how long the models will be trained, and what has been done before."""
    models = counted(len(plan.models), "model")
    limits = [f"{plan.steps:,} steps"] if plan.steps else []
    limits += [f"{plan.minutes:g} min"] if plan.minutes is not None else []
    if plan.finished:
        say(f"The fit in {folder} is finished; more minutes or steps would train it further")
    elif plan.seconds:
        spent = f"{plan.seconds / 60:.1f} min"
        say(f"Resuming the fit of {models} in {folder} after {spent}, up to {' or '.join(limits)}")
    else:
        say(f"Training {models} for {' or '.join(limits)}")


def choose(fleet: Fleet, data: Dataset) -> Fit:
    """Rank trained models by their similarity to the others; see `fit`."""
    fleet = _rotated(fleet, data)
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


def _rotated(fleet: Fleet, data: Dataset) -> Fleet:
    """Rotate models whose axes are arbitrary to independent components, so that they can agree."""
    if not any(can_rotate(config.method) for config in fleet.configs):
        return fleet
    return join([_rotated_model(model, data) for model in fleet])


def _rotated_model(model: Model, data: Dataset) -> Model:
    if not can_rotate(model.config.method) or model.diverged_at[0] >= 0:
        return model
    try:
        return rotate(model, data)
    except RotationError:  # such as normally distributed codes, which stay as they are
        return model


def _precision(run: Config, data: Dataset, device: torch.device, folder: Path | None) -> str:
    """Return the precision recorded in the folder; for a new fit, the faster one.

    On a CPU, dense networks stay in float32: they gain less from bf16 and reach higher losses.
    """
    if folder is not None and os.path.lexists(folder / MANIFEST):
        with suppress(OSError, ValueError, AttributeError):  # reported by `Plan.read`
            return str(read_json(folder / MANIFEST).get("precision", FIXED_PRECISION[device.type]))
    layers = [
        layer
        for network in networks_by_name(run, data.shape).values()
        if isinstance(network, Network)
        for layer in network.layers
    ]
    convolutional = any(isinstance(layer, Conv) for layer in layers)
    return faster_precision(device) if convolutional else FIXED_PRECISION[device.type]


def _planned(
    folder: Path | None, runs: Sequence[Config], steps: int | None, minutes: float | None
) -> "Plan":
    """Return the plan of a fit, which may have been started in the folder before."""
    names, precision = [lineage(run) for run in runs], runs[0].precision
    limited = steps is not None or minutes is not None
    if folder is None or not os.path.lexists(folder / MANIFEST):
        return Plan(names, precision, steps, minutes if limited else MINUTES)
    recorded = Plan.read(folder / MANIFEST, runs)
    if recorded.models != names:
        raise FitError(
            f"{folder} contains another fit of {counted(len(recorded.models), 'model')}; use the "
            "same images and options to continue it, or choose another folder",
            subject=folder,
            value=(len(recorded.models), recorded.steps),
        )
    trained = max(_trained_steps(runs, folder))
    if not trained and recorded.finished:  # its models have been removed
        recorded = replace(recorded, seconds=0.0, finished=False)
    if not limited:
        return recorded
    if steps is not None and steps < trained:
        raise FitError(
            f"the fit in {folder} has been trained for {trained:,} steps; pass at least as many, "
            "or choose another folder",
            subject=folder,
            value=(len(names), trained),
        )
    # A fit that is finished stays finished unless it gets more time or steps than before.
    enough = minutes is not None and recorded.minutes is not None and minutes <= recorded.minutes
    finished = recorded.finished and steps is None and enough
    return Plan(names, precision, steps, minutes, recorded.seconds, finished)


@dataclass
class Plan:
    """What `fit.json` records: the models of a fit, their training, and the time spent so far.

    Args:
        models: Lineage of each model, see `unweave.models.lineage`.
        precision: Precision of matrix multiplications.
        steps: Number of training steps, if it is fixed.
        minutes: Time limit of the fit, if there is one.
        seconds: Time spent on training in all calls.
        finished: Whether training has ended.
    """

    models: list[str]
    precision: str
    steps: int | None
    minutes: float | None
    seconds: float = 0.0
    finished: bool = False

    @property
    def seconds_left(self) -> float | None:
        """Time left for training; None without a time limit."""
        if self.minutes is None:
            return None
        limit = 60 * self.minutes
        return max(TOO_SHORT, limit - min(RESERVE_SHARE * limit, RESERVE) - self.seconds)

    @classmethod
    def read(cls, file: Path, runs: Sequence[Config]) -> "Plan":
        """Read a manifest, which is untrusted; earlier versions recorded steps and runs only."""
        try:
            content = read_json(file)
            if "models" in content:
                return cls._checked(content, runs[0].precision)
            steps = _checked_steps(content["steps"])
            names, models = content["runs"], [lineage(run) for run in runs]
            if not isinstance(names, list):
                raise TypeError(f"runs cannot be {shown(names)}")  # noqa: TRY301 - reported below
            same = [replace(run, steps=steps).hash for run in runs] == names
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FitError(
                f"{file} is damaged ({error}); choose another folder", subject=file
            ) from error
        return cls(models if same else names, runs[0].precision, steps, None)

    @classmethod
    def _checked(cls, content: dict[str, Any], precision: str) -> "Plan":
        """Return the plan in a manifest; raise an error if a value is impossible."""
        models, seconds, minutes = content["models"], content["seconds"], content["minutes"]
        steps = None if content["steps"] is None else _checked_steps(content["steps"])
        if not isinstance(models, list):
            raise TypeError(f"models cannot be {shown(models)}")
        for name, value in (("seconds", seconds), ("minutes", minutes or 0)):
            if not is_number(value) or value < 0:
                raise ValueError(f"{name} cannot be {shown(value)}")
        if type(content["finished"]) is not bool:
            raise TypeError(f"finished cannot be {shown(content['finished'])}")
        return cls(models, precision, steps, minutes, seconds, content["finished"])

    def write(self, folder: Path) -> None:
        """Record the plan, so that the same call can resume it."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(folder / MANIFEST) as temporary:
                temporary.write_text(json.dumps(asdict(self), indent=1) + "\n")
        except OSError as error:
            raise FitError(
                f"cannot write to {folder}: {error.strerror or error}; choose another folder",
                subject=folder,
                value=error.errno,
            ) from error


def _checked_steps(steps: object) -> int:
    if type(steps) is not int or not 0 < steps <= LIMITS["steps"][1]:
        raise ValueError(f"steps cannot be {shown(steps)}")
    return steps


class _Training:
    """Trains the models of a fit for the steps and the time that are left.

    Args:
        plan: Plan of the fit, in which the time spent is recorded.
        folder: Folder of the fit, or None.
        start: Time of `time.monotonic()` at which the fit started.
        options: Options of `train_runs`.
    """

    def __init__(self, plan: Plan, folder: Path | None, start: float, **options: Any) -> None:
        self.plan, self.folder, self.options = plan, folder, options
        self.before, self.start, self.written = plan.seconds, start, start

    def run(self, runs: Sequence[Config], data: Dataset) -> Fleet:
        """Train the models, and remove their earlier states that this makes obsolete."""
        trained = _trained_steps(runs, self.folder)
        most = max(trained)
        if self.plan.finished:  # only models that have been removed are trained
            return self._train(runs, [steps or most for steps in trained], data)
        limit = self.plan.steps or max(MAX_STEPS, most)
        if self.plan.minutes is not None and min(trained) < most:
            # Fleets that an interruption left behind catch up before all share the time.
            self._train(runs, [most] * len(runs), data)
            trained = _trained_steps(runs, self.folder)
        time_is_up = self.plan.seconds_left == TOO_SHORT
        wanted = [(time_is_up and steps) or limit for steps in trained]
        fleet = self._train(runs, wanted, data)
        if self.folder is not None:
            for path in _obsolete(fleet.configs, self.folder / RUNS):
                with temporary_folder(path) as trash:
                    path.rename(trash / path.name)
            self.plan.finished = True
            self.plan.write(self.folder)
        return fleet

    def _train(self, runs: Sequence[Config], steps: Sequence[int], data: Dataset) -> Fleet:
        """Train each model for a number of steps, or until the time is up."""
        self._spend()
        left = None if self.plan.finished else self.plan.seconds_left
        often = 60.0 if left is None else min(60.0, max(10.0, left / 10))
        try:
            return train_runs(
                [replace(run, steps=most) for run, most in zip(runs, steps, strict=True)],
                data,
                out=None if self.folder is None else self.folder / RUNS,
                on_progress=self._on_progress,
                checkpoint_every=often,
                minutes=None if left is None else left / 60,
                keep_optimiser=self.folder is not None,
                **self.options,
            )
        finally:
            self._spend()

    def _on_progress(self, _: str) -> None:
        """Record the time spent every few seconds, in case the process is killed."""
        if self.folder is not None and time.monotonic() - self.written > RECORD_SECONDS:
            self.written = time.monotonic()
            self._spend()

    def _spend(self) -> None:
        """Record the time spent so far."""
        self.plan.seconds = self.before + time.monotonic() - self.start
        if self.folder is not None:
            self.plan.write(self.folder)


def _trained_steps(runs: Iterable[Config], folder: Path | None) -> list[int]:
    """Return the largest number of steps for which each run of a fit has been saved, or 0."""
    saved = {} if folder is None else saved_runs(folder / RUNS)
    return [max(saved.get(lineage(run), {}), default=0) for run in runs]


def _obsolete(configs: Iterable[Config], folder: Path) -> list[Path]:
    """Return the saved runs in a folder that the given runs continue."""
    saved = saved_runs(folder)
    return [
        path
        for config in configs
        for steps, path in saved.get(lineage(config), {}).items()
        if steps < config.steps
    ]
