"""The training engine: the stacked state of M models, and one step that updates all of them.

A step samples a batch for every model, evaluates the methods' losses, and updates the parameters
of each network group, without synchronising with the host. On a GPU it is captured once as a CUDA
graph and replayed (`unweave.nets.graphs`). On a CPU each model is trained separately on one
thread, so that its weights depend neither on its fleet nor on the number of threads.

The models of a fleet may have different methods. Each method has its own objective and extra
networks; encoder, decoder, likelihood and Adam run over all models at once.

Shapes: M models, m models of one part (`unweave.fleet.parts`), B images, P parameters of a network
group. A model of an ensemble has n members, whose parameters are n adjacent rows of the group
`MODEL`: layers, kernels and Adam treat them as M · n models.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.data.streaming import Streamed
from unweave.errors import UnweaveError
from unweave.fleet.feeding import read_ahead
from unweave.fleet.joint import JointCalls
from unweave.fleet.parameters import Leaves, NetworkGroup, gradients_of
from unweave.fleet.parts import Part, parts_of, split_networks
from unweave.fleet.step_statistics import accumulate, stop_diverged
from unweave.kernels.threads import run_all, single_threaded
from unweave.methods.base import FIRST, MODEL, Losses
from unweave.methods.batch import Batch, member_seeds
from unweave.methods.mixins import Pairs
from unweave.models.config import Config, group_into_fleets
from unweave.models.networks import FIRST_PREFIX, applied, nets_of, networks_of
from unweave.nets.adam import Moments, StackedAdam
from unweave.nets.device import keep_memory, matmul_precision, on_device
from unweave.nets.graphs import STEPS_PER_GRAPH, WARM_UP, GraphRunner
from unweave.nets.likelihoods import LIKELIHOODS
from unweave.nets.network import StackedNetwork
from unweave.random import Stream

__all__ = ["Engine"]

LIKELIHOOD = "likelihood"
Drawn = tuple[Mapping[Part, tuple[Tensor, Tensor]], Tensor | None]
"""Indices of a step, of pairs `[m, B]` by part and of single images `[M, B]`."""


class Engine:
    """A fleet of M runs in training.

    Args:
        configs: Runs with equal `Config.fleet`; `Engine.configs` has those of a kind side by side.
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
        alike = group_into_fleets(configs)
        if len(alike) != 1:
            raise UnweaveError(
                "runs of a fleet may differ only in methods, seeds, strengths and learning rates; "
                "train others separately",
                subject="configs",
            )
        (self.configs,) = alike
        self.config = self.configs[0]
        self.device = torch.device(device)
        if self.device.type == "cpu":
            keep_memory()
        self.data = data.to(self.device)
        self.seeds = torch.tensor([config.seed for config in self.configs], device=self.device)
        self.num_members = self.config.method.num_members
        self.member_seeds = member_seeds(self.seeds, self.num_members)
        self.parts = parts_of(self.configs, self.data, self.device)
        self.groups: dict[str, NetworkGroup] = {}
        self.models_of: dict[str, slice] = {}
        self._create_groups(first)
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.alive = torch.ones(len(self.configs), dtype=torch.bool, device=self.device)
        self.diverged_at = torch.full_like(self.seeds, -1)
        self.terms_of = dict(zip(self.parts, self._term_names(), strict=True))
        self.terms = tuple(dict.fromkeys(name for own in self.terms_of.values() for name in own))
        self.sums = torch.zeros(len(self.terms), len(self.configs), device=self.device)
        self.count = torch.zeros((), device=self.device)
        self._runner = GraphRunner(self.device)

    def advance(self, steps: int) -> None:
        """Train for some steps."""
        with matmul_precision(self.config.precision):
            if self.device.type == "cpu":
                self._advance_each(steps)
            elif isinstance(self.data.store, Streamed):
                self._advance_streamed(self.data.store, steps)
            else:
                self._runner.run(self._step, steps)

    @single_threaded()
    def fetch(self) -> Tensor:
        """Return mean terms `[terms, M]` since the last call.

        Terms of diverged models, and terms that a model's method does not report, are NaN.
        """
        means = torch.where(self.alive, self.sums / self.count, torch.nan).cpu()
        for part in self.parts:
            missing = [
                place for place, name in enumerate(self.terms) if name not in self.terms_of[part]
            ]
            means[missing, part.models] = torch.nan
        self.sums.zero_()
        self.count.zero_()
        return means

    @property
    def dtype(self) -> torch.dtype:
        """Data type of matrix multiplications."""
        return torch.bfloat16 if self.config.precision == "bf16" else torch.float32

    def networks(
        self, part: Part, buffer: str = "parameters"
    ) -> Iterator[tuple[str, StackedNetwork, Tensor]]:
        """Yield the networks of a part with their names and parameters, `[m · n, P]`.

        Args:
            part: A part of this fleet.
            buffer: `"parameters"`, `"working"` for those in the precision of matrix
                multiplications, or `"trained"` for those of the trained models.
        """
        for name in itertools.chain.from_iterable(part.groups.values()):
            group, rows = self.groups[name], self.rows(name, part.models)
            for network, parameters in group.buffers(getattr(group, buffer)[rows]):
                yield network, group.networks[network], parameters

    def rows(self, group: str, models: slice) -> slice:
        """Return the rows of some models of the fleet in a network group."""
        first, rows = self.models_of[group].start, self.groups[group].rows_per_model
        return slice((models.start - first) * rows, (models.stop - first) * rows)

    def _advance_each(self, steps: int) -> None:
        """Train each model separately for some steps."""
        models = [self._alone(place) for place in range(len(self.configs))]
        run_all([partial(model._runner.run, model._step, steps) for model in models])
        self.step += steps
        self.count += steps

    def _advance_streamed(self, images: Streamed, steps: int) -> None:
        """Train for some steps on images that are read from disk while the GPU works."""
        first = int(self.step)
        draws = (_in_order(*self._drawn(step)) for step in range(first, first + steps))
        with on_device(self.device):
            for batches in read_ahead(images, draws, self.device):
                with images.fed(batches):
                    self._runner.run(self._step, 1)

    def _alone(self, place: int) -> "Engine":
        """Return an engine for one model, whose state is a view of this engine's state.

        Only the step counters are copies, since models reach a step at different times.
        """
        alone, of_model = copy(self), slice(place, place + 1)
        (part,) = (part for part in self.parts if part.models.start <= place < part.models.stop)
        own = part.of_one(place - part.models.start, self.device)
        alone.configs, alone.config = self.configs[of_model], self.configs[place]
        alone.seeds = self.seeds[of_model]
        alone.member_seeds = self.member_seeds.unflatten(0, (-1, self.num_members))[place]
        alone.parts, alone.terms_of = [own], {own: self.terms_of[part]}
        alone.groups = {
            name: self.groups[name].rows(self.rows(name, of_model))
            for names in part.groups.values()
            for name in names
        }
        alone.models_of = dict.fromkeys(alone.groups, slice(0, 1))
        alone.alive, alone.diverged_at = self.alive[of_model], self.diverged_at[of_model]
        alone.sums = self.sums[:, of_model]
        alone.step, alone.count = self.step.clone(), self.count.clone()
        return alone

    def _step(self) -> None:
        leaves = {name: group.leaves() for name, group in self.groups.items()}
        losses = self._losses(leaves)
        objectives = self._objectives(losses)
        gradients: dict[str, Sequence[Tensor]] = {}
        for place, (loss, names) in enumerate(objectives):
            trained = {name: leaves[name] for name in names}
            gradients |= gradients_of(loss, trained, retain_graph=place < len(objectives) - 1)
        with torch.no_grad():
            finite = stop_diverged(self.alive, self._joined([each.groups for each in losses]))
            for name, gradient in gradients.items():
                own = self.models_of[name]
                self.groups[name].update(gradient, self.step, self.alive[own], finite[own])
            values = self._joined([_reported(each) for each in losses], self.terms)
            accumulate(
                self.alive, finite, self.diverged_at, self.step, values, self.sums, self.count
            )
            self.step += 1

    def _objectives(self, losses: Sequence[Losses]) -> list[tuple[Tensor, list[str]]]:
        """Return each loss of the fleet with the network groups that it trains."""
        (of_model,) = self._joined([each.groups for each in losses], [MODEL])
        names = dict.fromkeys(name for part in self.parts for name in part.groups[MODEL])
        others = [
            (loss, list(part.groups[name]))
            for part, own in zip(self.parts, losses, strict=True)
            for name, loss in own.groups.items()
            if name != MODEL
        ]
        return [(of_model, list(names)), *others]

    def _joined(
        self, values: Sequence[Mapping[str, Tensor]], names: Iterable[str] | None = None
    ) -> list[Tensor]:
        """Join values `[m]` of all parts by name, `[M]` each; 0 where a part has none.

        Args:
            values: Values of each part.
            names: Names of the values to join (default: all).
        """
        if names is None:
            names = dict.fromkeys(name for own in values for name in own)
        joined = []
        for name in names:
            of_parts = [
                own[name] if name in own else torch.zeros(len(part.configs), device=self.device)
                for part, own in zip(self.parts, values, strict=True)
            ]
            joined.append(torch.cat(of_parts) if len(of_parts) > 1 else of_parts[0])
        return joined

    def _losses(self, leaves: Mapping[str, Leaves]) -> list[Losses]:
        """Evaluate the objective of every part on a new batch."""
        if len(self.parts) == 1:
            (part,), (batch,) = self.parts, self._batches()
            nets = nets_of(part.config, self._applied(part, leaves), part.earlier_methods)
            weights = partial(self._weights, part, leaves)
            return [part.method.losses(replace(nets, weights=weights), batch)]
        shared = {
            name: partial(self._apply_shared, network, leaves[MODEL][name])
            for name, network in self.groups[MODEL].networks.items()
        }
        likelihood = LIKELIHOODS[self.config.likelihood]
        joint = JointCalls({**shared, LIKELIHOOD: lambda _, *args: likelihood(*args)})
        batches = self._batches(joint)
        objectives = []
        for index, (part, batch) in enumerate(zip(self.parts, batches, strict=True)):
            own = {name: joint.shared(name, index) for name in shared}
            nets = replace(
                nets_of(part.config, {**own, **self._applied(part, leaves)}, part.earlier_methods),
                likelihood=joint.shared(LIKELIHOOD, index),
                weights=partial(self._weights, part, leaves),
            )
            objectives.append(partial(part.method.losses, nets, batch))
        return joint.run(objectives)

    def _applied(
        self, part: Part, leaves: Mapping[str, Leaves]
    ) -> dict[str, Callable[..., Tensor]]:
        """Return the forward functions of the networks that belong to a part alone."""
        return {
            network: partial(applied, of, leaves[name][network], self.dtype)
            for names in part.groups.values()
            for name in names
            if self.models_of[name] == part.models
            for network, of in self.groups[name].networks.items()
        }

    def _weights(self, part: Part, leaves: Mapping[str, Leaves], network: str) -> list[Tensor]:
        """Return the weights of a network for the models of a part, `[m · n, *shape]` each."""
        return [
            value[self.rows(name, part.models)]
            for names in part.groups.values()
            for name in names
            for parameter, value in leaves[name].get(network, {}).items()
            if parameter.endswith("weight")
        ]

    def _apply_shared(
        self,
        network: StackedNetwork,
        parameters: Mapping[str, Tensor],
        index: int | None,
        *args: Any,
        **options: Any,
    ) -> Tensor:
        """Apply a shared network for one part, or for all if `index` is None."""
        if index is not None:
            rows = self.rows(MODEL, self.parts[index].models)
            parameters = {name: value[rows] for name, value in parameters.items()}
        return applied(network, parameters, self.dtype, *args, **options)

    def _batches(self, joint: JointCalls | None = None) -> list[Batch]:
        """Sample a batch for every part; parts that train on single images draw together."""
        pairs, indices = self._drawn(self.step)
        batch = self.config.batch
        drawn: dict[Part, tuple[Tensor, Tensor, Tensor | None]] = {}
        for part, (first, second) in pairs.items():
            seeds = self.seeds[part.models]
            one, two = self._inputs(first, seeds), self._inputs(second, seeds, batch)
            drawn[part] = (first, one, two)
        if indices is not None:
            single = [part for part in self.parts if part not in pairs]
            sizes = [len(part.configs) for part in single]
            images = self._inputs(indices, self._seeds_of(single))
            together = joint is not None and not drawn
            of_parts = joint.split(images, sizes) if joint and together else images.split(sizes)
            found = zip(single, indices.split(sizes), of_parts, strict=True)
            drawn |= {part: (own, pixels, None) for part, own, pixels in found}
        return [self._batch(part, *drawn[part]) for part in self.parts]

    def _drawn(self, step: int | Tensor) -> Drawn:
        """Draw the indices of a step: of pairs by part, and of the images of all other parts."""
        data, size = self.data, self.config.batch
        pairs = {
            part: data.draw_index_pairs(
                size, self.seeds[part.models], step, part.method.pair_rule()
            )
            for part in self.parts
            if isinstance(part.method, Pairs)
        }
        single = [part for part in self.parts if part not in pairs]
        if not single:
            return pairs, None
        return pairs, data.draw_indices(size, Stream(self._seeds_of(single), "draw", step))

    def _seeds_of(self, parts: Sequence[Part]) -> Tensor:
        """Return the seeds of the models of some parts."""
        if len(parts) == len(self.parts):
            return self.seeds
        return torch.cat([self.seeds[part.models] for part in parts])

    def _inputs(self, indices: Tensor, seeds: Tensor, start: int = 0) -> Tensor:
        places = torch.arange(start, start + self.config.batch, device=self.device)
        return self.data.inputs(indices, seeds, self.step, places)

    def _batch(
        self, part: Part, indices: Tensor, images: Tensor, partners: Tensor | None
    ) -> Batch:
        members = None
        if self.num_members > 1:
            rows = slice(*(at * self.num_members for at in (part.models.start, part.models.stop)))
            members = self.member_seeds[rows]
        factors = None if part.factors is None else part.factors[indices]
        seeds, count = self.seeds[part.models], len(self.data)
        return Batch(images, seeds, self.step, count, partners, members, indices, factors)

    def _create_groups(self, first: Mapping[str, Tensor] | None) -> None:
        """Create all network groups with initial parameters."""
        for index, part in enumerate(self.parts):
            for group, networks in networks_of(part.config, self.data.shape).items():
                alone = len(self.parts) == 1
                for name, own in split_networks(group, networks, None if alone else index).items():
                    if name not in self.groups:
                        models = slice(0, len(self.configs)) if name == MODEL else part.models
                        self.models_of[name] = models
                        self.groups[name] = self._initial(group, own, models, first)

    def _initial(
        self,
        group: str,
        networks: Mapping[str, StackedNetwork],
        models: slice,
        first: Mapping[str, Tensor] | None,
    ) -> NetworkGroup:
        """Create a network group with initial parameters for some models.

        Args:
            group: Name of the group in the method.
            networks: Networks of the group.
            models: Models that have these networks.
            first: Parameters of the first stage.
        """
        members = self.num_members if group == MODEL else 1
        seeds = member_seeds(self.seeds[models], members)
        if group == FIRST and first:
            _check_complete(networks, first)
        buffers = [
            first[name.removeprefix(FIRST_PREFIX)].to(self.device)
            if group == FIRST and first
            else network.initial(seeds, name, self.config.init)
            for name, network in networks.items()
        ]
        parameters = torch.cat(buffers, 1)
        adam = self._optimiser(group, models, members)
        # Networks that are always precise share the precision of their group in the method.
        precise = group != MODEL and all(network.precise for network in networks.values())
        working = parameters if precise else parameters.to(self.dtype)
        moments = Moments.zeros_like(parameters if adam else parameters[:, :0])
        averaged = group in (MODEL, FIRST) and any(run.optimiser.ema for run in self.configs)
        averages = parameters.clone() if adam and averaged else None
        return NetworkGroup(networks, parameters, working, moments, adam, members, averages)

    def _optimiser(self, group: str, models: slice, members: int) -> StackedAdam | None:
        """Return the stacked optimiser of a group; None for a frozen group."""
        configs = self.configs[models]
        extra = configs[0].method.extra_optimisers()
        if group not in (MODEL, *extra):
            return None
        # A first stage that is trained further uses the optimiser of the second stage.
        if group in (MODEL, FIRST):
            each = [config.optimiser for config in configs for _ in range(members)]
        else:
            adam = replace(extra[group], variant=self.config.optimiser.variant)
            each = [adam] * len(configs)
        return StackedAdam.of(each, self.device, self.config.steps)

    def _term_names(self) -> list[tuple[str, ...]]:
        """Return the names of each part's reported terms, from one evaluation of the losses."""
        with torch.no_grad():
            losses = self._losses({name: group.leaves() for name, group in self.groups.items()})
        return [tuple(_reported(each)) for each in losses]


def _in_order(pairs: Mapping[Part, tuple[Tensor, Tensor]], single: Tensor | None) -> list[Tensor]:
    """Return the indices of a step in the order in which the engine gathers their images."""
    of_pairs = list(itertools.chain.from_iterable(pairs.values()))
    return of_pairs if single is None else [*of_pairs, single]


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
