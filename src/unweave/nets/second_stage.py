"""The networks of a second stage: what an image of the first lacks, and how to add it.

The encoder takes the difference X - Y of an image and of what the first stage makes of it,
`[M, B, H, W, C]`, to mean and log-variance of Z. The generator takes Y to X, or the first stage's
code C, and Z joins in one of two ways: it says how every layer is normalised, or it is put beside
the input. Both are those of the DCGAN, with 5 × 5 taps.
"""

from unweave.nets.architectures import Shape, channels_of
from unweave.nets.dcgan import KERNEL, SIDE, WIDTHS, body, flat_size
from unweave.nets.layers import Activation, Conv, ConvTranspose, Layer, Linear, Reshape, Spreads
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm

__all__ = ["WIDTHS", "generator", "residual_encoder"]

Layers = list[Layer | AdaptiveNorm]


def residual_encoder(shape: Shape, latents: int, width: int) -> Network:
    """Convolutions of 64 to 512 channels, all but the first normalised, then two heads."""
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
    """From an image or a code to logits of an image.

    Args:
        shape: Of images.
        inputs: The size of the code; None where an image comes in.
        latents: Of Z.
        width: Channels of the layer next to the image.
        adaptive: Whether Z adapts the normalisation of layers; or else it comes in besides, and
            nothing is normalised.
        pixelwise: Whether it does so for each pixel of its own.
    """
    channels, flat = channels_of(shape, width), flat_size(shape, width)
    sides = [SIDE * 2**doubling for doubling in range(len(channels))][::-1]

    def finish(place: int, activation: str) -> Layer | AdaptiveNorm:
        pixels = (sides[place], sides[place]) if pixelwise else None
        if not adaptive:
            return Activation(activation)
        return AdaptiveNorm(channels[place], latents, activation, pixels)

    beside = 0 if adaptive else latents
    layers: Layers = []
    if inputs is None:
        entering = [shape[2] + beside, *channels]
        for place, (a, b) in enumerate(zip(entering, channels, strict=False)):
            first = Activation("leaky_relu")
            layers += [Conv(a, b, KERNEL, relu=False)]
            layers += [first if place == 0 else finish(place, "leaky_relu")]
        layers += [Reshape((flat,)), Linear(flat, flat, "none")]
    else:
        layers += [Linear(inputs + beside, flat, "none")]
    layers += [Reshape((SIDE, SIDE, channels[-1])), finish(len(channels) - 1, "relu")]
    for place in range(len(channels) - 2, -1, -1):
        layers += [ConvTranspose(channels[place + 1], channels[place], KERNEL, relu=False)]
        layers += [finish(place, "relu")]
    layers += [ConvTranspose(channels[0], shape[2], KERNEL, relu=False)]
    return Network(tuple(layers))
