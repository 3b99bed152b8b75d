"""Small architectures of torch modules: with group norm, buffers, scalars and lazy layers."""

import torch
from torch import nn

from unweave.nets.architectures import Architecture


class TinyEncoder(nn.Module):
    """A strided convolution, group norm, a residual block, and a learned temperature."""

    def __init__(self, shape, latents):
        super().__init__()
        self.stem = nn.Conv2d(shape[2], 8, 4, 4)
        self.norm = nn.GroupNorm(2, 8)
        self.block = nn.Sequential(nn.SiLU(), nn.Conv2d(8, 8, 3, 1, 1))
        self.heads = nn.LazyLinear(2 * latents)
        self.temperature = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("order", torch.randperm(2 * latents))

    def forward(self, images):
        features = self.norm(self.stem(images))
        features = features + self.block(features)
        return self.heads(features.flatten(1))[:, self.order] * self.temperature


class TinyDecoder(nn.Module):
    """A dense layer, added to frozen random features, and a transposed convolution."""

    def __init__(self, shape, latents):
        super().__init__()
        height, width, channels = shape
        self.size = 8, height // 4, width // 4
        self.dense = nn.Linear(latents, 8 * self.size[1] * self.size[2])
        self.frozen = nn.Linear(latents, self.dense.out_features).requires_grad_(False)
        self.up = nn.ConvTranspose2d(8, channels, 4, 4)

    def forward(self, codes):
        features = (self.dense(codes) + self.frozen(codes)).view(-1, *self.size)
        return self.up(nn.functional.silu(features))


TINY = Architecture(TinyEncoder, TinyDecoder)
