"""The state of a run as read from its folder: training, results and missing scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unweave.analysis.study_table import SAMPLED
from unweave.evaluation.choice import choose
from unweave.evaluation.evaluate import column
from unweave.evaluation.score_cache import Key, Outcome, origin_text, read_cache
from unweave.metrics import Metric, saved_name
from unweave.models.config import Config
from unweave.models.files import diverged_at, last_losses, read_curve
from unweave.study.ledger import RunOutcome
from unweave.study.study import Study

__all__ = ["StudyMetric", "metrics_of", "missing", "outcome"]

SEED = 0
"""Random seed of the metrics, as in the 12,600-model study."""


@dataclass(frozen=True)
class StudyMetric:
    """A metric that a study computes, for mean or for sampled codes."""

    metric: Metric
    sampled: bool

    @property
    def name(self) -> str:
        """The name of the metric in the study."""
        name = saved_name(self.metric)
        assert name is not None  # `Study` rejects metrics without a name
        return name

    def key(self, config: Config) -> Key:
        """The key of its outcome in a run's score cache."""
        key = Key.of(self.metric, self.sampled, SEED, origin_text(config.data))
        assert key is not None  # as above
        return key

    def columns(self, outcome: Outcome) -> dict[str, float]:
        """Its scores by column name."""
        prefix = SAMPLED if self.sampled else ""
        return {prefix + column(self.metric, p): s for p, s in outcome.scores.items()}


def metrics_of(study: Study) -> list[StudyMetric]:
    """The metrics of a study; metrics of posteriors are not repeated for sampled codes."""
    mean = [StudyMetric(m, False) for m in choose(study.metrics)] if study.metrics else []
    sampled = choose(study.sampled) if study.sampled else []
    return mean + [StudyMetric(metric, True) for metric in sampled if not metric.of_posteriors]


def missing(folder: Path, config: Config, metrics: Sequence[StudyMetric]) -> list[StudyMetric]:
    """The metrics that are still to be computed for a trained run."""
    outcomes = read_cache(folder)
    return [metric for metric in metrics if metric.key(config) not in outcomes]


def outcome(
    folder: Path, config: Config, metrics: Sequence[StudyMetric], problems: Sequence[str] = ()
) -> RunOutcome:
    """The outcome of a run as read from its folder, without `scored_for`.

    Args:
        folder: The folder of the run, which may be missing.
        config: The settings of the run.
        metrics: The metrics of the study.
        problems: Reasons why some scores could not be computed this time.
    """
    if not folder.exists():
        return RunOutcome("planned", None, {})
    outcomes = read_cache(folder)
    scores = [(one, outcomes[key]) for one in metrics if (key := one.key(config)) in outcomes]
    results = last_losses(read_curve(folder))
    for one, score in scores:
        results |= one.columns(score)
    if diverged_at(folder) >= 0:
        return RunOutcome("diverged", None, results)
    if problems:
        return RunOutcome("failed", _together(problems), results)
    if len(scores) < len(metrics):
        return RunOutcome("trained", None, results)
    errors = [f"no {one.metric.name}: {s.error}" for one, s in scores if s.error]
    return RunOutcome("scored", _together(errors), results)


def _together(errors: Sequence[str]) -> str | None:
    return "; ".join(dict.fromkeys(errors)) or None
