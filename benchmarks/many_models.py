"""Ways to train M models of one network at once in PyTorch, as their users would write them.

Each class copies the weights of M plain networks and trains all of them with one Adam; `Loop`
trains one after the other. From the same weights, images and noise, all compute the same losses,
up to rounding.

Shapes: M models, B images, C channels, d latents.
"""

import copy
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F

__all__ = [
    "BATCH",
    "BETA",
    "LATENTS",
    "LEARNING_RATE",
    "Grouped",
    "GroupedChannelsLast",
    "Hfta",
    "Loop",
    "PlainVAE",
    "Trainer",
    "Vmap",
    "installed",
]

BATCH, LATENTS, BETA = 64, 10, 4.0
LEARNING_RATE = 1e-4
MAP_DIMENSIONS = 4
"""Dimensions of feature maps `[B, C, H, W]`, which can have their channels last."""


class PlainVAE(nn.Module):
    """The protocol's network in ordinary PyTorch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, 64, 2, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * LATENTS),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(LATENTS, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)), nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(32, channels, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encoder(x).chunk(2, -1)
        noise = torch.randn_like(mu) if noise is None else noise
        return self.decoder(mu + noise * (logvar / 2).exp()), mu, logvar


def loss_of(logits: Tensor, x: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Loss of a β-VAE, `[*S]`, for images `[*S, B, C, H, W]`."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
    kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(-1)
    return reconstruction.sum((-3, -2, -1)).mean(-1) + BETA * kl.mean(-1)


def adam(parameters: Iterable[Tensor], capturable: bool) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True, capturable=capturable)


def mixed_precision(device: torch.device, precision: str) -> torch.autocast:
    """Automatic mixed precision if the precision is bf16."""
    # Each weight is used once per step, and a graph must not use copies cached before it.
    enabled = precision == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)


class Trainer(ABC):
    """M models in training.

    Args:
        models: Plain networks, whose weights are copied.
        capturable: Whether steps are captured as a CUDA graph.
    """

    @abstractmethod
    def __init__(self, models: Sequence[PlainVAE], capturable: bool = False) -> None: ...

    @abstractmethod
    def step(self, x: Tensor, noise: Tensor, precision: str = "float32") -> Tensor:
        """Train all models for one step; return the losses before it, `[M]`.

        Args:
            x: Images, `[M, B, C, H, W]`.
            noise: Standard normal noise of the codes, `[M, B, d]`.
            precision: `"float32"`, or `"bf16"` for automatic mixed precision.
        """


class Loop(Trainer):
    """One model after the other."""

    def __init__(self, models: Sequence[PlainVAE], capturable: bool = False) -> None:
        self.models = [copy.deepcopy(model) for model in models]
        self.optimisers = [adam(model.parameters(), capturable) for model in self.models]

    def step(self, x: Tensor, noise: Tensor, precision: str = "float32") -> Tensor:
        losses = []
        for place, (model, optimiser) in enumerate(zip(self.models, self.optimisers, strict=True)):
            with mixed_precision(x.device, precision):
                logits, mu, logvar = model(x[place], noise[place])
                loss = loss_of(logits, x[place], mu, logvar)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        return torch.stack(losses)


class Together(Trainer):
    """All models in one forward and one backward pass."""

    optimiser: torch.optim.Optimizer

    @abstractmethod
    def losses(self, x: Tensor, noise: Tensor) -> Tensor:
        """Losses of all models, `[M]`."""

    def step(self, x: Tensor, noise: Tensor, precision: str = "float32") -> Tensor:
        with mixed_precision(x.device, precision):
            losses = self.losses(x, noise)
        self.optimiser.zero_grad()
        losses.sum().backward()
        self.optimiser.step()
        return losses.detach()


class Vmap(Together):
    """`torch.func.vmap` over stacked parameters, as in PyTorch's tutorial on ensembles."""

    def __init__(self, models: Sequence[PlainVAE], capturable: bool = False) -> None:
        self.parameters, _ = stack_module_state(list(models))
        self.network = copy.deepcopy(models[0]).to("meta")
        self.optimiser = adam(self.parameters.values(), capturable)

    def losses(self, x: Tensor, noise: Tensor) -> Tensor:
        return torch.vmap(self._loss)(self.parameters, x, noise)

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, noise: Tensor) -> Tensor:
        logits, mu, logvar = functional_call(self.network, parameters, (x, noise))
        return loss_of(logits, x, mu, logvar)


