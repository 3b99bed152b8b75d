"""Convolutions in Triton: implicit matrix products with a model axis.

Neighbourhoods are not unfolded in memory. A program processes a block of pixels of one model: it
gathers their neighbourhoods directly into a matrix product and applies bias, ReLU and mask before
it writes. With channels last, the taps of one row of a neighbourhood are contiguous in memory.

Names are as in `reference.py`: rows are pixels of the small image, over all images of a model.
"""

import triton
import triton.language as tl

__all__ = [
    "add_up_kernel",
    "conv_kernel",
    "products_kernel",
    "sum_products_kernel",
    "thin_transpose_kernel",
    "transpose_backward_kernel",
    "transpose_kernel",
    "weight_grad_kernel",
]


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
    """Load the inputs `[row, tap]` of a stride-2 convolution, 0 outside the image."""
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
    # Adjacent pixels share most of their neighbourhoods, so cache loads in L1.
    return tl.load(
        images + line * CHANNELS + along[None, :], mask=inside, other=0, cache_modifier=".ca"
    )


@triton.jit
def conv_kernel(
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
    """Compute a block of small pixels: neighbourhoods times weights."""
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
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    place = (model * rows + row)[:, None] * OUTPUTS + output[None, :]
    real = (row < rows)[:, None] & (output < OUTPUTS)[None, :]
    if mask is not None:
        total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
    tl.store(small + place, total.to(small.dtype.element_ty), mask=real)


@triton.jit
def transpose_kernel(
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
):
    """Compute 2 × 2 large pixels (phases) for each small pixel, from k/2 × k/2 taps each."""
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
        corner = model * rows * 4 + (image * 2 * HEIGHT + 2 * y + phase_y) * 2 * WIDTH
        place = (corner + 2 * x + phase_x)[:, None] * CHANNELS + channel[None, :]
        # Load the mask early to hide its latency.
        if mask is not None:  # noqa: SIM102 (a compile-time condition, unlike the other)
            if step % TAPS == 0:
                keep = tl.load(mask + place, mask=real, other=0.0)
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
                total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
            if mask is not None:
                total = tl.where(keep > 0, total, 0.0)
            tl.store(large + place, total.to(large.dtype.element_ty), mask=real)
            total = tl.zeros((ROWS, COLUMNS), tl.float32)


@triton.jit
def thin_transpose_kernel(
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
    """Transpose with 4 × 4 taps and few channels: columns are all phases and channels."""
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
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    pixel_y = (image * 2 * HEIGHT + 2 * y)[:, None] + phase_y[None, :]
    pixel = pixel_y * 2 * WIDTH + (2 * x)[:, None] + phase_x[None, :]
    place = (model * rows * 4 + pixel) * CHANNELS + channel[None, :]
    real = (row < rows)[:, None] & (column < 4 * CHANNELS)[None, :]
    if mask is not None:
        total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
    tl.store(large + place, total.to(large.dtype.element_ty), mask=real)


@triton.jit
def products_kernel(
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
    """Multiply every small pixel by every tap, `[M, taps, rows]`."""
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
def sum_products_kernel(
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
    """Sum, for each large pixel, the products of the 2 × 2 small pixels and taps that reach it."""
    model = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = pixel < 4 * rows
    x = pixel % (2 * WIDTH)
    y = pixel // (2 * WIDTH) % (2 * HEIGHT)
    image = pixel // (4 * HEIGHT * WIDTH)
    total = tl.zeros((BLOCK,), tl.float32)
    if bias is not None:
        total += tl.load(bias + model * bias_stride).to(tl.float32)
    for neighbour in tl.static_range(4):
        at_y = y // 2 + y % 2 + neighbour // 2 - 1
        at_x = x // 2 + x % 2 + neighbour % 2 - 1
        tap = (y + 1 - 2 * at_y) * 4 + x + 1 - 2 * at_x
        inside = real & (at_y >= 0) & (at_y < HEIGHT) & (at_x >= 0) & (at_x < WIDTH)
        place = (model * 16 + tap) * rows + (image * HEIGHT + at_y) * WIDTH + at_x
        total += tl.load(products + place, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    place = model * 4 * rows + pixel
    if mask is not None:
        total = tl.where(tl.load(mask + place, mask=real, other=0.0) > 0, total, 0.0)
    tl.store(large + place, total.to(large.dtype.element_ty), mask=real)


@triton.jit
def add_up_kernel(partial, added, size, splits, BLOCK: tl.constexpr):
    """Sum over the splits and convert to the type of the result."""
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        total += tl.load(partial + split * size.to(tl.int64) + item, mask=item < size, other=0.0)
    tl.store(added + item, total.to(added.dtype.element_ty), mask=item < size)


@triton.jit
def transpose_backward_kernel(
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
    """Compute both gradients of a transpose from one load of the gradient's neighbourhoods."""
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
    by_tap = tl.zeros((TAPS, 16), tl.float32)
    ones = tl.full((ROWS, 16), 1.0, small.dtype.element_ty)
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
        by_tap = tl.dot(tl.trans(seen), ones, by_tap, input_precision=PRECISION)
    corner = sums + (split * tl.num_programs(1) + model) * sums_width
    tl.store(corner + entry, total, mask=known)
    tl.store(corner + TOTAL * OUTPUTS + tap, tl.max(by_tap, 1), mask=tap < TOTAL)


@triton.jit
def weight_grad_kernel(
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
    """Multiply neighbourhoods by small pixels and sum over one split of the pixels."""
    TOTAL: tl.constexpr = KERNEL * KERNEL * CHANNELS
    split = tl.program_id(1)
    model = tl.program_id(2).to(tl.int64)
    tap = tl.program_id(0) * TAPS + tl.arange(0, TAPS)
    output = tl.arange(0, COLUMNS)
    images = large + model * large_stride
    gradients = small + model * small_stride
    share = tl.cdiv(tl.cdiv(rows, tl.num_programs(1)), ROWS) * ROWS
    total = tl.zeros((TAPS, COLUMNS), tl.float32)
    # Sum over pixels by multiplying with ones, much faster than a reduction across threads.
    ones = tl.full((ROWS, 16), 1.0, small.dtype.element_ty)
    large_total = tl.zeros((TAPS, 16), tl.float32)
    small_total = tl.zeros((16, COLUMNS), tl.float32)
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
            small_total = tl.dot(tl.trans(ones), gradient, small_total, input_precision=PRECISION)
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
    if BIAS == "small":  # noqa: SIM102 (as above)
        if tl.program_id(0) == 0:
            tl.store(bias + output, tl.max(small_total, 0), mask=output < OUTPUTS)
