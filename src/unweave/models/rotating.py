"""Rotation of the codes of trained models, as a change of their weights.

Shapes: n images, d latents.
"""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.methods import Method
from unweave.methods.base import MODEL
from unweave.models.encoding import check_trained, posteriors
from unweave.models.finding import one_model
from unweave.models.images import sample_rows
from unweave.models.model import Model
from unweave.models.networks import networks_of
from unweave.models.rotation import AppliedRotation, Rotation, RotationError, fit_rotation
from unweave.nets.layers import Linear
from unweave.nets.network import Network

__all__ = ["can_rotate", "rotate"]

ROWS = 10_000
"""Number of images whose codes determine a rotation."""


def rotate(model: Model | str | Path, source: Any, to: str = "ica", *, seed: int = 0) -> Model:
    """Rotate the codes of an autoencoder after training, for example to independent components.

    The loss of an autoencoder without noise and prior does not determine the axes of its codes, so
    they can be chosen afterwards. The rotation becomes part of the weights of the encoder's last
    and the decoder's first layer. Reconstructions stay the same, except for components with less
    than 1 % of the largest variance, which are set to 0.

    Methods with a prior or penalty that determines the axes, such as the VAE, are refused.

    Args:
        model: A model, its folder, or a folder with a model in `best`.
        source: A data set, or any source that `uw.data.load` accepts; codes of up to 10,000 of its
            images determine the rotation.
        to: `"ica"` (independent components), `"pca"` (principal components), `"varimax"` (each
            region of the image depends on few components), or `"random"` (a control).
        seed: Random seed of the images and of the algorithm.

    References:
        Nelson et al., Statistical and Structural Identifiability in Representation Learning,
        arXiv:2603.11970.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> model = uw.train("ae", data, steps=2, batch=8, latents=3, progress=False)[0]
        >>> rotate(model, data, "pca")
        AE() trained for 2 steps, seed 0, codes rotated by PCA (3 components)
    """
    model = model if isinstance(model, Model) else one_model(model)
    check_trained(model)
    _check_rotatable(model)
    data = source if isinstance(source, Dataset) else load_data(source)
    rows = sample_rows(data, ROWS, seed)
    codes = posteriors(model, data, rows)[0][0]
    images = on_host(data.images(rows)) if to == "varimax" else None
    rotation = fit_rotation(codes, to, images=images, seed=seed)
    if not rotation.converged:
        logging.getLogger("unweave").warning(
            "%s did not converge, so its components may be mixtures of factors", to
        )
    parameters = {
        **model.parameters,
        "encoder": _encoder(model, rotation),
        "decoder": _decoder(model, rotation),
    }
    applied = AppliedRotation(rotation.kind, rotation.kept, rotation.converged)
    return replace(model, parameters=parameters, rotations=(applied,))


def can_rotate(method: Method) -> bool:
    """Whether axes of the codes of a method can be chosen after training."""
    plain = (type(method).encode, type(method).decode) == (Method.encode, Method.decode)
    return method.arbitrary_axes and plain


def _check_rotatable(model: Model) -> None:
    method = model.config.method
    if not can_rotate(method):
        raise RotationError(
            f"codes of {method.name} cannot be rotated, since its prior or penalty determines "
            "their axes; rotate an autoencoder (ae), or use the codes as they are",
            subject="method",
            value=method.name,
        )
    networks = networks_of(model.config, model.shape)[MODEL]
    ends = [
        isinstance(network, Network) and isinstance(network.layers[place], Linear)
        for network, place in ((networks["encoder"], -1), (networks["decoder"], 0))
    ]
    if not all(ends):
        raise RotationError(
            f"codes of the architecture {model.config.architecture} cannot be rotated, since its "
            "encoder must end and its decoder must begin with a linear layer of unweave; use conv",
            subject="architecture",
            value=model.config.architecture,
        )


def _encoder(model: Model, rotation: Rotation) -> Tensor:
    """Return the encoder's parameters with its mean code rotated: (W x + b - m) A."""
    parameters, weight, bias = _layer(model, "encoder", -1)
    latents = len(rotation.mean)
    for part, start in ((weight, 0.0), (bias, rotation.mean)):
        mean = part[..., :latents]  # followed by log-variances, which have no meaning here
        mean.copy_(torch.from_numpy((mean.double().numpy() - start) @ rotation.forward))
    return parameters


def _decoder(model: Model, rotation: Rotation) -> Tensor:
    """Return the decoder's parameters for rotated codes: W (B y + m) + b."""
    parameters, weight, bias = _layer(model, "decoder", 0)
    before = weight.double().numpy()
    bias += torch.from_numpy(rotation.mean @ before)
    weight.copy_(torch.from_numpy(rotation.backward @ before))
    return parameters


def _layer(model: Model, name: str, place: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a copy of a network's parameters, and views of a layer's weights and biases in it."""
    network = networks_of(model.config, model.shape)[MODEL][name]
    assert isinstance(network, Network), "checked before"
    parameters = model.parameters[name].cpu().clone()
    layer = range(len(network.layers))[place]
    named = {key: value[0] for key, value in network.named(parameters)}
    return parameters, named[f"{layer}.weight"], named[f"{layer}.bias"]
