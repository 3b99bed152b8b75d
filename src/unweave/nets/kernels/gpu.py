"""The kernels on a GPU, in Triton: implicit matrix products with a model axis.

Nothing is unfolded in memory. A program takes a block of pixels of one model, gathers their
neighbourhoods straight into a matrix product, and finishes (bias, ReLU, mask) before it writes.
With channels last the taps of one row of a neighbourhood lie side by side, so a whole row is one
contiguous read. Every result is written by one program, in an order that does not depend on how
many models there are: no atomics, and a model's numbers do not depend on its fleet.

Names as in `reference.py`. Blocks of rows (pixels) times columns (taps or channels) were chosen by
measuring on an H200 (`benchmarks/kernels.py`).
"""

import sys
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.nets.kernels import reference

__all__ = [
    "Launch",
    "conv",
    "conv_backward",
    "conv_transpose",
    "conv_transpose_backward",
    "conv_weight_grad",
]

LEAST = 16
"""Rows and columns of the smallest matrix product that the hardware takes."""
_here = sys.modules[__name__]
EDGE = 4
"""Up to so many channels an image is too thin to be a matrix axis of its own."""
FUSED = 64
"""Up to so many taps a program does best to use a neighbourhood twice."""


@dataclass(frozen=True)
class Launch:
    """How a kernel is cut into programs.

    Args:
        rows: Pixels per block.
        taps: Columns of a block of neighbourhoods.
        warps: Per program.
        splits: Programs among which the pixels of one model are divided, where they are summed
            over. Part of the definition of the result, so it does not depend on the fleet.
        stages: Blocks that are loaded ahead.
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
    large, weight = _images(large), _rows(weight)
    small = torch.empty(
        models, batch, height // 2, width // 2, outputs, dtype=weight.dtype, device=large.device
    )
    rows = batch * (height // 2) * (width // 2)
    total = kernel * kernel * channels
    thin = Launch(taps=16, stages=1)
    launch = launch or (thin if total <= FUSED else Launch(taps=32))
    _conv_kernel[(triton.cdiv(rows, launch.rows), models)](
        large,
        weight,
        bias,
        mask,
        small,
        large.stride(0),
        weight.stride(0),
        0 if bias is None else bias.stride(0),
        rows,
        HEIGHT=height,
        WIDTH=width,
        KERNEL=kernel,
        CHANNELS=channels,
        OUTPUTS=outputs,
        COLUMNS=_power(outputs),
        RELU=relu,
        ROWS=launch.rows,
        TAPS=min(launch.taps, _power(total)),
        STAGES=launch.stages,
        PRECISION=_precision(weight),
        num_warps=launch.warps,
        num_stages=launch.stages,
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
    small, weight = _images(small), _rows(weight)
    if channels == 1 and kernel == 4:
        return _grey_transpose(small, weight, bias, relu, mask)
    if channels <= EDGE and kernel == 4:
        return _colour_transpose(small, weight, bias, relu, mask, launch)
    large = torch.empty(
        models, batch, 2 * height, 2 * width, channels, dtype=weight.dtype, device=small.device
    )
    rows = batch * height * width
    launch = launch or Launch()
    _transpose_kernel[(triton.cdiv(rows, launch.rows), models)](
        small,
        weight,
        bias,
        mask,
        large,
        small.stride(0),
        weight.stride(0),
        0 if bias is None else bias.stride(0),
        rows,
        HEIGHT=height,
        WIDTH=width,
        KERNEL=kernel,
        CHANNELS=channels,
        INPUTS=inputs,
        COLUMNS=_power(channels),
        WIDE=_power(inputs),
        RELU=relu,
        ROWS=launch.rows,
        STAGES=launch.stages,
        PRECISION=_precision(weight),
        EARLY=mask is not None and launch.splits == 1,
        num_warps=launch.warps,
    )
    return large


def _colour_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relu: bool,
    mask: Tensor | None,
    launch: Launch | None,
) -> Tensor:
    """To few channels: phases and channels together are the columns of one product."""
    models, batch, height, width, inputs = small.shape
    channels = weight.shape[3]
    rows = batch * height * width
    large = torch.empty(
        models, batch, 2 * height, 2 * width, channels, dtype=weight.dtype, device=small.device
    )
    launch = launch or Launch()
    _thin_transpose_kernel[(triton.cdiv(rows, launch.rows), models)](
        small,
        weight,
        bias,
        mask,
        large,
        small.stride(0),
        weight.stride(0),
        0 if bias is None else bias.stride(0),
        rows,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        INPUTS=inputs,
        COLUMNS=_power(4 * channels),
        WIDE=_power(inputs),
        RELU=relu,
        ROWS=launch.rows,
        STAGES=launch.stages,
        PRECISION=_precision(weight),
        num_warps=launch.warps,
    )
    return large


def _grey_transpose(
    small: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, mask: Tensor | None
) -> Tensor:
    """To one channel: multiply by all taps at once, then add up what meets in a pixel.

    Between the two steps the products lie in memory by tap, in 16 bits where the weights do.
    """
    models, batch, height, width, inputs = small.shape
    rows, taps = batch * height * width, 16
    large = torch.empty(
        models, batch, 2 * height, 2 * width, 1, dtype=weight.dtype, device=small.device
    )
    dtype = torch.float32 if weight.dtype == torch.float32 else torch.float16
    products = torch.empty(models, taps, rows, dtype=dtype, device=small.device)
    block = 256
    _products_kernel[(triton.cdiv(rows, block), models)](
        small,
        weight,
        products,
        small.stride(0),
        weight.stride(0),
        rows,
        INPUTS=inputs,
        WIDE=_power(inputs),
        TAPS=taps,
        ROWS=block,
        PRECISION=_precision(weight),
    )
    block = 1024
    _meet_kernel[(triton.cdiv(4 * rows, block), models)](
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
    large, small = _images(large), _images(small)
    total = kernel * kernel * channels
    thin = Launch(rows=256, taps=64, splits=8, stages=1)
    chunks = triton.cdiv(total, Launch.taps)
    if outputs <= 32:
        wide = Launch(rows=64, splits=max(2, 16 // chunks))
    else:
        wide = Launch(rows=64, warps=8, splits=max(2, 8 // chunks))
    launch = launch or (thin if total <= FUSED else wide)
    taps = min(launch.taps, _power(total))
    rows = batch * (height // 2) * (width // 2)
    sums = _Sums(launch, rows, (models, kernel, channels, outputs), bias, small)
    _weight_grad_kernel[(triton.cdiv(total, taps), sums.splits, models)](
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
        COLUMNS=_power(outputs),
        BIAS=bias or "none",
        ROWS=launch.rows,
        TAPS=taps,
        PRECISION=_precision(small),
        num_warps=launch.warps,
        num_stages=launch.stages,
    )
    return sums.finish()


def conv_backward(
    large: Tensor, gradient: Tensor, weight: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """See `reference.conv_backward`."""
    return reference.composed_backward(_here, large, gradient, weight, mask)


def conv_transpose_backward(
    gradient: Tensor,
    small: Tensor,
    weight: Tensor,
    mask: Tensor | None = None,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """See `reference.conv_transpose_backward`: one pass over both images for all three."""
    models, batch, height, width, channels = gradient.shape
    kernel, outputs = weight.shape[1], weight.shape[4]
    total = kernel * kernel * channels
    if total > FUSED:
        return reference.composed_transpose_backward(_here, gradient, small, weight, mask)
    gradient, small, weight = _images(gradient), _images(small), _rows(weight)
    launch = launch or Launch(splits=8, stages=2)
    rows = batch * (height // 2) * (width // 2)
    sums = _Sums(launch, rows, (models, kernel, channels, outputs), "large", small)
    back = torch.empty_like(small)
    _transpose_backward_kernel[(sums.splits, models)](
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
        COLUMNS=_power(outputs),
        TAPS=_power(total),
        MASK=mask is not None,
        ROWS=launch.rows,
        PRECISION=_precision(weight),
        num_warps=launch.warps,
        num_stages=launch.stages,
    )
    return back, *sums.finish_both()


class _Sums:
    """Partial sums over pixels, one row per split and model, and how they are added up.

    A row holds the gradient of the weight, then that of the bias: by output channel where the
    small image has it, by tap where the large one does.
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
        """The gradients of weight and bias."""
        added = torch.empty(
            self.models, self.width, dtype=self.dtype, device=self.partial.device
        )
        size, block = added.numel(), 1024
        _add_up_kernel[(triton.cdiv(size, block),)](self.partial, added, size, self.splits, block)
        end = self.total * self.outputs
        shape = (self.kernel, self.kernel, self.channels, self.outputs)
        weight = added[:, :end].unflatten(1, shape)
        if self.bias is None:
            return weight, None
        if self.bias == "small":
            return weight, added[:, end : end + self.outputs]
        # The middle 2 × 2 taps meet every pixel of the large image once.
        middle = slice(self.kernel // 2 - 1, self.kernel // 2 + 1)
        by_tap = added[:, end : end + self.total].unflatten(1, shape[:3])
        return weight, by_tap[:, middle, middle].sum((1, 2))

    def finish_both(self) -> tuple[Tensor, Tensor]:
        """The same where there is a bias."""
        weight, bias = self.finish()
        assert bias is not None
        return weight, bias


def _images(images: Tensor) -> Tensor:
    """Images whose axes behind the models' lie densely; models may share them."""
    dense = images[0].is_contiguous()
    return images if dense else images.contiguous()


def _rows(weight: Tensor) -> Tensor:
    """Weights `[M, k, k, C, O]` that are dense for each model."""
    return weight if weight[0].is_contiguous() else weight.contiguous()


def _power(size: int) -> int:
    return max(LEAST, triton.next_power_of_2(size))


def _precision(weight: Tensor) -> str:
    """How float32 is multiplied; bf16 does not care."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


@triton.jit
def _neighbourhoods(
    images,
    rows,
    row,
    tap,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The values `[row, tap]` that a stride-2 convolution sees, 0 outside the image."""
    MARGIN: tl.constexpr = (KERNEL - 2) // 2
    x = row % (WIDTH // 2)
    y = row // (WIDTH // 2) % (HEIGHT // 2)
    image = row // ((WIDTH // 2) * (HEIGHT // 2))
    tap_y = tap // (KERNEL * CHANNELS)
    along = tap % (KERNEL * CHANNELS)
    at_y = (2 * y - MARGIN)[:, None] + tap_y[None, :]
    at_x = (2 * x - MARGIN)[:, None] + (along // CHANNELS)[None, :]
    inside = (at_y >= 0) & (at_y < HEIGHT) & (at_x >= 0) & (at_x < WIDTH)
    inside &= (row < rows)[:, None] & (tap < KERNEL * KERNEL * CHANNELS)[None, :]
    line = ((image * HEIGHT)[:, None] + at_y) * WIDTH + (2 * x - MARGIN)[:, None]
    # Neighbours share most of what they see, so it is worth a place in the nearest cache.
    return tl.load(
        images + line * CHANNELS + along[None, :], mask=inside, other=0, cache_modifier=".ca"
    )


@triton.jit
def _conv_kernel(
    large,
    weight,
    bias,
    mask,
    small,
    large_stride,
    weight_stride,
    bias_stride,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    TAPS: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    output = tl.arange(0, COLUMNS)
    images = large + model * large_stride
    weights = weight + model * weight_stride
    TOTAL: tl.constexpr = KERNEL * KERNEL * CHANNELS
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in tl.range(0, TOTAL, TAPS, num_stages=STAGES):
        tap = start + tl.arange(0, TAPS)
        seen = _neighbourhoods(images, rows, row, tap, HEIGHT, WIDTH, KERNEL, CHANNELS)
        known = (tap < TOTAL)[:, None] & (output < OUTPUTS)[None, :]
        w = tl.load(weights + tap[:, None] * OUTPUTS + output[None, :], mask=known, other=0.0)
        total = tl.dot(seen.to(w.dtype), w, total, input_precision=PRECISION)
    if large.dtype.element_ty == tl.uint8:
        total *= 1 / 255
    if bias is not None:
        total += tl.load(bias + model * bias_stride + output, mask=output < OUTPUTS, other=0.0)
    if RELU:
        total = tl.maximum(total, 0.0)
    place = (model * rows + row)[:, None] * OUTPUTS + output[None, :]
    real = (row < rows)[:, None] & (output < OUTPUTS)[None, :]
    if mask is not None:
        total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
    tl.store(small + place, total.to(small.dtype.element_ty), mask=real)


@triton.jit
def _transpose_kernel(
    small,
    weight,
    bias,
    mask,
    large,
    small_stride,
    weight_stride,
    bias_stride,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    CHANNELS: tl.constexpr,
    INPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDE: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
    EARLY: tl.constexpr = False,
):
    """Each small pixel is the corner of 2 × 2 large ones, its phases, of k/2 × k/2 taps each."""
    MARGIN: tl.constexpr = (KERNEL - 2) // 2
    REACH: tl.constexpr = KERNEL // 2
    TAPS: tl.constexpr = REACH * REACH
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = row % WIDTH
    y = row // WIDTH % HEIGHT
    image = row // (WIDTH * HEIGHT)
    along = tl.arange(0, WIDE)
    channel = tl.arange(0, COLUMNS)
    images = small + model * small_stride
    weights = weight + model * weight_stride
    known = (along < INPUTS)[:, None] & (channel < CHANNELS)[None, :]
    real = (row < rows)[:, None] & (channel < CHANNELS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    keep = tl.full((ROWS, COLUMNS), 1.0, large.dtype.element_ty)
    for step in tl.range(0, 4 * TAPS, num_stages=STAGES):
        phase_y = step // TAPS // 2
        phase_x = step // TAPS % 2
        if EARLY:
            if step % TAPS == 0:
                corner0 = (image * 2 * HEIGHT + 2 * y + phase_y) * 2 * WIDTH + 2 * x + phase_x
                place0 = (model * rows * 4 + corner0)[:, None] * CHANNELS + channel[None, :]
                keep = tl.load(mask + place0, mask=real, other=0.0)
        shift_y = step % TAPS // REACH + (phase_y - 1) * (KERNEL // 4)
        shift_x = step % REACH + (phase_x - 1) * (KERNEL // 4)
        at_y = y + shift_y
        at_x = x + shift_x
        inside = (row < rows) & (at_y >= 0) & (at_y < HEIGHT) & (at_x >= 0) & (at_x < WIDTH)
        inside = inside[:, None] & (along < INPUTS)[None, :]
        pixel = (image * HEIGHT + at_y) * WIDTH + at_x
        seen = tl.load(
            images + pixel[:, None] * INPUTS + along[None, :],
            mask=inside,
            other=0,
            cache_modifier=".ca",
        )
        tap = (phase_y + MARGIN - 2 * shift_y) * KERNEL + phase_x + MARGIN - 2 * shift_x
        entry = (tap * CHANNELS + channel)[None, :] * INPUTS + along[:, None]
        w = tl.load(weights + entry, mask=known, other=0.0)
        total = tl.dot(seen.to(w.dtype), w, total, input_precision=PRECISION)
        if step % TAPS == TAPS - 1:
            if bias is not None:
                total += tl.load(
                    bias + model * bias_stride + channel, mask=channel < CHANNELS, other=0.0
                )
            if RELU:
                total = tl.maximum(total, 0.0)
            corner = (image * 2 * HEIGHT + 2 * y + phase_y) * 2 * WIDTH + 2 * x + phase_x
            place = (model * rows * 4 + corner)[:, None] * CHANNELS + channel[None, :]
            if EARLY:
                total = tl.where(keep > 0, total, 0.0)
            elif mask is not None:
                total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
            tl.store(large + place, total.to(large.dtype.element_ty), mask=real)
            total = tl.zeros((ROWS, COLUMNS), tl.float32)


@triton.jit
def _thin_transpose_kernel(
    small,
    weight,
    bias,
    mask,
    large,
    small_stride,
    weight_stride,
    bias_stride,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    INPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDE: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """To few channels, 4 × 4 taps: the phases and channels together are the columns."""
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = row % WIDTH
    y = row // WIDTH % HEIGHT
    image = row // (WIDTH * HEIGHT)
    column = tl.arange(0, COLUMNS)
    phase_y = column // (2 * CHANNELS)
    phase_x = column // CHANNELS % 2
    channel = column % CHANNELS
    along = tl.arange(0, WIDE)
    images = small + model * small_stride
    weights = weight + model * weight_stride
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in tl.range(0, 9, num_stages=STAGES):
        shift_y = step // 3 - 1
        shift_x = step % 3 - 1
        at_y = y + shift_y
        at_x = x + shift_x
        inside = (row < rows) & (at_y >= 0) & (at_y < HEIGHT) & (at_x >= 0) & (at_x < WIDTH)
        inside = inside[:, None] & (along < INPUTS)[None, :]
        pixel = (image * HEIGHT + at_y) * WIDTH + at_x
        seen = tl.load(
            images + pixel[:, None] * INPUTS + along[None, :],
            mask=inside,
            other=0,
            cache_modifier=".ca",
        )
        tap_y = phase_y + 1 - 2 * shift_y
        tap_x = phase_x + 1 - 2 * shift_x
        reached = (tap_y >= 0) & (tap_y < 4) & (tap_x >= 0) & (tap_x < 4)
        known = (along < INPUTS)[:, None] & (reached & (column < 4 * CHANNELS))[None, :]
        entry = ((tap_y * 4 + tap_x) * CHANNELS + channel)[None, :] * INPUTS + along[:, None]
        w = tl.load(weights + entry, mask=known, other=0.0)
        total = tl.dot(seen.to(w.dtype), w, total, input_precision=PRECISION)
    if bias is not None:
        total += tl.load(bias + model * bias_stride + channel)
    if RELU:
        total = tl.maximum(total, 0.0)
    pixel_y = (image * 2 * HEIGHT + 2 * y)[:, None] + phase_y[None, :]
    pixel = pixel_y * 2 * WIDTH + (2 * x)[:, None] + phase_x[None, :]
    place = (model * rows * 4 + pixel) * CHANNELS + channel[None, :]
    real = (row < rows)[:, None] & (column < 4 * CHANNELS)[None, :]
    if mask is not None:
        total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
    tl.store(large + place, total.to(large.dtype.element_ty), mask=real)


@triton.jit
def _products_kernel(
    small,
    weight,
    products,
    small_stride,
    weight_stride,
    rows,
    INPUTS: tl.constexpr,
    WIDE: tl.constexpr,
    TAPS: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Every small pixel times every tap, `[M, taps, rows]`."""
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    along = tl.arange(0, WIDE)
    tap = tl.arange(0, TAPS)
    inside = (row < rows)[:, None] & (along < INPUTS)[None, :]
    place = row[:, None] * INPUTS + along[None, :]
    seen = tl.load(small + model * small_stride + place, mask=inside, other=0.0)
    place = tap[None, :] * INPUTS + along[:, None]
    known = (along < INPUTS)[:, None]
    w = tl.load(weight + model * weight_stride + place, mask=known, other=0.0)
    total = tl.dot(seen.to(w.dtype), w, input_precision=PRECISION)
    place = (model * TAPS + tap)[None, :] * rows + row[:, None]
    tl.store(products + place, total.to(products.dtype.element_ty), mask=(row < rows)[:, None])


@triton.jit
def _meet_kernel(
    products,
    bias,
    mask,
    large,
    bias_stride,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each large pixel adds the products of the 2 × 2 small pixels and taps that reach it."""
    model = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = pixel < 4 * rows
    x = pixel % (2 * WIDTH)
    y = pixel // (2 * WIDTH) % (2 * HEIGHT)
    image = pixel // (4 * HEIGHT * WIDTH)
    total = tl.zeros((BLOCK,), tl.float32)
    if bias is not None:
        total += tl.load(bias + model * bias_stride).to(tl.float32)
    for near in tl.static_range(4):
        at_y = y // 2 + y % 2 + near // 2 - 1
        at_x = x // 2 + x % 2 + near % 2 - 1
        tap = (y + 1 - 2 * at_y) * 4 + x + 1 - 2 * at_x
        inside = real & (at_y >= 0) & (at_y < HEIGHT) & (at_x >= 0) & (at_x < WIDTH)
        place = (model * 16 + tap) * rows + (image * HEIGHT + at_y) * WIDTH + at_x
        total += tl.load(products + place, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    place = model * 4 * rows + pixel
    if mask is not None:
        total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
    tl.store(large + place, total.to(large.dtype.element_ty), mask=real)


@triton.jit
def _add_up_kernel(partial, added, size, splits, BLOCK: tl.constexpr):
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        total += tl.load(partial + split * size.to(tl.int64) + item, mask=item < size, other=0.0)
    tl.store(added + item, total.to(added.dtype.element_ty), mask=item < size)


@triton.jit
def _transpose_backward_kernel(
    gradient,
    small,
    weight,
    back,
    sums,
    weight_stride,
    sums_width,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TAPS: tl.constexpr,
    MASK: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The neighbourhoods of the gradient serve twice while they are at hand."""
    TOTAL: tl.constexpr = KERNEL * KERNEL * CHANNELS
    split = tl.program_id(0)
    model = tl.program_id(1).to(tl.int64)
    tap = tl.arange(0, TAPS)
    output = tl.arange(0, COLUMNS)
    images = gradient + model * rows * 4 * CHANNELS
    known = (tap < TOTAL)[:, None] & (output < OUTPUTS)[None, :]
    entry = tap[:, None] * OUTPUTS + output[None, :]
    w = tl.load(weight + model * weight_stride + entry, mask=known, other=0.0)
    share = tl.cdiv(tl.cdiv(rows, tl.num_programs(0)), ROWS) * ROWS
    total = tl.zeros((TAPS, COLUMNS), tl.float32)
    by_tap = tl.zeros((TAPS,), tl.float32)
    for start in range(split * share, tl.minimum(rows, (split + 1) * share), ROWS):
        row = start + tl.arange(0, ROWS)
        seen = _neighbourhoods(images, rows, row, tap, HEIGHT, WIDTH, KERNEL, CHANNELS)
        real = (row < rows)[:, None] & (output < OUTPUTS)[None, :]
        place = (model * rows + row)[:, None] * OUTPUTS + output[None, :]
        value = tl.load(small + place, mask=real, other=0.0)
        flow = tl.dot(seen, w, input_precision=PRECISION)
        if MASK:
            flow = tl.where(value > 0, flow, 0.0)
        tl.store(back + place, flow.to(back.dtype.element_ty), mask=real)
        total = tl.dot(tl.trans(seen), value, total, input_precision=PRECISION)
        by_tap += tl.sum(seen.to(tl.float32), 0)
    corner = sums + (split * tl.num_programs(1) + model) * sums_width
    tl.store(corner + entry, total, mask=known)
    tl.store(corner + TOTAL * OUTPUTS + tap, by_tap, mask=tap < TOTAL)


@triton.jit
def _weight_grad_kernel(
    large,
    small,
    sums,
    large_stride,
    small_stride,
    sums_width,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    TAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    TOTAL: tl.constexpr = KERNEL * KERNEL * CHANNELS
    split = tl.program_id(1)
    model = tl.program_id(2).to(tl.int64)
    tap = tl.program_id(0) * TAPS + tl.arange(0, TAPS)
    output = tl.arange(0, COLUMNS)
    images = large + model * large_stride
    gradients = small + model * small_stride
    share = tl.cdiv(tl.cdiv(rows, tl.num_programs(1)), ROWS) * ROWS
    total = tl.zeros((TAPS, COLUMNS), tl.float32)
    large_total = tl.zeros((TAPS, 16), tl.float32)
    ones = tl.full((ROWS, 16), 1.0, small.dtype.element_ty)
    small_total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(split * share, tl.minimum(rows, (split + 1) * share), ROWS):
        row = start + tl.arange(0, ROWS)
        seen = _neighbourhoods(images, rows, row, tap, HEIGHT, WIDTH, KERNEL, CHANNELS)
        real = (row < rows)[:, None] & (output < OUTPUTS)[None, :]
        gradient = tl.load(
            gradients + row[:, None] * OUTPUTS + output[None, :], mask=real, other=0.0
        )
        if BIAS == "large":
            large_total = tl.dot(
                tl.trans(seen.to(gradient.dtype)), ones, large_total, input_precision=PRECISION
            )
        if BIAS == "small":
            small_total += tl.sum(gradient.to(tl.float32), 0)
        total = tl.dot(
            tl.trans(seen.to(gradient.dtype)), gradient, total, input_precision=PRECISION
        )
    if large.dtype.element_ty == tl.uint8:
        total *= 1 / 255
    corner = sums + (split * tl.num_programs(2) + model) * sums_width
    known = (tap < TOTAL)[:, None] & (output < OUTPUTS)[None, :]
    tl.store(corner + tap[:, None] * OUTPUTS + output[None, :], total, mask=known)
    bias = corner + TOTAL * OUTPUTS
    if BIAS == "large":
        tl.store(bias + tap, tl.max(large_total, 1), mask=tap < TOTAL)
    if BIAS == "small":
        if tl.program_id(0) == 0:
            tl.store(bias + output, small_total, mask=output < OUTPUTS)
