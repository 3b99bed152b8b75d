"""Which kernels serve a tensor: those written for a GPU, or plain PyTorch."""

import os
from importlib.util import find_spec

import torch
from torch import Tensor

__all__ = ["fused"]


def fused(x: Tensor) -> bool:
    """Whether the kernels for a GPU serve this tensor; UNWEAVE_KERNELS=reference says no."""
    return (
        x.device.type == "cuda"
        and x.dtype != torch.float64
        and os.environ.get("UNWEAVE_KERNELS") != "reference"
        and find_spec("triton") is not None
    )
