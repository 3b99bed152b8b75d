"""Networks with all parameters of a model in one flat buffer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.errors import UnknownNameError
from unweave.kernels import FAST, WIDEST
from unweave.kernels.threads import run_all
from unweave.nets.layers import (
    Branch,
    Contrast,
    Conv,
    ConvTranspose,
    Layer,
    LearnedMap,
    Merge,
    Offsets,
)
from unweave.nets.norms import AdaptiveNorm, BatchNorm
from unweave.random import Stream

__all__ = ["INITS", "Network", "StackedNetwork"]

INITS = ("glorot", "he", "torch", "normal")
DEVIATION = 0.02
"""Standard deviation of weights initialised by `"normal"`."""
INITIAL_VALUES = {
    "offset": 0.0,
    "shift": 0.0,
    "scale": 1.0,
    "now": 1.0,
    "before": -1.0,
    "root": 1.0,
    "constant": 0.0,
    "map": 0.1,
    "ones": 1.0,
}
"""Initial values of parameters that are not initialised randomly."""
LIMITED = ("weight", "scale", "map", "ones")
"""Parameters to which weight decay and clipping apply: weights, gains and learned maps."""
ALIGNMENT = 16
"""Parameters start at multiples of this many numbers, for vectorised loads."""
HIDDEN = 4
"""Largest number of hidden layers whose outputs are available."""
ROWS = 64
"""Number of inputs of one model that a CPU thread processes at a time."""


class StackedNetwork(ABC):
    """A network, applied to M models at once.

    The parameters of a model are one row of a buffer `[M, network.width]`, which is all that
    optimisers, checkpoints and fleets use. Rows contain padding, so that each parameter starts at
    a multiple of `ALIGNMENT`.
    """

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each parameter by name, in the order of the buffer."""

    @abstractmethod
    def initial(self, seeds: Tensor, purpose: str, init: str = "glorot") -> Tensor:
        """Sample initial parameters `[M, width]`, with one seed per model.

        Args:
            seeds: Random seeds, int64 `[M]`.
            purpose: Name of the network, so that networks use different random numbers.
            init: Initialisation, one of `INITS`.
        """

    @abstractmethod
    def _apply(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        code: Tensor | None = None,
        reference: int | None = None,
        hidden: list[Tensor] | None = None,
    ) -> Tensor:
        """Apply the network to all models and inputs at once; see `__call__`."""

    @property
    def precise(self) -> bool:
        """Whether the network is always computed in float32, even in bf16 runs."""
        return False

    @property
    def adaptive(self) -> bool:
        """Whether the network takes a code in addition to its input."""
        return False

    @property
    def unfolds(self) -> bool:
        """Whether layers store far more numbers than their outputs on a GPU."""
        return False

    @property
    def _mixes_rows(self) -> bool:
        """Whether the output for an input depends on other inputs."""
        return False

    def __len__(self) -> int:
        """Return the number of parameters per model."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Offset of each parameter in a row of the buffer."""
        sizes = [_aligned(math.prod(shape)) for shape in self.shapes.values()]
        return dict(zip(self.shapes, accumulate(sizes, initial=0), strict=False))

    @cached_property
    def width(self) -> int:
        """Length of a row of the buffer."""
        return sum(_aligned(math.prod(shape)) for shape in self.shapes.values())

    @property
    def limited(self) -> list[bool]:
        """Whether weight decay and element-wise clipping apply to each parameter."""
        return [name.rpartition(".")[2] in LIMITED for name in self.shapes]

    def __call__(
        self,
        parameters: Tensor | Mapping[str, Tensor],
        x: Tensor,
        code: Tensor | None = None,
        reference: int | None = None,
        hidden: list[Tensor] | None = None,
    ) -> Tensor:
        """Apply the network.

        On a CPU without gradients, single models and small batches are computed on one thread
        each, so that results depend neither on other models nor on the number of threads.

        Args:
            parameters: Parameters by name, or a buffer.
            x: Input, `[M, B, ...]`.
            code: Code for adaptive normalisation, `[M, B, d]`.
            reference: Number of inputs, from the first, that determine batch statistics; None for
                all.
            hidden: List to which the outputs of the hidden layers are appended (`hidden_places`);
                the network is then only evaluated up to the last of them.
        """
        if isinstance(parameters, Tensor):
            parameters = dict(self.named(parameters))
        whole = hidden is not None or self._mixes_rows
        if x.device.type != "cpu" or torch.is_grad_enabled() or whole:
            return self._apply(parameters, x, code, reference, hidden)

        def task(model: int, start: int) -> Tensor:
            one, rows = slice(model, model + 1), slice(start, start + ROWS)
            own = {name: value[one] for name, value in parameters.items()}
            return self._apply(own, x[one, rows], None if code is None else code[one, rows])

        starts = range(0, max(1, x.shape[1]), ROWS)
        parts = run_all([partial(task, model, at) for model in range(len(x)) for at in starts])
        if len(parts) == 1:
            return parts[0]
        models = (parts[at : at + len(starts)] for at in range(0, len(parts), len(starts)))
        return torch.cat([torch.cat(of_model, 1) for of_model in models])

    def named(self, buffer: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield views `[M, *shape]` of all parameters with their names."""
        if buffer.shape[1] != self.width:
            raise ValueError(f"buffer must be [M, {self.width}], got {list(buffer.shape)}")
        for name, shape in self.shapes.items():
            start = self.places[name]
            yield name, buffer[:, start : start + math.prod(shape)].unflatten(1, shape)

    def packed(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Pack parameters `[M, *shape]` by name into a buffer `[M, width]`."""
        parts = [parameters[name].flatten(1) for name in self.shapes]
        padded = [F.pad(part, (0, _aligned(part.shape[1]) - part.shape[1])) for part in parts]
        return torch.cat(padded, 1)


@dataclass(frozen=True)
class Network(StackedNetwork):
    """A sequence of layers."""

    layers: tuple[Layer | AdaptiveNorm, ...]
    hidden: tuple[int, ...] = ()
    """Indices of the hidden layers whose outputs are available (default: see `hidden_places`)."""

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each parameter by name (`"0.weight"`), in the order of the buffer."""
        return {
            f"{place}.{name}": shape
            for place, layer in enumerate(self.layers)
            for name, shape in layer.shapes.items()
        }

    @property
    def precise(self) -> bool:
        return all(isinstance(layer, Offsets | Contrast) for layer in self.layers)

    @property
    def adaptive(self) -> bool:
        kinds = [type(layer) for layer in self.layers]
        return AdaptiveNorm in kinds and LearnedMap not in kinds

    @property
    def unfolds(self) -> bool:
        return any(
            layer.kernel not in FAST or layer.shapes["weight"][2] > WIDEST
            for layer in self.layers
            if isinstance(layer, Conv)
        )

    @cached_property
    def hidden_places(self) -> tuple[int, ...]:
        """Indices of layers whose outputs are available, in order.

        By default they are the first four hidden layers, after their activation; fewer in small
        networks.
        """
        if self.hidden:
            return self.hidden
        weighted = [place for place, layer in enumerate(self.layers) if layer.shapes]
        return tuple(place - 1 for place in weighted[1 : 1 + HIDDEN])

    @property
    def _mixes_rows(self) -> bool:
        return any(isinstance(layer, BatchNorm) for layer in self.layers)

    def _apply(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        code: Tensor | None = None,
        reference: int | None = None,
        hidden: list[Tensor] | None = None,
    ) -> Tensor:
        start: Tensor | None = None
        chosen = () if hidden is None else self.hidden_places
        layers = self.layers if hidden is None else self.layers[: chosen[-1] + 1]
        for place, layer in enumerate(layers):
            own = {name: parameters[f"{place}.{name}"] for name in layer.shapes}
            if isinstance(layer, Conv):
                before, after = (
                    self._linked(at) and at not in chosen for at in (place - 1, place)
                )
                x = layer(own, x, before, after)
            elif isinstance(layer, LearnedMap):
                code, x = x, layer(own, x)
            elif isinstance(layer, Branch):
                start = x
            elif isinstance(layer, Merge):
                x = layer(own, x, start)
            elif isinstance(layer, AdaptiveNorm):
                assert code is not None, "adaptive normalisation needs a code"
                x = layer(own, x, code)
            elif isinstance(layer, BatchNorm):
                x = layer(own, x, reference)
            else:
                x = layer(own, x)
            if hidden is not None and place in chosen:
                hidden.append(x)
        return x

    def _linked(self, place: int) -> bool:
        """Whether a layer is a convolution with ReLU, directly followed by a convolution."""
        if not 0 <= place < len(self.layers) - 1:
            return False
        layer, following = self.layers[place : place + 2]
        return isinstance(layer, Conv) and layer.relu and isinstance(following, Conv)

    def initial(self, seeds: Tensor, purpose: str, init: str = "glorot") -> Tensor:
        """Sample initial parameters `[M, width]`, with one seed per model.

        Args:
            seeds: Random seeds, int64 `[M]`.
            purpose: Name of the network, so that networks use different random numbers.
            init: Initialisation: `"glorot"` is uniform in ±√(6 / (fan-in + fan-out)) with biases
                0, as in the protocol; `"he"` is uniform in ±√(6 / n) with n inputs of each value,
                and ±√(3 / n) in the last layer, with biases 0; `"torch"` has weights and biases
                uniform in ±1 / √fan-in; `"normal"` has weights N(0, 0.02²) and biases 0, as usual
                in GANs.
        """
        if init not in INITS:
            raise UnknownNameError("initialisation", init, INITS)
        parts = {}
        for place, layer in enumerate(self.layers):
            fan_in, fan_out = layer.fans
            bound = math.sqrt(6 / (fan_in + fan_out)) if init == "glorot" else fan_in**-0.5
            if init == "he":
                last = place == len(self.layers) - 1
                bound = math.sqrt((3 if last else 6) / _inputs_of_a_value(layer))
            for name, shape in layer.shapes.items():
                key = f"{place}.{name}"
                if name in INITIAL_VALUES or (name == "bias" and init != "torch"):
                    start = INITIAL_VALUES.get(name, 0.0)
                    parts[key] = torch.full((len(seeds), *shape), start, device=seeds.device)
                    continue
                stream = Stream(seeds, f"init {purpose} {key}")
                if init == "normal":
                    parts[key] = DEVIATION * stream.normal(1, math.prod(shape))[:, 0]
                else:
                    uniform = stream.uniform(1, math.prod(shape))[:, 0]
                    parts[key] = (2 * uniform - 1) * bound
        return self.packed(parts)


def _inputs_of_a_value(layer: Layer | AdaptiveNorm) -> float:
    """Return how many inputs each output of a layer depends on; at least 1."""
    if isinstance(layer, ConvTranspose):  # of stride 2, so a quarter of the kernel counts
        return layer.kernel**2 * layer.inputs / 4
    return max(1, layer.fans[0])


def _aligned(size: int) -> int:
    return math.ceil(size / ALIGNMENT) * ALIGNMENT
