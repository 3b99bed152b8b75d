"""Running a study in this process or on Ray."""

from collections.abc import Iterable
from pathlib import Path

import torch

from unweave.errors import UnweaveError
from unweave.fleet.callbacks import Callback, Callbacks
from unweave.fleet.checkpoint import damaged_checkpoints
from unweave.progress import say
from unweave.study.local import LocalRunner
from unweave.study.on_ray.cluster import check_address
from unweave.study.on_ray.driver import run_on_ray
from unweave.study.remote import open_store
from unweave.study.results import Results
from unweave.study.store import Store
from unweave.study.study import Study, read
from unweave.study.training import RunOptions

__all__ = ["prepare", "run"]


def run(
    study: Study | str | Path,
    folder: str | Path | None = None,
    *,
    on: str = "here",
    device: str | torch.device | None = None,
    progress: bool = True,
    fleet_size: int | None = None,
    scorers: int | None = None,
    checkpoint_every: float = 60.0,
    callbacks: Iterable[Callback] | Callback | None = None,
) -> Results:
    """Train and score all runs of a study that are not done yet.

    Safe to interrupt: the same call resumes. Several processes can share one folder. A run that
    cannot be trained or scored is marked as failed with the reason; the others continue, and the
    next call retries it.

    Args:
        study: A study, or the path of a study file.
        folder: Output folder, or a URL that fsspec supports (default: the name of the study).
        on: Where to run: `"here"` for this process, `"ray"` for a new Ray cluster on this
            machine, or `"auto"`, `"host:port"` or `"ray://host:port"` for a running Ray cluster;
            see docs/scaling.md.
        device: Device to train on (default: a GPU if available).
        progress: Whether to show progress.
        fleet_size: Number of models to train at once (default: as many as fit).
        scorers: Number of scoring processes (default: depends on the number of cores); with 0,
            the training process computes the scores.
        checkpoint_every: Seconds between checkpoints (default 60).
        callbacks: Callbacks and trackers, called in this process, also for tasks on Ray; see
            `uw.trackers.Callback`.

    Returns:
        The results of the study.

    Example:
        >>> import tempfile
        >>> few = {"load": "dsprites", "slice": {"shape": 0, "scale": 5, "orientation": 0}}
        >>> study = Study(
        ...     data=[few],
        ...     methods={"beta_vae": {"beta": [1, 4]}},
        ...     steps=2,
        ...     metrics=["mig"],
        ...     settings={"batch": 8},
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = run(study, folder, progress=False).table
        >>> table[["data", "method", "strength", "seed", "state"]].values.tolist()
        [['dsprites', 'beta_vae', 1.0, 0, 'scored'], ['dsprites', 'beta_vae', 4.0, 0, 'scored']]
    """
    study = study if isinstance(study, Study) else read(study)
    store = open_store(study.name if folder is None else folder)
    if on != "here":
        check_address(on)
    if scorers is not None and scorers < 0:
        raise UnweaveError.must("scorers", "be at least 0", scorers)
    errors = prepare(store, study)
    store.upload_ledger()
    with Callbacks(callbacks) as calls:
        options = RunOptions(
            device=device,
            progress=progress,
            fleet_size=fleet_size,
            scorers=scorers,
            checkpoint_every=checkpoint_every,
            callbacks=calls,
        )
        if on == "here":
            LocalRunner(store, options).run()
        else:
            run_on_ray(store, on, options)
        calls.result = results = Results(store, errors)
    return results


def prepare(store: Store, study: Study) -> dict[str, str]:
    """Write the study and its runs to the folder, and reopen failed runs.

    Returns:
        Error message for each data set that cannot be opened.
    """
    try:
        store.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnweaveError(
            f"cannot write to {store.folder}: {error.strerror or error}; choose another folder",
            subject=store.folder,
        ) from error
    store.put_aside(damaged_checkpoints(store.runs))  # their fleets start from step 0
    store.ledger.release_dead()
    store.remove_dead_tokens()
    errors = store.plan(study)
    for name, reason in errors.items():
        say(f"skipping {name}: {reason}")
    table = store.ledger.table()
    failed = table.loc[(table["state"] == "failed") & table["asked"], "run"].tolist()
    trained = [run for run in failed if store.has(run)]
    store.ledger.reopen(trained, "trained")
    store.ledger.reopen(sorted(set(failed) - set(trained)), "planned")
    return errors
