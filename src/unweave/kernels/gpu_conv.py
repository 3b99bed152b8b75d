"""Convolutions on a GPU: launch code for the kernels in `gpu_conv_kernels.py`.

Every result is written by one program, in an order that does not depend on the number of models.
There are no atomics, so results do not depend on the fleet. Block sizes, of rows (pixels) times
columns (taps or channels), were tuned on an H200 (`benchmarks/kernels.py`).
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from unweave.kernels.gpu_conv_kernels import (
    add_up_kernel,
    conv_kernel,
    products_kernel,
    sum_products_kernel,
    thin_transpose_kernel,
    transpose_backward_kernel,
    transpose_kernel,
    weight_grad_kernel,
)

__all__ = ["Launch", "conv", "conv_transpose", "conv_transpose_backward", "conv_weight_grad"]

LEAST = 16
"""Smallest number of rows and columns of a matrix product in hardware."""
EDGE = 4
"""Largest number of channels that is too small for a separate matrix axis."""
FUSED = 64
"""Largest number of taps for which both backward products are fused into one kernel."""


@dataclass(frozen=True)
class Launch:
    """Launch parameters of a kernel.

    Args:
        rows: Pixels per block.
        taps: Columns per block of neighbourhoods.
        warps: Warps per program.
        splits: Number of programs that share a sum over the pixels of one model. It affects
            rounding, so it must not depend on the fleet.
        stages: Pipeline stages, the number of blocks loaded ahead.
    """

    rows: int = 128
    taps: int = 128
    warps: int = 4
    splits: int = 4
    stages: int = 3


def conv(
    large: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    launch: Launch | None = None,
) -> Tensor:
    """See `reference.conv`."""
    models, batch, height, width, channels = large.shape
    kernel, outputs = weight.shape[1], weight.shape[4]
    large, weight = _dense(large), _dense(weight)
    bias, mask = _maybe_dense(bias), _whole(mask)
    small = torch.empty(
        models, batch, height // 2, width // 2, outputs, dtype=weight.dtype, device=large.device
    )
    rows = batch * (height // 2) * (width // 2)
    total = kernel * kernel * channels
    thin = Launch(taps=16, stages=1)
    launch = launch or (thin if total <= FUSED else Launch(taps=32))
    _convolve(
        conv_kernel,
        (large, weight, bias, mask, small),
        rows,
        launch,
        HEIGHT=height,
        WIDTH=width,
        KERNEL=kernel,
        CHANNELS=channels,
        OUTPUTS=outputs,
        COLUMNS=power(outputs),
        RELU=relu,
        TAPS=min(launch.taps, power(total)),
    )
    return small


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    launch: Launch | None = None,
) -> Tensor:
    """See `reference.conv_transpose`."""
    models, batch, height, width, inputs = small.shape
    kernel, channels = weight.shape[1], weight.shape[3]
    small, weight = _dense(small), _dense(weight)
    bias, mask = _maybe_dense(bias), _whole(mask)
    if channels == 1 and kernel == 4:
        return _grey_transpose(small, weight, bias, relu, mask)
    large = torch.empty(
        models, batch, 2 * height, 2 * width, channels, dtype=weight.dtype, device=small.device
    )
    sizes = {
        "HEIGHT": height,
        "WIDTH": width,
        "CHANNELS": channels,
        "INPUTS": inputs,
        "WIDE": power(inputs),
        "RELU": relu,
    }
    tensors, rows = (small, weight, bias, mask, large), batch * height * width
    if channels <= EDGE and kernel == 4:
        # Smaller blocks are as fast, but Triton 3.6 miscompiles some of them: with 64 or 128 rows
        # and 4 warps, images of 128 pixels are wrong.
        launch = launch or Launch(rows=256, stages=2)
        columns = power(4 * channels)
        _convolve(thin_transpose_kernel, tensors, rows, launch, COLUMNS=columns, **sizes)
    else:
        launch = launch or Launch()
        columns = power(channels)
        _convolve(transpose_kernel, tensors, rows, launch, COLUMNS=columns, KERNEL=kernel, **sizes)
    return large


def _convolve(
    kernel: Any,
    tensors: tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor],
    rows: int,
    launch: Launch,
    **sizes: int,
) -> None:
    """Launch a convolution of (images, weight, bias, mask, result) over blocks of rows."""
    images, weight, bias, _, _ = tensors
    kernel[(triton.cdiv(rows, launch.rows), len(images))](
        *tensors,
        images.stride(0),
        weight.stride(0),
        0 if bias is None else bias.stride(0),
        rows,
        **sizes,
        ROWS=launch.rows,
        STAGES=launch.stages,
        PRECISION=precision(),
        num_warps=launch.warps,
        num_stages=launch.stages,
    )


def _grey_transpose(
    small: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, mask: Tensor | None
) -> Tensor:
    """Transposed convolution to one channel: multiply by all taps, then sum for each pixel.

    The intermediate products are stored by tap, in 16 bits if the weights have 16 bits.
    """
    models, batch, height, width, inputs = small.shape
    rows, taps = batch * height * width, 16
    large = torch.empty(
        models, batch, 2 * height, 2 * width, 1, dtype=weight.dtype, device=small.device
    )
    dtype = torch.float32 if weight.dtype == torch.float32 else torch.float16
    products = torch.empty(models, taps, rows, dtype=dtype, device=small.device)
    block = 256
    products_kernel[(triton.cdiv(rows, block), models)](
        small,
        weight,
        products,
        small.stride(0),
        weight.stride(0),
        rows,
        INPUTS=inputs,
        WIDE=power(inputs),
        TAPS=taps,
        ROWS=block,
        PRECISION=precision(),
    )
    block = 1024
    sum_products_kernel[(triton.cdiv(4 * rows, block), models)](
        products,
        bias,
        mask,
        large,
        0 if bias is None else bias.stride(0),
        rows,
        HEIGHT=height,
        WIDTH=width,
        RELU=relu,
        BLOCK=block,
    )
    return large


def conv_weight_grad(
    large: Tensor,
    small: Tensor,
    kernel: int,
    bias: str | None = None,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor | None]:
    """See `reference.conv_weight_grad`."""
    models, batch, height, width, channels = large.shape
    outputs = small.shape[-1]
    large, small = _dense(large), _dense(small)
    total = kernel * kernel * channels
    thin = Launch(rows=128, taps=64, splits=16, stages=2)
    chunks = triton.cdiv(total, Launch.taps)
    if outputs <= 32:
        wide = Launch(rows=64, splits=max(2, 16 // chunks))
    else:
        wide = Launch(rows=64, warps=8, splits=max(2, 8 // chunks))
    launch = launch or (thin if total <= FUSED else wide)
    taps = min(launch.taps, power(total))
    rows = batch * (height // 2) * (width // 2)
    sums = _Sums(launch, rows, (models, kernel, channels, outputs), bias, small)
    weight_grad_kernel[(triton.cdiv(total, taps), sums.splits, models)](
        large,
        small,
        sums.partial,
        large.stride(0),
        small.stride(0),
        sums.width,
        rows,
        HEIGHT=height,
        WIDTH=width,
        KERNEL=kernel,
        CHANNELS=channels,
        OUTPUTS=outputs,
        COLUMNS=power(outputs),
        BIAS=bias or "none",
        ROWS=launch.rows,
        TAPS=taps,
        PRECISION=precision(),
        num_warps=launch.warps,
        num_stages=launch.stages,
    )
    return sums.finish()


def conv_transpose_backward(
    gradient: Tensor,
    small: Tensor,
    weight: Tensor,
    mask: Tensor | None = None,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Compute all three gradients of a transpose in one pass; None if that is not faster."""
    models, batch, height, width, channels = gradient.shape
    kernel, outputs = weight.shape[1], weight.shape[4]
    total = kernel * kernel * channels
    other = mask is not None and mask.data_ptr() != small.data_ptr()
    if total > FUSED or other:
        return None
    gradient, small, weight = gradient.contiguous(), small.contiguous(), _dense(weight)
    launch = launch or Launch(splits=8, stages=2)
    rows = batch * (height // 2) * (width // 2)
    sums = _Sums(launch, rows, (models, kernel, channels, outputs), "large", small)
    back = torch.empty_like(small)
    transpose_backward_kernel[(sums.splits, models)](
        gradient,
        small,
        weight,
        back,
        sums.partial,
        weight.stride(0),
        sums.width,
        rows,
        HEIGHT=height,
        WIDTH=width,
        KERNEL=kernel,
        CHANNELS=channels,
        OUTPUTS=outputs,
        COLUMNS=power(outputs),
        TAPS=power(total),
        MASK=mask is not None,
        ROWS=launch.rows,
        PRECISION=precision(),
        num_warps=launch.warps,
        num_stages=launch.stages,
    )
    of_weight, of_bias = sums.finish()
    assert of_bias is not None, "the large image has a bias"
    return back, of_weight, of_bias


class _Sums:
    """Partial sums over pixels, one row per split and model, and their reduction.

    A row contains the gradient of the weight, then that of the bias: by output channel if the
    small image has a bias, by tap if the large one has.
    """

    def __init__(
        self,
        launch: Launch,
        rows: int,
        shape: tuple[int, int, int, int],
        bias: str | None,
        like: Tensor,
    ) -> None:
        self.models, self.kernel, self.channels, self.outputs = shape
        self.total = self.kernel**2 * self.channels
        self.bias, self.dtype = bias, like.dtype
        of_bias = {"large": self.total, "small": self.outputs, None: 0}[bias]
        self.width = triton.cdiv(self.total * self.outputs + of_bias, LEAST) * LEAST
        self.splits = max(1, min(launch.splits, rows // launch.rows))
        self.partial = torch.empty(
            self.splits, self.models, self.width, dtype=torch.float32, device=like.device
        )

    def finish(self) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of weight and bias."""
        added = torch.empty(self.models, self.width, dtype=self.dtype, device=self.partial.device)
        size, block = added.numel(), 1024
        add_up_kernel[(triton.cdiv(size, block),)](self.partial, added, size, self.splits, block)
        end = self.total * self.outputs
        shape = (self.kernel, self.kernel, self.channels, self.outputs)
        weight = added[:, :end].unflatten(1, shape)
        if self.bias is None:
            return weight, None
        if self.bias == "small":
            return weight, added[:, end : end + self.outputs]
        # The middle 2 × 2 taps cover every pixel of the large image exactly once.
        middle = slice(self.kernel // 2 - 1, self.kernel // 2 + 1)
        by_tap = added[:, end : end + self.total].unflatten(1, shape[:3])
        return weight, by_tap[:, middle, middle].sum((1, 2))


def _dense(tensor: Tensor) -> Tensor:
    """Return a tensor that is contiguous except for the model axis, which may be expanded."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()


def _maybe_dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _dense(tensor)


def _whole(tensor: Tensor | None) -> Tensor | None:
    """Return a contiguous tensor, or None."""
    return None if tensor is None else tensor.contiguous()


def power(size: int) -> int:
    return max(LEAST, triton.next_power_of_2(size))


def precision() -> str:
    """Return the input precision for float32: three tf32 products, or one if tf32 is allowed."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
