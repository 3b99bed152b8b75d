"""Periodic diagnostics during training: the KL divergence of each latent, and those of the method.

They are too costly for every step, so they are computed at intervals, on a fixed set of images.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unweave.fleet.engine import Engine
from unweave.fleet.parts import SHARED, Part
from unweave.kernels.threads import single_threaded
from unweave.methods.mixins import Auxiliary, Diagnostics
from unweave.models.networks import applied, nets_of
from unweave.nets.device import matmul_precision, on_device

__all__ = ["curve_columns", "diagnose", "diagnostic_names"]

IMAGES = 128
"""Number of images on which diagnostics are computed."""
IMAGES_PER_BATCH = 4_096
"""Batch size over all models, so that a large fleet needs little memory."""


def curve_columns(engine: Engine, part: Part | None = None) -> tuple[str, ...]:
    """Return the columns of the curve of a part, or of all: step, terms, diagnostics."""
    terms = engine.terms if part is None else engine.terms_of[part]
    return ("step", *terms, *diagnostic_names(engine, part))


def diagnostic_names(engine: Engine, part: Part | None = None) -> tuple[str, ...]:
    """Return the names of the diagnostics of a part, or of all parts.

    They are the KL divergence of each latent, if the method reports one, and the method's own.
    """
    if part is None:
        names = [name for each in engine.parts for name in diagnostic_names(engine, each)]
        return tuple(dict.fromkeys(names))
    latents = part.config.code_size if "kl" in engine.terms_of[part] else 0
    return (*(f"kl_{latent}" for latent in range(latents)), *_own_names(part))


@single_threaded()
def diagnose(engine: Engine) -> Tensor:
    """Compute all diagnostics, `[diagnostics, M]`; NaN where a model has none or has diverged.

    The KL divergence of a latent is relative to N(0, 1), whatever the prior of the method. For an
    ensemble it is that of the first member, since latents of members are not aligned.
    """
    names = diagnostic_names(engine)
    found = torch.full((len(names), len(engine.configs)), torch.nan)
    for part in engine.parts:
        own = diagnostic_names(engine, part)
        if own:
            places = [names.index(name) for name in own]
            found[places, part.models] = _diagnose(engine, part, own)
    return found


def _diagnose(engine: Engine, part: Part, names: Sequence[str]) -> Tensor:
    """Compute the diagnostics of a part, `[diagnostics, m]`."""
    found = torch.full((len(part.configs), len(names)), torch.nan)
    mu, logvar = _codes(engine, part).unflatten(1, (-1, engine.num_members)).cpu()
    alive = engine.alive[part.models].cpu()
    latents = len(names) - len(_own_names(part))
    kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1)[:, 0].mean(1)
    found[alive, :latents] = kl[alive, :latents]
    if latents < len(names):
        extra = _extra_parameters(engine, part)
        for place in alive.nonzero()[:, 0].tolist():
            method = part.configs[place].method
            assert isinstance(method, Diagnostics)
            parameters = {name: values[place] for name, values in extra.items()}
            values = method.diagnostics(mu[place].numpy(), logvar[place].numpy(), parameters)
            found[place, latents:] = torch.tensor(values)
    return found.mT


def _own_names(part: Part) -> tuple[str, ...]:
    method = part.config.method
    if not isinstance(method, Diagnostics):
        return ()
    return method.diagnostic_names(part.config.latents)


def _extra_parameters(engine: Engine, part: Part) -> Mapping[str, Tensor]:
    """Return the parameters of extra networks, `[m, n, *shape]`, on the CPU."""
    return {
        f"{name}/{key}": value.cpu().unflatten(0, (len(part.configs), -1))
        for name, network, buffer in engine.networks(part)
        if name not in SHARED
        for key, value in network.named(buffer)
    }


@torch.no_grad()
def _codes(engine: Engine, part: Part) -> Tensor:
    """Return mean and log-variance of the codes of fixed images, `[2, m · n, images, d]`."""
    apply = {
        name: partial(applied, network, buffer, engine.dtype)
        for name, network, buffer in engine.networks(part, "working")
    }
    nets, models = nets_of(part.config, apply), len(part.configs) * engine.num_members
    order = np.random.default_rng(0).permutation(engine.data.support)[:IMAGES]
    chosen = torch.from_numpy(order).to(engine.device)
    parts = []
    with matmul_precision(engine.config.precision), on_device(engine.device):
        for rows in chosen.split(max(1, IMAGES_PER_BATCH // models)):
            images = engine.data.inputs(rows, 0)
            images = images.expand(models, *images.shape)
            method = part.config.method
            if isinstance(method, Auxiliary):
                assert part.factors is not None, "the part has no factors"
                codes = method.encode_given(nets, images, part.factors[rows, 0])
            else:
                codes = method.encode(nets, images)
            parts.append(torch.stack([codes.mu, codes.logvar]))
    return torch.cat(parts, 2)
