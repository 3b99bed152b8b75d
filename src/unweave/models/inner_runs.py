"""Runs within a run: those of an ensemble's members, that of the first stage."""

from dataclasses import replace

import torch

from unweave.methods.base import FIRST
from unweave.methods.members import member_seeds
from unweave.methods.mixins import Ensemble
from unweave.models.config import Config

__all__ = ["first_of", "members_of"]


def members_of(config: Config) -> list[Config]:
    """The runs of the members of an ensemble, each with its seed; the first has the ensemble's."""
    if not isinstance(config.method, Ensemble):
        return [config]
    seeds = member_seeds(torch.tensor([config.seed]), config.method.num_members).tolist()
    return [replace(config, method=config.method.member_method(), seed=seed) for seed in seeds]


def first_of(config: Config) -> Config:
    """The run of the first stage, with a seed of its own where it was trained further."""
    assert config.first is not None
    if not config.method.extra_optimisers().get(FIRST):
        return config.first
    (seed,) = member_seeds(torch.tensor([config.seed]), 2).tolist()[1:]
    return replace(config.first, seed=seed)
