"""Which models the explorer offers: a fixed list, made without loading any of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import kept, origin_text, protocol_of
from unweave.metrics import find_metric
from unweave.models.config import Config
from unweave.models.files import (
    BEST,
    CONFIG,
    CURVE,
    RUNS,
    UNREADABLE,
    WEIGHTS,
    diverged_at,
    read_config,
    trouble_with,
)
from unweave.models.finding import Models
from unweave.models.model import Fleet, Model, load
from unweave.study.remote import is_url
from unweave.study.store import STUDY, Store
from unweave.study.study import Source

__all__ = ["Entry", "entries_of"]


@dataclass(frozen=True, eq=False)
class Entry:
    """A model of the list.

    Args:
        name: Its run, or the name of its folder where that cannot be read.
        config: What it was trained with; None where that cannot be read.
        folder: Where it is saved; None for a model in memory.
        model: The model, where it is in memory.
        source: How a study says that its data set is loaded.
        scores: Headline scores kept beside it, by metric.
        best: Whether it was chosen as the best.
        trouble: Why it cannot be shown, or nothing.
        warning: What to know when looking at it, or nothing.
    """

    name: str
    config: Config | None = None
    folder: Path | None = None
    model: Model | None = None
    source: Source | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    best: bool = False
    trouble: str = ""
    warning: str = ""

    def open(self) -> Model:
        """The model, loaded."""
        if self.trouble:
            raise UnweaveError(self.trouble)
        if self.model is not None:
            return self.model
        if self.folder is None:
            raise UnweaveError(f"{self.name} has no folder and is not in memory")
        return load(self.folder)


def entries_of(models: Models) -> list[Entry]:
    """Every model once, in the order given; a damaged run costs itself only.

    The models of a folder come with the best first, then by method, strength and seed.

    Args:
        models: As `uw.evaluate` takes them; a folder may also be that of a study, or hold a
            `runs` folder and the `best` of them.
    """
    entries: dict[str, Entry] = {}
    for entry in _entries(models):
        known = entries.setdefault(entry.name, entry)
        if known.trouble and not entry.trouble:
            entries[entry.name] = replace(entry, best=known.best)
        elif known.best:  # scores and the data's place are known of the run that it is a copy of
            scores = {**entry.scores, **known.scores}
            entries[entry.name] = replace(
                known, scores=scores, source=entry.source or known.source
            )
    if not entries:
        raise UnweaveError("there is nothing to explore: no model was given")
    found = list(entries.values())
    if all(entry.trouble for entry in found):
        raise UnweaveError(found[0].trouble)
    return found


def _order(entry: Entry) -> tuple[Any, ...]:
    """By method, strength and seed, then what cannot even be named."""
    if entry.config is None:
        return (True, entry.name)
    method = entry.config.method
    strengths = [getattr(method, name) for name in method.stackable()]
    return (False, method.name, strengths, entry.config.seed, entry.name)


def _entries(models: Models) -> Iterable[Entry]:
    if isinstance(models, Fleet):
        return [_in_memory(model) for model in models]
    if isinstance(models, str | Path):
        return _in_folder(models)
    return [entry for part in models for entry in _entries(part)]


def _in_memory(model: Model) -> Entry:
    warning = _warning(model.config, int(model.diverged_at[0]))
    trouble = _nothing_to_see(model.config)
    return Entry(model.config.hash, model.config, model=model, warning=warning, trouble=trouble)


def _in_folder(path: str | Path) -> list[Entry]:
    if is_url(str(path)):
        raise UnweaveError(f"only folders can be explored; copy {path} into one first")
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise UnweaveError(f"there is no folder {folder}; give one that training wrote")
    if _is_run(folder):
        return [_saved(folder)]
    best = [replace(_saved(folder / BEST), best=True)] if _is_run(folder / BEST) else []
    home = folder / RUNS if (folder / RUNS).is_dir() else folder
    sources = _sources(folder)
    # Names with a dot are runs that are being written.
    runs = sorted(run for run in home.glob("[!.]*") if _is_run(run) and run != folder / BEST)
    if not runs and not best:
        raise UnweaveError(f"{folder} holds no model and no folder of one; give one that does")
    return best + sorted((_saved(run, sources) for run in runs), key=_order)


def _is_run(folder: Path) -> bool:
    return (folder / CONFIG).is_file() or (folder / WEIGHTS).is_file()


def _sources(folder: Path) -> Mapping[str, Source]:
    """How a study says that its data sets are loaded, by their origins; none if it cannot."""
    if not (folder / STUDY).is_file():
        return {}
    try:
        return Store(folder).sources
    except UnweaveError:  # a study that is damaged still has its runs
        return {}


def _saved(folder: Path, sources: Mapping[str, Source] | None = None) -> Entry:
    """What the files of a run say, without loading its weights."""
    try:
        config = read_config(folder)
    except (*UNREADABLE, UnweaveError) as error:
        return Entry(folder.name, folder=folder, trouble=trouble_with(folder, error))
    origin = origin_text(config.data)
    source = (sources or {}).get(origin)
    entry = Entry(config.hash, config, folder, source=source, scores=_scores(folder, origin))
    try:
        warning = _warning(config, diverged_at(folder))
        (folder / CURVE).stat()
    except UNREADABLE as error:
        return replace(entry, trouble=trouble_with(folder, error))
    trouble = _nothing_to_see(config)
    return replace(entry, warning=warning, trouble=trouble)


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
        config.method.demand_decoder()
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
