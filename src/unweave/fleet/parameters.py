"""A network group: networks that are trained together, all their parameters in one buffer.

Shapes: M models with n members each, whose parameters are n adjacent rows; P parameters of a
group.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from unweave.methods.members import for_members
from unweave.nets.adam import Adam, Moments, update
from unweave.nets.network import Network

__all__ = ["Leaves", "NetworkGroup"]

Leaves = Mapping[str, Mapping[str, Tensor]]
"""Parameters by network and name, `[M · n, *shape]`."""


@dataclass(frozen=True, eq=False)
class NetworkGroup:
    """Networks that one optimiser trains towards one loss.

    Args:
        networks: By name, in the order of their parameters in the buffer.
        parameters: float32 `[M · n, P]`
        working: The same in the precision of matrix multiplications; in float32 the same tensor.
        moments: Running means of the optimiser.
        optimiser: With the rates of all rows; None for frozen networks.
        rows_per_model: n.
    """

    networks: Mapping[str, Network]
    parameters: Tensor
    working: Tensor
    moments: Moments
    optimiser: Adam | None
    rows_per_model: int = 1

    @classmethod
    def of_one(
        cls, name: str, network: Network, parameters: Tensor, optimiser: Adam
    ) -> "NetworkGroup":
        """A single network, all rows of which `[M, P]` have the same optimiser."""
        adam = Adam.stack([optimiser] * len(parameters), parameters.device)
        return cls({name: network}, parameters, parameters, Moments.zeros_like(parameters), adam)

    def rows(self, chosen: slice) -> "NetworkGroup":
        """The same networks of some models, whose parameters are a part of these."""
        # By `data`, or autograd would take changes of other models for changes of these.
        parameters, working = self.parameters.data[chosen], self.working.data[chosen]
        return replace(
            self,
            parameters=parameters,
            working=parameters if self.working is self.parameters else working,
            moments=Moments(self.moments.first[chosen], self.moments.second[chosen]),
            optimiser=None if self.optimiser is None else self.optimiser.rows(chosen),
        )

    def buffers(self, parameters: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Each network's part of a buffer."""
        sizes = [network.width for network in self.networks.values()]
        yield from zip(self.networks, parameters.split(sizes, 1), strict=True)

    def named(self, buffer: Tensor) -> dict[str, dict[str, Tensor]]:
        """Views `[M · n, *shape]` of all parameters in a buffer, by network and name."""
        return {name: dict(self.networks[name].named(part)) for name, part in self.buffers(buffer)}

    @property
    def places(self) -> list[int]:
        """Where each parameter begins in a row of the buffer."""
        networks = self.networks.values()
        starts = accumulate((network.width for network in networks), initial=0)
        return [
            start + place
            for start, network in zip(starts, networks, strict=False)
            for place in network.places.values()
        ]

    def leaves(self) -> dict[str, dict[str, Tensor]]:
        """The working parameters as leaves of a new autograd graph."""
        return {
            network: {name: value.detach().requires_grad_() for name, value in named.items()}
            for network, named in self.named(self.working).items()
        }

    @staticmethod
    def gradients(loss: Tensor, leaves: Leaves, retain_graph: bool) -> tuple[Tensor, ...]:
        """The gradient of a loss `[M]` by each leaf; 0 where the loss does not depend on it."""
        own = [leaf for network in leaves.values() for leaf in network.values()]
        # Of the sum: with a gradient of each loss torch would import sympy, for a second.
        return torch.autograd.grad(
            loss.sum(), own, retain_graph=retain_graph, allow_unused=True, materialize_grads=True
        )

    def refresh(self) -> None:
        """Bring the working copy up to date with the parameters."""
        if self.working is not self.parameters:
            self.working.copy_(self.parameters)

    def update(
        self, gradients: Sequence[Tensor], step: Tensor, alive: Tensor, finite: Tensor
    ) -> None:
        """One step of Adam for the models that are alive.

        Args:
            gradients: One per parameter, `[M · n, *shape]`.
            step: The number of the step, a scalar.
            alive: bool `[M]`
            finite: bool `[M]`; set to False, in place, for models whose gradients are not finite,
                which are not moved.
        """
        assert self.optimiser is not None, "a loss for networks without an optimiser"
        one = self.rows_per_model == 1
        rows_alive = alive if one else for_members(alive, self.rows_per_model)
        rows_finite = finite if one else rows_alive.clone()
        update(
            self.parameters,
            self.moments,
            [gradient.flatten(1) for gradient in gradients],
            self.places,
            self.optimiser.rates(step),
            rows_alive,
            rows_finite,
            None if self.working is self.parameters else self.working,
        )
        if not one:
            finite &= rows_finite.unflatten(0, (-1, self.rows_per_model)).all(1)
