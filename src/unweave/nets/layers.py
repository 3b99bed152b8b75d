"""Layers with a leading model axis.

A layer has sizes and a function of parameters and input, but no parameters of its own. The
parameters of M models are stacked, `[M, *shape]`, in one flat buffer per network (`network.py`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave import kernels
from unweave.kernels.reference import ACTIVATIONS, same_conv

__all__ = [
    "Activation",
    "Branch",
    "Broadcast",
    "Contrast",
    "Conv",
    "ConvTranspose",
    "Expand",
    "Layer",
    "LearnedMap",
    "Linear",
    "Maps",
    "MeanPool",
    "Merge",
    "Offsets",
    "Pad",
    "Pointwise",
    "Reshape",
    "SameConv",
    "Spreads",
]

MIN_DEVIATION = 1e-5
"""Smallest standard deviation; smaller values are clamped."""


class Layer(Protocol):
    """Interface of layers."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the parameters, without the model axis."""
        ...

    @property
    def fans(self) -> tuple[int, int]:
        """Fan-in and fan-out, for weight initialisation.

        A transposed convolution uses those of the convolution that it transposes, as in torch and
        TensorFlow.
        """
        ...

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Linear:
    """Fully connected layer, `[M, B, inputs]` to `[M, B, outputs]`.

    Args:
        inputs: Width of the input.
        outputs: Width of the output.
        activation: One of `kernels.reference.ACTIVATIONS`.
        fan: Fan-in and fan-out, if the layer represents two heads or a convolution that covers its
            whole input, rather than a single matrix.
    """

    inputs: int
    outputs: int
    activation: str = "relu"
    fan: tuple[int, int] | None = None

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (self.inputs, self.outputs), "bias": (self.outputs,)}

    @property
    def fans(self) -> tuple[int, int]:
        return self.fan or (self.inputs, self.outputs)

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return kernels.linear(x, parameters["weight"], parameters["bias"], self.activation)


@dataclass(frozen=True)
class Pointwise(Linear):
    """Fully connected layer at each position, `[M, B, H, W, inputs]` to `[…, outputs]`."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        y = super().__call__(parameters, x.flatten(1, 3))
        return y.unflatten(1, x.shape[1:4])


@dataclass(frozen=True)
class Expand:
    """Transposed convolution of one pixel, `[M, B, inputs]` to `[M, B, *size, outputs]`."""

    inputs: int
    outputs: int
    size: tuple[int, int] = (4, 4)
    activation: str = "relu"

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (self.inputs, self.pixels * self.outputs), "bias": (self.outputs,)}

    @property
    def fans(self) -> tuple[int, int]:
        return self.pixels * self.outputs, self.pixels * self.inputs

    @property
    def pixels(self) -> int:
        """Number of pixels of the output."""
        return math.prod(self.size)

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        bias = parameters["bias"].repeat(1, self.pixels)
        y = kernels.linear(x, parameters["weight"], bias, self.activation)
        return y.unflatten(-1, (*self.size, self.outputs))


@dataclass(frozen=True)
class Conv:
    """Stride-2 convolution, `[M, B, H, W, inputs]` to `[M, B, H/2, W/2, outputs]`."""

    inputs: int
    outputs: int
    kernel: int
    relu: bool = True
    biased: bool = True

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        weight = (self.kernel, self.kernel, self.inputs, self.outputs)
        return {"weight": weight, **self._bias_shapes}

    @property
    def _bias_shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"bias": (self.outputs,)} if self.biased else {}

    @property
    def fans(self) -> tuple[int, int]:
        return self.kernel**2 * self.inputs, self.kernel**2 * self.outputs

    def __call__(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        after_conv: bool = False,
        before_conv: bool = False,
    ) -> Tensor:
        """Apply the layer; see `kernels.conv` for `after_conv` and `before_conv`."""
        weight, bias = parameters["weight"], parameters.get("bias")
        return kernels.conv(x, weight, bias, self.relu, None, after_conv, before_conv)


@dataclass(frozen=True)
class ConvTranspose(Conv):
    """Transposed stride-2 convolution, `[M, B, h, w, inputs]` to `[M, B, 2h, 2w, outputs]`."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        weight = (self.kernel, self.kernel, self.outputs, self.inputs)
        return {"weight": weight, **self._bias_shapes}

    @property
    def fans(self) -> tuple[int, int]:
        fan_in, fan_out = super().fans
        return fan_out, fan_in

    def __call__(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        after_conv: bool = False,
        before_conv: bool = False,
    ) -> Tensor:
        weight, bias = parameters["weight"], parameters.get("bias")
        return kernels.conv_transpose(x, weight, bias, self.relu, None, after_conv, before_conv)


@dataclass(frozen=True)
class SameConv:
    """Stride-1 convolution, `[M, B, H, W, inputs]` to `[M, B, H, W, outputs]`.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        biased: Whether there is a bias.
        upsampled: Whether the input is first enlarged to twice its size, by repeating pixels.
        kernel: Kernel size, odd.
    """

    inputs: int
    outputs: int
    biased: bool = True
    upsampled: bool = False
    kernel: int = 3

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        weight = {"weight": (self.kernel, self.kernel, self.inputs, self.outputs)}
        return {**weight, "bias": (self.outputs,)} if self.biased else weight

    @property
    def fans(self) -> tuple[int, int]:
        return self.kernel**2 * self.inputs, self.kernel**2 * self.outputs

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        if self.upsampled:
            x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return same_conv(x, parameters["weight"], parameters.get("bias"))


