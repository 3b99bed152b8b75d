"""Running a study: write down what there is to do, then work on it, here or on Ray."""

from pathlib import Path
from typing import Any

import torch

from unweave.errors import UnweaveError
from unweave.progress import say
from unweave.study.on_ray.cluster import check_address
from unweave.study.on_ray.driver import run_on_ray
from unweave.study.remote import open_store
from unweave.study.repair import put_checkpoints_aside
from unweave.study.results import Results
from unweave.study.store import Store
from unweave.study.study import Study
from unweave.study.study_file import read
from unweave.study.tokens import remove_dead_tokens
from unweave.study.work import Work

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
) -> Results:
    """Train and score all runs of a study that are not done yet.

    Stopped or killed, the same call goes on where it was. Several processes may work on one
    folder. A run that cannot be trained or scored is marked as failed and says why; the others go
    on, and the next call tries it again.

    Args:
        study: A study, or a file of one.
        folder: Where it is kept, a folder or a URL that fsspec knows; by default a folder with its
            name.
        on: `"here"`, this process; `"ray"`, a Ray of its own on this machine; `"auto"`,
            `"host:port"` or `"ray://host:port"`, a running Ray cluster; see docs/scaling.md.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        fleet_size: How many models to train at once; by default as many as fit.
        scorers: How many processes compute scores, by default by the number of cores; with 0 the
            one that trains does.
        checkpoint_every: Seconds between checkpoints.

    Returns:
        The results, with their table.

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
        raise UnweaveError(f"scores are computed by 0 processes or more, but got {scorers=}")
    errors = prepare(store, study)
    store.hand_in_ledger()
    options: dict[str, Any] = {
        "device": device,
        "fleet_size": fleet_size,
        "scorers": scorers,
        "checkpoint_every": checkpoint_every,
    }
    if on == "here":
        Work(store, progress=progress, **options).go()
    else:
        run_on_ray(store, on, progress, options)
    return Results(store, errors)


def prepare(store: Store, study: Study) -> dict[str, str]:
    """Write down what there is to do; what failed before is tried again.

    Returns:
        For each data set that cannot be had, why.
    """
    try:
        store.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnweaveError(
            f"cannot write into {store.folder}: {error.strerror or error}; choose another folder"
        ) from error
    put_checkpoints_aside(store)
    store.ledger.release_gone()
    remove_dead_tokens(store)
    _, errors = store.plan(study)
    for name, reason in errors.items():
        say(f"without {name}: {reason}")
    table = store.ledger.table()
    failed = table.loc[(table["state"] == "failed") & table["asked"], "run"].tolist()
    trained = [run for run in failed if store.has(run)]
    store.ledger.reopen(trained, "trained")
    store.ledger.reopen(sorted(set(failed) - set(trained)), "planned")
    return errors
