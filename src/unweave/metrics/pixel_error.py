"""Pixel error: how far reconstructions are from their images, pixel by pixel and in structure."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, MetricError, check_codes

__all__ = ["PIXEL_ERROR", "pixel_error"]

SMALLEST_FOR_SSIM = 11
AT_ONCE = 64


def pixel_error(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,  # noqa: ARG001 - every metric takes one
    *,
    images: Any = None,
    reconstructions: Any = None,
    device: Any = None,
) -> dict[str, float]:
    """Means over the images of what `unweave.quality` says of each and its reconstruction.

        L1 = mean |x_p - y_p|,    L2 = mean (x_p - y_p)²,    SSIM: see `unweave.quality.ssim`

    Args:
        codes: `[n, d]`, only checked: there must be one for each image.
        factors: Not used.
        seed: Not used: all images count.
        images: `[n, H, W, C]`, bytes 0 … 255 or floats in [0, 1]; must be given.
        reconstructions: Of the same shape, what the codes decode to; must be given. Both may be
            iterables of such arrays.
        device: By default a GPU where there is one.

    Returns:
        `pixel_error`, which is L2; `l1`, `l2`, and `ssim` where images have 11 × 11 pixels at
        least; and `images`, how many there were.

    References:
        Wang et al., Image quality assessment, IEEE Transactions on Image Processing 2004.

    Example:
        >>> black, grey = np.zeros((2, 4, 4, 1)), np.full((2, 4, 4, 1), 0.5)
        >>> pixel_error([[0.0], [1.0]], images=black, reconstructions=grey)
        {'pixel_error': 0.25, 'l1': 0.5, 'l2': 0.25, 'images': 2.0}
    """
    from unweave.nets.device import chosen_device
    from unweave.quality.images import l1, l2, ssim
    from unweave.quality.sets import pairs

    rows = len(check_codes(codes))
    if images is None or reconstructions is None:
        raise MetricError("the pixel error needs images and reconstructions beside the codes")
    place = chosen_device(device)
    found: dict[str, list[np.ndarray]] = {}
    for pair in pairs(images, reconstructions, AT_ONCE):
        x, y = (part.to(place) for part in pair)
        measures = {"l1": l1, "l2": l2}
        if min(x.shape[1:3]) >= SMALLEST_FOR_SSIM:
            measures["ssim"] = ssim
        for name, measure in measures.items():
            found.setdefault(name, []).append(measure(x, y))
    count = sum(map(len, found.get("l2", [])))
    if count != rows:
        raise MetricError(f"there must be as many images as codes, but got {count:,} and {rows:,}")
    means = {name: float(np.concatenate(parts).mean()) for name, parts in found.items()}
    return {"pixel_error": means["l2"], **means, "images": float(count)}


PIXEL_ERROR = Metric(
    name="pixel_error",
    explanation="How far a reconstructed image is from the image: the mean squared difference "
    "of pixels, whose values are in 0 … 1.",
    function=pixel_error,
    higher_is_better=False,
    bounds=(0.0, 1.0),
    needs="reconstructions",
    cost="seconds",
    reference="Wang et al., Image quality assessment, IEEE Transactions on Image Processing 2004",
    failure="A blurred image has a smaller error than a sharp one that is a pixel off.",
)
