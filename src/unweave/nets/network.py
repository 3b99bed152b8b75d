"""A network: layers in a row, and all their parameters in one flat buffer per model."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.errors import UnknownNameError
from unweave.kernels.threads import run_all
from unweave.nets.contrast import Contrast
from unweave.nets.layers import Conv, Layer, Offsets
from unweave.nets.norms import AdaptiveNorm, BatchNorm
from unweave.random import Stream

__all__ = ["INITS", "Network"]

INITS = ("glorot", "torch", "normal")
DEVIATION = 0.02
"""Of the weights that `"normal"` draws."""
BEGINNINGS = {
    "offset": 0.0,
    "shift": 0.0,
    "scale": 1.0,
    "now": 1.0,
    "before": -1.0,
    "root": 1.0,
    "constant": 0.0,
}
"""Parameters that begin with the same number in every model."""
ALIGNMENT = 16
"""In numbers: where a parameter may begin, so that it can be read in wide words."""
ROWS = 64
"""Inputs of one model that a thread of a CPU takes at a time."""


@dataclass(frozen=True)
class Network:
    """Layers applied one after the other, for M models side by side.

    The parameters of all layers of a model are one row of a buffer `[M, network.width]`;
    optimisers, checkpoints and fleets only ever see that buffer. Between parameters it has a few
    numbers that nobody reads, so that each parameter begins at a multiple of `ALIGNMENT`.
    """

    layers: tuple[Layer | AdaptiveNorm, ...]

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every parameter by name (`"0.weight"`), in the order of the buffer."""
        return {
            f"{place}.{name}": shape
            for place, layer in enumerate(self.layers)
            for name, shape in layer.shapes.items()
        }

    def __len__(self) -> int:
        """How many parameters a model has."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where every parameter begins in a model's row of the buffer."""
        sizes = [_aligned(math.prod(shape)) for shape in self.shapes.values()]
        return dict(zip(self.shapes, accumulate(sizes, initial=0), strict=False))

    @cached_property
    def width(self) -> int:
        """The length of a model's row of the buffer."""
        return sum(_aligned(math.prod(shape)) for shape in self.shapes.values())

    @property
    def precise(self) -> bool:
        """Whether it is computed in float32 where others are in bf16."""
        return all(isinstance(layer, Offsets | Contrast) for layer in self.layers)

    @property
    def adaptive(self) -> bool:
        """Whether it takes a code besides its input."""
        return any(isinstance(layer, AdaptiveNorm) for layer in self.layers)

    def __call__(
        self,
        parameters: Tensor | Mapping[str, Tensor],
        x: Tensor,
        code: Tensor | None = None,
        reference: int | None = None,
    ) -> Tensor:
        """Apply all layers.

        On a CPU, what need not be differentiated is computed by one model and a few rows at a
        time, each by one thread, so that it depends neither on the other models nor on the number
        of threads.

        Args:
            parameters: By name or as a buffer.
            x: The input, `[M, B, ...]`.
            code: `[M, B, d]`, for layers that adapt to one.
            reference: By how many of the inputs, the first ones, batches are normalised; None for
                all.
        """
        if isinstance(parameters, Tensor):
            parameters = dict(self.named(parameters))
        if x.device.type != "cpu" or torch.is_grad_enabled() or self._mixes_rows:
            return self._apply(parameters, x, code, reference)

        def task(model: int, start: int) -> Tensor:
            one, few = slice(model, model + 1), slice(start, start + ROWS)
            own = {name: value[one] for name, value in parameters.items()}
            return self._apply(own, x[one, few], None if code is None else code[one, few])

        starts = range(0, max(1, x.shape[1]), ROWS)
        parts = run_all([partial(task, model, at) for model in range(len(x)) for at in starts])
        if len(parts) == 1:
            return parts[0]
        models = (parts[at : at + len(starts)] for at in range(0, len(parts), len(starts)))
        return torch.cat([torch.cat(of_model, 1) for of_model in models])

    @property
    def _mixes_rows(self) -> bool:
        """Whether what becomes of an input depends on others."""
        return any(isinstance(layer, BatchNorm) for layer in self.layers)

    def _apply(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        code: Tensor | None,
        reference: int | None = None,
    ) -> Tensor:
        for place, layer in enumerate(self.layers):
            own = {name: parameters[f"{place}.{name}"] for name in layer.shapes}
            if isinstance(layer, Conv):
                x = layer(own, x, self._linked(place - 1), self._linked(place))
            elif isinstance(layer, AdaptiveNorm):
                assert code is not None, "an adaptive network without a code"
                x = layer(own, x, code)
            elif isinstance(layer, BatchNorm):
                x = layer(own, x, reference)
            else:
                x = layer(own, x)
        return x

    def _linked(self, place: int) -> bool:
        """Whether a convolution with a ReLU leads straight into another convolution."""
        if not 0 <= place < len(self.layers) - 1:
            return False
        layer, following = self.layers[place : place + 2]
        return isinstance(layer, Conv) and layer.relu and isinstance(following, Conv)

    def named(self, buffer: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Views `[M, *shape]` of all parameters, by name."""
        if buffer.shape[1] != self.width:
            raise ValueError(f"expected a buffer [M, {self.width}], got {list(buffer.shape)}")
        for name, shape in self.shapes.items():
            start = self.places[name]
            yield name, buffer[:, start : start + math.prod(shape)].unflatten(1, shape)

    def packed(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """The buffer `[M, width]` of parameters `[M, *shape]` by name."""
        parts = [parameters[name].flatten(1) for name in self.shapes]
        padded = [F.pad(part, (0, _aligned(part.shape[1]) - part.shape[1])) for part in parts]
        return torch.cat(padded, 1)

    def initial(self, seeds: Tensor, purpose: str, init: str = "glorot") -> Tensor:
        """Initial parameters `[M, width]`, each model's from its own seed.

        Args:
            seeds: int64 `[M]`.
            purpose: The name of the network, so that no two draw the same numbers.
            init: `"glorot"`, uniform in ±√(6 / (fan-in + fan-out)) with biases 0, as in the
                protocol; `"torch"`, weights and biases uniform in ±1 / √fan-in; or `"normal"`,
                weights N(0, 0.02²) with biases 0, as adversarial networks have them.
        """
        if init not in INITS:
            raise UnknownNameError("initialisation", init, INITS)
        parts = {}
        for place, layer in enumerate(self.layers):
            fan_in, fan_out = layer.fans
            bound = math.sqrt(6 / (fan_in + fan_out)) if init == "glorot" else fan_in**-0.5
            for name, shape in layer.shapes.items():
                key = f"{place}.{name}"
                if name in BEGINNINGS or (name == "bias" and init != "torch"):
                    start = BEGINNINGS.get(name, 0.0)
                    parts[key] = torch.full((len(seeds), *shape), start, device=seeds.device)
                    continue
                stream = Stream(seeds, f"init {purpose} {key}")
                if init == "normal":
                    parts[key] = DEVIATION * stream.normal(1, math.prod(shape))[:, 0]
                else:
                    uniform = stream.uniform(1, math.prod(shape))[:, 0]
                    parts[key] = (2 * uniform - 1) * bound
        return self.packed(parts)


def _aligned(size: int) -> int:
    return math.ceil(size / ALIGNMENT) * ALIGNMENT
