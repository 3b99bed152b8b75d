"""Periodic diagnostics during training: the KL divergence of each latent, and those of the method.

They are too costly for every step, so they are computed at intervals, on a fixed set of images.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unweave.fleet.engine import Engine
from unweave.kernels.threads import single_threaded
from unweave.methods.mixins import Diagnostics
from unweave.models.networks import applied, nets_of
from unweave.nets.device import matmul_precision, on_device

__all__ = ["curve_columns", "diagnose", "diagnostic_names"]

IMAGES = 128
"""Number of images on which diagnostics are computed."""
IMAGES_PER_BATCH = 4_096
"""Batch size over all models, so that a large fleet needs little memory."""


def curve_columns(engine: Engine) -> tuple[str, ...]:
    """Return the columns of a curve: the step, the terms of the method, the diagnostics."""
    return ("step", *engine.terms, *diagnostic_names(engine))


def diagnostic_names(engine: Engine) -> tuple[str, ...]:
    """Return the names of diagnostics: KL of each latent, if reported, and the method's own."""
    latents = engine.config.code_size if "kl" in engine.terms else 0
    return (*(f"kl_{latent}" for latent in range(latents)), *_own_names(engine))


@single_threaded()
def diagnose(engine: Engine) -> Tensor:
    """Compute all diagnostics, `[diagnostics, M]`; NaN for diverged models.

    The KL divergence of a latent is relative to N(0, 1), whatever the prior of the method. For an
    ensemble it is that of the first member, since latents of members are not aligned.
    """
    names, own_names = diagnostic_names(engine), _own_names(engine)
    found = torch.full((len(engine.configs), len(names)), torch.nan)
    if not names:
        return found.mT
    mu, logvar = _codes(engine).unflatten(1, (-1, engine.num_members)).cpu()
    alive = engine.alive.cpu()
    latents = len(names) - len(own_names)
    kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1)[:, 0].mean(1)
    found[alive, :latents] = kl[alive, :latents]
    if own_names:
        extra = _extra_parameters(engine)
        for place in alive.nonzero()[:, 0].tolist():
            method = engine.configs[place].method
            assert isinstance(method, Diagnostics)
            parameters = {name: values[place] for name, values in extra.items()}
            values = method.diagnostics(mu[place].numpy(), logvar[place].numpy(), parameters)
            found[place, latents:] = torch.tensor(values)
    return found.mT


def _own_names(engine: Engine) -> tuple[str, ...]:
    method = engine.config.method
    if not isinstance(method, Diagnostics):
        return ()
    return method.diagnostic_names(engine.config.latents)


def _extra_parameters(engine: Engine) -> Mapping[str, Tensor]:
    """Return the parameters of extra networks, `[M, n, *shape]`, on the CPU."""
    return {
        f"{network}/{name}": value.cpu().unflatten(0, (-1, group.rows_per_model))
        for group in engine.groups.values()
        for network, named in group.named(group.parameters).items()
        for name, value in named.items()
        if network not in ("encoder", "decoder")
    }


@torch.no_grad()
def _codes(engine: Engine) -> Tensor:
    """Return mean and log-variance of the codes of fixed images, `[2, M · n, images, d]`."""
    apply = {
        name: partial(applied, group.networks[name], buffer, engine.dtype)
        for group in engine.groups.values()
        for name, buffer in group.buffers(group.working)
    }
    nets, models = nets_of(engine.config, apply), len(engine.configs) * engine.num_members
    order = np.random.default_rng(0).permutation(engine.data.support)[:IMAGES]
    chosen = torch.from_numpy(order).to(engine.device)
    parts = []
    with matmul_precision(engine.config.precision), on_device(engine.device):
        for part in chosen.split(max(1, IMAGES_PER_BATCH // models)):
            images = engine.data.inputs(part, 0)
            codes = engine.config.method.encode(nets, images.expand(models, *images.shape))
            parts.append(torch.stack([codes.mu, codes.logvar]))
    return torch.cat(parts, 2)
