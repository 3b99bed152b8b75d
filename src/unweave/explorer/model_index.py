"""Which models the explorer offers: a fixed list, made without loading any of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import kept, origin_text, protocol_of
from unweave.metrics import find_metric
from unweave.models.config import Config
from unweave.models.finding import Models, Run, find_runs
from unweave.models.model import Model

__all__ = ["Entry", "entries_of"]


@dataclass(frozen=True, eq=False)
class Entry:
    """A model of the list.

    Args:
        run: Where it is.
        name: Its hash, or the name of its folder where that cannot be read.
        config: What it was trained with; None where that cannot be read.
        scores: Headline scores kept beside it, by metric.
        best: Whether it was chosen as the best.
        trouble: Why it cannot be shown, or nothing.
        warning: What to know when looking at it, or nothing.
    """

    run: Run
    name: str
    config: Config | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    best: bool = False
    trouble: str = ""
    warning: str = ""

    def open(self) -> Model:
        """The model, loaded."""
        if self.trouble:
            raise UnweaveError(self.trouble)
        return self.run.open()


def entries_of(models: Models) -> list[Entry]:
    """Every model once, in the order given; a damaged run costs itself only.

    The models of a folder come with the best first, then by method, strength and seed.

    Args:
        models: As `uw.evaluate` takes them.
    """
    entries: dict[str, Entry] = {}
    for _, runs in groupby(find_runs(models), key=lambda run: run.home):
        for entry in sorted(map(_entry, runs), key=_order):
            known = entries.setdefault(entry.name, entry)
            if known.trouble and not entry.trouble:
                entries[entry.name] = replace(entry, best=known.best)
            elif known.best:  # scores are known of the run that it is a copy of
                entries[entry.name] = replace(known, scores={**entry.scores, **known.scores})
    found = list(entries.values())
    if all(entry.trouble for entry in found):
        raise UnweaveError(found[0].trouble)
    return found


def _order(entry: Entry) -> tuple[Any, ...]:
    """The best first, then by method, strength and seed, then what cannot even be named."""
    if entry.run.home is None:  # as they were given
        return ()
    if entry.config is None:
        return (not entry.best, True, entry.name)
    method = entry.config.method
    strengths = [getattr(method, name) for name in method.strengths()]
    return (not entry.best, False, method.name, strengths, entry.config.seed, entry.name)


def _entry(run: Run) -> Entry:
    """What is known of a run without loading its weights."""
    try:
        config = run.config
    except UnweaveError:
        name = run.folder.name if run.folder is not None else ""
        return Entry(run, name, best=run.best, trouble=run.damage)
    origin = origin_text(config.data)
    scores = _scores(run.folder, origin) if run.folder is not None else {}
    entry = Entry(run, config.hash, config, scores, run.best)
    if run.damage:
        return replace(entry, trouble=run.damage)
    warning = _warning(config, run.diverged_at)
    return replace(entry, warning=warning, trouble=_nothing_to_see(config))


def _scores(folder: Path, origin: str) -> dict[str, float]:
    """Headline scores of mean codes on the own data; of several seeds those of the smallest."""
    entries = sorted(kept(folder).items(), key=lambda item: -item[0].seed)
    scores: dict[str, float] = {}
    for key, outcome in entries:
        try:
            metric = find_metric(key.metric)
        except UnweaveError:  # nothing is known of it here
            continue
        current = (key.codes, key.protocol, key.data) == ("mean", protocol_of(metric), origin)
        if current and metric.name in outcome.scores:
            scores[metric.name] = outcome.scores[metric.name]
    return scores


def _nothing_to_see(config: Config) -> str:
    """Why a model cannot be explored that decodes nothing."""
    try:
        config.method.require_decoder()
    except UnweaveError as error:
        return str(error)
    return ""


def _warning(config: Config, stopped: int) -> str:
    if stopped >= 0:
        return (
            f"This model diverged at step {stopped:,}: "
            "what it draws is from just before, and says little."
        )
    if config.steps == 0:
        return "This model was never trained: it took 0 steps, and draws what chance made of it."
    return ""