@dataclass(frozen=True)
class Merge:
    """End of a residual branch: add its result to the input of the branch (`Branch`).

    If the number of channels differs, the input is projected by a 1 × 1 convolution.
    """

    inputs: int
    outputs: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        if self.inputs == self.outputs:
            return {}
        return {"weight": (self.inputs, self.outputs), "bias": (self.outputs,)}

    @property
    def fans(self) -> tuple[int, int]:
        return self.inputs, self.outputs

    def __call__(
        self, parameters: Mapping[str, Tensor], x: Tensor, start: Tensor | None = None
    ) -> Tensor:
        assert start is not None, "a branch must have begun"
        if self.shapes:
            flat = start.flatten(2, 3).flatten(1, 2)
            projected = kernels.linear(flat, parameters["weight"], parameters["bias"])
            start = projected.view(x.shape)
        return start + x


class _ConstantInit:
    """A layer without randomly initialised parameters."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    @property
    def fans(self) -> tuple[int, int]:
        return 1, 1


@dataclass(frozen=True)
class Reshape(_ConstantInit):
    """`[M, B, ...]` to `[M, B, *shape]`."""

    shape: tuple[int, ...]

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        return x.reshape(*x.shape[:2], *self.shape)


@dataclass(frozen=True)
class Pad(_ConstantInit):
    """Images with zeros around them, `[M, B, H, W, C]`; negative margins crop.

    Args:
        margins: Pixels to add on the left, on the right, above and below.
    """

    margins: tuple[int, int, int, int]

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        del parameters  # this layer has none
        return F.pad(x, (0, 0, *self.margins))


@dataclass(frozen=True)
class Broadcast(_ConstantInit):
    """The code and the coordinates of each position, `[M, B, d]` to `[M, B, H, W, d + 2]`.

    Coordinates run from -1 to 1, from left to right and from top to bottom.

    Args:
        latents: Size of the code d.
        size: Height and width.
    """

    latents: int
    size: tuple[int, int]

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        del parameters  # this layer has none
        return F.pad(x, (0, 2))[:, :, None, None] + self.grid(x.device).to(x.dtype)

    def grid(self, device: torch.device | None = None) -> Tensor:
        """Return zeros in place of the code, followed by the coordinates, `[H, W, d + 2]`."""
        rows, columns = (torch.linspace(-1, 1, side, device=device) for side in self.size)
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        return F.pad(torch.stack([x, y], -1), (self.latents, 0))


@dataclass(frozen=True)
class Branch(_ConstantInit):
    """Beginning of a residual branch, whose input is added to its result by `Merge`."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        return x


@dataclass(frozen=True)
class MeanPool(_ConstantInit):
    """Mean over pixels, `[M, B, H, W, C]` to `[M, B, C]`."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        return x.mean((2, 3))


@dataclass(frozen=True)
class LearnedMap(_ConstantInit):
    """A learned image in place of the input, which becomes the code of later layers.

    Args:
        side: Height and width of the image.
        channels: Number of channels.
        parameter: Name of the parameter: `"map"` starts at 0.1, `"ones"` at 1.
    """

    side: int
    channels: int
    parameter: str = "map"

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {self.parameter: (self.side, self.side, self.channels)}

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        own = parameters[self.parameter][:, None]
        return own.expand(-1, x.shape[1], *own.shape[2:])


@dataclass(frozen=True)
class Maps:
    """Several square linear maps of one input, `[M, B, width]` to `[M, count, B, width]`.

    Each matrix A maps x to y = A x, without bias.
    """

    count: int
    width: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (self.count, self.width, self.width)}

    @property
    def fans(self) -> tuple[int, int]:
        return self.width, self.width

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        y = x @ parameters["weight"].flatten(1, 2).mT
        return y.unflatten(-1, (self.count, self.width)).transpose(1, 2)


@dataclass(frozen=True)
class Offsets(_ConstantInit):
    """Learned offsets, initially 0, that are added to the input `[M, B, width]`.

    They represent individual parameters, such as exponents of a prior, so they are always float32.
    """

    width: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"offset": (self.width,)}

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return x + parameters["offset"][:, None]


@dataclass(frozen=True)
class Contrast(_ConstantInit):
    """Logits of two codes being consecutive in time, `[M, B, 2 width]` to `[M, B, 1]`.

        r = -Σ_i |w₁ᵢ h_i + w₂ᵢ h'_i + b_i| + a Σ_i h_i² + c

    The input is the current code h and the previous code h', concatenated. Initially w₁ = 1,
    w₂ = -1, b = 0, a = 1 and c = 0. The learned parameter is the square root of a, so that a is
    never negative. The layer is computed in float32, whatever the precision of the encoder.

    Args:
        width: Size of a code.
    """

    width: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {
            "now": (self.width,),
            "before": (self.width,),
            "offset": (self.width,),
            "root": (1,),
            "constant": (1,),
        }

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        now, before, offset, root, constant = (
            parameters[name].float()[:, None] for name in self.shapes
        )
        code, earlier = x.float().chunk(2, -1)
        distance = (now * code + before * earlier + offset).abs().sum(-1, keepdim=True)
        return root**2 * code.square().sum(-1, keepdim=True) - distance + constant


@dataclass(frozen=True)
class Activation(_ConstantInit):
    """Element-wise activation function."""

    name: str

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        return ACTIVATIONS[self.name](x)


@dataclass(frozen=True)
class Spreads(_ConstantInit):
    """Mean and deviation to mean and log-variance, `[M, B, 2 d]`: log σ² = 2 log softplus(s)."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        mean, spread = x.float().chunk(2, -1)
        return torch.cat([mean, 2 * F.softplus(spread).clamp_min(MIN_DEVIATION).log()], -1)
