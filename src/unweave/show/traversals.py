"""Latent traversals: what happens to an image when one latent changes and the others stay."""

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from unweave.show.contact_sheet import lay_out, pictures_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.fleet.models import Model

__all__ = ["traversals"]

INFORMATIVE = 0.01


def traversals(
    model: "Model", data: "Dataset", index: int | None = None, columns: int = 9, reach: float = 2.5
) -> Image.Image:
    """Draw one row per latent: the image decoded while that latent goes from -reach to reach.

    Rows are sorted by how much the latent says about images: its mean KL divergence, which is
    noted beside it. Latents that say nothing (at most 0.01 nats) are marked as unused. The first
    row has the image and its reconstruction.

    Args:
        model: A trained model.
        data: What it was trained on.
        index: The image to start from; by default one in the middle of the grid, or the first.
        columns: Images per row.
        reach: How far a latent goes, in standard deviations of the prior.

    Returns:
        A picture, to be saved with `.save("latents.png")`.
    """
    index = _middle(data) if index is None else index
    image = data.images([index])
    mean, _ = model.encode(image)
    kl = mean_kl(model, data)
    rows: list[tuple[str, str, list[Image.Image]]] = [
        ("image", "and reconstruction", pictures_of(image) + pictures_of(model.decode(mean)))
    ]
    for latent in np.argsort(-kl):
        codes = np.repeat(mean, columns, axis=0)
        codes[:, latent] = np.linspace(-reach, reach, columns)
        used = f"KL {kl[latent]:.2f} nats" if kl[latent] > INFORMATIVE else "unused"
        rows.append((f"latent {latent}", used, pictures_of(model.decode(codes))))
    return lay_out(rows)


def mean_kl(model: "Model", data: "Dataset", sample: int = 512) -> np.ndarray:
    """KL(q(z_l|x) ‖ N(0, 1)) of each latent `[d]`, averaged over images drawn from the data."""
    mean, logvar = model.encode(data.draw(sample, seed=0).images)
    return (0.5 * (mean**2 + np.exp(logvar) - logvar - 1)).mean(0)


def _middle(data: Any) -> int:
    if data.grid is None:
        return 0
    return int(data.index(np.array(data.grid.sizes) // 2))
