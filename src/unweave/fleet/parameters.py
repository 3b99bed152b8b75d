"""Network groups: networks that are trained together, with all parameters in one buffer.

Shapes: M models with n members each, whose parameters are n adjacent rows; P parameters per
group.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from unweave.methods.batch import for_members
from unweave.nets.adam import Adam, Moments, StackedAdam, update
from unweave.nets.network import StackedNetwork

__all__ = ["Leaves", "NetworkGroup", "gradients_of"]

Leaves = Mapping[str, Mapping[str, Tensor]]
"""Parameters by network and name, `[M · n, *shape]`."""


@dataclass(frozen=True, eq=False)
class NetworkGroup:
    """Networks that share an optimiser and a loss.

    Args:
        networks: Networks by name, in the order of their parameters in the buffer.
        parameters: Parameters, float32 `[M · n, P]`.
        working: Parameters in the precision of matrix multiplications; the same tensor in float32.
        moments: Running means of the optimiser.
        optimiser: Stacked optimiser of all rows; None for frozen networks.
        rows_per_model: Number of rows per model, n.
        averages: Moving averages of the parameters, if the optimiser has them.
    """

    networks: Mapping[str, StackedNetwork]
    parameters: Tensor
    working: Tensor
    moments: Moments
    optimiser: StackedAdam | None
    rows_per_model: int = 1
    averages: Tensor | None = None

    @property
    def trained(self) -> Tensor:
        """Parameters of the trained models: the moving averages, if there are any."""
        return self.parameters if self.averages is None else self.averages

    @classmethod
    def of_one(
        cls, name: str, network: StackedNetwork, parameters: Tensor, optimiser: Adam
    ) -> "NetworkGroup":
        """Create a group of a single network whose rows `[M, P]` share optimiser settings."""
        adam = StackedAdam.of([optimiser] * len(parameters), parameters.device)
        moments = Moments.zeros_like(parameters)
        averages = parameters.clone() if optimiser.ema else None
        return cls({name: network}, parameters, parameters, moments, adam, averages=averages)

    def rows(self, chosen: slice) -> "NetworkGroup":
        """Return the group for some rows, as views of the parameters."""
        # Without `data`, autograd would treat updates of other rows as updates of these.
        parameters, working = self.parameters.data[chosen], self.working.data[chosen]
        return replace(
            self,
            parameters=parameters,
            working=parameters if self.working is self.parameters else working,
            moments=Moments(self.moments.first[chosen], self.moments.second[chosen]),
            optimiser=None if self.optimiser is None else self.optimiser.rows(chosen),
            averages=None if self.averages is None else self.averages[chosen],
        )

    def buffers(self, parameters: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield the part of a buffer that belongs to each network."""
        sizes = [network.width for network in self.networks.values()]
        yield from zip(self.networks, parameters.split(sizes, 1), strict=True)

    def named(self, buffer: Tensor) -> dict[str, dict[str, Tensor]]:
        """Return views `[M · n, *shape]` of all parameters in a buffer, by network and name."""
        return {name: dict(self.networks[name].named(part)) for name, part in self.buffers(buffer)}

    @property
    def places(self) -> list[int]:
        """Offset of each parameter in a row of the buffer."""
        networks = self.networks.values()
        starts = accumulate((network.width for network in networks), initial=0)
        return [
            start + place
            for start, network in zip(starts, networks, strict=False)
            for place in network.places.values()
        ]

    @property
    def limited(self) -> list[bool]:
        """Whether weight decay and element-wise clipping apply to each parameter."""
        return [own for network in self.networks.values() for own in network.limited]

    def leaves(self) -> dict[str, dict[str, Tensor]]:
        """Return the working parameters as leaves of a new autograd graph."""
        return {
            network: {name: value.detach().requires_grad_() for name, value in named.items()}
            for network, named in self.named(self.working).items()
        }

    def refresh(self) -> None:
        """Copy the parameters to the working copy."""
        if self.working is not self.parameters:
            self.working.copy_(self.parameters)

    def update(
        self, gradients: Sequence[Tensor], step: Tensor, alive: Tensor, finite: Tensor
    ) -> None:
        """Update the models that are alive by one step of Adam.

        Args:
            gradients: Gradients of each parameter, `[M · n, *shape]`.
            step: Index of the step, a scalar.
            alive: Models in training, bool `[M]`.
            finite: Models with finite gradients, bool `[M]`; set to False in place for the others,
                which are not updated.
        """
        assert self.optimiser is not None, "frozen networks cannot be updated"
        one = self.rows_per_model == 1
        rows_alive = alive if one else for_members(alive, self.rows_per_model)
        rows_finite = finite if one else rows_alive.clone()
        parts = [gradient.flatten(1) for gradient in gradients]
        update(
            self.parameters,
            self.moments,
            parts,
            self.places,
            self.optimiser.rates(step),
            rows_alive,
            rows_finite,
            None if self.working is self.parameters else self.working,
            self.optimiser.limits(step, parts),
            self.limited,
        )
        if self.averages is not None:
            active = rows_alive & rows_finite
            self.optimiser.average(self.averages, self.parameters, step, active)
        if not one:
            finite &= rows_finite.unflatten(0, (-1, self.rows_per_model)).all(1)


def gradients_of(
    loss: Tensor, leaves: Mapping[str, Leaves], retain_graph: bool
) -> dict[str, Sequence[Tensor]]:
    """Return the gradients of a loss `[M]` by group, for each leaf; 0 if it does not depend on it.

    Args:
        loss: Loss of each model.
        leaves: Leaves of each group that the loss trains.
        retain_graph: Whether another loss shares the graph.
    """
    flat = {
        name: [leaf for network in group.values() for leaf in network.values()]
        for name, group in leaves.items()
    }
    # Differentiate the sum: for a vector, torch would import sympy, which takes a second.
    found = iter(
        torch.autograd.grad(
            loss.sum(),
            [leaf for group in flat.values() for leaf in group],
            retain_graph=retain_graph,
            allow_unused=True,
            materialize_grads=True,
        )
    )
    return {name: [next(found) for _ in group] for name, group in flat.items()}
