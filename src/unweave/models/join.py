"""Several models as one fleet, and whether they can be one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from unweave.errors import UnweaveError
from unweave.models.config import Config
from unweave.models.model import Fleet
from unweave.models.networks import networks_by_name

__all__ = ["check_alike", "join"]


def join(models: Sequence[Fleet]) -> Fleet:
    """Models with the same networks, as one fleet."""
    first = models[0]
    check_alike([config for model in models for config in model.configs], first.shape)
    parameters = {
        name: torch.cat([model.parameters[name] for model in models]) for name in first.parameters
    }
    return Fleet(
        [config for model in models for config in model.configs],
        first.shape,
        parameters,
        pd.concat([model.curve for model in models], ignore_index=True),
        np.concatenate([model.diverged_at for model in models]),
    )


def check_alike(configs: Sequence[Config], shape: tuple[int, int, int]) -> None:
    """Refuse runs without the networks of the first, or with more or fewer members."""
    first, *others = {config.fleet: config for config in configs}.values()
    needed = _sizes(first, shape)
    if any(not needed.items() <= _sizes(other, shape).items() for other in others):
        raise UnweaveError(
            "models of one fleet have the same networks and equally many members, but these "
            "differ; train each kind by itself"
        )


def _sizes(config: Config, shape: tuple[int, int, int]) -> dict[str, int]:
    """How large each network is, and how many members there are."""
    sizes = {name: len(network) for name, network in networks_by_name(config, shape).items()}
    return {**sizes, "members": config.method.num_members}
