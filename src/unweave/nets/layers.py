"""Layers with a leading model axis.

A layer is data: its sizes, and a function of parameters and input. Its parameters for M models are
stacked, `[M, *shape]`, and live in one flat buffer per network (`network.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave import kernels
from unweave.kernels.reference import ACTIVATIONS

__all__ = [
    "Activation",
    "Conv",
    "ConvTranspose",
    "Expand",
    "Layer",
    "Linear",
    "Maps",
    "Offsets",
    "Reshape",
    "Spreads",
]

NARROWEST = 1e-5
"""Smaller deviations count as this one."""


class Layer(Protocol):
    """What a network needs of a layer."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of its parameters, without the model axis."""
        ...

    @property
    def fans(self) -> tuple[int, int]:
        """Fan-in and fan-out, by which weights are initialised.

        For a transposed convolution both libraries of reference take those of the convolution that
        it transposes.
        """
        ...

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Linear:
    """Fully connected, `[M, B, inputs]` to `[M, B, outputs]`.

    Args:
        inputs: Width of the input.
        outputs: Width of the output.
        activation: Of `kernels.reference.ACTIVATIONS`.
        fan: The fans of what this layer stands for, where that is not one matrix: two heads, or a
            convolution that covers its whole input.
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
class Expand:
    """Transposed convolution of one pixel, `[M, B, inputs]` to `[M, B, side, side, outputs]`."""

    inputs: int
    outputs: int
    side: int = 4
    activation: str = "relu"

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (self.inputs, self.side**2 * self.outputs), "bias": (self.outputs,)}

    @property
    def fans(self) -> tuple[int, int]:
        return self.side**2 * self.outputs, self.side**2 * self.inputs

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        bias = parameters["bias"].repeat(1, self.side**2)
        y = kernels.linear(x, parameters["weight"], bias, self.activation)
        return y.unflatten(-1, (self.side, self.side, self.outputs))


@dataclass(frozen=True)
class Conv:
    """Stride-2 convolution, `[M, B, H, W, inputs]` to `[M, B, H/2, W/2, outputs]`."""

    inputs: int
    outputs: int
    kernel: int
    relu: bool = True

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {
            "weight": (self.kernel, self.kernel, self.inputs, self.outputs),
            "bias": (self.outputs,),
        }

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
        """Apply the layer.

        Args:
            parameters: By name.
            x: The images.
            after_conv: Whether x comes straight from a convolution with a ReLU that was told so.
            before_conv: Whether the result goes straight into such a layer.
        """
        weight, bias = parameters["weight"], parameters["bias"]
        return kernels.conv(x, weight, bias, self.relu, None, after_conv, before_conv)


@dataclass(frozen=True)
class ConvTranspose(Conv):
    """Transposed stride-2 convolution, `[M, B, h, w, inputs]` to `[M, B, 2h, 2w, outputs]`."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        weight = (self.kernel, self.kernel, self.outputs, self.inputs)
        return {"weight": weight, "bias": (self.outputs,)}

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
        weight, bias = parameters["weight"], parameters["bias"]
        return kernels.conv_transpose(x, weight, bias, self.relu, None, after_conv, before_conv)


class _Fixed:
    """A layer without parameters, so that there is nothing to initialise."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    @property
    def fans(self) -> tuple[int, int]:
        return 1, 1


@dataclass(frozen=True)
class Reshape(_Fixed):
    """`[M, B, ...]` to `[M, B, *shape]`."""

    shape: tuple[int, ...]

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        return x.reshape(*x.shape[:2], *self.shape)


@dataclass(frozen=True)
class Maps:
    """Several square linear maps of one input, `[M, B, width]` to `[M, count, B, width]`.

    The matrices are kept as one writes them: y = A x, without bias.
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
class Offsets:
    """Learned numbers, 0 in the beginning, that are added to the input `[M, B, width]`.

    They stand for single parameters, such as exponents of a prior, so they are float32 always.
    """

    width: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"offset": (self.width,)}

    @property
    def fans(self) -> tuple[int, int]:
        return 1, 1

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return x + parameters["offset"][:, None]


@dataclass(frozen=True)
class Activation(_Fixed):
    """A function of every number, without parameters."""

    name: str

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        return ACTIVATIONS[self.name](x)


@dataclass(frozen=True)
class Spreads(_Fixed):
    """Mean and deviation to mean and log-variance, `[M, B, 2 d]`: log σ² = 2 log softplus(s)."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:  # noqa: ARG002
        mean, spread = x.float().chunk(2, -1)
        return torch.cat([mean, 2 * F.softplus(spread).clamp_min(NARROWEST).log()], -1)
