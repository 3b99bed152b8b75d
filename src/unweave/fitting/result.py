"""Result of a fit: all models, their ranking, the chosen one, and how far to trust it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from unweave.data.dataset import Dataset
from unweave.fitting.baselines import Baselines, baselines
from unweave.fitting.choice import comparable, evidence, ranked
from unweave.fitting.plan import FitError
from unweave.fitting.verdict import Verdict, judged, measured
from unweave.io.markup import block, paragraph, table
from unweave.models.model import Fleet, Model, join
from unweave.models.rotating import can_rotate, rotate
from unweave.models.rotation import RotationError
from unweave.select.consensus import Consensus, consensus
from unweave.text import counted

__all__ = ["Fit", "choose", "most_promising"]

SHOWN = 5
"""Number of models in the ranking of a notebook."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of a fit.

    Args:
        fleet: All models.
        ranking: Ranking of the models, best first: `run`, `score`, `reason`, `model`, `agreement`,
            `explained` (share of the pixel variance), ….
        agreed: Factors shared by the models, see `uw.select.consensus`.
        baselines: Reconstruction errors of the mean image and of principal components.
        verdict: How far to trust the chosen model.
        error: Reconstruction error of the chosen model, on the scale of `baselines`.
    """

    fleet: Fleet
    ranking: pd.DataFrame
    agreed: Consensus
    baselines: Baselines
    verdict: Verdict
    error: float

    @property
    def best(self) -> Model:
        """The chosen model."""
        return self.fleet[int(self.ranking["model"].iloc[0])]

    def __repr__(self) -> str:
        return f"<Fit of {counted(len(self.fleet), 'model')}, verdict: {self.verdict.level}>"

    def __str__(self) -> str:
        """Return the verdict, the shared factors, and the chosen model with the reason."""
        return f"{self.verdict}\n{self._chosen}"

    def _repr_html_(self) -> str:
        """Return the verdict, the chosen model and the best models, for notebooks."""
        first = self.ranking.head(SHOWN)
        rows = [
            [repr(self.fleet[model]), f"{agreement:.2f}", f"{explained:.0%}", clear]
            for model, agreement, explained, clear in zip(
                *(first[name] for name in ("model", "agreement", "explained", "clear")),
                strict=True,
            )
        ]
        more = len(self.ranking) - len(rows)
        return block(
            self.verdict._repr_html_(),
            paragraph(self._chosen),
            table(["Model, best first", "Agreement", "Explained", "Clear latents"], rows),
            paragraph(f"{counted(more, 'more model')}: fit.ranking" if more else ""),
        )

    @property
    def _chosen(self) -> str:
        """The shared factors, and the chosen model with the reason.

        The factors of a failed fit are left out, because they mean nothing.
        """
        clear, latents = (self.verdict.measures[name] for name in ("clear_latents", "latents"))
        failed = self.verdict.level == "failed"
        agreed = "" if failed else f"{self.agreed}. "
        return (
            f"{agreed}Chosen{' nevertheless' * failed}: {self.best!r}: "
            f"{self.ranking['reason'].iloc[0]}; {clear:g} of {latents:g} latents are clear."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict, and the reconstruction errors of baselines and model as plain data.

        `chosen` is the hash of the chosen model.
        `pca` has the errors of 0, 1, … principal components.
        """
        errors = {
            "mean_image": self.baselines.mean_image,
            "pca": self.baselines.pca.tolist(),
            "chosen": self.error,
        }
        chosen = self.best.config.hash
        return {"chosen": chosen, "verdict": self.verdict.to_dict(), "baselines": errors}


def choose(
    fleet: Fleet,
    data: Dataset,
    against: Baselines | None = None,
    finalists: Sequence[bool] | None = None,
    device: torch.device | str = "cpu",
) -> Fit:
    """Rank trained models, choose the best and judge it; see `fit`.

    Args:
        fleet: Models.
        data: Images.
        against: Baselines for these images (default: computed).
        finalists: Whether each model was trained to the end (default: all).
        device: Device for encoding and decoding (default `"cpu"`).
    """
    fleet = _rotated(fleet, data)
    against = against or baselines(data, fleet.configs[0].code_size)
    found = evidence(fleet.to(device), data, against)
    if not found.latents.usable.any():
        raise FitError(
            "all models diverged; use a smaller learning rate or smaller strengths",
            subject="fleet",
            value=len(fleet),
        )
    ranking = ranked(found, finalists)
    compared = comparable(found, [config.steps for config in fleet.configs])
    agreed = consensus(compared)
    place = int(ranking["model"].iloc[0])
    verdict = judged(measured(found, compared, agreed, fleet[place], place))
    return Fit(fleet, ranking, agreed, against, verdict, float(found.errors[place]))


def most_promising(
    fleet: Fleet, data: Dataset, against: Baselines, count: int, device: torch.device | str = "cpu"
) -> list[int]:
    """Return the indices of the models that continue in the next round."""
    found = evidence(_rotated(fleet, data).to(device), data, against)
    return [int(place) for place in ranked(found)["model"][:count]]


def _rotated(fleet: Fleet, data: Dataset) -> Fleet:
    """Rotate models whose axes are arbitrary to independent components, so that they can agree."""
    if not any(can_rotate(config.method) for config in fleet.configs):
        return fleet
    return join([_rotated_model(model, data) for model in fleet])


def _rotated_model(model: Model, data: Dataset) -> Model:
    if not can_rotate(model.config.method) or model.diverged_at[0] >= 0:
        return model
    try:
        return rotate(model, data)
    except RotationError:  # such as normally distributed codes, which stay as they are
        return model
