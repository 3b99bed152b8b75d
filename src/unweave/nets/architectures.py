"""Architectures of the papers: encoders, decoders and discriminators.

An encoder maps images `[M, B, H, W, C]` to `[M, B, 2 d]`, mean and log-variance concatenated; a
decoder maps codes `[M, B, d]` to logits or means `[M, B, H, W, C]`. Each doubling of the image
adds one stride-2 layer next to it, so that feature maps at the dense layers are about 4 × 4
(`unweave.nets.sizes`).
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.extensions import is_reference, reference_to, resolve
from unweave.nets.layers import (
    Activation,
    Branch,
    Broadcast,
    Conv,
    ConvTranspose,
    Expand,
    Layer,
    LearnedMap,
    Linear,
    MeanPool,
    Merge,
    Pad,
    Pointwise,
    Reshape,
    SameConv,
)
from unweave.nets.module import Builder, decoder_of, encoder_of
from unweave.nets.network import Network, StackedNetwork
from unweave.nets.norms import AdaptiveNorm, LayerNorm, ScaledNorm
from unweave.nets.residual import ResidualDecoder, ResidualEncoder
from unweave.nets.sizes import Shape, feature_map
from unweave.text import size_text

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Shape",
    "build",
    "channels_of",
    "discriminator",
    "find_architecture",
    "name_of",
]

Layers = list[Layer | AdaptiveNorm]


@dataclass(frozen=True)
class Architecture:
    """Functions that build the encoder and the decoder for an image shape and latent size.

    They return a `Network` or a `torch.nn.Module`; see `unweave.nets.module.ModuleNetwork`.

    Args:
        encoder: Function for the encoder. Modules map images `[B, C, H, W]` to means and
            log-variances `[B, 2 d]`.
        decoder: Function for the decoder. Modules map codes `[B, d]` to logits `[B, C, H, W]`.
    """

    encoder: Builder
    decoder: Builder


def conv_encoder(shape: Shape, latents: int) -> Network:
    """Encoder of the protocol: 4 × 4 convolutions (32, 32), 2 × 2 (64, 64), dense 256, heads."""
    flat = 64 * feature_map(shape).cells
    dense = (Reshape((flat,)), Linear(flat, 256), _heads(latents))
    return Network((*_down(shape, (4, 4, 2, 2)), *dense))


def conv_decoder(shape: Shape, latents: int) -> Network:
    """Decoder of the protocol: dense 256 and 1024, then 4 × 4 convolutions (64, 32, 32, image)."""
    small = feature_map(shape)
    expand = Linear(256, 64 * small.cells), Reshape((small.height, small.width, 64))
    return Network((Linear(latents, 256), *expand, *_up(shape)))


def conv4x4_encoder(shape: Shape, latents: int) -> Network:
    """Encoder of the VAE ensemble: only 4 × 4 convolutions, also in place of the dense layer."""
    cells = feature_map(shape).cells
    collapse = Linear(64 * cells, 256, fan=(64 * cells, 256 * cells))
    dense = (Reshape((64 * cells,)), collapse, _heads(latents))
    return Network((*_down(shape, (4, 4, 4, 4)), *dense))


def conv4x4_decoder(shape: Shape, latents: int) -> Network:
    """Decoder of the VAE ensemble: dense 256, expanded to 4 × 4 × 64, then as the protocol."""
    small = feature_map(shape)
    expand = Expand(256, 64, (small.height, small.width))
    return Network((Linear(latents, 256), expand, *_up(shape)))


def broadcast_decoder(shape: Shape, latents: int, width: int = 64) -> Network:
    """Decoder that computes each position from the code and the coordinates of the position.

    Three dense layers of 64 act at about 8 × 8 positions; then come 4 × 4 convolutions, as in the
    protocol. Moving objects are easy to represent, since a position is compared with coordinates
    instead of being one of many patterns.

    References:
        Watters et al., Spatial Broadcast Decoder, arXiv:1901.07017.
    """
    small = feature_map(shape)
    positions = 2 * small.height, 2 * small.width
    dense = [Pointwise(a, b) for a, b in pairwise([latents + 2, width, width, width])]
    return Network((Broadcast(latents, positions), *dense, *_up(shape, skipped=1)))


def mlp_encoder(shape: Shape, latents: int, width: int = 1200) -> Network:
    """Encoder with two dense layers of 1200, ReLU, and two heads."""
    pixels = math.prod(shape)
    layers = (Reshape((pixels,)), Linear(pixels, width), Linear(width, width))
    return Network((*layers, _heads(latents, width)))


def mlp_decoder(shape: Shape, latents: int, width: int = 1200) -> Network:
    """Decoder with three dense layers of 1200, tanh, then the image."""
    pixels = math.prod(shape)
    hidden = (
        Linear(latents, width, "tanh"),
        Linear(width, width, "tanh"),
        Linear(width, width, "tanh"),
    )
    return Network((*hidden, Linear(width, pixels, "none"), Reshape(shape)))


def big_encoder(shape: Shape, latents: int, width: int = 64, share: float = 0.536) -> Network:
    """Encoder with four 5 × 5 convolutions, a dense layer and two heads.

    The width of the dense layer is a fraction (`share`) of the flattened features, chosen so that
    encoder and decoder have as many parameters as both stages of an MS-VAE. It is a multiple of
    16, which is fastest on GPUs.
    """
    channels = channels_of(shape, width)
    convolutions = [Conv(a, b, 5) for a, b in pairwise([shape[2], *channels])]
    flat, hidden = 16 * channels[-1], 16 * round(share * channels[-1])
    dense = (Reshape((flat,)), Linear(flat, hidden), _heads(latents, hidden))
    return Network((*convolutions, *dense))


def big_decoder(shape: Shape, latents: int, width: int = 64, share: float = 0.536) -> Network:
    """Decoder that mirrors `big_encoder`."""
    channels = channels_of(shape, width)[::-1]
    flat, hidden = 16 * channels[0], 16 * round(share * channels[0])
    widths = [*channels, shape[2]]
    convolutions = [
        ConvTranspose(a, b, 5, relu=place < len(channels) - 1)
        for place, (a, b) in enumerate(pairwise(widths))
    ]
    dense = (Linear(latents, hidden), Linear(hidden, flat), Reshape((4, 4, channels[0])))
    return Network((*dense, *convolutions))


def style_conv_encoder(shape: Shape, latents: int) -> Network:
    """Encoder of QLAE: three convolutions per size, instance norm, dense 256 and 256."""
    layers: Layers = []
    inputs = shape[2]
    for width in channels_of(shape, 32):
        for convolution in (
            SameConv(inputs, width, biased=False),
            SameConv(width, width, biased=False),
            Conv(width, width, 4, relu=False, biased=False),
        ):
            layers += [convolution, ScaledNorm(width, "leaky_relu")]
        inputs = width
    flat = 16 * inputs
    return Network(
        (*layers, Reshape((flat,)), Linear(flat, 256), Linear(256, 256), _heads(latents))
    )


def style_conv_decoder(shape: Shape, latents: int) -> Network:
    """Decoder of QLAE: a learned map, whose convolutions are modulated by dense 256 and 256."""
    widths = channels_of(shape, 32)[::-1]
    layers: Layers = [Linear(latents, 256), Linear(256, 256), LearnedMap(4, widths[0])]
    ends, inputs = [1], widths[0]
    for width in widths:
        for convolution in (
            SameConv(inputs, width, biased=False),
            SameConv(width, width, biased=False),
            ConvTranspose(width, width, 4, relu=False, biased=False),
        ):
            norm = AdaptiveNorm(width, 256, "none", rectified=True)
            layers += [convolution, Activation("leaky_relu"), norm]
        ends.append(len(layers) - 1)
        inputs = width
    return Network((*layers, SameConv(inputs, shape[2], biased=False)), tuple(ends[:4]))


def style_resnet_encoder(shape: Shape, latents: int) -> Network:
    """Encoder of Tripod: residual blocks with instance norm and GELU, mean over pixels."""
    widths = channels_of(shape, 32)
    layers: Layers = []
    for inputs, width, outputs in zip(
        [shape[2], *widths[1:]], widths, [*widths[1:], 512], strict=True
    ):
        layers += _residual(inputs, width, None) + _residual(width, width, None)
        layers += [Conv(width, outputs, 2, relu=False)]
    heads = (Linear(512, 512, "none"), LayerNorm(512, "gelu"), _heads(latents, 512))
    return Network((*layers, MeanPool(), *heads))


def style_resnet_decoder(shape: Shape, latents: int, width: int = 256) -> Network:
    """Decoder of Tripod: a learned map, then residual blocks modulated by two dense layers."""
    layers: Layers = []
    for inputs in (latents, width):
        layers += [Linear(inputs, width, "none"), LayerNorm(width, "gelu")]
    widths = channels_of(shape, 64)[::-1]
    layers += [LearnedMap(4, widths[0], "ones")]
    ends = [3]
    for inputs, outputs in pairwise([*widths, shape[2]]):
        layers += 2 * _residual(inputs, inputs, width)
        layers += [SameConv(inputs, outputs, upsampled=True)]
        ends.append(len(layers) - 1)
    return Network(tuple(layers), tuple(ends[:-1][:4]))


def gelu_mlp_encoder(shape: Shape, latents: int, width: int = 128) -> Network:
    """Encoder with two dense layers of 128, layer norm and GELU, and two heads."""
    pixels = math.prod(shape)
    return Network((Reshape((pixels,)), *_smooth(pixels, width), _heads(latents, width)))


def gelu_mlp_decoder(shape: Shape, latents: int, width: int = 128) -> Network:
    """Decoder with two dense layers of 128, layer norm and GELU, then the image."""
    pixels = math.prod(shape)
    image = (Linear(width, pixels, "none"), Reshape(shape))
    return Network((*_smooth(latents, width), *image), (1, 3))


SQUARE = (32, 64, 128)
"""Sides of images for architectures with fixed feature maps of 4 × 4."""
SMALL = 128
"""Width of the dense layers of `small_mlp`, for tabular features and tiny images."""


ARCHITECTURES = {
    "conv": Architecture(conv_encoder, conv_decoder),
    "conv4x4": Architecture(conv4x4_encoder, conv4x4_decoder),
    "broadcast": Architecture(conv_encoder, broadcast_decoder),
    "big_conv": Architecture(big_encoder, big_decoder),
    "small_big_conv": Architecture(
        partial(big_encoder, width=8, share=0.86), partial(big_decoder, width=8, share=0.86)
    ),
    "style_conv": Architecture(style_conv_encoder, style_conv_decoder),
    "style_resnet": Architecture(style_resnet_encoder, style_resnet_decoder),
    "gelu_mlp": Architecture(gelu_mlp_encoder, gelu_mlp_decoder),
    "mlp": Architecture(mlp_encoder, mlp_decoder),
    "small_mlp": Architecture(
        partial(mlp_encoder, width=SMALL), partial(mlp_decoder, width=SMALL)
    ),
    "residual": Architecture(ResidualEncoder, ResidualDecoder),
}


def build(name: str, shape: Shape, latents: int) -> tuple[StackedNetwork, StackedNetwork]:
    """Build the encoder and the decoder of an architecture."""
    architecture = find_architecture(name)
    encoder = encoder_of(architecture.encoder, shape, latents)
    return encoder, decoder_of(architecture.decoder, shape, latents)


def find_architecture(name: str) -> Architecture:
    """Return an architecture in `ARCHITECTURES`, or a custom one, by `package.module:NAME`."""
    if is_reference(name):
        found: Architecture = resolve(name, "architecture", lambda x: isinstance(x, Architecture))
        return found
    if name not in ARCHITECTURES:
        raise UnknownNameError("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def name_of(architecture: Architecture) -> str:
    """Return the name by which `find_architecture` finds an architecture."""
    ours = next((name for name, one in ARCHITECTURES.items() if one is architecture), None)
    home = getattr(architecture.encoder, "__module__", "")
    name = ours or reference_to(architecture, home)
    if name is None:
        raise UnweaveError(
            "a custom architecture must be a module-level variable, so that saved models can "
            "refer to it by name"
        )
    return name


def discriminator(latents: int, hidden: int = 6, width: int = 1000) -> Network:
    """Discriminator of FactorVAE: six dense layers of 1000, leaky ReLU, two logits."""
    widths = [latents] + [width] * hidden
    layers = [Linear(a, b, "leaky_relu") for a, b in pairwise(widths)]
    return Network((*layers, Linear(width, 2, "none")))


def channels_of(shape: Shape, width: int) -> list[int]:
    """Return channels from the image to 4 × 4; 32 pixels skip the first, 128 pixels repeat it.

    >>> channels_of((64, 64, 3), 64), channels_of((128, 128, 3), 8)
    ([64, 128, 256, 512], [8, 8, 16, 32, 64])
    """
    height, wide, _ = shape
    if height != wide or height not in SQUARE:
        raise UnweaveError(
            "this architecture needs square images of 32, 64 or 128 pixels, got "
            f"{size_text(shape)}; resize the images",
            subject="shape",
            value=shape,
        )
    return [width, width, 2 * width, 4 * width, 8 * width][-feature_map(shape).halvings :]


def _down(shape: Shape, kernels: tuple[int, ...]) -> list[Layer]:
    """Stride-2 layers from the image to about 4 × 4 × 64."""
    small = feature_map(shape)
    widths = [32] * (small.halvings - 2) + [64, 64]
    taps = ([kernels[0]] * small.halvings + [*kernels])[-small.halvings :]
    sizes = zip([shape[2], *widths], widths, taps, strict=False)
    return [*_padding(small.margins), *(Conv(a, b, k) for a, b, k in sizes)]


def _up(shape: Shape, skipped: int = 0) -> list[Layer]:
    """Transposed stride-2 layers from about 4 × 4 × 64 to the image, without the first ones."""
    small = feature_map(shape)
    widths = ([64, 64] + [32] * (small.halvings - 2))[skipped:]
    layers = [ConvTranspose(a, b, 4) for a, b in pairwise(widths)]
    return [*layers, ConvTranspose(widths[-1], shape[2], 4, relu=False), *_padding(small.crop)]


def _padding(margins: tuple[int, int, int, int]) -> list[Layer]:
    """Padding of images, unless all margins are 0."""
    return [Pad(margins)] if any(margins) else []


def _smooth(inputs: int, width: int) -> Layers:
    """Two dense layers with layer norm and GELU."""
    first, second = Linear(inputs, width, "none"), Linear(width, width, "none")
    return [first, LayerNorm(width, "gelu"), second, LayerNorm(width, "gelu")]


def _residual(inputs: int, outputs: int, latents: int | None) -> Layers:
    """Residual block of two convolutions, each with (adaptive) instance norm and GELU."""
    layers: Layers = [Branch()]
    for channels in (inputs, outputs):
        norm = (
            ScaledNorm(outputs, "gelu")
            if latents is None
            else AdaptiveNorm(outputs, latents, "gelu")
        )
        layers += [SameConv(channels, outputs), norm]
    return [*layers, Merge(inputs, outputs)]


def _heads(latents: int, inputs: int = 256) -> Linear:
    """Heads for mean and log-variance: two linear layers, concatenated."""
    return Linear(inputs, 2 * latents, "none", fan=(inputs, latents))
