"""Steps of training that a GPU replays: one kernel after the other, without waiting for the host.

A step is a function without arguments or result, which changes tensors in place, reads nothing
back and copies nothing from the host. On a GPU the first steps are taken one by one, since kernels
are compiled and memory is laid out in them; then one step is recorded as a CUDA graph, and several
steps as another. Recording takes no step: all that is ever done is the steps that were asked for.
"""

from collections.abc import Callable

import torch

from unweave.nets.device import on_device

__all__ = ["AT_ONCE", "WARM_UP", "Replayed", "Step"]

Step = Callable[[], None]
WARM_UP = 3
AT_ONCE = 10
"""Steps in the longer of the two graphs: fewer pauses between replays."""


class Replayed:
    """A step, taken as often as asked for: by replaying graphs on a GPU, one by one elsewhere.

    It does not keep the step itself, which mostly is a method of who keeps this: memory of a GPU
    must be free as soon as nobody trains any more.

    Args:
        device: Where steps are taken.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._warm = 0
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def take(self, step: Step, steps: int) -> None:
        """Take so many steps, each of them `step`, the same in every call."""
        while steps > 0:
            steps -= self.some(step, steps)

    def some(self, step: Step, most: int) -> int:
        """Take at least one step and at most so many; how many."""
        with on_device(self.device):
            if self.device.type != "cuda":
                step()
                return 1
            if self._warm < WARM_UP:
                self._aside(step)
                return 1
            count = AT_ONCE if most >= AT_ONCE else 1
            if count not in self._graphs:
                self._graphs[count] = self._record(step, count)
            self._graphs[count].replay()
            return count

    def _aside(self, step: Step) -> None:
        """Take a step on another stream, as recording wants it done a few times before."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        self._warm += 1

    def _record(self, step: Step, steps: int) -> torch.cuda.CUDAGraph:
        """Some steps as a graph; recording does not take them."""
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        pool = next((other.pool() for other in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool):
            for _ in range(steps):
                step()
        return graph
