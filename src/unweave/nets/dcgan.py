"""Networks of the DCGAN: a stack of 5 × 5 convolutions, and its mirror image.

Every layer but the one next to the image is normalised: per image (`"instance"`), per batch
(`"batch"`), or, in the generator of a second stage, adaptively by its code.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

from unweave.nets.architectures import Shape, channels_of
from unweave.nets.layers import Activation, Conv, ConvTranspose, Layer, Linear, Reshape, Spreads
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm, BatchNorm, InstanceNorm

__all__ = [
    "WIDTHS",
    "body",
    "decoder",
    "encoder",
    "flat_size",
    "generator",
    "residual_encoder",
]

WIDTHS = {"dcgan": 64, "small_dcgan": 8}
"""Number of channels in the first layer, by architecture."""
KERNEL, SIDE = 5, 4

Layers = list[Layer | AdaptiveNorm]
Norm = Callable[[int, int, str], Layer | AdaptiveNorm]
"""Function from channels, side length and activation to a normalisation layer."""
NORMS: Mapping[str, Norm] = {
    "instance": lambda channels, side, activation: InstanceNorm(activation),  # noqa: ARG005
    "batch": lambda channels, side, activation: BatchNorm(channels, activation),  # noqa: ARG005
}


def encoder(shape: Shape, outputs: int, width: int, norm: str) -> Network:
    """Build an encoder from images `[M, B, H, W, C]` to `[M, B, outputs]`."""
    head = Linear(flat_size(shape, width), outputs, "none")
    return Network((*body(shape, width, norm).layers, head))


def body(shape: Shape, width: int, norm: str) -> Network:
    """Build convolutions of 64 to 512 channels with leaky ReLUs, flattened at the end."""
    return Network(tuple(_down(shape, width, NORMS[norm])))


def decoder(shape: Shape, inputs: int, width: int, norm: str) -> Network:
    """Build a decoder from codes `[M, B, inputs]` to logits `[M, B, H, W, C]`, with ReLUs."""
    return Network(tuple(_up(shape, inputs, width, NORMS[norm])))


def residual_encoder(shape: Shape, latents: int, width: int) -> Network:
    """Build an encoder from residuals `[M, B, H, W, C]` to mean and log-variance."""
    flat = flat_size(shape, width)
    heads = Linear(flat, 2 * latents, "none", fan=(flat, latents))
    return Network((*body(shape, width, "instance").layers, heads, Spreads()))


def generator(
    shape: Shape,
    inputs: int | None,
    latents: int,
    width: int,
    adaptive: bool = True,
    pixelwise: bool = False,
) -> Network:
    """Build a generator from an image or code of the first stage, and Z, to logits of an image.

    Args:
        shape: Height, width and channels of images.
        inputs: Size of the first stage's code; None if the input is an image.
        latents: Size of Z.
        width: Number of channels in the layer next to the image.
        adaptive: Whether Z controls the normalisation of layers; otherwise Z is concatenated to
            the input, and layers are not normalised.
        pixelwise: Whether the adaptive normalisation differs between pixels.
    """

    def norm(channels: int, side: int, activation: str) -> Layer | AdaptiveNorm:
        if not adaptive:
            return Activation(activation)
        return AdaptiveNorm(channels, latents, activation, (side, side) if pixelwise else None)

    extra = 0 if adaptive else latents
    if inputs is not None:
        return Network(tuple(_up(shape, inputs + extra, width, norm)))
    height, wide, channels = shape
    down = _down((height, wide, channels + extra), width, norm)
    return Network((*down, *_up(shape, flat_size(shape, width), width, norm)))


def flat_size(shape: Shape, width: int) -> int:
    """Return the number of outputs of the body."""
    return SIDE**2 * channels_of(shape, width)[-1]


def _down(shape: Shape, width: int, norm: Norm) -> Layers:
    channels, side = channels_of(shape, width), shape[0]
    layers: Layers = []
    for inputs, outputs in pairwise([shape[2], *channels]):
        side //= 2
        layers += [Conv(inputs, outputs, KERNEL, relu=False)]
        first = len(layers) == 1
        layers += [Activation("leaky_relu") if first else norm(outputs, side, "leaky_relu")]
    return [*layers, Reshape((flat_size(shape, width),))]


def _up(shape: Shape, inputs: int, width: int, norm: Norm) -> Layers:
    channels, side = channels_of(shape, width)[::-1], SIDE
    layers: Layers = [
        Linear(inputs, flat_size(shape, width), "none"),
        Reshape((SIDE, SIDE, channels[0])),
        norm(channels[0], SIDE, "relu"),
    ]
    for before, after in pairwise(channels):
        side *= 2
        layers += [ConvTranspose(before, after, KERNEL, relu=False), norm(after, side, "relu")]
    return [*layers, ConvTranspose(channels[-1], shape[2], KERNEL, relu=False)]
