"""A player: networks that are trained together, all their parameters in one buffer.

Shapes: M models with n members each, whose parameters are n rows, one below the other; P
parameters of a player.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from torch import Tensor

from unweave.methods.members import for_members
from unweave.nets.adam import Adam, Moments, update
from unweave.nets.network import Network

__all__ = ["Player"]


@dataclass(frozen=True, eq=False)
class Player:
    """Networks that are trained together, by one optimiser, towards one loss.

    Args:
        networks: By name, in the order in which their parameters lie in the buffer.
        parameters: float32 `[M · n, P]`
        working: The same in the precision to multiply with; in float32 it is the same tensor.
        moments: Of the optimiser.
        optimiser: With the rates of all rows; None where the networks are frozen.
        copies: n, how many rows a model has.
    """

    networks: Mapping[str, Network]
    parameters: Tensor
    working: Tensor
    moments: Moments
    optimiser: Adam | None
    copies: int = 1

    @classmethod
    def of_one(cls, name: str, network: Network, parameters: Tensor, optimiser: Adam) -> "Player":
        """A single network, all rows of which `[M, P]` have the same optimiser."""
        adam = Adam.stack([optimiser] * len(parameters), parameters.device)
        return cls({name: network}, parameters, parameters, Moments.zeros_like(parameters), adam)

    def rows(self, chosen: slice) -> "Player":
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
        """The part of the parameters that is each network's."""
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
        """The working parameters, to be differentiated by."""
        return {
            network: {name: value.detach().requires_grad_() for name, value in named.items()}
            for network, named in self.named(self.working).items()
        }

    def refresh(self) -> None:
        """Bring the working copy up to date with the parameters."""
        if self.working is not self.parameters:
            self.working.copy_(self.parameters)

    def update(
        self, gradients: Sequence[Tensor], step: Tensor, alive: Tensor, finite: Tensor
    ) -> None:
        """Move the parameters of the models that are alive; note whose gradients are finite."""
        assert self.optimiser is not None, "a loss for networks without an optimiser"
        one = self.copies == 1
        rows_alive = alive if one else for_members(alive, self.copies)
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
            finite &= rows_finite.unflatten(0, (-1, self.copies)).all(1)
