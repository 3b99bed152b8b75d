"""Runs within a run: those of an ensemble's members, that of the stage before."""

from dataclasses import replace

import torch

from unweave.methods.base import FIRST
from unweave.methods.members import member_seeds
from unweave.models.config import Config

__all__ = ["first_of", "members_of"]


def members_of(config: Config) -> list[Config]:
    """The runs of the members of an ensemble, each with its seed; the first has the ensemble's."""
    seeds = member_seeds(torch.tensor([config.seed]), config.method.copies)
    return [
        replace(config, method=config.method.of_a_member(), seed=seed) for seed in seeds.tolist()
    ]


def first_of(config: Config) -> Config:
    """The run of the stage before, or what it has become."""
    assert config.first is not None
    if not config.method.extra_optimisers().get(FIRST):
        return config.first
    (seed,) = member_seeds(torch.tensor([config.seed]), 2).tolist()[1:]
    return replace(config.first, seed=seed)
