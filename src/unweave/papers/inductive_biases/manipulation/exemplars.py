"""Which trained models to learn m from: the most and the least disentangled restarts."""

import hashlib
from collections.abc import Sequence

import pandas as pd

from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnweaveError
from unweave.methods.base import MODEL
from unweave.models.encoding import check_trained
from unweave.models.finding import Models, models_of
from unweave.models.join import join
from unweave.models.model import Fleet, Model
from unweave.models.networks import networks_of
from unweave.models.shapes import check_shape
from unweave.papers.inductive_biases.manipulation.contest import DECODER, LOSSES

__all__ = ["exemplars", "joined", "name_of"]


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
    known = {model.config.hash: model for model in models_of(models)}
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


def joined(models: Sequence[Model], data: Dataset) -> Fleet:
    """The models as one fleet, checked to be of these images and to have one decoder each."""
    if data.grid is None:
        raise DataError(f"{data.name} has no grid of factors, which a change by factors needs")
    for model in models:
        check_trained(model)
        check_shape(model.shape, data.shape, data.name)
        names = networks_of(model.config, model.shape)[MODEL]
        single = model.config.first is None and model.config.method.num_members == 1
        if not single or DECODER not in names or model.config.likelihood not in LOSSES:
            raise UnweaveError(
                f"{model.config.method.name} models have no decoder of their own code alone; "
                "take beta_vae or another with one encoder and one decoder"
            )
    kinds = {(model.config.likelihood, model.config.architecture) for model in models}
    if len(kinds) > 1:
        raise UnweaveError(
            "these models differ in likelihood or architecture; give restarts of one kind"
        )
    return join(models)


def name_of(model: Model) -> str:
    """The run of a model and a digest of its parameters."""
    sha = hashlib.sha256()
    for name in ("encoder", DECODER):
        sha.update(model.parameters[name].cpu().contiguous().numpy().tobytes())
    return f"{model.config.hash} {sha.hexdigest()[:16]}"
