"""What runs cost before they run: seconds, bytes, and how many fit together."""

import platform
from typing import TypeAlias

import torch

from unweave.models.config import Config
from unweave.models.size import num_parameters
from unweave.study.ledger import Ledger

Shape: TypeAlias = tuple[int, int, int]

__all__ = ["device_name", "model_bytes", "seconds_per_step"]

GPU_MICROSECONDS = {"factor_vae": (102.4, 117.3), "beta_tc_vae": (48.5, 61.3)}
"""Per step of one model with batch 64 on an H200 in bf16, one channel and three
(`benchmarks/results`); the other methods are like the β-VAE."""
BETA_VAE_MICROSECONDS = (45.3, 58.1)
SLOWER = {"bf16": 1.0, "tf32": 2.0, "float32": 5.0}
CPU_SECONDS, CPU_SECONDS_PER_BATCH, CPU_SECONDS_OF_DISCRIMINATOR = 0.022, 0.053, 0.045
"""Per step of one model on two cores, one of which scores other models meanwhile: in any case, for
64 images of 64 × 64, and for FactorVAE's second network."""
PIXELS, BATCH = 64 * 64, 64
GPU_MODEL_BYTES = 80e6
USUAL_PARAMETERS = 1e6
"""Up to so many have no say: all the above has been measured with networks of that size."""
GPU_SECONDS_PER_PARAMETER, GPU_BYTES_PER_PARAMETER = 17e-12, 38
"""Of the others, by eight second stages of 80 million at once
(`benchmarks/results/stages_h200.json`)."""
DENSE, DENSE_BYTES = 0.165, 0.08
"""What dense layers take of the time and of the memory of convolutions for the same images, beside
what their parameters take (`benchmarks/results/isa_2048_h200.json`)."""


def device_name(device: torch.device) -> str:
    """What kind of device it is; speeds are remembered by it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()}, {torch.get_num_threads()} threads"


def seconds_per_step(
    config: Config,
    shape: Shape,
    device: torch.device,
    ledger: Ledger | None = None,
) -> float:
    """Of one model in a large fleet: as met before in this study, or else as measured by us."""
    met = {} if ledger is None else ledger.speeds(device_name(device))
    if config.fleet in met:
        return met[config.fleet]
    size = _work(config, shape)
    if device.type == "cpu":
        second = CPU_SECONDS_OF_DISCRIMINATOR if config.method.name == "factor_vae" else 0.0
        return CPU_SECONDS + CPU_SECONDS_PER_BATCH * size + second
    grey, colour = GPU_MICROSECONDS.get(config.method.name, BETA_VAE_MICROSECONDS)
    images = (grey if shape[2] == 1 else colour) * 1e-6 * size
    if _dense(config):
        images *= DENSE
    large = GPU_SECONDS_PER_PARAMETER * _unusual_parameters(config, shape)
    return (images + large) * SLOWER[config.precision]


def model_bytes(config: Config, shape: Shape) -> float:
    """What a model takes of a GPU while it trains, about."""
    images = GPU_MODEL_BYTES * _work(config, shape) * (DENSE_BYTES if _dense(config) else 1)
    return images + GPU_BYTES_PER_PARAMETER * _unusual_parameters(config, shape)


def _work(config: Config, shape: Shape) -> float:
    """How much a step is beside 64 images of 64 × 64 pixels that are encoded and decoded once.

    An ensemble of n encodes n times and decodes n² times.
    """
    n = config.method.num_members
    return shape[0] * shape[1] / PIXELS * config.batch / BATCH * (n + n**2) / 2


def _dense(config: Config) -> bool:
    return config.architecture.endswith("mlp")


def _unusual_parameters(config: Config, shape: Shape) -> float:
    return max(0.0, num_parameters(config, shape) - USUAL_PARAMETERS * config.method.num_members)
