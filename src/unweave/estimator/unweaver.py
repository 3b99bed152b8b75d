"""An estimator with scikit-learn's manners: images or rows of features in, codes out."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from unweave.analysis.activity import KL, kl_in_use, shown_activity
from unweave.data.arrays import as_store
from unweave.data.dataset import Dataset
from unweave.data.stores import Floats
from unweave.estimator.choices import architecture_for, method_with, seeds_from
from unweave.estimator.saving import damage, read_note, read_ranking, write
from unweave.fitting import MINUTES, RATE, SEEDS
from unweave.fitting import fit as fit_fleet
from unweave.methods import Method, saved_name
from unweave.metrics.elbo import kl_divergence, log_likelihood
from unweave.models.drawn_images import NUM_DRAWN, drawn_rows
from unweave.models.encoding import MEAN, Member, check_member, posteriors
from unweave.models.members import aligned_posteriors
from unweave.models.model import Model
from unweave.models.model import load as load_model
from unweave.models.rows import (
    Features,
    Images,
    InputError,
    flattened,
    kind_of,
    rows_from,
)
from unweave.models.shapes import check_shape
from unweave.nets.device import chosen_device
from unweave.random import Stream

__all__ = ["Unweaver"]

ROWS_AT_ONCE = 4_096


# scikit-learn has no types, so its classes count as Any.
class Unweaver(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a fleet without labels, keeps the model that others resemble, and encodes with it.

    X is images, `[n, H, W, C]` or `[n, H, W]`, bytes or floats in [0, 1]; the same as rows, with
    `shape`; or rows of features of any scale. Square images of 32, 64 or 128 pixels are convolved,
    all else goes through dense layers. Labels are never looked at.

    Args:
        method: The name of a method, or one with its hyperparameters, `BetaVAE(beta=[1, 4])`.
        strengths: Values of the named method's first strength (β of a β-VAE, γ of FactorVAE); by
            default those of `uw.fit`, or the method's own.
        seeds: How many models for each strength; by default 4, on a GPU 10.
        steps: Updates of the parameters; None for as many as fit into `minutes`, which depends on
            the machine.
        minutes: That training may take, about, where `steps` is None.
        latents: Size of the code.
        active: Whether codes have only the active latents, as the report and the explorer show
            them: those that carry more than 0.01 nats, those that carry most first (one at least),
            in place of all in the model's order.
        member: Of ensembles (`method="vae-ensemble"`): the number of the member that encodes, or
            `"mean"`: the mean of all, the latents of each as those of the first, which decodes.
        shape: Height, width and, if more than one, channels, where rows of X are images.
        architecture: Of `ARCHITECTURES`; by default as above.
        likelihood: Of `LIKELIHOODS`; by default `"bernoulli"` for images, `"narrow_gaussian"` for
            features.
        batch: Rows per step.
        learning_rate: Of Adam.
        device: By default a GPU where there is one.
        progress: Whether to show how far training is.
        random_state: Of everything that is drawn. None is not random: the seeds are 0, 1, 2 ….

    Attributes:
        model_: The model that was chosen, see `uw.Model`.
        fit_: All models and what they agree on, see `uw.fit`; not kept by `save`.
        ranking_: The models, best first.
        kl_: What each latent carries on the rows of training, in nats, `[latents]`.
        active_: The active latents, those that carry most first.
        agreement_: Where `member` is `"mean"`: how far members agree on each latent, see
            `uw.select.member_agreement`, `[latents]`; else None.
        rows_: How rows become what networks see.
        n_features_in_: Numbers in a row of X.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> unweaver = Unweaver(steps=2, seeds=1, latents=2).fit(X)
        >>> unweaver.transform(X).shape, unweaver.get_feature_names_out().tolist()
        ((100, 2), ['z0', 'z1'])
    """

    def __init__(
        self,
        method: str | Method = "beta-vae",
        *,
        strengths: Any = None,
        seeds: int | None = None,
        steps: int | None = 2_000,
        minutes: float = MINUTES,
        latents: int = 10,
        active: bool = False,
        member: Member = 0,
        shape: Sequence[int] | None = None,
        architecture: str | None = None,
        likelihood: str | None = None,
        batch: int = 64,
        learning_rate: float = RATE,
        device: str | None = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.strengths = strengths
        self.seeds = seeds
        self.steps = steps
        self.minutes = minutes
        self.latents = latents
        self.active = active
        self.member = member
        self.shape = shape
        self.architecture = architecture
        self.likelihood = likelihood
        self.batch = batch
        self.learning_rate = learning_rate
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - every estimator takes y
        """Train the fleet and choose a model; y is not looked at."""
        rows, shape = self._rows(X, fitting=True)
        self.rows_: Images | Features = kind_of(rows, shape, self.shape, X)
        pixels = self.rows_.pixels(rows)
        images = isinstance(self.rows_, Images)
        store = as_store(pixels) if pixels.dtype == np.uint8 else Floats(pixels)
        data = Dataset("images" if images else "features", store)
        if self.steps is not None and self.steps < 1:
            raise InputError(f"steps must be at least 1, but got {self.steps}")
        self.fit_ = fit_fleet(
            data,
            method_with(self.method, self.strengths),
            seeds=seeds_from(self._num_seeds(), self.random_state),
            steps=self.steps,
            minutes=self.minutes,
            device=self._device(),
            progress=self.progress,
            fewest=2,
            batch=self.batch,
            latents=self.latents,
            architecture=self.architecture or architecture_for(self.rows_.shape),
            likelihood=self.likelihood or ("bernoulli" if images else "narrow_gaussian"),
            learning_rate=self.learning_rate,
        )
        self.model_: Model = self.fit_.best
        self.ranking_: pd.DataFrame = self.fit_.ranking
        check_member(self.model_, self.member)
        drawn = pixels[drawn_rows(data, NUM_DRAWN, seed=0)]
        means, logvars = self._encode(drawn)
        method = self.model_.config.method
        exact = means.astype(np.float64), logvars.astype(np.float64)
        self.kl_: np.ndarray = kl_in_use(*exact, method.standard_noise)
        activity = shown_activity(
            *exact, deterministic=method.deterministic, standard_noise=method.standard_noise
        )
        self.active_: np.ndarray = activity.order[: max(1, int(activity.active.sum()))]
        self._centre = means.mean(0)
        together = self.member == MEAN
        self.agreement_: np.ndarray | None = (
            aligned_posteriors(self._placed(), drawn).agreement if together else None
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Mean codes, float32 `[n, latents]`; `get_feature_names_out` names their columns."""
        means, _ = self._encode(self._pixels(X))
        return means[:, self._columns()]

    def inverse_transform(self, X: Any) -> np.ndarray:
        """What codes decode to, laid out as X was when fitted: images are floats in [0, 1].

        Latents that codes leave out, being inactive, are given their mean.
        """
        check_is_fitted(self)
        columns = self._columns()
        given = check_array(X, dtype=np.float32)
        if given.shape[1] != len(columns):
            raise InputError(f"codes have {len(columns)} columns here, but X has {given.shape[1]}")
        codes = np.tile(self._centre, (len(given), 1))
        codes[:, columns] = given
        return self.rows_.restored(self._placed().decode(codes, self._decoder()))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 - every estimator takes y
        """The mean ELBO in nats per image, higher is better: log p(x|z) - KL(q(z|x) ‖ N(0, I)).

        One z is drawn for each image, always with the same noise. A Gaussian is without its
        constant, which is the same for all models. With `member="mean"` it is the first member's.
        """
        pixels = self._pixels(X)
        model, total = self._placed(), 0.0
        for start, part in _parts(pixels):
            mean, logvar = model.encode(part, member=self._decoder())
            places = torch.arange(start, start + len(part))
            noise = Stream(0, "score").normal(places, mean.shape[1]).numpy()
            decoded = model.decode(mean + np.exp(logvar / 2) * noise, self._decoder())
            total += log_likelihood(part, decoded, model.config.likelihood).sum()
            total -= kl_divergence(mean, logvar).sum()
        return float(total / len(pixels))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """The names of the columns of codes: z and the number of the latent in the model."""
        check_is_fitted(self)
        return np.array([f"z{latent}" for latent in self._columns()], dtype=object)

    def save(self, folder: str | Path) -> Path:
        """Write the fitted estimator into `folder`, which must not exist yet; no pickle.

        The folder is also that of a saved model, which `uw.load`, `unweave encode` and `unweave
        export` take. A `random_state` that is no number is not kept.
        """
        check_is_fitted(self)
        folder = Path(folder)
        write(folder, self.model_, self.ranking_, self._note())
        return folder

    @classmethod
    def load(cls, folder: str | Path, method: type[Method] | None = None) -> Self:
        """The estimator in a folder that `save` wrote.

        Args:
            folder: Where it was saved.
            method: The class of its method, where that is your own and not one of `METHODS`.
        """
        folder = Path(folder)
        model = load_model(folder, method=method)
        with damage(folder):
            note = read_note(folder, method)
            fitted = cls(**note["parameters"])
            fitted.rows_ = rows_from(note["rows"])
            fitted.kl_ = np.array(note["kl"], float)
            fitted._centre = np.array(note["centre"], np.float32)
            for values in (fitted.kl_, fitted._centre):
                if values.shape != (model.config.code_size,):
                    raise ValueError(f"it has numbers {list(values.shape)} for its latents")
            fitted.active_ = _active_latents(note.get("active"), fitted.kl_)
            agreement = note.get("agreement")
            fitted.agreement_ = None if agreement is None else np.array(agreement, float)
            fitted.n_features_in_ = int(note["n_features_in"])
            if note["feature_names_in"] is not None:
                fitted.feature_names_in_ = np.array(note["feature_names_in"], dtype=object)
            fitted.ranking_ = read_ranking(folder)
        fitted.model_ = model
        return fitted

    def _note(self) -> dict[str, Any]:
        """All that the model does not know of this estimator, as plain data."""
        parameters = self.get_params(deep=False)
        if isinstance(self.method, Method):
            parameters["method"] = {"name": saved_name(type(self.method)), **asdict(self.method)}
        if not isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = None
        names = getattr(self, "feature_names_in_", None)
        return {
            "parameters": parameters,
            "rows": asdict(self.rows_),
            "kl": self.kl_,
            "active": self.active_,
            "centre": self._centre,
            "agreement": self.agreement_,
            "n_features_in": self.n_features_in_,
            "feature_names_in": names,
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _columns(self) -> np.ndarray:
        """The latents that codes have."""
        return self.active_ if self.active else np.arange(len(self.kl_))

    def _pixels(self, X: Any) -> np.ndarray:
        """What the model sees of X."""
        check_is_fitted(self)
        rows, shape = self._rows(X, fitting=False)
        if shape is not None:
            check_shape(self.rows_.shape, shape, "X")
        return self.rows_.pixels(rows)

    def _rows(self, X: Any, fitting: bool) -> tuple[np.ndarray, tuple[int, int, int] | None]:
        """X as rows `[n, p]` that scikit-learn has checked; the shape of images, if it has one."""
        X, shape = flattened(X)
        fewest = 2 if fitting else 1
        return validate_data(self, X, reset=fitting, ensure_min_samples=fewest), shape

    def _num_seeds(self) -> int:
        return SEEDS[self._device().type] if self.seeds is None else self.seeds

    def _device(self) -> torch.device:
        return chosen_device(self.device)

    def _placed(self) -> Model:
        """The model where it is to work; kept on the CPU, it can be pickled for any machine."""
        return self.model_.to(self._device())

    def _encode(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = self._placed()
        if self.member == MEAN:
            aligned = aligned_posteriors(model, pixels)
            return aligned.mean, aligned.logvar
        (means,), (logvars,) = posteriors(model, pixels, member=self.member)
        return means, logvars

    def _decoder(self) -> int:
        """The member that decodes codes; those of all members are in the order of the first."""
        return 0 if self.member == MEAN else self.member


def _active_latents(said: Any, kl: np.ndarray) -> np.ndarray:
    """The active latents of a saved estimator; older ones have only their KL divergences."""
    if said is None:
        return np.argsort(-kl, kind="stable")[: max(1, int(KL.holds(kl).sum()))]
    known = isinstance(said, list) and all(type(j) is int and 0 <= j < len(kl) for j in said)
    if not known or not said or len(set(said)) < len(said):
        raise ValueError(f"its active latents are {said!r}")
    return np.array(said)


def _parts(pixels: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Some thousand rows at a time, and where they begin."""
    for start in range(0, len(pixels), ROWS_AT_ONCE):
        yield start, pixels[start : start + ROWS_AT_ONCE]
