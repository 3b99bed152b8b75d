"""The verdict on a fit: good, weak or failed, with reasons and a next step.

It is reached without labels, from the chosen model's reconstructions, its latents, its training
curve, and its agreement with the other models.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from unweave.analysis.latents import MIN_CORRELATION, Latents
from unweave.fitting.choice import Evidence
from unweave.fitting.plan import MANIFEST
from unweave.io.markup import badge, block, bullets, paragraph
from unweave.io.plain_data import is_number, read_json
from unweave.models.model import Model
from unweave.nets.likelihoods import learned_variance
from unweave.select.agreement import correlations, match
from unweave.select.consensus import Consensus
from unweave.text import counted, printable

__all__ = ["LEVELS", "Measures", "Verdict", "judged", "measured", "read_verdict"]

LEVELS = ("good", "weak", "failed")
MIN_EXPLAINED = 0.2
"""Smallest share of the pixel variance that a model must explain."""
STILL_FALLING = 0.04
"""Training has not converged if its last quarter made more than this share of the progress."""
MIN_AGREEMENT, GOOD_AGREEMENT = 0.45, 0.75
"""Agreement below which a fit has failed, and above which it may be good."""
NEIGHBOURS = 10
LACKS = 0.5
"""A model lacks a shared factor if its codes explain less than this fraction of its variance."""
MIXED = 0.5
"""Rank correlation with a second shared factor above which a latent controls two factors."""
STRONG = 1 / 3
"""Only latents with more than this share of the information of the strongest can count as mixed:
weak latents encode small residuals that depend on many factors."""
MAX_TEXT, MAX_REASONS = 500, 20


@dataclass(frozen=True)
class Measures:
    """Measurements that the verdict is based on.

    Args:
        explained: Share of the pixel variance that the chosen model explains.
        explained_by_pca: The same for principal components, as many as the model has latents.
        explained_by_few: The same for principal components, as many as it has clear latents.
        clear_latents: Latents that change something visible, see `Activity.clear`.
        latents: All latents.
        agreement: Mean correlation of the clear latents with their counterparts in the most
            similar models, weighted by the information that they carry.
        shared_latents: Clear latents that have a counterpart in the most similar models.
        missing_factors: Factors shared by the models that the chosen one does not encode, not
            even in several latents together.
        mixed_latents: Clear latents that follow two shared factors at once, without weak ones.
        progress: Share of the total fall in reconstruction error due to the last quarter of
            training.
        models: Models that were compared.
    """

    explained: float
    explained_by_pca: float
    explained_by_few: float
    clear_latents: int
    latents: int
    agreement: float
    shared_latents: int
    missing_factors: int
    mixed_latents: int
    progress: float
    models: int


@dataclass(frozen=True)
class Verdict:
    """How far to trust a fit.

    Args:
        level: `"good"`, `"weak"` or `"failed"`.
        reasons: Sentences, the most important first.
        advice: What to do next.
        measures: Measurements that it is based on, see `Measures`.
    """

    level: str
    reasons: tuple[str, ...]
    advice: str
    measures: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a paragraph such as `Verdict: weak. The models agree on … Train longer: …`."""
        return " ".join([f"Verdict: {self.level}.", *self.reasons, self.advice]).strip()

    def _repr_html_(self) -> str:
        """Return the level as a badge, the reasons and the next step, for notebooks."""
        title = badge(f"{self.level.capitalize()} fit", self.level)
        return block(title, bullets(self.reasons), paragraph(self.advice))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for `fit.json`."""
        return {**asdict(self), "reasons": list(self.reasons), "measures": dict(self.measures)}

    @classmethod
    def read(cls, plain: Any) -> Self:
        """Create a verdict from the result of `to_dict`, which is untrusted."""
        if not isinstance(plain, Mapping) or plain.get("level") not in LEVELS:
            raise ValueError("it has no valid verdict")
        reasons, measures = plain.get("reasons"), plain.get("measures")
        texts = [*reasons, plain.get("advice")] if isinstance(reasons, list) else []
        if not 1 < len(texts) <= MAX_REASONS or not all(
            isinstance(text, str) and len(text) <= MAX_TEXT for text in texts
        ):
            raise ValueError("the reasons of its verdict are not sentences")
        if not isinstance(measures, Mapping) or not all(map(is_number, measures.values())):
            raise ValueError("the measures of its verdict are not numbers")
        *reasons, advice = map(printable, texts)
        return cls(plain["level"], tuple(reasons), advice, dict(measures))


def read_verdict(folder: Path) -> Verdict | None:
    """Return the verdict recorded in the folder of a fit, if there is one and it is valid."""
    try:
        return Verdict.read(read_json(folder / MANIFEST)["verdict"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measured(
    found: Evidence, compared: Latents, agreed: Consensus, model: Model, place: int
) -> Measures:
    """Return the measurements that the verdict on a model is based on.

    Args:
        found: Measurements of all models.
        compared: Codes of the models that are compared with it, see `comparable`.
        agreed: Factors that they share.
        model: The chosen model.
        place: Its place among them.
    """
    latents, baselines, activity = found.latents, found.baselines, found.activities[place]
    clear = latents.informative[place] & activity.clear
    weights = np.where(clear, activity.amounts, 0.0)
    strong = clear & (weights > STRONG * weights.max())
    correlation = counterparts(compared, place, weights)
    count = int(clear.sum())
    few = min(count, len(baselines.pca) - 1)
    return Measures(
        explained=float(found.explained[place]),
        explained_by_pca=float(baselines.explained(baselines.pca[-1])),
        explained_by_few=float(baselines.explained(baselines.pca[few])),
        clear_latents=count,
        latents=len(clear),
        agreement=float(np.average(correlation, weights=weights)) if count else 0.0,
        shared_latents=int((correlation[clear] >= MIN_CORRELATION).sum()),
        missing_factors=int((encoded_share(latents.means[place][:, clear], agreed) < LACKS).sum()),
        mixed_latents=int((second_factor(compared, agreed, place)[strong] > MIXED).sum()),
        progress=late_progress(reconstruction_curve(model)),
        models=int(compared.usable.sum()),
    )


def counterparts(latents: Latents, place: int, weights: np.ndarray) -> np.ndarray:
    """Return how closely the latents of the most similar models follow each latent, `[d]`.

        c_a = mean_m |corr(rank z_a, rank z_π(a)^m)|

    over the quarter of the models m, at least two, with the largest Σ_a w_a |corr …|. π matches
    the latents of two models one to one. Portfolios include methods and networks that do not suit
    the images, so that not all models can be expected to agree.

    Args:
        latents: Codes of the models; models that are not compared have none.
        place: Index of the chosen model.
        weights: Weight of each of its latents, `[d]`.
    """
    strength = np.abs(correlations(latents)[place])
    others = [m for m in np.flatnonzero(latents.usable) if m != place]
    found = np.zeros((len(others), len(weights)))
    for row, m in zip(found, others, strict=True):
        own, theirs = match(strength[:, m])
        row[own] = strength[own, m, theirs]
    if not others:
        return np.zeros(len(weights))
    similar = np.argsort(-found @ weights, kind="stable")[: max(2, -(-len(others) // 4))]
    return np.asarray(found[similar].mean(0))


def encoded_share(codes: np.ndarray, agreed: Consensus) -> np.ndarray:
    """Return how well codes `[n, d]` predict each shared factor, as R² of nearest neighbours.

    The last third of the images is predicted from the others. A hue that takes two latents in
    most models may take one in this model, which encodes it nevertheless.
    """
    from sklearn.neighbors import KNeighborsRegressor

    targets = agreed.codes
    if not targets.shape[1] or not codes.shape[1]:
        return np.zeros(targets.shape[1])
    train = 2 * len(codes) // 3
    scaled = codes / np.maximum(codes.std(0), np.finfo(float).tiny)
    neighbours = KNeighborsRegressor(min(NEIGHBOURS, train), weights="distance")
    predicted = neighbours.fit(scaled[:train], targets[:train]).predict(scaled[train:])
    errors = np.square(predicted - targets[train:]).mean(0)
    return np.asarray(1 - errors / targets[train:].var(0))


def second_factor(latents: Latents, agreed: Consensus, place: int) -> np.ndarray:
    """Return how closely each latent of a model follows a second shared factor, `[d]`.

        second largest over f of  mean_{(m, b) ∈ f, m ≠ model} |corr(rank z_a, rank z_b^m)|

    Example:
        >>> from unweave.select import consensus
        >>> f = np.random.default_rng(0).uniform(size=(1000, 2))
        >>> mixed = np.column_stack([f.sum(1), f[:, 0]])
        >>> latents = Latents(np.stack([mixed, f, -f, 2 * f]))
        >>> second_factor(latents, consensus(latents), place=0).round(1).tolist()
        [0.7, 0.1]
    """
    others = agreed.members[agreed.members["model"] != place]
    between = np.abs(correlations(latents)[place][:, others["model"], others["latent"]])
    factors = pd.DataFrame(between.T).groupby(others["factor"].to_numpy()).mean().to_numpy()
    return np.sort(factors, axis=0)[-2] if len(factors) > 1 else np.zeros(len(between))


def reconstruction_curve(model: Model) -> np.ndarray:
    """Return the reconstruction loss during training; with a learned variance, that variance.

    With a learned variance, the loss falls with the logarithm of the error, so it falls nearly as
    fast at the end of training as at the start.
    """
    losses = model.curve["reconstruction"].to_numpy(float)
    learned = model.config.likelihood == "learned_gaussian"
    return np.asarray(learned_variance(losses)) if learned else losses


def late_progress(values: Any) -> float:
    """Return the share of the total fall of a curve that happens in the last quarter of training.

        (mean of the third quarter - mean of the last) / (first value - mean of the last)

    Example:
        >>> late_progress([8, 4, 2, 1, 1, 1, 1, 1]), round(late_progress(range(8, 0, -1)), 2)
        (0.0, 0.31)
    """
    values = np.asarray(values, float)
    quarter = len(values) // 4
    if not quarter:
        return 1.0
    third, last = values[-2 * quarter : -quarter].mean(), values[-quarter:].mean()
    fall = values[0] - last
    return float(np.clip((third - last) / fall, 0, 1)) if fall > 0 else 0.0


def judged(measures: Measures) -> Verdict:
    """Return the verdict that follows from the measures."""
    failures, doubts = _failures(measures), _doubts(measures)
    level = "failed" if failures else "weak" if doubts else "good"
    found = failures or doubts
    reasons = [reason for reason, _ in found] or [_praise(measures)]
    advice = found[0][1] if found else ""
    return Verdict(level, tuple(reasons), advice, asdict(measures))


LONGER = "Train longer: run the same fit with more minutes."
SEEDS = "Train more models (more seeds), or train for longer."


def _failures(m: Measures) -> list[tuple[str, str]]:
    """Return reasons not to use the model at all, each with what to do."""
    found = []
    if m.clear_latents == 0:
        found.append(("No latent carries visible information about the images.", LONGER))
    elif m.explained < MIN_EXPLAINED:
        found.append(
            (
                f"The model explains {max(m.explained, 0):.0%} of the pixel variance, so its "
                "reconstructions are little better than the mean image.",
                LONGER,
            )
        )
    elif m.explained < m.explained_by_few:
        found.append(
            (
                f"The model explains {m.explained:.0%} of the pixel variance, less than PCA with "
                f"as many components as it has clear latents ({m.clear_latents}): "
                f"{m.explained_by_few:.0%}.",
                LONGER,
            )
        )
    if m.models > 1 and m.agreement < MIN_AGREEMENT:
        found.append(
            (
                "The models do not agree on what the latents are: even the most similar ones have "
                f"a mean correlation of {m.agreement:.2f} with the chosen one, so other seeds "
                "would give other latents.",
                SEEDS,
            )
        )
    return found


def _doubts(m: Measures) -> list[tuple[str, str]]:
    """Return reasons to use the model with care, each with what to do."""
    found = []
    if m.progress > STILL_FALLING:
        found.append(
            (
                "Training has not converged: its last quarter still contributed "
                f"{m.progress:.0%} of the fall in reconstruction error (at most "
                f"{STILL_FALLING:.0%} expected).",
                LONGER,
            )
        )
    if m.models > 1 and m.agreement < GOOD_AGREEMENT:
        found.append(
            (
                f"The models agree only in part: the chosen one shares {m.shared_latents} of its "
                f"{counted(m.clear_latents, 'clear latent')} with the most similar models (mean "
                f"correlation {m.agreement:.2f}).",
                SEEDS,
            )
        )
    if m.models < 2:
        found.append(("There is no other model to compare with, so agreement is unknown.", SEEDS))
    if m.missing_factors:
        found.append(
            (
                f"The other models share {counted(m.missing_factors, 'factor')} that this one "
                "lacks.",
                LONGER,
            )
        )
    if m.mixed_latents:
        verb = "follows" if m.mixed_latents == 1 else "follow"
        found.append(
            (
                f"{counted(m.mixed_latents, 'latent')} {verb} two factors at once, which other "
                "models separate.",
                SEEDS,
            )
        )
    return found


def _praise(m: Measures) -> str:
    return (
        f"The chosen model shares {m.shared_latents} of its "
        f"{counted(m.clear_latents, 'clear latent')} with the most similar models (mean "
        f"correlation {m.agreement:.2f}). It explains {m.explained:.0%} of the pixel variance; "
        f"PCA with {m.latents} components explains {m.explained_by_pca:.0%}."
    )
