"""PIPE: can a discriminator tell reconstructions from images of factorised codes?"""

from typing import Any

from unweave.io.arguments import check_count, check_seed
from unweave.metrics.base import Metric, MetricError, check_codes, check_given, check_rows

__all__ = ["PIPE", "pipe"]

MIN_ROWS, MAX_IMAGES = 4, 10**9


def pipe(
    codes: Any,
    factors: Any = None,
    seed: int = 0,
    *,
    reconstructions: Any = None,
    factorised: Any = None,
    training_images: int = 50_000,
    device: Any = None,
) -> dict[str, float]:
    """Posterior independence (PIPE): whether images of factorised codes look like reconstructions.

        PIPE = 2 (1 - a),    at most 1

    with the accuracy a of a discriminator on images held out from its training. It distinguishes
    reconstructions from decoded factorised codes, whose latents are independent and uniform in
    [min μ, max μ]. If latents depend on each other, some of these codes lie where no image of the
    data has its code.

    Args:
        codes: Codes `[n, d]`, one for each reconstruction; only their number is used.
        factors: Not used.
        seed: Random seed of the split, of the initial weights and of the batches.
        reconstructions: Decoded codes of images, `[n, H, W, C]` with values in [0, 1]; required.
        factorised: Decoded factorised codes, of the same shape; required. Both may be iterables of
            arrays.
        training_images: Number of training images, counting repetitions; there are at most five
            epochs.
        device: Device (default: a GPU if available).

    Returns:
        `pipe`; `accuracy`, a; and `images`, the number of images of each kind.

    Notes:
        As in the authors' code, half of the images are held out, batches have 32 images, and the
        network has four convolutions, a dense layer of 512 and batch norm, and is trained with
        Adam at a learning rate of 1e-4. They use 50,000 images of each kind. With fewer images the
        discriminator learns less and PIPE is higher, so compare only values for equal numbers.
        Their code computes 2 (1 - a) with a in percent; here a is a fraction, and PIPE is 1 if a
        is below ½. In tests, batch norm uses the statistics of training images.

    References:
        Estermann & Wattenhofer, DAVA: Disentangling Adversarial Variational Autoencoder,
        arXiv:2303.01384.

    Example:
        >>> import numpy as np
        >>> grey = np.random.default_rng(0).uniform(0.4, 0.6, (40, 16, 16, 1))
        >>> pipe(np.zeros((40, 2)), reconstructions=grey, factorised=grey, training_images=32)
        {'pipe': 1.0, 'accuracy': 0.5, 'images': 40.0}
    """
    from unweave.nets.device import chosen_device
    from unweave.quality.two_sample import stored, two_sample_accuracy

    codes = check_codes(codes)
    check_given("pipe", reconstructions=reconstructions, factorised=factorised)
    check_count("training_images", training_images, 1, MAX_IMAGES)
    if len(codes) < MIN_ROWS:
        raise MetricError.expected("codes", f"have at least {MIN_ROWS} rows", len(codes))
    real, mixed = stored(reconstructions), stored(factorised)
    check_rows(codes, reconstructions=real, factorised=mixed)
    if real.shape != mixed.shape:
        wanted = f"have the shape of reconstructions {list(real.shape)}"
        raise MetricError.expected("factorised", wanted, list(mixed.shape))
    place = chosen_device(device)
    accuracy = two_sample_accuracy(real, mixed, check_seed(seed), training_images, place)
    score = min(1.0, 2 * (1 - accuracy))
    return {"pipe": score, "accuracy": accuracy, "images": float(len(codes))}


PIPE = Metric(
    function=pipe,
    label="PIPE",
    explanation="Whether decoded codes with independent latents look like reconstructions to a "
    "discriminator; 1 if it cannot tell them apart.",
    needs="decodes",
    cost="minutes",
    failure="It sees invisible differences: a collapsed model, whose images all look alike, "
    "scored 0.42.",
)
