"""Factors as numbers for networks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.errors import DataError

__all__ = ["scaled_factors"]


def scaled_factors(data: Dataset, names: Sequence[str], indices: Any = None) -> Tensor:
    """Factors of images with mean 0 and variance 1, were all classes equally frequent.

    Class k of n becomes (k - (n - 1) / 2) / √((n² - 1) / 12).

    Args:
        data: With known factors.
        names: Which of them.
        indices: Of images, `[N]`; None for all.

    Returns:
        float32 `[N, K]`, where the data is.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posY=0)
        >>> scaled_factors(data, ["posX"], [0, 31]).round(decimals=2)
        tensor([[-1.6800],
                [ 1.6800]])
    """
    known = data.grid or data.labels
    if known is None:
        raise DataError(
            f"the factors of {data.name} are not known; give a table of them when loading"
        )
    columns = [known.column(name) for name in names]
    chosen = np.arange(len(data)) if indices is None else indices
    classes = torch.as_tensor(data.factors(chosen))[..., columns].float()
    sizes = torch.tensor([len(known.axes[k]) for k in columns], device=classes.device)
    spread = ((sizes**2 - 1) / 12).sqrt().clamp_min(0.5)  # 0 of a single class, else at least ½
    return (classes - (sizes - 1) / 2) / spread
