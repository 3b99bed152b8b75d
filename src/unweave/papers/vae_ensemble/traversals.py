"""How images change along each latent of a model, from some inputs."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.io.arrays import on_host

if TYPE_CHECKING:
    from unweave.models.model import Model

__all__ = ["STOPS", "sharpness", "stitched", "traversed"]

STOPS = np.linspace(-3, 3, 7)


def traversed(model: "Model", inputs: dict[str, Any]) -> pd.DataFrame:
    """What changes along each latent of a model from each of some inputs.

        change_l = mean over images and pixels of the variance of D(z with z_l = -3, …, 3)

    Args:
        model: A single model, or a member.
        inputs: By name, images of each.

    Returns:
        A row per input and latent: `input`, `latent`, `change`, `picture` (the traversal from the
        first image, bytes `[stops, H, W, C]`), and `sharpness` of its reconstruction relative to
        that of the image.
    """
    from unweave.data.dataset import as_floats

    rows = []
    for name, images in inputs.items():
        codes, _ = model.encode(images)
        sharp = sharpness(model.decode(codes)) / sharpness(on_host(as_floats(images)))
        for latent in range(codes.shape[1]):
            walked = np.repeat(codes[:, None], len(STOPS), 1)
            walked[:, :, latent] = STOPS
            seen = model.decode(walked.reshape(-1, codes.shape[1]))
            seen = seen.reshape(*walked.shape[:2], *seen.shape[1:])
            rows.append(
                {
                    "input": name,
                    "latent": latent,
                    "change": float(seen.var(1, dtype=np.float64).mean()),
                    "sharpness": sharp,
                    "picture": (255 * seen[0]).round().astype(np.uint8).tobytes(),
                    "shape": list(seen.shape[2:]),
                }
            )
    return pd.DataFrame(rows)


def sharpness(images: np.ndarray) -> float:
    """The mean square of differences between neighbouring pixels, of images `[n, H, W, C]`."""
    return float(sum((np.diff(images, axis=axis) ** 2).mean() for axis in (1, 2)))


def stitched(part: pd.DataFrame) -> np.ndarray:
    """Traversals one below the other, grey `[H, W]` or colour `[H, W, 3]`."""
    rows = []
    for latent in part.itertuples():
        stops = np.frombuffer(latent.picture, np.uint8).reshape(len(STOPS), *latent.shape)
        rows.append(np.concatenate(list(stops), axis=1))
    whole = np.concatenate(rows)
    return whole[..., 0] if whole.shape[-1] == 1 else whole
