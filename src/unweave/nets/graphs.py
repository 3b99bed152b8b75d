"""Training steps as CUDA graphs, replayed without waiting for the host.

A step is a function without arguments or result, which changes tensors in place and does not
transfer data between host and device. On a GPU, the first steps run one by one to compile kernels
and allocate memory. Then one step is captured as a CUDA graph, and several steps as another.
Capturing does not execute a step, so exactly the requested number of steps is run.
"""

from collections.abc import Callable

import torch

from unweave.nets.device import on_device

__all__ = ["STEPS_PER_GRAPH", "WARM_UP", "GraphRunner", "Step"]

Step = Callable[[], None]
WARM_UP = 3
STEPS_PER_GRAPH = 10
"""Steps in the longer of the two graphs, which has fewer gaps between replays."""


class GraphRunner:
    """Runs a step repeatedly: by replaying graphs on a GPU, one by one elsewhere.

    It keeps no reference to the step, which is usually a method of its owner: a reference cycle
    would delay the release of GPU memory.

    Args:
        device: Device on which steps run.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._warm = 0
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(self, step: Step, steps: int) -> None:
        """Run `step` `steps` times; `step` must be the same in every call."""
        while steps > 0:
            steps -= self.run_some(step, steps)

    def run_some(self, step: Step, most: int) -> int:
        """Run at least one step and at most `most`; return how many."""
        with on_device(self.device):
            if self.device.type != "cuda":
                step()
                return 1
            if self._warm < WARM_UP:
                self._warm_up(step)
                return 1
            count = STEPS_PER_GRAPH if most >= STEPS_PER_GRAPH else 1
            if count not in self._graphs:
                self._graphs[count] = self._capture(step, count)
            self._graphs[count].replay()
            return count

    def _warm_up(self, step: Step) -> None:
        """Run a step on a side stream, as required before capturing."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        self._warm += 1

    def _capture(self, step: Step, steps: int) -> torch.cuda.CUDAGraph:
        """Capture some steps as a graph without executing them."""
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        pool = next((other.pool() for other in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool):
            for _ in range(steps):
                step()
        return graph
