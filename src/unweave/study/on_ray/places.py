"""Where workers can be on a cluster: one for every GPU, or one for every node if it has none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Place", "places"]


class Place(NamedTuple):
    """Room for one worker.

    Args:
        node: Ray's name of the node.
        host: Its name for people.
        number: Which of the node's places it is.
        gpus: How many GPUs it has, 1 or 0.
        cpus: Its share of the node's cores; a fraction where there are more GPUs than cores.
    """

    node: str
    host: str
    number: int
    gpus: int
    cpus: float

    @property
    def name(self) -> str:
        """For people; several nodes may be on one host."""
        return f"{self.host} ({self.node[:6]}, {'GPU' if self.gpus else 'CPU'} {self.number})"

    @property
    def scorers(self) -> int:
        """How many processes can score there, as on a machine of that size."""
        return max(1, int(self.cpus) - 1 if self.gpus else int(self.cpus) // 2)


def places(nodes: Sequence[Mapping[str, Any]], device: str | None) -> list[Place]:
    """Where workers can be: one for every GPU, or, in a cluster that has none, one for every node.

    Args:
        nodes: As `ray.nodes()` has them.
        device: `"cpu"` or `"cuda"`; by default GPUs where there are any.
    """
    living = [node for node in nodes if node["Alive"]]
    on_gpus = device != "cpu" and any(_has(node, "GPU") >= 1 for node in living)
    if device == "cuda" and not on_gpus:
        return []
    found = []
    for node in living:
        cpus = _has(node, "CPU")
        count = int(_has(node, "GPU")) if on_gpus else int(cpus >= 1)
        for number in range(count):
            share = cpus / count
            share = math.floor(share) if share >= 1 else share
            host = node["NodeManagerHostname"]
            found.append(Place(node["NodeID"], host, number, int(on_gpus), share))
    return found


def _has(node: Mapping[str, Any], resource: str) -> float:
    return float(node["Resources"].get(resource, 0))
