"""Which trained models to learn m from: the most and the least disentangled restarts."""

import pandas as pd

from unweave.errors import DataError
from unweave.evaluation.runs import Models, runs_of
from unweave.fleet.models import Model

__all__ = ["exemplars"]


def exemplars(
    models: Models, table: pd.DataFrame, count: int = 1, score: str = "mig"
) -> tuple[list[Model], list[Model]]:
    """The most and the least disentangled of some models, for `manipulate`.

    Args:
        models: Restarts of one method on the unchanged images.
        table: Their scores, as `uw.evaluate` gives them; models without a row are not chosen, so
            that over-pruned ones can be left out (`over_pruned`).
        count: How many of each.
        score: The column to go by.

    Returns:
        Those of the highest score, best first, and those of the lowest, lowest first.
    """
    known = {run.model.config.hash: run.model for run in runs_of(models)}
    missing = [name for name in ("run", score) if name not in table]
    if missing:
        raise DataError(f"the table has no column {missing[0]!r}; give one of uw.evaluate")
    scores = table.dropna(subset=[score]).set_index("run")[score]
    ranked = [run for run in scores.sort_values(kind="stable").index if run in known]
    if count < 1 or len(ranked) < 2 * count:
        raise DataError(
            f"{count} of each kind need {2 * max(count, 1)} models with a {score}, but there are "
            f"{len(ranked)}; train more"
        )
    highest, lowest = ranked[::-1][:count], ranked[:count]
    return [known[run] for run in highest], [known[run] for run in lowest]
