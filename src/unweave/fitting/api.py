"""`uw.fit`: train many models in rounds, choose one without labels, and judge it."""

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unweave.data import load_with
from unweave.data.catalog import is_named
from unweave.data.dataset import Dataset
from unweave.errors import DataError
from unweave.fitting.baselines import baselines
from unweave.fitting.plan import MANIFEST, MAX_ROUNDS, FitError, Plan, planned
from unweave.fitting.portfolio import (
    FIXED_PRECISION,
    ROUNDS,
    fewest_finalists,
    reduced_message,
    runs_of,
    smaller_size,
)
from unweave.fitting.result import Fit, choose, most_promising
from unweave.fitting.rounds import MAX_STEPS, Rounds, trained_steps
from unweave.fleet.callbacks import Callback, Callbacks
from unweave.fleet.train import check_minutes, prepare_folder
from unweave.io.arguments import renamed_arguments
from unweave.io.paths import check_folder, refuse_inner_links
from unweave.io.plain_data import read_json
from unweave.methods import Method
from unweave.models.config import Config
from unweave.models.files import BEST, RUNS
from unweave.models.networks import check_disk, networks_by_name
from unweave.nets.device import chosen_device, faster_precision
from unweave.nets.layers import Conv
from unweave.nets.network import Network
from unweave.progress import say, silenced
from unweave.text import canonical_name, counted

__all__ = ["MIN_IMAGES", "fit"]

FEW_STEPS = 200
"""Number of steps below which a message recommends more time."""
MIN_IMAGES = 64
"""Smallest number of images (one batch); models memorise fewer."""


@renamed_arguments(fewest="min_images")
def fit(
    data: Any,
    method: Method | str | Sequence[Method | str] | None = None,
    *,
    seeds: int | Iterable[int] | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    fleet_size: int | None = None,
    min_images: int = MIN_IMAGES,
    rounds: int | None = None,
    callbacks: Iterable[Callback] | Callback | None = None,
    **settings: Any,
) -> Fit:
    """Train many models in rounds, choose one without labels, and say how far to trust it.

    Disentangled models resemble each other, while entangled ones all differ. The chosen model is
    therefore one that resembles others (UDR), reconstructs the images well, and needs few latents
    for it. After each round but the last, the worse half of the models stops, so that most of the
    time goes to the promising ones.

    Args:
        data: Data set, or an argument of `uw.data.load`: a name, a folder of images, an array.
        method: Method with one or several strengths, `BetaVAE(beta=[1, 4])`, its name, or a list
            of methods (default: FactorVAEs; on a GPU also β-TCVAEs, all with two architectures).
        seeds: Number of random seeds per strength, or a list of seeds (default 3, on a GPU 4; if
            you choose the method 4, on a GPU 10).
        steps: Number of training steps of the models that are trained to the end (default: as many
            as fit into `minutes`, at most 100,000).
        minutes: Time limit in minutes, including the choice of a model (default 8, or none if
            `steps` is given). Training stops at the limit, whether it has converged or not. Time
            spent in earlier calls on the same folder counts.
        out: Output folder. Models are saved in its subfolder `runs` with their optimiser states:
            the same call resumes an interrupted fit, and more `steps` or `minutes` train the
            models further.
        device: Device (default: a GPU if available).
        progress: Whether to show progress.
        fleet_size: Number of models to train at once (default: as many as fit in memory).
        min_images: Smallest allowed number of images (default 64).
        rounds: Number of rounds; after each but the last, half of the models stop (default 3, or 1
            if you choose the method).
        callbacks: Callbacks and trackers, see `uw.trackers.Callback`.
        settings: Settings of `Config`: batch (default 64, on a CPU 32), latents, architecture
            (default `broadcast`, on a GPU also `conv`), likelihood (default: Bernoulli for black
            and white images, else a Gaussian with learned variance), optimiser, precision
            (default: bf16 for convolutions where it is faster); `learning_rate` (default 1e-3),
            short for `optimiser=uw.Adam(lr=…)`; and options of `uw.data.load` (size, channels,
            bits, non_square, factors, path, picture) if `data` is to be loaded. On a CPU, the
            default size of custom images is 32 pixels unless this loses details.

    Returns:
        All models, their ranking, the factors they share, and the chosen model `best`.

    References:
        Duan et al., Unsupervised Model Selection for Variational Disentangled Representation
        Learning, arXiv:1905.12614.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(8))
        >>> found = fit(data, seeds=2, steps=2, batch=8, progress=False)
        >>> len(found.fleet), len(found.ranking), found.best.config.steps
        (4, 4, 2)
    """
    start = time.monotonic()
    target = chosen_device(device)
    data, settings = _loaded(data, settings, target, progress)
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
    folder = None if out is None else Path(out)
    if rounds is None:
        rounds = ROUNDS if method is None else 1
    if not 1 <= rounds <= MAX_ROUNDS:
        raise FitError.must("rounds", f"be 1 to {MAX_ROUNDS}", rounds)
    runs = runs_of(method, data, seeds, steps or 1, target, settings)
    if "precision" not in settings:
        precision = _precision(runs[0], data, target, folder)
        runs = [replace(run, precision=precision) for run in runs]
    if folder is not None:
        check_folder(folder)
        refuse_inner_links(folder, (RUNS, BEST))
    # Models that continue in the next round are read from a folder.
    temporary = folder is None and rounds > 1
    with tempfile.TemporaryDirectory() if temporary else nullcontext(folder) as place:
        saved = None if place is None else Path(place) / RUNS
        trained = trained_steps(runs, saved)
        plan = planned(folder, runs, trained, steps=steps, minutes=minutes, rounds=rounds)
        if saved is not None and not plan.finished:
            longest = [replace(run, steps=plan.steps or MAX_STEPS) for run in runs]
            check_disk(longest, data.shape, saved, keep_optimiser=True)
            prepare_folder(saved)
        unfinished = min(trained) < (plan.steps or MAX_STEPS)
        if progress and (plan.finished or unfinished):
            _announce(plan, folder)
        against = baselines(data, runs[0].code_size)
        with Callbacks(callbacks) as calls:
            training = Rounds(
                plan,
                saved,
                folder,
                start,
                best=lambda fleet, count: most_promising(fleet, data, against, count, target),
                fewest=fewest_finalists(target),
                callbacks=calls,
                device=target,
                progress=progress,
                fleet_size=fleet_size,
            )
            calls.result = fleet = training.run(runs, data)
    finalists = [name in plan.current for name in plan.models]
    found = choose(fleet, data, against, finalists, target)
    if progress and plan.minutes is not None and found.best.config.steps < FEW_STEPS:
        say(
            f"Only {counted(found.best.config.steps, 'step')} fit into {plan.minutes:g} min; "
            "models improve with more time"
        )
    if folder is not None:
        plan.write(folder, **found.to_dict())
    return found


def _loaded(
    source: Any, settings: dict[str, Any], device: torch.device, progress: bool
) -> tuple[Dataset, dict[str, Any]]:
    """Load the data if necessary, with images of a folder in a size that suits the device.

    Returns:
        The data, and the settings that are not about loading.
    """
    data, rest = load_with(source, settings)
    folder = isinstance(source, str | Path) and not is_named(canonical_name(str(source)))
    size = smaller_size(data, device) if folder and "size" not in settings else None
    if size is None:
        return data, rest
    if progress:
        say(reduced_message(data, size, "size="))
    with silenced():
        return load_with(source, {**settings, "size": size})


def _announce(plan: Plan, folder: Path | None) -> None:
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
