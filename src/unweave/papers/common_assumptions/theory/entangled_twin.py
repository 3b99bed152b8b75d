"""The entangled twin of a trained model: the same images and likelihood, other codes.

Under a standard normal prior the map of Theorem 1 is f(z) = A z. The twin encodes x to f(z) and
decodes with decoder ∘ f:

    q'(z'|x) = N(A μ, A diag(σ²) A),    p'(x|z') = p(x|A z')

so that it is itself a VAE with a standard normal prior and a normal posterior, whose codes are
turned. Reconstructions, both terms of the ELBO and p(x) are those of the model.

Shapes: n images, d latents.

References:
    Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations, Theorem 1, arXiv:1811.12359.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.origin import own_data
from unweave.evaluation.apply import apply
from unweave.evaluation.choice import choose
from unweave.evaluation.codes import DECODED_AT_ONCE, Codes, encode
from unweave.evaluation.evaluate import column
from unweave.methods.mixins import CustomPrior
from unweave.metrics import Metric
from unweave.metrics.elbo import ELBO, log_likelihood
from unweave.models.model import Model
from unweave.papers.common_assumptions.theory import impossibility
from unweave.papers.common_assumptions.theory.impossibility import Entanglement, Marginal
from unweave.papers.theory import TheoryError
from unweave.progress import say
from unweave.random import Stream

__all__ = ["EntangledTwin", "compare", "entangled_twin"]

NOISE = "entangled twin"


@dataclass(frozen=True, eq=False)
class EntangledTwin:
    """A model whose codes are turned by A, and which is otherwise the same.

    Args:
        model: The trained one.
        matrix: A `[d, d]`, its own inverse.
    """

    model: Model
    matrix: np.ndarray

    def encode(self, images: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Mean and log-variance of every latent, float32 `[n, d]` each, as `Model.encode`.

        Latents of the twin depend on each other given x: `posterior` has their covariances.
        """
        return self.turned(*self.model.encode(images, seed))

    def turned(self, means: np.ndarray, logvars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the model's means and log-variances, `[…, n, d]` each, are for the twin."""
        variances = np.exp(logvars.astype(np.float64)) @ self.matrix**2
        return self.turn(means), np.log(variances).astype(np.float32)

    def turn(self, codes: np.ndarray) -> np.ndarray:
        """f(z) = A z, float32 `[…, n, d]`: from codes of the model to the twin's, and back."""
        return (np.asarray(codes, np.float64) @ self.matrix).astype(np.float32)

    def posterior(self, images: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Means `[n, d]` and covariances A diag(σ²) A `[n, d, d]` of q'(z'|x), float64."""
        means, logvars = (part.astype(np.float64) for part in self.model.encode(images, seed))
        return means @ self.matrix, self._covariances(logvars)

    def decode(self, codes: Any) -> np.ndarray:
        """The mean images of codes `[n, d]`: the model's of A z', float32 `[n, H, W, C]`."""
        return self.model.decode(self.turn(codes))

    def elbo(
        self, images: Any, seed: int = 0, draws: int = 1, *, factorised: bool = False
    ) -> dict[str, float]:
        """The ELBO and its terms, means over images, in nats.

            KL(q' ‖ N(0, I)) = ½ [‖m‖² + tr S - log det S - d],    q' = N(m, S)

        Args:
            images: `[n, H, W, C]`, bytes or floats in [0, 1].
            seed: Of the noise, ε of image and draw.
            draws: Of the posterior, for each image.
            factorised: Take the best posterior without covariances, N(m, 1 / (S⁻¹)_kk), in place
                of q'. This is all that a VAE can have that learns from the start.

        Returns:
            `elbo`, `log_likelihood` and `kl`.
        """
        images = np.asarray(images)
        means, logvars = (part.astype(np.float64) for part in self.model.encode(images))
        mean, covariance = means @ self.matrix, self._covariances(logvars)
        narrow = 1 / (np.exp(-logvars) @ self.matrix**2)
        kl = _kl(mean, _diagonal(narrow) if factorised else covariance)
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
        return f"the entangled twin of {self.model}"


def entangled_twin(
    model: Model, alpha: float | None = None, matrix: np.ndarray | None = None
) -> EntangledTwin:
    """The twin of a trained model, which no look at images can tell from it.

    Args:
        model: One with a standard normal prior.
        alpha: α of the proof, between 0 and ½; by default 1/d, and 0.15 for two latents.
        matrix: Another A than the proof's reflection, such as `impossibility.cosine(d)`, which
            mixes many latents more; in place of α.
    """
    if not isinstance(model, Model):
        raise TheoryError("a twin is of one model; take one of a fleet, fleet[0]")
    method = model.config.method
    if method.deterministic or isinstance(method, CustomPrior):
        raise TheoryError(
            f"{method.name} has no standard normal prior, so that turned codes are not the same "
            "model; take one that has, such as beta_vae"
        )
    normal = [impossibility.PRIORS["normal"]] * model.config.code_size
    return EntangledTwin(model, _map(normal, alpha, matrix).matrix)


def compare(
    model: Model,
    data: Dataset | str | None = None,
    metrics: str | Iterable[str] = ("classic", "elbo", "pixel_error"),
    alpha: float | None = None,
    matrix: np.ndarray | None = None,
    seed: int = 0,
    sampled: bool = False,
) -> pd.DataFrame:
    """What metrics say of a model and of its entangled twin.

    Args:
        model: A trained model.
        data: A data set, or the name of one; by default what the model was trained on, where that
            can be made again.
        metrics: As for `unweave.evaluate`.
        alpha: See `entangled_twin`.
        matrix: See `entangled_twin`.
        seed: Of all that metrics draw.
        sampled: Score codes drawn from the posteriors instead of their means.

    Returns:
        A row per score: `metric`, `model`, `twin`. `elbo` and `kl` of the twin are those of its
        own posterior, with covariances.
    """
    twin = entangled_twin(model, alpha, matrix)
    chosen = choose(metrics)
    data = own_data(model.config.data) if data is None else data
    data = load_data(data) if isinstance(data, str) else data
    codes = encode(model, data, seed)
    means, logvars = twin.turned(codes.means, codes.logvars)
    turned = _TwinCodes(
        means, logvars, codes.factors, codes.images_of, seed, codes.fleet, data, codes, twin
    )
    both = {
        "model": {name: score for m in chosen for name, score in _scores(m, codes, sampled)},
        "twin": {name: score for m in chosen for name, score in _scores(m, turned, sampled)},
    }
    return pd.DataFrame(both).rename_axis("metric").reset_index()


@dataclass(frozen=True, eq=False)
class _TwinCodes(Codes):
    """The codes of a twin; those drawn are turned draws of the model's posteriors."""

    original: Codes
    twin: EntangledTwin

    def sampled(self, place: int, rows: np.ndarray | None = None) -> np.ndarray:
        return self.twin.turn(self.original.sampled(place, rows))

    def reconstructions(self, place: int, sampled: bool) -> np.ndarray:
        return self.twin.decode(self._seen(place, self.decoded_rows, sampled))

    def compared_reconstructions(self, place: int, sampled: bool) -> Iterator[np.ndarray]:
        for start in range(0, len(self.compared_rows), DECODED_AT_ONCE):
            part = self.compared_rows[start : start + DECODED_AT_ONCE]
            yield self.twin.decode(self._seen(place, part, sampled))

    def kl(self) -> float:
        """The mean KL(q' ‖ N(0, I)) of the decoded rows."""
        rows = self.decoded_rows
        covariances = self.twin._covariances(self.original.logvars[0][rows].astype(np.float64))
        return float(_kl(self.means[0][rows].astype(np.float64), covariances).mean())

    def _seen(self, place: int, rows: np.ndarray, sampled: bool) -> np.ndarray:
        return self.sampled(place, rows) if sampled else self.means[place][rows]


def _map(
    priors: Sequence[Marginal], alpha: float | None, matrix: np.ndarray | None
) -> Entanglement:
    if matrix is None:
        return impossibility.entangle(priors, alpha)
    if alpha is not None:
        raise TheoryError("give α or a matrix, not both")
    return impossibility.entangle_with(priors, matrix)


def _scores(metric: Metric, codes: Codes, sampled: bool) -> Iterator[tuple[str, float]]:
    outcome = apply(metric, codes, 0, sampled)
    if outcome.error:
        say(f"no {metric.name}: {outcome.error}")
    scores = dict(outcome.scores)
    if metric is ELBO and isinstance(codes, _TwinCodes) and scores:
        # The metric knows of no covariances.
        scores["kl"] = codes.kl()
        scores["elbo"] = scores["log_likelihood"] - scores["kl"]
    for part, score in scores.items():
        yield column(metric, part), score


def _kl(means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """KL(N(m, S) ‖ N(0, I)) of every row, `[n]`."""
    traces = np.trace(covariances, axis1=1, axis2=2)
    volumes = np.linalg.slogdet(covariances)[1]
    return 0.5 * ((means**2).sum(1) + traces - volumes - means.shape[1])


def _diagonal(variances: np.ndarray) -> np.ndarray:
    return variances[:, :, None] * np.eye(variances.shape[1])
