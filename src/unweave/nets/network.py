"""A network: layers in a row, and all their parameters in one flat buffer per model."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unweave.errors import UnknownNameError
from unweave.nets.layers import Layer
from unweave.streams import Stream

__all__ = ["INITS", "Network"]

INITS = ("glorot", "torch")


@dataclass(frozen=True)
class Network:
    """Layers applied one after the other, for M models side by side.

    The parameters of all layers of a model are one row of a buffer `[M, len(network)]`;
    optimisers, checkpoints and fleets only ever see that buffer.
    """

    layers: tuple[Layer, ...]

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every parameter by name (`"0.weight"`), in the order of the buffer."""
        return {
            f"{place}.{name}": shape
            for place, layer in enumerate(self.layers)
            for name, shape in layer.shapes.items()
        }

    def __len__(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())

    def __call__(self, buffer: Tensor, x: Tensor) -> Tensor:
        """Apply all layers: parameters `[M, len(self)]`, input `[M, B, ...]`."""
        parameters = dict(self.named(buffer))
        for place, layer in enumerate(self.layers):
            own = {name: parameters[f"{place}.{name}"] for name in layer.shapes}
            x = layer(own, x)
        return x

    def named(self, buffer: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Views `[M, *shape]` of all parameters, by name."""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        # One split, not many slices: its gradient is one concatenation.
        for (name, shape), part in zip(self.shapes.items(), buffer.split(sizes, 1), strict=True):
            yield name, part.unflatten(1, shape)

    def initial(self, seeds: Tensor, purpose: str, init: str = "glorot") -> Tensor:
        """Initial parameters `[M, len(self)]`, each model's from its own seed.

        Args:
            seeds: int64 `[M]`.
            purpose: The name of the network, so that no two draw the same numbers.
            init: `"glorot"`, uniform in ±√(6 / (fan-in + fan-out)) with biases 0, as in the
                protocol; or `"torch"`, weights and biases uniform in ±1 / √fan-in.
        """
        if init not in INITS:
            raise UnknownNameError("initialisation", init, INITS)
        parts = []
        for place, layer in enumerate(self.layers):
            fan_in, fan_out = layer.fans
            bound = math.sqrt(6 / (fan_in + fan_out)) if init == "glorot" else fan_in**-0.5
            for name, shape in layer.shapes.items():
                if name == "bias" and init == "glorot":
                    parts.append(torch.zeros(len(seeds), *shape, device=seeds.device).flatten(1))
                    continue
                stream = Stream(seeds, f"init {purpose} {place}.{name}")
                uniform = stream.uniform(1, math.prod(shape))[:, 0]
                parts.append((2 * uniform - 1) * bound)
        return torch.cat(parts, 1)
