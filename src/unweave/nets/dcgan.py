"""The networks of the DCGAN, with 5 × 5 taps: a stack of convolutions, and the stack turned round.

Every layer but the one next to the image is normalised, over the image (`"instance"`) or over the
batch (`"batch"`).
"""

from itertools import pairwise

from unweave.nets.architectures import Shape, channels_of
from unweave.nets.layers import Activation, Conv, ConvTranspose, Layer, Linear, Reshape
from unweave.nets.network import Network
from unweave.nets.norms import BatchNorm, InstanceNorm

__all__ = ["KERNEL", "SIDE", "WIDTHS", "body", "decoder", "encoder", "flat_size"]

WIDTHS = {"dcgan": 64, "small_dcgan": 8}
"""Channels of the first layer, by architecture."""
KERNEL, SIDE = 5, 4


def encoder(shape: Shape, outputs: int, width: int, norm: str) -> Network:
    """Images `[M, B, H, W, C]` to `[M, B, outputs]`: the body and a dense layer."""
    head = Linear(flat_size(shape, width), outputs, "none")
    return Network((*body(shape, width, norm).layers, head))


def body(shape: Shape, width: int, norm: str) -> Network:
    """Convolutions of 64 to 512 channels with leaky ReLUs, then one row of numbers."""
    channels = channels_of(shape, width)
    layers: list[Layer] = []
    for place, (inputs, outputs) in enumerate(zip([shape[2], *channels], channels, strict=False)):
        plain = Activation("leaky_relu")
        layers += [Conv(inputs, outputs, KERNEL, relu=False)]
        layers += [plain if place == 0 else _norm(norm, outputs, "leaky_relu")]
    return Network((*layers, Reshape((flat_size(shape, width),))))


def decoder(shape: Shape, inputs: int, width: int, norm: str) -> Network:
    """Codes `[M, B, inputs]` to logits `[M, B, H, W, C]`: dense, then 512 to 64 channels, ReLU."""
    channels = channels_of(shape, width)[::-1]
    layers: list[Layer] = [
        Linear(inputs, flat_size(shape, width), "none"),
        Reshape((SIDE, SIDE, channels[0])),
        _norm(norm, channels[0], "relu"),
    ]
    for before, after in pairwise(channels):
        layers += [ConvTranspose(before, after, KERNEL, relu=False), _norm(norm, after, "relu")]
    return Network((*layers, ConvTranspose(channels[-1], shape[2], KERNEL, relu=False)))


def flat_size(shape: Shape, width: int) -> int:
    """How many numbers the body makes of an image."""
    return SIDE**2 * channels_of(shape, width)[-1]


def _norm(kind: str, channels: int, activation: str) -> Layer:
    return InstanceNorm(activation) if kind == "instance" else BatchNorm(channels, activation)
