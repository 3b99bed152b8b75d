"""The ELBO and its terms, from posteriors, images and their reconstructions."""

from importlib import import_module
from typing import Any

import numpy as np

from unweave.io.arrays import on_host
from unweave.metrics.base import Metric, MetricError, check_codes, check_logvars

__all__ = ["ELBO", "elbo", "kl_divergence", "log_likelihood", "squared_error"]

SMALLEST_PROBABILITY = 1e-7
ROWS_AT_ONCE = 1_000
NARROW = 0.1
"""The deviation of `narrow_gaussian`, as `unweave.nets.likelihoods` has it."""


def elbo(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,  # noqa: ARG001 - every metric takes one
    *,
    logvars: Any = None,
    images: Any = None,
    reconstructions: Any = None,
    likelihood: str = "bernoulli",
    device: Any = None,
) -> dict[str, float]:
    """The evidence lower bound and its parts, means over the images, in nats.

        ELBO = log p(x|z) - KL(N(μ, σ²) ‖ N(0, 1)),    Rec = -log p(x|z)

    Args:
        codes: Posterior means μ, `[n, d]`.
        factors: Not used.
        seed: Not used: all rows count.
        logvars: Posterior log-variances, `[n, d]`; must be given.
        images: `[n, …]`, bytes 0 … 255 or floats in [0, 1]; must be given.
        reconstructions: Of the same shape, what z decodes to; must be given. For the ELBO itself z
            is drawn from the posterior; decoded from its mean, they give a slightly larger number.
        likelihood: `"bernoulli"`, `"gaussian"` or `"narrow_gaussian"`, see `log_likelihood`.
        device: Where torch compares pixels, a GPU; by default NumPy does.

    Returns:
        `elbo`, `log_likelihood`, `reconstruction_error` (minus the log-likelihood, as the protocol
        sums it over pixels), `squared_error` (summed over pixels) and `kl`.

    References:
        Kingma and Welling, Auto-Encoding Variational Bayes, arXiv:1312.6114.

    Example:
        >>> pixels = np.array([[0, 255], [255, 0]], np.uint8)
        >>> decoded = {"images": pixels, "reconstructions": np.full((2, 2), 0.5)}
        >>> scores = elbo([[0.0], [1.0]], logvars=[[0.0], [0.0]], **decoded)
        >>> {name: round(score, 3) for name, score in scores.items()}
        {'elbo': -1.636, 'log_likelihood': -1.386, 'reconstruction_error': 1.386,
        'squared_error': 0.5, 'kl': 0.25}
    """
    if logvars is None or images is None or reconstructions is None:
        raise MetricError("the ELBO needs logvars, images and reconstructions beside the codes")
    fits = log_likelihood(images, reconstructions, likelihood, device)
    costs = kl_divergence(codes, logvars)
    if len(fits) != len(costs):
        raise MetricError(
            f"there must be as many images as codes, but got {len(fits):,} and {len(costs):,}"
        )
    return {
        "elbo": float((fits - costs).mean()),
        "log_likelihood": float(fits.mean()),
        "reconstruction_error": -float(fits.mean()),
        "squared_error": float(squared_error(images, reconstructions, device).mean()),
        "kl": float(costs.mean()),
    }


