r"""Mixtures of normals with diagonal covariances, fitted by expectation-maximisation.

    log p(x) = log Σ_c π_c Π_d N(x_d; m_cd, s_cd²)        r_c(x) = p(c | x)

    π_c = mean_x r_c(x)    m_c = Σ_x r_c(x) x / Σ_x r_c(x)    s_c² likewise, of (x - m_c)²

Shapes: n points of D dimensions, K components.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.errors import DataError
from unweave.progress import lines
from unweave.random import Stream

__all__ = ["Mixture", "fit", "in_parts", "start", "update"]

SMALLEST_STD = 0.01
KMEANS_ROUNDS = 50
PART, ROWS = 4096, 256
"""Batch sizes for random numbers and for densities."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normals.

    Args:
        weights: Mixture weights `[K]`, which sum to 1.
        means: Means `[K, D]`.
        stds: Standard deviations `[K, D]`.

    Example:
        >>> means = torch.tensor([[-9.0], [9.0]])
        >>> two = Mixture(torch.tensor([0.25, 0.75]), means, torch.ones(2, 1))
        >>> two.responsibilities(torch.tensor([[-9.0], [0.0], [9.0]]))
        tensor([[1.0000, 0.0000],
                [0.2500, 0.7500],
                [0.0000, 1.0000]])
    """

    weights: Tensor
    means: Tensor
    stds: Tensor

    def log_joint(self, x: Tensor) -> Tensor:
        """log p(c, x) of points `[n, D]`, `[n, K]`."""
        # Batches that fit into the CPU cache are many times faster.
        squares = torch.cat([self._squares(part) for part in x.split(ROWS)])
        constants = self.stds.log().sum(-1) + x.shape[-1] / 2 * math.log(2 * math.pi)
        return self.weights.log() - constants - squares / 2

    def _squares(self, x: Tensor) -> Tensor:
        # Expanding the square would cancel all digits where stds are small.
        pairs = zip(self.means, 1 / self.stds, strict=True)
        return torch.stack([((x - mean) * scale).square().sum(-1) for mean, scale in pairs], -1)

    def log_density(self, x: Tensor) -> Tensor:
        """log p(x) of points `[n, D]`, `[n]`."""
        return self.log_joint(x).logsumexp(-1)

    def responsibilities(self, x: Tensor) -> Tensor:
        """p(c | x) of points `[n, D]`, `[n, K]`."""
        return self.log_joint(x).softmax(-1)

    def kl_to_weights(self, x: Tensor) -> Tensor:
        """KL(p(c | x) ‖ p(c)) in nats: the information of a point about its component, `[n]`."""
        log_posterior = self.log_joint(x).log_softmax(-1)
        posterior = log_posterior.exp()
        # A component of probability 0 contributes 0, even if its weight is 0 as well.
        terms = posterior * (log_posterior - self.weights.log())
        return torch.where(posterior > 0, terms, 0.0).sum(-1)

    def draw(self, x: Tensor, stream: Stream) -> Tensor:
        """Sample a component from p(c | x) for each point `[n, D]`, `[n]`."""
        return _categorical(self.responsibilities(x), stream.uniform64(len(x)))

    def sample(self, num: int, seed: int = 0) -> Tensor:
        """Sample points from the mixture, `[num, D]`."""
        key = torch.tensor(seed, device=self.means.device)
        shares = self.weights.expand(num, -1)
        components = _categorical(shares, Stream(key, "component").uniform64(num))
        return self.around(components, Stream(key, "point"))

    def around(self, components: Tensor, stream: Stream) -> Tensor:
        """Sample a point from each of the components `[n]`, `[n, D]`."""
        noise = in_parts(stream.normal, len(components), self.means)
        return self.means[components] + self.stds[components] * noise


def fit(
    x: Tensor, num_components: int = 10, epochs: int = 10, seed: int = 0, progress: bool = True
) -> Mixture:
    """Fit a mixture by EM updates, starting from k-means with standard deviations of 1."""
    mixture = start(x, num_components, seed)
    with lines({"mixture": epochs}, progress) as advance:
        for _ in range(epochs):
            mixture = update(mixture, x)
            advance("mixture", 1)
    return mixture


def start(x: Tensor, num_components: int, seed: int = 0) -> Mixture:
    """Initial mixture: k-means centres with equal weights and standard deviations of 1."""
    from sklearn.cluster import KMeans

    if not 0 < num_components <= len(x):
        raise DataError(
            f"num_components must be between 1 and the number of points, {len(x):,}, got "
            f"{num_components}",
            subject="num_components",
            value=num_components,
        )
    means = KMeans(num_components, n_init=1, max_iter=KMEANS_ROUNDS, random_state=seed % 2**32)
    centres = torch.as_tensor(means.fit(x.cpu().numpy()).cluster_centers_).to(x)
    weights = torch.full_like(centres[:, 0], 1 / num_components)
    return Mixture(weights, centres, torch.ones_like(centres))


def update(mixture: Mixture, x: Tensor) -> Mixture:
    """Take one step of expectation-maximisation; standard deviations are at least 0.01."""
    shares = mixture.responsibilities(x)
    totals = shares.sum(0).clamp(min=torch.finfo(x.dtype).tiny)
    means = shares.T @ x / totals[:, None]
    variances = torch.zeros_like(means)
    for part, share in zip(x.split(ROWS), shares.split(ROWS), strict=True):
        for component, mean in enumerate(means):
            variances[component] += share[:, component] @ (part - mean).square()
    stds = (variances / totals[:, None]).sqrt().clamp(min=SMALLEST_STD)
    return Mixture(shares.mean(0), means, stds)


def in_parts(draw: Callable[[Tensor, int], Tensor], num: int, like: Tensor) -> Tensor:
    """Random numbers `[num, D]`, with D as in `like` `[..., D]`, in batches to save memory."""
    items = torch.arange(num, device=like.device).split(PART)
    return torch.cat([draw(part, like.shape[-1]) for part in items])


def _categorical(shares: Tensor, uniform: Tensor) -> Tensor:
    """Sample an index `[n]` from each row of probabilities `[n, K]`, given uniform numbers."""
    ends = shares.double().cumsum(-1)
    return (uniform[:, None] * ends[:, -1:] >= ends).sum(-1).clamp(max=shares.shape[-1] - 1)
