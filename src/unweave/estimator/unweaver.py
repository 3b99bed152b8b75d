"""A scikit-learn estimator that turns images or rows of features into codes."""

from collections.abc import Iterable, Iterator, Sequence
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
from unweave.estimator.saving import read_metadata, read_ranking, reading_errors, write
from unweave.fitting import FIXED_PRECISION, MINUTES, RATE, SEEDS
from unweave.fitting import fit as fit_fleet
from unweave.fleet.callbacks import Callback
from unweave.methods import Method, saved_name
from unweave.metrics.elbo import kl_divergence, log_likelihood
from unweave.models.encoding import MEAN, Member, check_member, posteriors
from unweave.models.images import NUM_SAMPLED, check_shape, sample_rows
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
from unweave.nets.device import chosen_device
from unweave.random import Stream

__all__ = ["Unweaver"]

ROWS_PER_BATCH = 4_096


# scikit-learn has no types, so its classes count as Any.
class Unweaver(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a fleet without labels, chooses the model most similar to the others, and encodes.

    X contains images, `[n, H, W, C]` or `[n, H, W]`, as bytes or floats in [0, 1]; flattened
    images, with `shape`; or rows of features of any scale. Images of 16 to 256 pixels on each
    side use convolutional networks, all other inputs dense layers. Labels are ignored.

    Args:
        method: Name of a method, or a method with hyperparameters, `BetaVAE(beta=[1, 4])`.
        strengths: Values of the regularisation strength of the named method (β of a β-VAE, γ of
            FactorVAE; default: those of `uw.fit`, or the default of the method).
        seeds: Number of models per strength (default 4, on a GPU 10).
        steps: Number of training steps (default 2,000); None for as many as fit into `minutes`,
            which depends on the machine.
        minutes: Time limit of `fit` in minutes if `steps` is None (default 8).
        latents: Number of latent dimensions (default 10).
        active: Whether codes contain only the active latents, as in plots: those with a KL
            divergence above 0.01 nats, largest first, at least one. By default, codes contain all
            latents in the order of the model.
        member: For ensembles (`method="vae-ensemble"`): index of the member that encodes (default
            0), or `"mean"` for the mean over all members, aligned with the first, which decodes.
        shape: Height, width and, if more than one, channels, if rows of X are flattened images.
        architecture: Name in `ARCHITECTURES` (default: see above).
        likelihood: Name in `LIKELIHOODS` (default `"bernoulli"` for images, `"narrow_gaussian"`
            for features).
        batch: Batch size (default 64).
        learning_rate: Learning rate of Adam (default 1e-3).
        device: Device (default: a GPU if available).
        progress: Whether to show the progress of training.
        callbacks: Callbacks and trackers, see `uw.trackers.Callback`; not saved by `save`.
        random_state: Seed or generator for sampling the seeds (default: the seeds 0, 1, 2, …).

    Attributes:
        model_: The chosen model, see `uw.Model`.
        fit_: All models and the factors they share, see `uw.fit`; not saved by `save`.
        ranking_: Ranking of the models, best first.
        kl_: KL divergence of each latent on the training data, in nats, `[latents]`.
        active_: Indices of the active latents, by decreasing KL divergence.
        agreement_: With `member="mean"`, the agreement of the members on each latent, see
            `uw.select.member_agreement`, `[latents]`; otherwise None.
        rows_: Conversion of rows of X to network inputs.
        n_features_in_: Number of features in a row of X.

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
        callbacks: Iterable[Callback] | Callback | None = None,
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
        self.callbacks = callbacks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - every estimator takes y
        """Train the fleet and choose a model; y is ignored."""
        rows, shape = self._rows(X, fitting=True)
        self.rows_: Images | Features = kind_of(rows, shape, self.shape, X)
        pixels = self.rows_.pixels(rows)
        images = isinstance(self.rows_, Images)
        store = as_store(pixels) if pixels.dtype == np.uint8 else Floats(pixels)
        data = Dataset("images" if images else "features", store)
        if self.steps is not None and self.steps < 1:
            raise InputError(
                f"steps must be at least 1, got {self.steps}",
                subject="steps",
                value=self.steps,
            )
        self.fit_ = fit_fleet(
            data,
            method_with(self.method, self.strengths),
            seeds=seeds_from(self._num_seeds(), self.random_state),
            steps=self.steps,
            minutes=self.minutes if self.steps is None else None,
            device=self._device(),
            progress=self.progress,
            min_images=2,
            callbacks=self.callbacks,
            batch=self.batch,
            latents=self.latents,
            architecture=self.architecture or architecture_for(self.rows_.shape),
            likelihood=self.likelihood or ("bernoulli" if images else "narrow_gaussian"),
            learning_rate=self.learning_rate,
            init="glorot",
            precision=FIXED_PRECISION[self._device().type],
        )
        self.model_: Model = self.fit_.best
        self.ranking_: pd.DataFrame = self.fit_.ranking
        check_member(self.model_, self.member)
        sample = pixels[sample_rows(data, NUM_SAMPLED, seed=0)]
        means, logvars = self._encode(sample)
        method = self.model_.config.method
        exact = means.astype(np.float64), logvars.astype(np.float64)
        self.kl_: np.ndarray = kl_in_use(*exact, method.standard_noise)
        activity = shown_activity(
            *exact, deterministic=method.deterministic, standard_noise=method.standard_noise
        )
        self.active_: np.ndarray = activity.order[: max(1, int(activity.active.sum()))]
        self._centre = means.mean(0)
        self.agreement_: np.ndarray | None = (
            aligned_posteriors(self._model(), sample).agreement if self.member == MEAN else None
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return mean codes, float32 `[n, latents]`, with columns `get_feature_names_out`."""
        means, _ = self._encode(self._pixels(X))
        return means[:, self._columns()]

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Decode codes to the layout of the training data; images are floats in [0, 1].

        Inactive latents that are missing from the codes are set to their mean.
        """
        check_is_fitted(self)
        columns = self._columns()
        partial = check_array(X, dtype=np.float32)
        if partial.shape[1] != len(columns):
            raise InputError(
                f"X must have {len(columns)} columns (one per latent), got {partial.shape[1]}",
                subject="X",
                value=partial.shape[1],
            )
        codes = np.tile(self._centre, (len(partial), 1))
        codes[:, columns] = partial
        return self.rows_.restored(self._model().decode(codes, self._decoder()))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 - every estimator takes y
        """Return the mean ELBO in nats per image: log p(x|z) - KL(q(z|x) ‖ N(0, I)).

        Higher is better. One z is sampled per image, always with the same noise. Gaussian
        likelihoods omit the constant term. With `member="mean"`, the first member is scored.
        """
        pixels = self._pixels(X)
        model, total = self._model(), 0.0
        for start, part in _batches(pixels):
            mean, logvar = model.encode(part, member=self._decoder())
            indices = torch.arange(start, start + len(part))
            noise = Stream(0, "score").normal(indices, mean.shape[1]).numpy()
            decoded = model.decode(mean + np.exp(logvar / 2) * noise, self._decoder())
            total += log_likelihood(part, decoded, model.config.likelihood).sum()
            total -= kl_divergence(mean, logvar).sum()
        return float(total / len(pixels))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Return the names of the code columns: z and the index of the latent in the model."""
        check_is_fitted(self)
        return np.array([f"z{latent}" for latent in self._columns()], dtype=object)

    def save(self, folder: str | Path) -> Path:
        """Save the fitted estimator to `folder`, which must not exist yet, without pickle.

        The folder is also a saved model for `uw.load`, `unweave encode` and `unweave export`. A
        `random_state` that is not an integer is not saved.
        """
        check_is_fitted(self)
        folder = Path(folder)
        write(folder, self.model_, self.ranking_, self._metadata())
        return folder

    @classmethod
    def load(cls, folder: str | Path, method: type[Method] | None = None) -> Self:
        """Load an estimator saved with `save`.

        Args:
            folder: Folder of the saved estimator.
            method: Class of its method, if it is a custom method that is not in `METHODS`.
        """
        folder = Path(folder)
        model = load_model(folder, method=method)
        with reading_errors(folder):
            metadata = read_metadata(folder, method)
            fitted = cls(**metadata["parameters"])
            fitted.rows_ = rows_from(metadata["rows"])
            fitted.kl_ = np.array(metadata["kl"], float)
            fitted._centre = np.array(metadata["centre"], np.float32)
            for values in (fitted.kl_, fitted._centre):
                if values.shape != (model.config.code_size,):
                    raise ValueError(f"wrong shape {list(values.shape)} of values per latent")
            fitted.active_ = _active_latents(metadata.get("active"), fitted.kl_)
            agreement = metadata.get("agreement")
            fitted.agreement_ = None if agreement is None else np.array(agreement, float)
            fitted.n_features_in_ = int(metadata["n_features_in"])
            if metadata["feature_names_in"] is not None:
                fitted.feature_names_in_ = np.array(metadata["feature_names_in"], dtype=object)
            fitted.ranking_ = read_ranking(folder)
        fitted.model_ = model
        return fitted

    def _metadata(self) -> dict[str, Any]:
        """Return the state of the estimator that is not part of the model, as plain data."""
        parameters = {**self.get_params(deep=False), "callbacks": None}
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
        """Return the indices of the latents in the codes."""
        return self.active_ if self.active else np.arange(len(self.kl_))

    def _pixels(self, X: Any) -> np.ndarray:
        """Return X as network inputs."""
        check_is_fitted(self)
        rows, shape = self._rows(X, fitting=False)
        if shape is not None:
            check_shape(self.rows_.shape, shape, "X")
        return self.rows_.pixels(rows)

    def _rows(self, X: Any, fitting: bool) -> tuple[np.ndarray, tuple[int, int, int] | None]:
        """Return X as rows `[n, p]` validated by scikit-learn, and the shape if X is images."""
        X, shape = flattened(X)
        fewest = 2 if fitting else 1
        return validate_data(self, X, reset=fitting, ensure_min_samples=fewest), shape

    def _num_seeds(self) -> int:
        return SEEDS[self._device().type] if self.seeds is None else self.seeds

    def _device(self) -> torch.device:
        return chosen_device(self.device)

    def _model(self) -> Model:
        """Return the model on its device; `model_` stays on the CPU, so that it can be pickled."""
        return self.model_.to(self._device())

    def _encode(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = self._model()
        if self.member == MEAN:
            aligned = aligned_posteriors(model, pixels)
            return aligned.mean, aligned.logvar
        (means,), (logvars,) = posteriors(model, pixels, member=self.member)
        return means, logvars

    def _decoder(self) -> int:
        """Return the member that decodes; mean codes are aligned with the first member."""
        return 0 if self.member == MEAN else self.member


def _active_latents(saved: Any, kl: np.ndarray) -> np.ndarray:
    """Return the active latents of a saved estimator; older files have only KL divergences."""
    if saved is None:
        return np.argsort(-kl, kind="stable")[: max(1, int(KL.holds(kl).sum()))]
    valid = isinstance(saved, list) and all(type(j) is int and 0 <= j < len(kl) for j in saved)
    if not valid or not saved or len(set(saved)) < len(saved):
        raise ValueError(f"invalid active latents {saved!r}")
    return np.array(saved)


def _batches(pixels: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield batches of rows, each with the index of its first row."""
    for start in range(0, len(pixels), ROWS_PER_BATCH):
        yield start, pixels[start : start + ROWS_PER_BATCH]
