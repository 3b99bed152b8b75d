"""What became of runs, told to the ledger."""

from collections.abc import Sequence

import torch

from unweave.models.config import Config
from unweave.study.scoring import sentence
from unweave.study.store import Store

__all__ = ["fail", "note"]


def note(store: Store, configs: Sequence[Config]) -> None:
    """Tell the ledger what became of runs that were trained."""
    found = {config.hash: store.look(config) for config in configs}
    lost = [run for run, one in found.items() if one.state == "diverged"]
    rest = [run for run in found if run not in lost]
    for state, runs in (("diverged", lost), ("trained", rest)):
        store.ledger.mark(runs, state, None, [found[run].results for run in runs])


def fail(store: Store, runs: Sequence[str], error: Exception, device: torch.device) -> None:
    """Tell the ledger why runs could not be trained; those that were before count as such."""
    saved = [run for run in runs if store.has(run)]
    note(store, store.configs(saved))
    store.ledger.mark([run for run in runs if run not in saved], "failed", sentence(error))
    if device.type == "cuda":
        torch.cuda.empty_cache()
