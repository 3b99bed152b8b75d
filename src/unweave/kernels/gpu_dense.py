"""Bias and activation of a dense layer on a GPU, in one pass and in place.

The matrix product itself uses cuBLAS, which is faster than Triton. PyTorch could also add the
bias, but first copies it for every row.
"""

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["finish"]

ROWS, COLUMNS = 8, 256


def finish(y: Tensor, bias: Tensor, slope: float) -> Tensor:
    """Add the bias to y and multiply negative results by `slope`, in place.

    Args:
        y: Matrix product `[M, B, O]`, contiguous.
        bias: Biases `[M, O]`, contiguous for each model.
        slope: Slope of the activation below 0; 0 for a ReLU.
    """
    models, rows, columns = y.shape
    # Only the first axis of a grid may be longer than 65,535.
    grid = (models * triton.cdiv(rows, ROWS), triton.cdiv(columns, COLUMNS))
    _kernel[grid](y, bias, rows, columns, bias.stride(0), slope, ROWS, COLUMNS)
    return y


@triton.jit
def _kernel(
    y,
    bias,
    rows,
    columns,
    bias_stride,
    slope,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    blocks = tl.cdiv(rows, ROWS)
    model = (tl.program_id(0) // blocks).to(tl.int64)
    row = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    known = (row < rows) & (column < columns)
    place = y + model * rows * columns + row * columns + column
    value = tl.load(place, mask=known, other=0.0).to(tl.float32)
    value += tl.load(bias + model * bias_stride + column, mask=column < columns, other=0.0)
    value = tl.where(value > 0, value, value * slope)
    tl.store(place, value.to(y.dtype.element_ty), mask=known)
