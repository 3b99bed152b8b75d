"""Conversion of one model's network to ordinary torch layers."""

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from unweave.kernels.reference import LEAK, margins
from unweave.nets.layers import (
    Activation,
    Broadcast,
    Conv,
    ConvTranspose,
    Expand,
    Layer,
    Linear,
    Pad,
    Pointwise,
    Reshape,
)
from unweave.nets.module import ModuleNetwork
from unweave.nets.network import Network, StackedNetwork
from unweave.nets.norms import AdaptiveNorm

__all__ = ["ChannelsLast", "plain_module"]

ACTIVATIONS: Mapping[str, tuple[type[nn.Module], tuple[float, ...]]] = {
    "none": (nn.Identity, ()),
    "relu": (nn.ReLU, ()),
    "tanh": (nn.Tanh, ()),
    "leaky_relu": (nn.LeakyReLU, (LEAK,)),
}


Affine = TypeVar("Affine", nn.Linear, nn.Conv2d | nn.ConvTranspose2d)


class ChannelsLast(nn.Module):
    """Reshape `[B, …]` to `[B, *shape]` in the order of channels-last images.

    Images enter and leave as `[B, C, H, W]`.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        y = x.movedim(1, -1).reshape(-1, *self.shape)
        return y.movedim(-1, 1)

    def extra_repr(self) -> str:
        return f"shape={self.shape}"


class Positions(nn.Module):
    """The code and the coordinates of each position, `[B, d]` to `[B, d + 2, H, W]`."""

    def __init__(self, layer: Broadcast) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer({}, x[None])[0].movedim(-1, 1)


def plain_module(network: StackedNetwork, row: Tensor) -> nn.Module:
    """Return a module for images `[B, C, H, W]`, with the parameters `[1, width]` of one model."""
    if isinstance(network, ModuleNetwork):
        return network.with_parameters(row)
    assert isinstance(network, Network), "a network is a sequence of layers or a module"
    parameters = {name: value[0] for name, value in network.named(row)}
    layers = []
    for place, layer in enumerate(network.layers):
        own = {name: parameters[f"{place}.{name}"] for name in layer.shapes}
        layers += [one for one in _converted(layer, own) if not isinstance(one, nn.Identity)]
    return nn.Sequential(*layers)


def _converted(layer: Layer | AdaptiveNorm, own: Mapping[str, Tensor]) -> list[nn.Module]:
    """Return torch layers that compute the same."""
    match layer:
        case Linear():
            dense = _pointwise if isinstance(layer, Pointwise) else _dense
            return [dense(own["weight"], own["bias"]), _activation(layer.activation)]
        case Expand():
            dense = _dense(own["weight"], own["bias"].repeat(layer.pixels))
            reshaped = ChannelsLast((*layer.size, layer.outputs))
            return [dense, _activation(layer.activation), reshaped]
        case Conv():
            return [*_convolution(layer, own), nn.ReLU() if layer.relu else nn.Identity()]
        case Pad():
            return [nn.ZeroPad2d(layer.margins)]
        case Reshape() | Broadcast():
            return [
                Positions(layer) if isinstance(layer, Broadcast) else ChannelsLast(layer.shape)
            ]
        case Activation() if type(layer) is Activation:
            return [_activation(layer.name)]
    raise TypeError(f"conversion of {type(layer).__name__} is missing; add it in {__name__}")


def _activation(name: str) -> nn.Module:
    kind, settings = ACTIVATIONS[name]
    return kind(*settings)


def _dense(weight: Tensor, bias: Tensor) -> nn.Linear:
    return _with(skip_init(nn.Linear, *weight.shape), weight.mT, bias)


def _pointwise(weight: Tensor, bias: Tensor) -> nn.Conv2d:
    layer = skip_init(nn.Conv2d, *weight.shape, 1)
    return _with(layer, weight.mT[:, :, None, None], bias)


def _convolution(layer: Conv, own: Mapping[str, Tensor]) -> list[nn.Module]:
    """Return a convolution or its transpose; odd kernels need one more pixel after than before."""
    before, after = margins(layer.kernel)
    transposed = isinstance(layer, ConvTranspose)
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    inside = before if before == after else 0
    convolution = skip_init(kind, layer.inputs, layer.outputs, layer.kernel, 2, inside)
    found: list[nn.Module] = [_with(convolution, own["weight"].permute(3, 2, 0, 1), own["bias"])]
    if before == after:
        return found
    sign = -1 if transposed else 1
    padding = nn.ZeroPad2d((sign * before, sign * after) * 2)
    return [*found, padding] if transposed else [padding, *found]


def _with(layer: Affine, weight: Tensor, bias: Tensor) -> Affine:
    """Set the parameters of a layer."""
    with torch.no_grad():
        layer.to(weight.device)
        layer.weight.copy_(weight)
        assert layer.bias is not None, "layers have biases by default"
        layer.bias.copy_(bias)
    return layer