class Dense(nn.Module):
    """M dense layers as one batched product, `[M, B, n]` to `[M, B, m]`."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().mT for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class ToVectors(nn.Module):
    """Feature maps of M models `[B, …]` to `[M, B, n]`."""

    def __init__(self, models: int) -> None:
        super().__init__()
        self.models = models

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.models, -1).transpose(0, 1).contiguous()


class ToMaps(nn.Module):
    """Vectors `[M, B, n]` to feature maps `[B, *shape]`."""

    def __init__(self, shape: Sequence[int], layout: torch.memory_format) -> None:
        super().__init__()
        self.shape, self.layout = shape, layout

    def forward(self, x: Tensor) -> Tensor:
        maps = x.transpose(0, 1).reshape(-1, *self.shape)
        return maps.contiguous(memory_format=self.layout)


class Grouped(Together):
    """One network with M groups: grouped convolutions and batched dense layers."""

    layout = torch.contiguous_format

    def __init__(self, models: Sequence[PlainVAE], capturable: bool = False) -> None:
        self.count = len(models)
        encoder, decoder = (
            nn.Sequential(*map(self._fused, zip(*parts, strict=True)))
            for parts in ([m.encoder for m in models], [m.decoder for m in models])
        )
        device = next(models[0].parameters()).device
        self.network = nn.ModuleList([encoder, decoder]).to(device)
        for weight in self.network.parameters():
            if weight.ndim == MAP_DIMENSIONS:
                weight.data = weight.data.contiguous(memory_format=self.layout)
        self.optimiser = self._optimiser(capturable)

    def losses(self, x: Tensor, noise: Tensor) -> Tensor:
        encoder, decoder = self.network
        maps = self._maps(x).contiguous(memory_format=self.layout)
        mu, logvar = encoder(maps).chunk(2, -1)
        logits = decoder(mu + noise * (logvar / 2).exp())
        logits = logits.reshape(len(logits), self.count, *x.shape[2:]).transpose(0, 1)
        return loss_of(logits, x, mu, logvar)

    def _optimiser(self, capturable: bool) -> torch.optim.Optimizer:
        return adam(self.network.parameters(), capturable)

    def _fused(self, layers: Sequence[Any]) -> nn.Module:
        """One layer for those of all models at the same place."""
        first = layers[0]
        if isinstance(first, nn.Flatten):
            return ToVectors(self.count)
        if isinstance(first, nn.Unflatten):
            return ToMaps(self._shape(*first.unflattened_size), self.layout)
        return first if isinstance(first, nn.ReLU) else self._joined(layers)

    def _joined(self, layers: Sequence[Any]) -> nn.Module:
        first = layers[0]
        if isinstance(first, nn.Linear):
            return Dense(layers)
        joined = type(first)(
            self.count * first.in_channels, self.count * first.out_channels, first.kernel_size,
            first.stride, first.padding, groups=self.count,
        )  # fmt: skip
        with torch.no_grad():
            joined.weight.copy_(torch.cat([layer.weight for layer in layers]))
            joined.bias.copy_(torch.cat([layer.bias for layer in layers]))
        return joined

    def _shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        """Shape of feature maps of all models for one image."""
        return self.count * channels, height, width

    def _maps(self, x: Tensor) -> Tensor:
        """Images `[M, B, C, H, W]` in the layout of feature maps."""
        return x.transpose(0, 1).flatten(1, 2)


class GroupedChannelsLast(Grouped):
    """Grouped convolutions whose feature maps are stored with channels last."""

    layout = torch.channels_last


class Hfta(Grouped):
    """The fused layers and the fused Adam of HFTA (arXiv:2102.02344)."""

    def _joined(self, layers: Sequence[Any]) -> nn.Module:
        import hfta.ops

        first = layers[0]
        make = hfta.ops.get_hfta_op_for(type(first), B=self.count)
        if isinstance(first, nn.Linear):
            joined = make(first.in_features, first.out_features)
        else:
            joined = make(
                first.in_channels,
                first.out_channels,
                first.kernel_size,
                first.stride,
                first.padding,
            )
        for place, layer in enumerate(layers):
            joined.snatch_parameters(layer, place)
        return joined

    def _optimiser(self, capturable: bool) -> torch.optim.Optimizer:
        import hfta.optim

        assert not capturable, "HFTA counts steps on the host, so a graph would repeat one step"
        make = hfta.optim.get_hfta_optim_for(torch.optim.Adam, B=self.count)
        return make(self.network.parameters(), lr=[LEARNING_RATE] * self.count)

    def _shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        return self.count, channels, height, width

    def _maps(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1)


def installed() -> dict[str, type[Trainer]]:
    """All ways that can run here, by name; HFTA is not on PyPI."""
    ways: dict[str, type[Trainer]] = {
        "plain loop": Loop,
        "vmap": Vmap,
        "grouped convolutions": Grouped,
        "grouped convolutions, channels last": GroupedChannelsLast,
    }
    return ways | ({"HFTA": Hfta} if importlib.util.find_spec("hfta") else {})
