"""What the folder of a run says: whether it is trained, its numbers, what is yet to measure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unweave.analysis.columns import SAMPLED
from unweave.evaluation.choice import choose
from unweave.evaluation.evaluate import column
from unweave.evaluation.score_cache import Key, Outcome, kept, origin_text
from unweave.metrics import Metric, saved_name
from unweave.models.config import Config
from unweave.models.files import diverged_at, finite_losses, read_curve
from unweave.study.study import Study

__all__ = ["Found", "Wanted", "look", "wanted_by"]

SEED = 0
"""Of the metrics, as in the large study."""


@dataclass(frozen=True)
class Wanted:
    """A metric that a study wants, of mean or of sampled codes."""

    metric: Metric
    sampled: bool

    @property
    def name(self) -> str:
        """What the study calls the metric."""
        name = saved_name(self.metric)
        assert name is not None  # a study takes no other
        return name

    def key(self, config: Config) -> Key:
        """Under which its outcome is kept beside a run."""
        key = Key.of(self.metric, self.sampled, SEED, origin_text(config.data))
        assert key is not None  # as above
        return key

    def columns(self, outcome: Outcome) -> dict[str, float]:
        """Its numbers by the names of their columns."""
        start = SAMPLED if self.sampled else ""
        return {start + column(self.metric, p): s for p, s in outcome.scores.items()}


@dataclass(frozen=True)
class Found:
    """What the folder of a run says.

    Args:
        state: What has become of it, as in the ledger.
        results: Its last losses, and the scores that are kept.
        error: Why some metrics could not score it.
        missing: What is still to be measured.
    """

    state: str
    results: dict[str, float]
    error: str | None
    missing: Sequence[Wanted]


def wanted_by(study: Study) -> list[Wanted]:
    """What a study measures; what is of posteriors anyway is not measured of samples too."""
    mean = [Wanted(metric, False) for metric in choose(study.metrics)] if study.metrics else []
    sampled = choose(study.sampled) if study.sampled else []
    return mean + [Wanted(metric, True) for metric in sampled if not metric.of_posteriors]


def look(folder: Path, config: Config, wanted: Sequence[Wanted]) -> Found:
    """What has become of a run.

    Args:
        folder: Its folder, which need not be there.
        config: Its settings.
        wanted: What its study measures.
    """
    if not folder.exists():
        return Found("planned", {}, None, wanted)
    outcomes = kept(folder)
    results, errors, missing = _last_losses(folder), [], []
    for one in wanted:
        outcome = outcomes.get(one.key(config))
        if outcome is None:
            missing.append(one)
            continue
        results |= one.columns(outcome)
        if outcome.error:
            errors.append(f"no {one.metric.name}: {outcome.error}")
    state = "trained" if missing else "scored"
    said = "; ".join(dict.fromkeys(errors)) or None
    return Found("diverged" if diverged_at(folder) >= 0 else state, results, said, missing)


def _last_losses(folder: Path) -> dict[str, float]:
    """Those of the last row of a run's curve."""
    curve = read_curve(folder)
    return {} if curve.empty else finite_losses(curve.iloc[-1].to_dict())
