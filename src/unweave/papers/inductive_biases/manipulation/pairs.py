"""Learning m from pairs of models: the most and the least disentangled ones."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.analysis.study_table import require
from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnweaveError
from unweave.fleet.parameters import NetworkGroup
from unweave.io.arguments import numpy_rng
from unweave.methods.base import MODEL
from unweave.methods.batch import Posterior
from unweave.models.encoding import check_trained
from unweave.models.finding import Models, models_of
from unweave.models.images import check_shape
from unweave.models.model import Fleet, Model, join
from unweave.models.networks import networks_of
from unweave.nets.adam import Adam
from unweave.papers.inductive_biases.manipulation.contest import DECODER, LOSSES, Contest
from unweave.papers.inductive_biases.manipulation.images import grid_of
from unweave.papers.inductive_biases.manipulation.manipulation import COLUMNS, Manipulation
from unweave.papers.inductive_biases.manipulation.training import Learner, Training
from unweave.random import Stream

__all__ = ["OPTIMISER", "PairLearner", "exemplars", "joined", "manipulate"]

OPTIMISER = Adam(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-7)
HELD_OUT = 256


def manipulate(
    data: Dataset | str,
    disentangling: Models,
    entangling: Models,
    epsilon: float | None = None,
    steps: int = 30_000,
    *,
    draws: int = 5,
    held_out: int | None = None,
    optimiser: Adam = OPTIMISER,
    **training: Any,
) -> Manipulation:
    """Learn a small image change that favours entangled codes.

    Args:
        data: Images with a grid of factors, or the name of such a data set.
        disentangling: One or more trained models with disentangled codes. Their encoders are
            frozen; their decoders are fine-tuned.
        entangling: One or more models with entangled codes and the same architecture.
        epsilon: Largest change of a pixel (default: 0.1; 0.175 for rooms and Shapes3D).
        steps: Training steps of m; decoders take three times as many.
        draws: Codes sampled per image.
        held_out: Number of images on which the losses are evaluated; they are not used for
            training (default: 256, at most a quarter of all).
        optimiser: Optimiser of the decoders and of m.
        training: `out`, `batch` and further fields of `Training`.

    Returns:
        The manipulation, whose `modified(data)` is the new data set.
    """
    options = Training(epsilon=epsilon, steps=steps, optimiser=optimiser, **training)
    images = options.prepared(data)
    sides = [models_of(side) for side in (disentangling, entangling)]
    pairs = joined([model for side in sides for model in side], images).to(options.place)
    settings = {
        "disentangling": [_name(model) for model in sides[0]],
        "entangling": [_name(model) for model in sides[1]],
        "draws": draws,
        "held_out": min(HELD_OUT, len(images.support) // 4) if held_out is None else held_out,
    }

    def make(settings: Mapping[str, Any]) -> PairLearner:
        return PairLearner(pairs, len(sides[0]), images, settings, optimiser)

    return options.learn(make, images, settings)


def exemplars(
    models: Models, table: pd.DataFrame, count: int = 1, score: str = "mig"
) -> tuple[list[Model], list[Model]]:
    """Select the most and the least disentangled models, for `manipulate`.

    Args:
        models: Restarts of one method on the unchanged images.
        table: Their scores from `uw.evaluate`. Models without a row are not selected, so that
            over-pruned ones can be excluded (`over_pruned`).
        count: Number of models of each kind.
        score: Column of the score.

    Returns:
        The models with the highest scores, best first, and those with the lowest, lowest first.
    """
    known = {model.config.hash: model for model in models_of(models)}
    require(table, ("run", score), "pass a table from uw.evaluate")
    scores = table.dropna(subset=[score]).set_index("run")[score]
    ranked = [run for run in scores.sort_values(kind="stable").index if run in known]
    if count < 1 or len(ranked) < 2 * count:
        raise DataError(
            f"count={count} needs {2 * max(count, 1)} models with a {score}, got {len(ranked)}; "
            "train more models",
            subject="count",
            value=count,
        )
    highest, lowest = ranked[::-1][:count], ranked[:count]
    return [known[run] for run in highest], [known[run] for run in lowest]


def joined(models: Sequence[Model], data: Dataset) -> Fleet:
    """Join models into one fleet, after checking that they fit the data and have one decoder."""
    grid_of(data)
    for model in models:
        check_trained(model)
        check_shape(model.shape, data.shape, data.name)
        names = networks_of(model.config, model.shape)[MODEL]
        single = model.config.first is None and model.config.method.num_members == 1
        if not single or DECODER not in names or model.config.likelihood not in LOSSES:
            raise UnweaveError(
                "models must have one encoder and one decoder, such as beta_vae, got "
                f"{model.config.method.name}",
                subject="models",
                value=model.config.method.name,
            )
    kinds = {(model.config.likelihood, model.config.architecture) for model in models}
    if len(kinds) > 1:
        raise UnweaveError(
            "models must have the same likelihood and architecture; pass restarts of one method",
            subject="models",
            value=kinds,
        )
    return join(models)


def _name(model: Model) -> str:
    """Run of a model and a digest of its parameters."""
    sha = hashlib.sha256()
    for name in ("encoder", DECODER):
        sha.update(model.parameters[name].cpu().contiguous().numpy().tobytes())
    return f"{model.config.hash} {sha.hexdigest()[:16]}"


class PairLearner(Learner):
    """m in training, from pairs of models; see `Learner`."""

    columns = COLUMNS

    def __init__(
        self,
        pairs: Fleet,
        disentangling: int,
        data: Dataset,
        settings: Mapping[str, Any],
        optimiser: Adam,
    ) -> None:
        self.held = _held_out(data, settings["held_out"], settings["seed"])
        weights = np.ones(len(data)) if data.weights is None else data.weights.astype(float)
        weights = np.where(np.isin(np.arange(len(data)), self.held), 0, weights)
        super().__init__(replace(data, weights=weights), settings, optimiser, pairs.device)
        config, nets = pairs.configs[0], pairs.nets()
        decoder = networks_of(config, pairs.shape)[MODEL][DECODER]

        def encode(images: Tensor) -> Posterior:
            return config.method.encode(nets, images.expand(len(pairs), *images.shape))

        self.contest = Contest(
            encode,
            NetworkGroup.of_one(DECODER, decoder, pairs.parameters[DECODER].clone(), optimiser),
            self.m,
            self.changed,
            LOSSES[config.likelihood],
            torch.arange(len(pairs), device=self.device) >= disentangling,
            settings["draws"],
            self.seed,
        )

    @property
    def groups(self) -> dict[str, NetworkGroup]:
        return self.contest.groups

    def move(self) -> None:
        self.contest.step(self.batch, self.step)

    def batch(self, purpose: str, number: Tensor) -> tuple[Tensor, Tensor]:
        """Images and their standardised factors."""
        stream = Stream(self.seed, f"images for {purpose}", number)
        return self.inputs(self.data.draw_indices(self.settings["batch"], stream))

    def inputs(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Images at these indices and their standardised factors."""
        return self.data.inputs(indices), self.standardised(self.data.factors(indices))

    @torch.no_grad()
    def curve_row(self) -> list[float]:
        """Return a row of the curve: losses on held-out images, always with the same noise."""
        sums = torch.zeros(len(self.contest.entangling), device=self.device)
        held = torch.as_tensor(self.held, device=self.device)
        for k, part in enumerate(held.split(self.settings["batch"])):
            found = self.contest.losses(*self.inputs(part), self.contest.noise("looking", k))
            sums += found.values * len(part)
        hindered, helped = self.contest.sides((sums / len(held)).double())
        row = [float(self.step), float(hindered), float(helped), float(helped - hindered)]
        if not all(map(math.isfinite, row)):
            raise UnweaveError(
                f"losses are not finite at step {int(self.step):,}; use a smaller learning rate",
                subject="step",
                value=int(self.step),
            )
        return row


def _held_out(data: Dataset, count: int, seed: int) -> np.ndarray:
    """Sorted indices of a random sample of the images with positive weight."""
    support = data.support
    if not 1 <= count < len(support):
        raise DataError(
            f"held_out must be at least 1 and below {len(support):,}, the number of images of "
            f"{data.name}, got {count}",
            subject="held_out",
            value=count,
        )
    return np.sort(numpy_rng(seed).choice(support, count, replace=False))