def kl_divergence(means: Any, logvars: Any) -> np.ndarray:
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½ Σ_j (μ_j² + σ_j² - log σ_j² - 1) of every row, `[n]`.

    Example:
        >>> kl_divergence([[0.0, 2.0]], [[0.0, 0.0]])
        array([2.])
    """
    means = check_codes(means).astype(np.float64)
    logvars = check_logvars(logvars, means).astype(np.float64)
    return 0.5 * (means**2 + np.exp(logvars) - logvars - 1).sum(1)


def log_likelihood(
    images: Any, reconstructions: Any, likelihood: str = "bernoulli", device: Any = None
) -> np.ndarray:
    """The log-likelihood of every image x under its reconstruction p, summed over pixels, `[n]`.

        bernoulli: Σ x log p + (1 - x) log (1 - p)        gaussian: -Σ (x - p)²
        narrow_gaussian: -Σ (x - p)² / 2σ², σ = 0.1

    Args:
        images: As for `elbo`.
        reconstructions: …
        likelihood: One of the three.
        device: …

    Notes:
        Probabilities are kept 1e-7 away from 0 and 1. The Gaussian has the protocol's scale,
        without ½; both are without their constant. The narrow one is for scaled features, which
        may lie outside [0, 1] where these are new.

    Example:
        >>> log_likelihood([[1.0, 0.0]], [[0.5, 0.5]]).round(3)
        array([-1.386])
    """
    if likelihood == "gaussian":
        return -squared_error(images, reconstructions, device)
    if likelihood == "narrow_gaussian":
        x, p = (np.asarray(on_host(v), np.float64) for v in (images, reconstructions))
        return -((x - p) ** 2).reshape(len(x), -1).sum(1) / (2 * NARROW**2)
    if likelihood != "bernoulli":
        raise MetricError(
            f"likelihood must be bernoulli, gaussian or narrow_gaussian, not {likelihood!r}"
        )
    return _by_row(images, reconstructions, _bernoulli, device)


def squared_error(images: Any, reconstructions: Any, device: Any = None) -> np.ndarray:
    """Σ (x - p)² over the pixels of every image, `[n]`.

    Example:
        >>> squared_error([[1.0, 0.0]], [[0.5, 0.5]])
        array([0.5])
    """
    return _by_row(images, reconstructions, lambda x, p, _: (x - p) ** 2, device)


def _bernoulli(x: Any, p: Any, library: Any) -> Any:
    """Of arrays of NumPy or torch, by functions which both have."""
    p = library.clip(p, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    return x * library.log(p) + (1 - x) * library.log1p(-p)


def _by_row(images: Any, reconstructions: Any, of_pixels: Any, device: Any) -> np.ndarray:
    """Sum a function of pixels over each image, a few images at a time."""
    images, reconstructions = on_host(images), on_host(reconstructions)
    if images.shape != reconstructions.shape or images.ndim < 2:
        raise MetricError(
            f"images and reconstructions must have one shape [n, …], but got "
            f"{list(images.shape)} and {list(reconstructions.shape)}"
        )
    starts = range(0, len(images), ROWS_AT_ONCE)
    parts = [slice(start, start + ROWS_AT_ONCE) for start in starts]
    library = np if device is None else import_module("torch")
    sums = []
    for part in parts:
        x = _pixels(images[part], "images", device)
        p = _pixels(reconstructions[part], "reconstructions", device)
        sums.append(on_host(of_pixels(x, p, library).reshape(len(x), -1).sum(1)))
    return np.concatenate(sums)


def _pixels(values: np.ndarray, what: str, device: Any) -> Any:
    """Pixels as float64 in [0, 1], on a device where one is given; bytes are divided by 255."""
    if device is None:
        pixels: Any = values.astype(np.float64)
    else:
        pixels = import_module("torch").as_tensor(values).to(device).double()
    if values.dtype == np.uint8:
        return pixels / 255.0
    # Not `< 0 or > 1`: NaN must fail too.
    if not ((pixels >= 0) & (pixels <= 1)).all():
        raise MetricError(
            f"{what} must be bytes or floats in [0, 1], but got {pixels.min():g} … "
            f"{pixels.max():g}"
        )
    return pixels


ELBO = Metric(
    name="elbo",
    label="ELBO",
    explanation="The lower bound of the log-likelihood, in nats: how well images are "
    "reconstructed less what the codes cost.",
    function=elbo,
    higher_is_better=True,
    bounds=(-float("inf"), 0.0),
    needs="images",
    cost="seconds",
    reference="Kingma and Welling, Auto-Encoding Variational Bayes, arXiv:1312.6114",
    failure="Entangled and disentangled codes of the same images reach the same bound.",
)
