"""Adam on a GPU: parameters, moments and the working copy are updated by one kernel.

The rates of a step, a few numbers per model, are computed by another kernel.
"""

import itertools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["rates", "update"]

BLOCK = 1024
MODELS = 128


def rates(
    lr: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    eps: Tensor,
    step: Tensor,
    tensorflow: bool,
    dtype: torch.dtype,
) -> Tensor:
    """Compute `Adam.rates`, `[M, 5]`, from float64 `[M, 1]` and the int64 step."""
    out = torch.empty(len(lr), 5, dtype=dtype, device=lr.device)
    grid = (triton.cdiv(len(lr), MODELS),)
    _rates_kernel[grid](lr, beta1, beta2, eps, step, out, len(lr), tensorflow, MODELS)
    return out


def update(
    parameters: Tensor,
    first: Tensor,
    second: Tensor,
    gradients: Sequence[Tensor],
    places: Sequence[int],
    working: Tensor,
    rates: Tensor,
    alive: Tensor,
    finite: Tensor,
    limits: Tensor | None = None,
    limited: Sequence[bool] | None = None,
) -> None:
    """Update all parameters in place; see `unweave.nets.adam.update`."""
    assert alive.is_contiguous(), "alive must be contiguous"
    assert finite.is_contiguous(), "finite must be contiguous"
    dense = tuple(g if g.stride(1) == 1 else g.contiguous() for g in gradients)
    sizes = tuple(g.shape[1] for g in dense)
    blocks = [triton.cdiv(size, BLOCK) for size in sizes]
    starts = tuple(itertools.accumulate(blocks, initial=0))
    _adam_kernel[(starts[-1], len(parameters))](
        parameters,
        first,
        second,
        dense,
        working,
        rates,
        rates if limits is None else limits,
        alive,
        finite,
        parameters.stride(0),
        tuple(g.stride(0) for g in dense),
        PARTS=len(dense),
        PLACES=tuple(places),
        SIZES=sizes,
        STARTS=starts,
        WIDE=tuple(
            int(_wide(gradient) and _wide(parameters) and place % 16 == 0)
            for gradient, place in zip(dense, places, strict=True)
        ),
        COPY=working.data_ptr() != parameters.data_ptr(),
        LIMITED=limits is not None,
        WITHIN=tuple(map(int, limited or (True,) * len(dense))),
        BLOCK=BLOCK,
    )


def _wide(rows: Tensor) -> bool:
    """Return whether rows of a tensor are aligned for vectorised loads."""
    return rows.data_ptr() % 16 == 0 and rows.stride(0) % 16 == 0


@triton.jit
def _rates_kernel(
    lr,
    beta1,
    beta2,
    eps,
    step,
    out,
    models,
    TENSORFLOW: tl.constexpr,
    MODELS: tl.constexpr,
):
    model = tl.program_id(0) * MODELS + tl.arange(0, MODELS)
    known = model < models
    decay1 = tl.load(beta1 + model, mask=known, other=0.5)
    decay2 = tl.load(beta2 + model, mask=known, other=0.5)
    count = (tl.load(step) + 1).to(tl.float64)
    root = tl.sqrt(1 - tl.exp(count * tl.log(decay2)))
    rate = tl.load(lr + model, mask=known, other=0.0) / (1 - tl.exp(count * tl.log(decay1)))
    shrink = 1 / root
    if TENSORFLOW:
        rate *= root
        shrink = tl.full((MODELS,), 1.0, tl.float64)
    values = (rate, 1 - decay1, 1 - decay2, shrink, tl.load(eps + model, mask=known, other=0.0))
    for place in tl.static_range(5):
        value = values[place].to(out.dtype.element_ty)
        tl.store(out + model * 5 + place, value, mask=known)


