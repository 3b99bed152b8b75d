"""Entangled twins of trained models, with the same images and likelihood but mixed codes.

With a standard normal prior, the map of Theorem 1 is f(z) = A z. The twin encodes x to f(z) and
decodes with decoder ∘ f:

    q'(z'|x) = N(A μ, A diag(σ²) A),    p'(x|z') = p(x|A z')

The twin is also a VAE with a standard normal prior and a normal posterior, but its codes are
reflected. Its reconstructions, both terms of its ELBO and its p(x) are those of the model.

Shapes: n images, d latents.

References:
    Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations, Theorem 1, arXiv:1811.12359.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.origin import load_training_data
from unweave.evaluation.choice import choose
from unweave.evaluation.codes import DECODED_PER_BATCH, Codes, apply_metric, encode
from unweave.evaluation.evaluate import column
from unweave.methods.mixins import CustomPrior
from unweave.metrics import Metric
from unweave.metrics.elbo import ELBO, log_likelihood
from unweave.models.model import Model
from unweave.papers.common_assumptions.theory import impossibility
from unweave.papers.theory import TheoryError
from unweave.progress import say
from unweave.random import Stream

__all__ = ["EntangledTwin", "compare", "entangled_twin"]

NOISE = "entangled twin"


@dataclass(frozen=True, eq=False)
class EntangledTwin:
    """A model whose codes are multiplied by A, and which is otherwise unchanged.

    Args:
        model: Trained model.
        matrix: A `[d, d]`, its own inverse.
    """

    model: Model
    matrix: np.ndarray

    def encode(self, images: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and log-variance of every latent, float32 `[n, d]`, as `Model.encode` does.

        Given x, the latents of the twin are dependent; `posterior` returns their covariances.
        """
        return self.marginals(*self.model.encode(images, seed))

    def marginals(self, means: np.ndarray, logvars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert means and log-variances `[…, n, d]` of the model to those of the twin."""
        variances = np.exp(logvars.astype(np.float64)) @ self.matrix**2
        return self.transform(means), np.log(variances).astype(np.float32)

    def transform(self, codes: np.ndarray) -> np.ndarray:
        """Compute f(z) = A z, float32 `[…, n, d]`: from codes of the model to the twin or back."""
        return (np.asarray(codes, np.float64) @ self.matrix).astype(np.float32)

    def posterior(self, images: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return means `[n, d]` and covariances A diag(σ²) A `[n, d, d]` of q'(z'|x), float64."""
        means, logvars = (part.astype(np.float64) for part in self.model.encode(images, seed))
        return means @ self.matrix, self._covariances(logvars)

    def decode(self, codes: Any) -> np.ndarray:
        """Decode codes z' `[n, d]` to mean images, float32 `[n, H, W, C]`."""
        return self.model.decode(self.transform(codes))

    def elbo(
        self, images: Any, seed: int = 0, draws: int = 1, *, factorised: bool = False
    ) -> dict[str, float]:
        """Compute the ELBO and its terms, averaged over images, in nats.

            KL(q' ‖ N(0, I)) = ½ [‖m‖² + tr S - log det S - d],    q' = N(m, S)

        Args:
            images: Images `[n, H, W, C]`, bytes or floats in [0, 1].
            seed: Random seed of the noise.
            draws: Number of posterior samples per image (default 1).
            factorised: Use the best posterior without covariances, N(m, 1 / (S⁻¹)_kk), instead of
                q'. A VAE trained from scratch could not represent any other.

        Returns:
            `elbo`, `log_likelihood` and `kl`.
        """
        images = np.asarray(images)
        means, logvars = (part.astype(np.float64) for part in self.model.encode(images))
        mean, covariance = means @ self.matrix, self._covariances(logvars)
        narrow = 1 / (np.exp(-logvars) @ self.matrix**2)
        diagonal = narrow[:, :, None] * np.eye(narrow.shape[1])
        kl = _kl(mean, diagonal if factorised else covariance)
        fits = np.zeros(len(images))
        for step in range(draws):
            noise = Stream(seed, NOISE, step).normal(*means.shape).double().numpy()
            if factorised:
                codes = mean + np.sqrt(narrow) * noise
            else:
                codes = (means + np.exp(logvars / 2) * noise) @ self.matrix
            kind = self.model.config.likelihood
            fits += log_likelihood(images, self.decode(codes), kind) / draws
        return {
            "elbo": float((fits - kl).mean()),
            "log_likelihood": float(fits.mean()),
            "kl": float(kl.mean()),
        }

    def _covariances(self, logvars: np.ndarray) -> np.ndarray:
        return np.einsum("ij,nj,jk->nik", self.matrix, np.exp(logvars), self.matrix)

    def __repr__(self) -> str:
        return f"entangled twin of {self.model}"


def entangled_twin(
    model: Model, alpha: float | None = None, matrix: np.ndarray | None = None
) -> EntangledTwin:
    """Return the entangled twin of a trained model, which produces the same images.

    Args:
        model: Model with a standard normal prior.
        alpha: α of the proof, between 0 and ½ (default: 1/d, or 0.15 for two latents).
        matrix: A to use instead of the reflection of the proof, such as
            `impossibility.cosine(d)`, which mixes many latents more strongly. Excludes `alpha`.
    """
    if not isinstance(model, Model):
        raise TheoryError("model must be a single model, such as fleet[0]", subject="model")
    method = model.config.method
    if method.deterministic or isinstance(method, CustomPrior):
        raise TheoryError(
            f"{method.name} does not have a standard normal prior, which an entangled twin needs; "
            "use a model that does, such as beta_vae",
            subject="model",
            value=method.name,
        )
    normal = [impossibility.PRIORS["normal"]] * model.config.code_size
    if matrix is None:
        return EntangledTwin(model, impossibility.entangle(normal, alpha).matrix)
    if alpha is not None:
        raise TheoryError("use either alpha or matrix, not both", subject="alpha", value=alpha)
    return EntangledTwin(model, impossibility.entangle_with(normal, matrix).matrix)


def compare(
    model: Model,
    data: Dataset | str | None = None,
    metrics: str | Iterable[str] = ("classic", "elbo", "pixel_error"),
    alpha: float | None = None,
    matrix: np.ndarray | None = None,
    seed: int = 0,
    sampled: bool = False,
) -> pd.DataFrame:
    """Score a model and its entangled twin.

    Args:
        model: Trained model.
        data: Data set or its name (default: the training data, if they can be loaded again).
        metrics: Metrics, as for `unweave.evaluate`.
        alpha: See `entangled_twin`.
        matrix: See `entangled_twin`.
        seed: Random seed of the metrics.
        sampled: Score samples from the posteriors instead of their means.

    Returns:
        A table with a row per score and the columns `metric`, `model` and `twin`. `elbo` and `kl`
        of the twin take the covariances of its posterior into account.
    """
    twin = entangled_twin(model, alpha, matrix)
    chosen = choose(metrics)
    data = load_training_data(model.config.data) if data is None else data
    data = load_data(data) if isinstance(data, str) else data
    codes = encode(model, data, seed)
    means, logvars = twin.marginals(codes.means, codes.logvars)
    twin_codes = _TwinCodes(
        means, logvars, codes.factors, codes.images_of, seed, codes.fleet, data, codes, twin
    )
    both = {
        "model": {name: score for m in chosen for name, score in _scores(m, codes, sampled)},
        "twin": {name: score for m in chosen for name, score in _scores(m, twin_codes, sampled)},
    }
    return pd.DataFrame(both).rename_axis("metric").reset_index()


@dataclass(frozen=True, eq=False)
class _TwinCodes(Codes):
    """Codes of a twin; sampled codes are transformed samples of the model's posteriors."""

    original: Codes
    twin: EntangledTwin

    def sampled(self, place: int, rows: np.ndarray | None = None) -> np.ndarray:
        return self.twin.transform(self.original.sampled(place, rows))

    def reconstructions(self, place: int, sampled: bool) -> np.ndarray:
        return self.twin.decode(self._seen(place, self.decoded_rows, sampled))

    def compared_reconstructions(self, place: int, sampled: bool) -> Iterator[np.ndarray]:
        for start in range(0, len(self.compared_rows), DECODED_PER_BATCH):
            part = self.compared_rows[start : start + DECODED_PER_BATCH]
            yield self.twin.decode(self._seen(place, part, sampled))

    def kl(self) -> float:
        """Mean KL(q' ‖ N(0, I)) over the decoded rows."""
        rows = self.decoded_rows
        covariances = self.twin._covariances(self.original.logvars[0][rows].astype(np.float64))
        return float(_kl(self.means[0][rows].astype(np.float64), covariances).mean())

    def _seen(self, place: int, rows: np.ndarray, sampled: bool) -> np.ndarray:
        return self.sampled(place, rows) if sampled else self.means[place][rows]


def _scores(metric: Metric, codes: Codes, sampled: bool) -> Iterator[tuple[str, float]]:
    outcome = apply_metric(metric, codes, 0, sampled)
    if outcome.error:
        say(f"{metric.name} could not be computed: {outcome.error}")
    scores = dict(outcome.scores)
    if metric is ELBO and isinstance(codes, _TwinCodes) and scores:
        # The metric ignores covariances.
        scores["kl"] = codes.kl()
        scores["elbo"] = scores["log_likelihood"] - scores["kl"]
    for part, score in scores.items():
        yield column(metric, part), score


def _kl(means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """KL(N(m, S) ‖ N(0, I)) of every row, `[n]`."""
    traces = np.trace(covariances, axis1=1, axis2=2)
    volumes = np.linalg.slogdet(covariances)[1]
    return 0.5 * ((means**2).sum(1) + traces - volumes - means.shape[1])
