"""Index of the models in the explorer, built without loading them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.fitting.verdict import Verdict, read_verdict
from unweave.models.config import Config
from unweave.models.files import BEST
from unweave.models.finding import Models, Run, find_runs
from unweave.models.model import Model
from unweave.report.saved_runs import scores_of

__all__ = ["Entry", "entries_of"]


@dataclass(frozen=True, eq=False)
class Entry:
    """A model in the index.

    Args:
        run: Saved run, or model in memory.
        name: Hash of the settings, or folder name if the settings cannot be read.
        config: Training settings; None if they cannot be read.
        scores: Saved headline scores, by metric.
        best: Whether it was chosen as the best model.
        trouble: Error that prevents showing the model, or an empty text.
        warning: Warning to show with the model, or an empty text.
        verdict: How far to trust it, if it is the chosen model of a fit.
    """

    run: Run
    name: str
    config: Config | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    best: bool = False
    trouble: str = ""
    warning: str = ""
    verdict: Verdict | None = None

    @property
    def can_be_named(self) -> bool:
        """Whether names of latents can be recorded next to the model."""
        return self.run.folder is not None and not self.run.in_zoo and self.config is not None

    def open(self) -> Model:
        """Load the model."""
        if self.trouble:
            raise UnweaveError(self.trouble, subject=self.name)
        return self.run.open()


def entries_of(models: Models) -> list[Entry]:
    """List every model once, in the given order; damaged runs are listed with their error.

    Models of a folder are sorted: the best first, then by method, strength and seed.

    Args:
        models: Trained models, as for `uw.evaluate`.
    """
    entries: dict[str, Entry] = {}
    for _, runs in groupby(find_runs(models), key=lambda run: run.home):
        for entry in sorted(map(_entry, runs), key=_order):
            known = entries.setdefault(entry.name, entry)
            if known.trouble and not entry.trouble:
                entries[entry.name] = replace(entry, best=known.best)
            elif known.best:  # a copy of this run, which has the scores
                entries[entry.name] = replace(known, scores={**entry.scores, **known.scores})
    found = list(entries.values())
    if all(entry.trouble for entry in found):
        raise UnweaveError(found[0].trouble, subject=found[0].name)
    return found


def _order(entry: Entry) -> tuple[Any, ...]:
    """Return a sort key: best first, then method, strength and seed, then unreadable runs."""
    if entry.run.home is None:  # keep the given order
        return ()
    if entry.config is None:
        return (not entry.best, True, entry.name)
    method = entry.config.method
    strengths = [getattr(method, name) for name in method.strengths()]
    return (not entry.best, False, method.name, strengths, entry.config.seed, entry.name)


def _entry(run: Run) -> Entry:
    """Describe a run without loading its weights."""
    try:
        config = run.config
    except UnweaveError:
        name = run.folder.name if run.folder is not None else ""
        return Entry(run, name, best=run.best, trouble=run.damage)
    origin = origin_text(config.data)
    scores = {n: s for n, s in scores_of(run.folder, origin)[0].items() if "." not in n}
    entry = Entry(run, config.hash, config, scores, run.best)
    if run.damage:
        return replace(entry, trouble=run.damage)
    warning = _warning(config, run.diverged_at)
    return replace(
        entry, warning=warning, trouble=_decoder_error(config), verdict=_verdict_on(run)
    )


def _verdict_on(run: Run) -> Verdict | None:
    """Return the verdict on a fit, if this is the model that it chose."""
    if run.folder is None or run.in_zoo or run.folder.name != BEST:
        return None
    return read_verdict(run.folder.parent)


def _decoder_error(config: Config) -> str:
    """Return the error for a model without a decoder, or an empty text."""
    try:
        config.method.require_decoder()
    except UnweaveError as error:
        return str(error)
    return ""


def _warning(config: Config, diverged_at: int) -> str:
    if diverged_at >= 0:
        return (
            f"This model diverged at step {diverged_at:,}. "
            "Its weights are those of the last step before that, and its images mean nothing."
        )
    if config.steps == 0:
        return "This model was never trained (0 steps): it has random weights."
    return ""
