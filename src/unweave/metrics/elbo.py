"""ELBO and its terms from posteriors, images and reconstructions."""

from importlib import import_module
from typing import Any

import numpy as np

from unweave.errors import UnknownNameError
from unweave.io.arrays import on_host
from unweave.metrics.base import (
    Metric,
    MetricError,
    check_codes,
    check_given,
    check_logvars,
    check_rows,
)

__all__ = ["ELBO", "elbo", "kl_divergence", "log_likelihood", "squared_error"]

LIKELIHOODS = ("bernoulli", "gaussian", "learned_gaussian", "narrow_gaussian")
MIN_PROBABILITY = 1e-7
ROWS_PER_BATCH = 1_000
NARROW = 0.1
"""Standard deviation of `narrow_gaussian`, equal to that in `unweave.nets.likelihoods`."""
PIXELS, ROUNDING = 200, 1 / (12 * 255**2)
"""Pixels and added variance of `learned_gaussian`, as in `unweave.nets.likelihoods`."""


def elbo(
    codes: Any,
    factors: Any = None,
    seed: int = 0,
    *,
    logvars: Any = None,
    images: Any = None,
    reconstructions: Any = None,
    likelihood: str = "bernoulli",
    device: Any = None,
) -> dict[str, float]:
    """Evidence lower bound and its terms, averaged over the images, in nats.

        ELBO = log p(x|z) - KL(N(μ, σ²) ‖ N(0, 1)),    Rec = -log p(x|z)

    Args:
        codes: Posterior means μ, `[n, d]`.
        factors: Not used.
        seed: Not used; all rows count.
        logvars: Posterior log-variances, `[n, d]`; required.
        images: Images `[n, …]`, bytes 0 … 255 or floats in [0, 1]; required.
        reconstructions: Decoded z, of the same shape; required. For the ELBO itself, z is sampled
            from the posterior. Decoding the posterior means gives a slightly larger value.
        likelihood: One of the four of `log_likelihood`.
        device: Device on which torch compares pixels (default: NumPy on the CPU).

    Returns:
        `elbo`, `log_likelihood`, `reconstruction_error` (negative log-likelihood, summed over
        pixels as in the protocol), `squared_error` (summed over pixels) and `kl`.

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
    check_given("elbo", logvars=logvars, images=images, reconstructions=reconstructions)
    fits = log_likelihood(images, reconstructions, likelihood, device)
    costs = kl_divergence(codes, logvars)
    check_rows(costs, images=fits)
    return {
        "elbo": float((fits - costs).mean()),
        "log_likelihood": float(fits.mean()),
        "reconstruction_error": -float(fits.mean()),
        "squared_error": float(squared_error(images, reconstructions, device).mean()),
        "kl": float(costs.mean()),
    }


def kl_divergence(means: Any, logvars: Any) -> np.ndarray:
    """Compute KL(N(μ, σ²) ‖ N(0, 1)) = ½ Σ_j (μ_j² + σ_j² - log σ_j² - 1) for each row, `[n]`.

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
    """Compute the log-likelihood of every image x given its reconstruction p, `[n]`.

        bernoulli: Σ x log p + (1 - x) log (1 - p)        gaussian: -Σ (x - p)²
        narrow_gaussian: -Σ (x - p)² / 2σ², σ = 0.1
        learned_gaussian: -200 (mean (x - p)² / 2σ² + ½ log 2πσ²), σ² the mean over all images

    Args:
        images: As for `elbo`.
        reconstructions: As for `elbo`.
        likelihood: One of the four above.
        device: As for `elbo`.

    Notes:
        Probabilities are clipped to 1e-7 from 0 and 1. The Gaussian has the scale of the protocol,
        without the factor ½. It and the narrow Gaussian omit the constant. The narrow Gaussian is
        for scaled features; new data may lie outside [0, 1].

    Example:
        >>> log_likelihood([[1.0, 0.0]], [[0.5, 0.5]]).round(3)
        array([-1.386])
    """
    if likelihood == "gaussian":
        return -squared_error(images, reconstructions, device)
    if likelihood == "learned_gaussian":
        errors = squared_error(images, reconstructions, device)
        errors = errors / np.prod(np.shape(reconstructions)[1:])
        variance = errors.mean() + ROUNDING
        return -PIXELS * (errors / (2 * variance) + 0.5 * np.log(2 * np.pi * variance))
    if likelihood == "narrow_gaussian":
        x, p = (np.asarray(on_host(v), np.float64) for v in (images, reconstructions))
        return -((x - p) ** 2).reshape(len(x), -1).sum(1) / (2 * NARROW**2)
    if likelihood != "bernoulli":
        raise UnknownNameError("likelihood", likelihood, LIKELIHOODS)
    return _by_row(images, reconstructions, _bernoulli, device)


def squared_error(images: Any, reconstructions: Any, device: Any = None) -> np.ndarray:
    """Compute Σ (x - p)² over the pixels of every image, `[n]`.

    Example:
        >>> squared_error([[1.0, 0.0]], [[0.5, 0.5]])
        array([0.5])
    """
    return _by_row(images, reconstructions, lambda x, p, _: (x - p) ** 2, device)


def _bernoulli(x: Any, p: Any, library: Any) -> Any:
    """Compute the Bernoulli log-likelihood of pixels with NumPy or torch as `library`."""
    p = library.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return x * library.log(p) + (1 - x) * library.log1p(-p)


def _by_row(images: Any, reconstructions: Any, of_pixels: Any, device: Any) -> np.ndarray:
    """Sum a function of pixels over each image, a few images at a time."""
    images, reconstructions = on_host(images), on_host(reconstructions)
    if images.shape != reconstructions.shape or images.ndim < 2:
        wanted = f"have the shape [n, …] of the images, {list(images.shape)}"
        raise MetricError.expected("reconstructions", wanted, list(reconstructions.shape))
    starts = range(0, len(images), ROWS_PER_BATCH)
    parts = [slice(start, start + ROWS_PER_BATCH) for start in starts]
    library = np if device is None else import_module("torch")
    sums = []
    for part in parts:
        x = _pixels(images[part], "images", device)
        p = _pixels(reconstructions[part], "reconstructions", device)
        sums.append(on_host(of_pixels(x, p, library).reshape(len(x), -1).sum(1)))
    return np.concatenate(sums)


def _pixels(values: np.ndarray, what: str, device: Any) -> Any:
    """Return pixels as float64 in [0, 1] on the device, if any; bytes are divided by 255."""
    if device is None:
        pixels: Any = values.astype(np.float64)
    else:
        pixels = import_module("torch").as_tensor(values).to(device).double()
    if values.dtype == np.uint8:
        return pixels / 255.0
    # Not `< 0 or > 1`, so that NaN is rejected too.
    if not ((pixels >= 0) & (pixels <= 1)).all():
        low, high = float(pixels.min()), float(pixels.max())
        raise MetricError(
            f"{what} must be bytes or floats in [0, 1], got {low:g} … {high:g}",
            subject=what,
            value=(low, high),
        )
    return pixels


ELBO = Metric(
    function=elbo,
    label="ELBO",
    explanation="Lower bound on the log-likelihood, in nats: reconstruction quality minus the KL "
    "divergence of the codes.",
    bounds=(-float("inf"), 0.0),
    needs="images",
    failure="Entangled and disentangled codes of the same images reach the same bound.",
)
