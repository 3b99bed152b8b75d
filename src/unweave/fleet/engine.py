"""The training engine: M models as stacked state, and one step that moves all of them.

A step draws a batch for every model, evaluates the method's losses, and updates each player's
parameters, without a round trip to the host. On a GPU it is captured once as a CUDA graph and
replayed. On a CPU each model takes its steps by itself, on one thread of several, so that its
numbers depend neither on its fleet nor on the number of threads.

Shapes: M models, B images, P parameters of a player. A model of a method with n copies has n
members, whose parameters are n rows of the player `MODEL`, one below the other: layers, kernels
and Adam see M · n models.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.data.scaled import scaled_factors
from unweave.errors import UnweaveError
from unweave.fleet.parameters import Player
from unweave.fleet.step_statistics import add_up, stop_lost
from unweave.kernels.threads import run_all
from unweave.methods import Method
from unweave.methods.base import FIRST, MODEL, Losses
from unweave.methods.batch import Batch
from unweave.methods.members import member_seeds
from unweave.models.config import Config
from unweave.models.networks import BELOW, applied, nets_of, networks_of
from unweave.nets.adam import Adam, Moments
from unweave.nets.device import keep_memory, matmul_precision, on_device
from unweave.nets.graphs import AT_ONCE, WARM_UP, Replayed
from unweave.random import Stream

__all__ = ["Engine"]

WATCHED = 128
"""Images on whose codes the latents are followed."""
WATCHED_AT_ONCE = 4_096
"""Of them, over all models together, so that a large fleet needs no memory to speak of."""


class Engine:
    """M runs of one fleet, in training.

    On a GPU steps are recorded and replayed, see `unweave.nets.graphs`.

    Args:
        configs: The runs; they must share `Config.fleet`.
        data: What they train on.
        device: Where they train.
        first: Of runs that build on others, the parameters of these by network, `[M, P]`; without
            it they are the initial ones.
    """

    STEPS_TO_FULL_MEMORY = WARM_UP + AT_ONCE

    def __init__(
        self,
        configs: Sequence[Config],
        data: Dataset,
        device: torch.device | str,
        first: Mapping[str, Tensor] | None = None,
    ) -> None:
        if len({config.fleet for config in configs}) != 1:
            raise UnweaveError(
                "these runs cannot share a fleet: only seeds and strengths may differ"
            )
        self.configs = list(configs)
        self.config = configs[0]
        self.device = torch.device(device)
        if self.device.type == "cpu":
            keep_memory()
        self.data = data.to(self.device)
        self.seeds = torch.tensor([config.seed for config in configs], device=self.device)
        self.copies = self.config.method.copies
        self.member_seeds = member_seeds(self.seeds, self.copies)
        methods = [config.method for config in configs]
        self.method = type(methods[0]).stack(methods, self.device)
        self.before = self._methods_before()
        self.factors = self._given_factors()
        self.players = self._players(first or {})
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.alive = torch.ones(len(configs), dtype=torch.bool, device=self.device)
        self.diverged_at = torch.full_like(self.seeds, -1)
        self.terms = self._term_names()
        self.sums = torch.zeros(len(self.terms), len(configs), device=self.device)
        self.count = torch.zeros((), device=self.device)
        self._replayed = Replayed(self.device)

    def _methods_before(self) -> list[Method]:
        """Those of the stages before, the last of them first."""
        found, runs = [], [config.first for config in self.configs]
        while runs[0] is not None:
            methods = [run.method for run in runs if run is not None]
            found.append(type(methods[0]).stack(methods, self.device))
            runs = [run.first for run in runs if run is not None]
        return found

    def _given_factors(self) -> Tensor | None:
        """Of all images, where a method is given factors, `[N, K]`."""
        for method in (self.config.method, *self.before):
            if method.given_factors:
                return scaled_factors(self.data, method.given_factors)
        return None

    def _players(self, first: Mapping[str, Tensor]) -> dict[str, Player]:
        optimisers = {
            MODEL: [config.optimiser for config in self.configs for _ in range(self.copies)]
        }
        extra = self.config.method.extra_optimisers()
        variant = self.config.optimiser.variant
        for name, adam in extra.items():
            same = [replace(adam, variant=variant)] * len(self.configs)
            # A first stage that is trained along is trained as the second is.
            along = [config.optimiser for config in self.configs]
            optimisers[name] = along if name == FIRST else same
        players = {}
        for player, networks in networks_of(self.config, self.data.shape).items():
            copies = self.copies if player == MODEL else 1
            seeds = self.member_seeds if player == MODEL else self.seeds
            buffers = [
                first[name.removeprefix(BELOW)].to(self.device)
                if player == FIRST and first
                else network.initial(seeds, name, self.config.init)
                for name, network in networks.items()
            ]
            parameters = torch.cat(buffers, 1)
            own = optimisers.get(player)
            adam = None if own is None else Adam.stack(own, self.device)
            precise = all(network.precise for network in networks.values())
            working = parameters if precise else parameters.to(self.dtype)
            moments = Moments.zeros_like(parameters if adam else parameters[:, :0])
            players[player] = Player(networks, parameters, working, moments, adam, copies)
        return players

    @property
    def dtype(self) -> torch.dtype:
        """What networks multiply."""
        return torch.bfloat16 if self.config.precision == "bf16" else torch.float32

    def _term_names(self) -> tuple[str, ...]:
        """What the method reports, found by asking it once."""
        with torch.no_grad():
            losses = self._losses({name: player.leaves() for name, player in self.players.items()})
        return (
            "loss",
            *losses.terms,
            *(f"{name} loss" for name in losses.players if name != MODEL),
        )

    def advance(self, steps: int) -> None:
        """Take some steps."""
        with matmul_precision(self.config.precision):
            if self.device.type == "cpu":
                self._advance_each(steps)
            else:
                self._replayed.take(self._step, steps)

    def _advance_each(self, steps: int) -> None:
        """Take some steps, each model by itself."""
        models = [self._alone(place) for place in range(len(self.configs))]
        run_all([partial(model._replayed.take, model._step, steps) for model in models])
        self.step += steps
        self.count += steps

    def _alone(self, place: int) -> "Engine":
        """One model as an engine of its own, whose state is part of this one's.

        All but its count of steps: models reach a step at different times.
        """
        alone, of_model = copy(self), slice(place, place + 1)
        of_members = slice(place * self.copies, (place + 1) * self.copies)
        alone.configs = self.configs[of_model]
        alone.config = self.configs[place]
        alone.seeds, alone.member_seeds = self.seeds[of_model], self.member_seeds[of_members]
        alone.method = type(self.method).stack([alone.config.method], self.device)
        alone.before = alone._methods_before()
        alone.players = {
            name: player.rows(of_model if player.copies == 1 else of_members)
            for name, player in self.players.items()
        }
        alone.alive, alone.diverged_at = self.alive[of_model], self.diverged_at[of_model]
        alone.sums = self.sums[:, of_model]
        alone.step, alone.count = self.step.clone(), self.count.clone()
        return alone

    def _step(self) -> None:
        leaves = {name: player.leaves() for name, player in self.players.items()}
        losses = self._losses(leaves)
        names = list(losses.players)
        gradients = {}
        for name in names:
            own = [leaf for network in leaves[name].values() for leaf in network.values()]
            # Of the sum: with a gradient of each loss torch would import sympy, for a second.
            gradients[name] = torch.autograd.grad(
                losses.players[name].sum(),
                own,
                retain_graph=name != names[-1],
                allow_unused=True,
                materialize_grads=True,
            )
        with torch.no_grad():
            finite = stop_lost(self.alive, list(losses.players.values()))
            for name, of_player in gradients.items():
                self.players[name].update(of_player, self.step, self.alive, finite)
            values = self._reported(losses)
            add_up(self.alive, finite, self.diverged_at, self.step, values, self.sums, self.count)
            self.step += 1

    def _losses(self, leaves: Mapping[str, Mapping[str, Mapping[str, Tensor]]]) -> Losses:
        apply = {
            name: partial(applied, player.networks[name], leaves[key][name], self.dtype)
            for key, player in self.players.items()
            for name in player.networks
        }
        return self.method.losses(nets_of(self.config, apply, self.before), self._batch())

    def _batch(self) -> Batch:
        size, seeds, step = self.config.batch, self.seeds, self.step
        places = torch.arange(size, device=self.device)
        partners = None
        if self.method.pairs:
            first, second = self.data.draw_index_pairs(
                size, seeds, step, self.config.method.pair_rule()
            )
            partners = self.data.inputs(second, seeds, step, places + size)
        else:
            first = self.data.draw_indices(size, Stream(seeds, "draw", step))
        images = self.data.inputs(first, seeds, step, places)
        members = self.member_seeds if self.copies > 1 else None
        factors = None if self.factors is None else self.factors[first]
        return Batch(images, seeds, step, len(self.data), partners, members, first, factors)

    def _reported(self, losses: Losses) -> list[Tensor]:
        """What happened, `[M]` each, in the order of the terms."""
        others = [loss for name, loss in losses.players.items() if name != MODEL]
        return [losses.players[MODEL], *losses.terms.values(), *others]

    @property
    def glances(self) -> tuple[str, ...]:
        """What is looked at now and then: the KL of each latent, if any, and what methods add."""
        latents = self.config.code_size if "kl" in self.terms else 0
        of_latents = tuple(f"kl_{latent}" for latent in range(latents))
        return (*of_latents, *self.config.method.glances(self.config.latents))

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a curve: the step, what the method reports, what is looked at now and then."""
        return ("step", *self.terms, *self.glances)

    def glance(self) -> Tensor:
        """What is looked at now and then, `[glances, M]`, on images that are always the same.

        The KL of latents is that from N(0, 1), whatever the prior of the method. Of a model with
        members it is that of the first: latent 3 of another is something else.
        """
        seen = torch.full((len(self.configs), len(self.glances)), torch.nan)
        if not self.glances:
            return seen.mT
        mu, logvar = self._watched_codes().unflatten(1, (-1, self.copies)).cpu()
        kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1)[:, 0].mean(1)
        own = len(self.config.method.glances(self.config.latents))
        alive = self.alive.cpu()
        seen[alive, : len(self.glances) - own] = kl[alive, : len(self.glances) - own]
        if own:
            extra = self._extra_parameters()
            for place in alive.nonzero()[:, 0].tolist():
                parameters = {
                    name: value[place * copies : (place + 1) * copies]
                    for name, (value, copies) in extra.items()
                }
                values = self.configs[place].method.glance(
                    mu[place].numpy(), logvar[place].numpy(), parameters
                )
                seen[place, -own:] = torch.tensor(values)
        return seen.mT

    def _extra_parameters(self) -> dict[str, tuple[Tensor, int]]:
        """Those beyond encoder and decoder, `[M · n, *shape]` on the host, and n."""
        return {
            f"{network}/{name}": (value.cpu(), player.copies)
            for player in self.players.values()
            for network, named in player.named(player.parameters).items()
            for name, value in named.items()
            if network not in ("encoder", "decoder")
        }

    @torch.no_grad()
    def _watched_codes(self) -> Tensor:
        """Mean and log-variance of the codes of some images, `[2, M · n, images, d]`."""
        apply = {
            name: partial(applied, player.networks[name], buffer, self.dtype)
            for player in self.players.values()
            for name, buffer in player.buffers(player.working)
        }
        nets, models = nets_of(self.config, apply), len(self.configs) * self.copies
        order = np.random.default_rng(0).permutation(self.data.support)[:WATCHED]
        chosen = torch.from_numpy(order).to(self.device)
        parts = []
        with matmul_precision(self.config.precision), on_device(self.device):
            for part in chosen.split(max(1, WATCHED_AT_ONCE // models)):
                images = self.data.inputs(part, 0)
                codes = self.config.method.encode(nets, images.expand(models, *images.shape))
                parts.append(torch.stack([codes.mu, codes.logvar]))
        return torch.cat(parts, 2)

    def fetch(self) -> Tensor:
        """The means `[terms, M]` since the last call; NaN for models that have diverged."""
        means = torch.where(self.alive, self.sums / self.count, torch.nan).cpu()
        self.sums.zero_()
        self.count.zero_()
        return means
