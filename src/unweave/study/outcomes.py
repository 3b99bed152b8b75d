"""Run outcomes: what the folder of a run says has become of it, recorded in the ledger."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from unweave.errors import UnweaveError
from unweave.models.config import Config
from unweave.study.ledger import Ledger
from unweave.study.store import Store

__all__ = ["RunOutcome", "fail", "outcome_of", "record", "sentence"]


class RunOutcome(NamedTuple):
    """What has become of a run, as `Ledger.mark` takes it.

    Args:
        state: One of the ledger's states.
        error: What went wrong.
        results: The numbers of its row in the table; None where they stay as they are.
        scored_for: A name for all that was measured of it.
    """

    state: str
    error: str | None = None
    results: Mapping[str, float] | None = None
    scored_for: str | None = None


def outcome_of(store: Store, config: Config, trouble: Sequence[str] = ()) -> RunOutcome:
    """The outcome of a trained run.

    Args:
        store: The study.
        config: The run.
        trouble: Why some scores could not be computed now.
    """
    # In this order: what is asked for in between makes the run be scored again.
    asked, found = store.asked, store.look(config)
    if found.state == "diverged":
        return RunOutcome("diverged", None, found.results)
    if trouble:
        return RunOutcome("failed", "; ".join(dict.fromkeys(trouble)), found.results)
    if found.state == "scored":
        return RunOutcome("scored", found.error, found.results, asked)
    return RunOutcome("trained", None, found.results)


def record(ledger: Ledger, outcomes: Mapping[str, RunOutcome]) -> None:
    """Record run outcomes in the ledger, those that are alike together."""
    alike: dict[tuple[str, str | None, bool, str | None], list[str]] = {}
    for run, (state, error, results, scored_for) in outcomes.items():
        alike.setdefault((state, error, results is None, scored_for), []).append(run)
    for (state, error, none, scored_for), runs in alike.items():
        numbers = None if none else [outcomes[run].results or {} for run in runs]
        ledger.mark(runs, state, error, numbers, scored_for)


def fail(store: Store, runs: Sequence[str], error: Exception, device: torch.device) -> None:
    """Record why runs could not be trained; those that are saved count as trained."""
    saved = [run for run in runs if store.has(run)]
    record(
        store.ledger,
        {config.hash: outcome_of(store, config) for config in store.configs(saved)},
    )
    store.ledger.mark([run for run in runs if run not in saved], "failed", sentence(error))
    if device.type == "cuda":
        torch.cuda.empty_cache()


def sentence(error: BaseException) -> str:
    """An error message on one line; unexpected errors are prefixed with their type."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UnweaveError) else f"{type(error).__name__}: {text}"