@triton.jit
def _adam_kernel(
    parameters,
    first,
    second,
    gradients,
    working,
    rates,
    limits,
    alive,
    finite,
    stride,
    gradient_strides,
    PARTS: tl.constexpr,
    PLACES: tl.constexpr,
    SIZES: tl.constexpr,
    STARTS: tl.constexpr,
    WIDE: tl.constexpr,
    COPY: tl.constexpr,
    LIMITED: tl.constexpr,
    WITHIN: tl.constexpr,
    BLOCK: tl.constexpr,
    TOO_LARGE: tl.constexpr = 1e18,
):
    block = tl.program_id(0)
    model = tl.program_id(1).to(tl.int64)
    # Find the part first and update it once: a body for each part takes far longer to compile.
    own, row = gradients[0], model * gradient_strides[0]
    start, size, begin, wide, within = STARTS[0], SIZES[0], PLACES[0], WIDE[0], WITHIN[0]
    for part in tl.static_range(1, PARTS):
        if block >= STARTS[part]:
            own, row = gradients[part], model * gradient_strides[part]
            start, size, begin, wide = STARTS[part], SIZES[part], PLACES[part], WIDE[part]
            within = WITHIN[part]
    if tl.load(alive + model):
        item = (block - start) * BLOCK + tl.arange(0, BLOCK)
        # Each branch computes its own sum, since `multiple_of` affects every use of a sum.
        if (wide > 0) & ((block - start + 1) * BLOCK <= size):
            every = tl.full((BLOCK,), True, tl.int1)
            place = tl.multiple_of(model * stride + begin, 16) + item
            g = tl.load(tl.multiple_of(own + row, 16) + item).to(tl.float32)
            _checked_move(
                parameters, first, second, working, rates, limits, finite, model, within, place,
                every, g, COPY, LIMITED, BLOCK, TOO_LARGE,
            )  # fmt: skip
        else:
            known = item < size
            place = model * stride + begin + item
            g = tl.load(own + row + item, mask=known, other=0.0).to(tl.float32)
            _checked_move(
                parameters, first, second, working, rates, limits, finite, model, within, place,
                known, g, COPY, LIMITED, BLOCK, TOO_LARGE,
            )  # fmt: skip


@triton.jit
def _checked_move(
    parameters,
    first,
    second,
    working,
    rates,
    limits,
    finite,
    model,
    within,
    place,
    known,
    g,
    COPY: tl.constexpr,
    LIMITED: tl.constexpr,
    BLOCK: tl.constexpr,
    TOO_LARGE: tl.constexpr,
):
    """Update one block of one part if its gradient is finite."""
    if tl.sum((tl.abs(g) < TOO_LARGE).to(tl.int32), 0) < BLOCK:
        tl.store(finite + model, False)
    else:
        _move(
            parameters, first, second, working, rates + model * 5, limits + model * 3,
            within, place, known, g, COPY, LIMITED,
        )  # fmt: skip


@triton.jit
def _move(
    parameters,
    first,
    second,
    working,
    rates,
    limits,
    within,
    place,
    known,
    g,
    COPY: tl.constexpr,
    LIMITED: tl.constexpr,
):
    """Apply the Adam update to one block with a finite gradient."""
    m = tl.load(first + place, mask=known, other=0.0)
    v = tl.load(second + place, mask=known, other=0.0)
    p = tl.load(parameters + place, mask=known, other=0.0)
    if LIMITED:
        g *= tl.load(limits + 1)
        if within > 0:
            largest = tl.load(limits + 2)
            g = tl.minimum(tl.maximum(g, -largest), largest)
            p *= 1 - tl.load(limits)
    m += tl.load(rates + 1) * (g - m)
    v += tl.load(rates + 2) * (g * g - v)
    p -= tl.load(rates) * m / (tl.sqrt(v) * tl.load(rates + 3) + tl.load(rates + 4))
    tl.store(first + place, m, mask=known)
    tl.store(second + place, v, mask=known)
    tl.store(parameters + place, p, mask=known)
    if COPY:
        tl.store(working + place, p.to(working.dtype.element_ty), mask=known)
