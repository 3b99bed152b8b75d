"""Pixel error: differences between images and reconstructions, per pixel and structural."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, check_codes, check_given, check_rows

__all__ = ["PIXEL_ERROR", "pixel_error"]

MIN_SSIM_SIDE = 11
IMAGES_PER_BATCH = 64


def pixel_error(
    codes: Any,
    factors: Any = None,
    seed: int = 0,
    *,
    images: Any = None,
    reconstructions: Any = None,
    device: Any = None,
) -> dict[str, float]:
    """Mean pixel errors and structural similarity of images and their reconstructions.

        L1 = mean |x_p - y_p|,    L2 = mean (x_p - y_p)²,    SSIM: see `unweave.quality.ssim`

    Args:
        codes: Codes `[n, d]`, one for each image; only their number is used.
        factors: Not used.
        seed: Not used; all images count.
        images: Images `[n, H, W, C]`, bytes 0 … 255 or floats in [0, 1]; required.
        reconstructions: Decoded codes, of the same shape; required. Both may be iterables of
            arrays.
        device: Device (default: a GPU if available).

    Returns:
        `pixel_error` (the same as `l2`), `l1`, `l2`, `ssim` (for images of at least 11 × 11
        pixels) and `images`, the number of images.

    References:
        Wang et al., Image quality assessment, IEEE Transactions on Image Processing 2004.

    Example:
        >>> black, grey = np.zeros((2, 4, 4, 1)), np.full((2, 4, 4, 1), 0.5)
        >>> pixel_error([[0.0], [1.0]], images=black, reconstructions=grey)
        {'pixel_error': 0.25, 'l1': 0.5, 'l2': 0.25, 'images': 2.0}
    """
    from unweave.nets.device import chosen_device
    from unweave.quality.images import l1, l2, pairs, ssim

    codes = check_codes(codes)
    check_given("pixel_error", images=images, reconstructions=reconstructions)
    place = chosen_device(device)
    found: dict[str, list[np.ndarray]] = {}
    for pair in pairs(images, reconstructions, IMAGES_PER_BATCH):
        x, y = (part.to(place) for part in pair)
        measures = {"l1": l1, "l2": l2}
        if min(x.shape[1:3]) >= MIN_SSIM_SIDE:
            measures["ssim"] = ssim
        for name, measure in measures.items():
            found.setdefault(name, []).append(measure(x, y))
    errors = {name: np.concatenate(parts) for name, parts in found.items()}
    check_rows(codes, images=errors.get("l2", ()))
    means = {name: float(values.mean()) for name, values in errors.items()}
    return {"pixel_error": means["l2"], **means, "images": float(len(codes))}


PIXEL_ERROR = Metric(
    function=pixel_error,
    explanation="Mean squared difference between the pixels of images and reconstructions, with "
    "values in 0 … 1.",
    higher_is_better=False,
    needs="reconstructions",
    failure="A blurred image has a smaller error than a sharp one that is shifted by a pixel.",
)
