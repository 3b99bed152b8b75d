"""Losses that are minimised to the last digits, as closed forms and whole data sets allow it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["minimise"]

MOST_STEPS = 5_000
"""Of L-BFGS, which needs some hundred."""


def minimise(loss: Callable[..., Tensor], start: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What minimises a loss of several arrays, from a start on, by L-BFGS."""
    from scipy.optimize import minimize

    shapes = [np.shape(value) for value in start]
    sizes = [math.prod(shape) for shape in shapes]

    def unpacked(flat: Any) -> list[Any]:
        parts = torch.as_tensor(flat).split(sizes)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(flat, requires_grad=True)
        value = loss(*unpacked(point))
        (gradient,) = torch.autograd.grad(value, point)
        return value.item(), gradient.numpy()

    flat = np.concatenate([np.ravel(value) for value in start])
    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value_and_gradient, flat, jac=True, method="L-BFGS-B", options=options)
    return [part.numpy() for part in unpacked(found.x)]
