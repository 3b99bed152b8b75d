"""Periodic diagnostics of a fleet in training: the KL divergence of each latent, and the method's.

They are computed every few steps, because they are too costly for each one, and always on the same
images.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unweave.fleet.engine import Engine
from unweave.methods.mixins import Diagnostics
from unweave.models.networks import applied, nets_of
from unweave.nets.device import matmul_precision, on_device

__all__ = ["curve_columns", "diagnose", "diagnostic_names"]

IMAGES = 128
"""Images whose codes are followed."""
IMAGES_AT_ONCE = 4_096
"""Of them, over all models together, so that a large fleet needs little memory."""


def curve_columns(engine: Engine) -> tuple[str, ...]:
    """The columns of a curve: the step, the terms of the method, the diagnostics."""
    return ("step", *engine.terms, *diagnostic_names(engine))


def diagnostic_names(engine: Engine) -> tuple[str, ...]:
    """The KL divergence of each latent, for methods that report one, and the method's own."""
    latents = engine.config.code_size if "kl" in engine.terms else 0
    return (*(f"kl_{latent}" for latent in range(latents)), *_own_names(engine))


def diagnose(engine: Engine) -> Tensor:
    """All diagnostics, `[diagnostics, M]`; NaN for models that have diverged.

    The KL divergence of a latent is that from N(0, 1), whatever the prior of the method. Of an
    ensemble it is that of the first member: latent 3 of another means something else.
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
    """The parameters of all networks but encoder and decoder, `[M, n, *shape]`, on the host."""
    return {
        f"{network}/{name}": value.cpu().unflatten(0, (-1, group.rows_per_model))
        for group in engine.groups.values()
        for network, named in group.named(group.parameters).items()
        for name, value in named.items()
        if network not in ("encoder", "decoder")
    }


@torch.no_grad()
def _codes(engine: Engine) -> Tensor:
    """Mean and log-variance of the codes of some images, `[2, M · n, images, d]`."""
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
        for part in chosen.split(max(1, IMAGES_AT_ONCE // models)):
            images = engine.data.inputs(part, 0)
            codes = engine.config.method.encode(nets, images.expand(models, *images.shape))
            parts.append(torch.stack([codes.mu, codes.logvar]))
    return torch.cat(parts, 2)
