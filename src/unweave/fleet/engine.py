"""The training engine: the stacked state of M models, and one step that updates all of them.

A step samples a batch for every model, evaluates the method's losses, and updates the parameters
of each network group, without synchronising with the host. On a GPU it is captured once as a CUDA
graph and replayed (`unweave.nets.graphs`). On a CPU each model is trained separately on one
thread, so that its weights depend neither on its fleet nor on the number of threads.

Shapes: M models, B images, P parameters of a network group. A model of an ensemble has n members,
whose parameters are n adjacent rows of the group `MODEL`: layers, kernels and Adam treat them as
M · n models.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from unweave.data.dataset import Dataset, scaled_factors
from unweave.errors import UnweaveError
from unweave.fleet.parameters import Leaves, NetworkGroup
from unweave.fleet.step_statistics import accumulate, stop_diverged
from unweave.kernels.threads import run_all, single_threaded
from unweave.methods import Method
from unweave.methods.base import FIRST, MODEL, Losses
from unweave.methods.batch import Batch, member_seeds
from unweave.methods.mixins import KnownFactors, Pairs
from unweave.models.config import Config
from unweave.models.networks import FIRST_PREFIX, applied, nets_of, networks_of
from unweave.nets.adam import Moments, StackedAdam
from unweave.nets.device import keep_memory, matmul_precision
from unweave.nets.graphs import STEPS_PER_GRAPH, WARM_UP, GraphRunner
from unweave.nets.network import Network
from unweave.random import Stream

__all__ = ["Engine"]


class Engine:
    """A fleet of M runs in training.

    Args:
        configs: Runs with equal `Config.fleet`.
        data: Training images.
        device: Device to train on.
        first: For second stages, the parameters of the first stage by network, `[M, P]` (default:
            initial parameters).
    """

    STEPS_TO_FULL_MEMORY = WARM_UP + STEPS_PER_GRAPH

    @single_threaded()
    def __init__(
        self,
        configs: Sequence[Config],
        data: Dataset,
        device: torch.device | str,
        first: Mapping[str, Tensor] | None = None,
    ) -> None:
        if len({config.fleet for config in configs}) != 1:
            raise UnweaveError(
                "runs of a fleet may differ only in seeds and strengths; train others separately",
                subject="configs",
            )
        self.configs = list(configs)
        self.config = configs[0]
        self.device = torch.device(device)
        if self.device.type == "cpu":
            keep_memory()
        self.data = data.to(self.device)
        self.seeds = torch.tensor([config.seed for config in configs], device=self.device)
        self.num_members = self.config.method.num_members
        self.member_seeds = member_seeds(self.seeds, self.num_members)
        self.method, *self.earlier_methods = self._stacked_methods()
        self.factors = self._known_factors()
        self.groups = {
            group: self._initial(group, networks, first)
            for group, networks in networks_of(self.config, self.data.shape).items()
        }
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.alive = torch.ones(len(configs), dtype=torch.bool, device=self.device)
        self.diverged_at = torch.full_like(self.seeds, -1)
        self.terms = self._term_names()
        self.sums = torch.zeros(len(self.terms), len(configs), device=self.device)
        self.count = torch.zeros((), device=self.device)
        self._runner = GraphRunner(self.device)

    def advance(self, steps: int) -> None:
        """Train for some steps."""
        with matmul_precision(self.config.precision):
            if self.device.type == "cpu":
                self._advance_each(steps)
            else:
                self._runner.run(self._step, steps)

    @single_threaded()
    def fetch(self) -> Tensor:
        """Return mean terms `[terms, M]` since the last call; NaN for diverged models."""
        means = torch.where(self.alive, self.sums / self.count, torch.nan).cpu()
        self.sums.zero_()
        self.count.zero_()
        return means

    @property
    def dtype(self) -> torch.dtype:
        """Data type of matrix multiplications."""
        return torch.bfloat16 if self.config.precision == "bf16" else torch.float32

    def _advance_each(self, steps: int) -> None:
        """Train each model separately for some steps."""
        models = [self._alone(place) for place in range(len(self.configs))]
        run_all([partial(model._runner.run, model._step, steps) for model in models])
        self.step += steps
        self.count += steps

    def _alone(self, place: int) -> "Engine":
        """Return an engine for one model, whose state is a view of this engine's state.

        Only the step counters are copies, since models reach a step at different times.
        """
        alone, of_model = copy(self), slice(place, place + 1)
        of_members = slice(place * self.num_members, (place + 1) * self.num_members)
        alone.configs = self.configs[of_model]
        alone.config = self.configs[place]
        alone.seeds, alone.member_seeds = self.seeds[of_model], self.member_seeds[of_members]
        alone.method, *alone.earlier_methods = alone._stacked_methods()
        alone.groups = {
            name: group.rows(of_model if group.rows_per_model == 1 else of_members)
            for name, group in self.groups.items()
        }
        alone.alive, alone.diverged_at = self.alive[of_model], self.diverged_at[of_model]
        alone.sums = self.sums[:, of_model]
        alone.step, alone.count = self.step.clone(), self.count.clone()
        return alone

    def _step(self) -> None:
        leaves = {name: group.leaves() for name, group in self.groups.items()}
        losses = self._losses(leaves)
        last = list(losses.groups)[-1]
        gradients = {
            name: NetworkGroup.gradients(loss, leaves[name], retain_graph=name != last)
            for name, loss in losses.groups.items()
        }
        with torch.no_grad():
            finite = stop_diverged(self.alive, list(losses.groups.values()))
            for name, gradient in gradients.items():
                self.groups[name].update(gradient, self.step, self.alive, finite)
            values = list(_reported(losses).values())
            accumulate(
                self.alive, finite, self.diverged_at, self.step, values, self.sums, self.count
            )
            self.step += 1

    def _losses(self, leaves: Mapping[str, Leaves]) -> Losses:
        apply = {
            name: partial(applied, network, leaves[group][name], self.dtype)
            for group, of_group in self.groups.items()
            for name, network in of_group.networks.items()
        }
        return self.method.losses(nets_of(self.config, apply, self.earlier_methods), self._batch())

    def _batch(self) -> Batch:
        size, seeds, step = self.config.batch, self.seeds, self.step
        places = torch.arange(size, device=self.device)
        partners = None
        if isinstance(self.method, Pairs):
            rule = self.method.pair_rule()
            first, second = self.data.draw_index_pairs(size, seeds, step, rule)
            partners = self.data.inputs(second, seeds, step, places + size)
        else:
            first = self.data.draw_indices(size, Stream(seeds, "draw", step))
        images = self.data.inputs(first, seeds, step, places)
        members = self.member_seeds if self.num_members > 1 else None
        factors = None if self.factors is None else self.factors[first]
        return Batch(images, seeds, step, len(self.data), partners, members, first, factors)

    def _stacked_methods(self) -> list[Method]:
        """Return the stacked method of the fleet, then those of earlier stages, latest first."""
        stacked, runs = [], self.configs
        while runs:
            methods = [run.method for run in runs]
            stacked.append(type(methods[0]).stack(methods, self.device))
            runs = [run.first for run in runs if run.first is not None]
        return stacked

    def _known_factors(self) -> Tensor | None:
        """Return the factors of all images, `[N, K]`, for methods that use them as codes."""
        for method in (self.config.method, *self.earlier_methods):
            if isinstance(method, KnownFactors):
                return scaled_factors(self.data, method.factor_names)
        return None

    def _initial(
        self, group: str, networks: Mapping[str, Network], first: Mapping[str, Tensor] | None
    ) -> NetworkGroup:
        """Create a network group with initial parameters."""
        members = self.num_members if group == MODEL else 1
        seeds = self.member_seeds if group == MODEL else self.seeds
        if group == FIRST and first:
            _check_complete(networks, first)
        buffers = [
            first[name.removeprefix(FIRST_PREFIX)].to(self.device)
            if group == FIRST and first
            else network.initial(seeds, name, self.config.init)
            for name, network in networks.items()
        ]
        parameters = torch.cat(buffers, 1)
        adam = self._optimiser(group, members)
        precise = all(network.precise for network in networks.values())
        working = parameters if precise else parameters.to(self.dtype)
        moments = Moments.zeros_like(parameters if adam else parameters[:, :0])
        return NetworkGroup(networks, parameters, working, moments, adam, members)

    def _optimiser(self, group: str, members: int) -> StackedAdam | None:
        """Return the stacked optimiser of a group; None for a frozen group."""
        extra = self.config.method.extra_optimisers()
        if group not in (MODEL, *extra):
            return None
        # A first stage that is trained further uses the optimiser of the second stage.
        if group in (MODEL, FIRST):
            each = [config.optimiser for config in self.configs for _ in range(members)]
        else:
            adam = replace(extra[group], variant=self.config.optimiser.variant)
            each = [adam] * len(self.configs)
        return StackedAdam.of(each, self.device, self.config.steps)

    def _term_names(self) -> tuple[str, ...]:
        """Return the names of reported terms, from one evaluation of the losses."""
        with torch.no_grad():
            losses = self._losses({name: group.leaves() for name, group in self.groups.items()})
        return tuple(_reported(losses))


def _check_complete(networks: Iterable[str], first: Mapping[str, Tensor]) -> None:
    """Check that the models of the first stage have all networks; compact files omit some."""
    missing = [name for name in networks if name.removeprefix(FIRST_PREFIX) not in first]
    if missing:
        raise UnweaveError(
            "the models of the first stage were saved without "
            f"{missing[0].removeprefix(FIRST_PREFIX)} (compact files omit it); "
            "train the second stage on models that were saved in full",
            subject="first",
        )


def _reported(losses: Losses) -> dict[str, Tensor]:
    """Return the values of a step that go into the curve, `[M]` each."""
    others = {f"{name} loss": loss for name, loss in losses.groups.items() if name != MODEL}
    return {"loss": losses.groups[MODEL], **losses.terms, **others}
