"""Densities of codes under the mixture of a batch's posteriors, on a GPU.

joint_j = log Σ_i Π_l q(z_jl|x_i),    product_j = Σ_l log Σ_i q(z_jl|x_i)

for B codes and B components, forward and backward without storing B² d densities. With

G_jil = ∂ / ∂ log q(z_jl|x_i) = W_ji + p_jil of_product_j,
W_ji = of_joint_j Π_l q(z_jl|x_i) / Σ_k Π_l q(z_jl|x_k),    p_jil = q(z_jl|x_i) / Σ_k q(z_jl|x_k)

the gradients are

∂ / ∂z_jl = -Σ_i G_jil (z_jl - μ_il) / σ²_il,    ∂ / ∂μ_il = Σ_j G_jil (z_jl - μ_il) / σ²_il,
∂ / ∂ log σ²_il = ½ Σ_j G_jil ((z_jl - μ_il)² / σ²_il - 1)

of which only W is stored. Logarithms have base 2, which is native on GPUs:

log₂ q = c - u²,    u = (z - μ) s,    s² = log₂ e / 2σ²,    c = -½ log₂ 2πσ²

Every sum has a fixed order, so that results do not depend on the fleet.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels.gpu_latents import rows_of

__all__ = ["gradients", "log_mixtures"]

BLOCK = 512
TILE = (16, 128)
"""Tile of codes and components in the kernels that sum over components or write W."""
DEEP_TILE = (2, 32, 32)
"""Tile of latents, codes and components in the kernels that read W, once for both latents.

Latents times codes or components must stay below the 128 threads of a program. Otherwise Triton
chooses the layout of a tile by the loads for one code, and converts all of it again for W.
"""

LN_2 = math.log(2)
PARTS = tl.constexpr(4)  # z, μ, s and c
LOG2_E = tl.constexpr(1 / LN_2)
LOG2_2PI = tl.constexpr(math.log2(2 * math.pi))
CURVATURE = tl.constexpr(2 * LN_2)  # 1 / σ² = 2 ln 2 s²
SCALE_OF_1 = tl.constexpr(math.sqrt(0.5 / LN_2))  # s where σ is 1
LOWEST = tl.constexpr(-3e38)


def log_mixtures(z: Tensor, mu: Tensor, logvar: Tensor) -> tuple[Tensor, Tensor]:
    """log Σ_i Π_l q(z_jl|x_i) and Σ_l log Σ_i q(z_jl|x_i), `[M, B]`, for tensors `[M, B, d]`."""
    return _LogMixtures.apply(z, mu, logvar)


class _LogMixtures(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, z: Tensor, mu: Tensor, logvar: Tensor) -> tuple[Tensor, Tensor]:
        columns = _columns(z, mu, logvar)
        joint, each = _log2_sums(columns, 1), _log2_sums(columns, z.shape[-1])
        context.save_for_backward(z, mu, logvar, columns, joint, each)
        return joint[:, 0] * LN_2, each.sum(1) * LN_2

    @staticmethod
    def backward(context: Any, of_joint: Tensor, of_product: Tensor) -> tuple[Tensor, ...]:
        z, mu, logvar, columns, joint, each = context.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            return _plain_gradients(z, mu, logvar, of_joint, of_product)
        return gradients(columns, joint, each, of_joint, of_product)


def gradients(
    columns: Tensor, joint: Tensor, each: Tensor, of_joint: Tensor, of_product: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """∂ / ∂z, ∂ / ∂μ and ∂ / ∂ log σ² of Σ joint of_joint + Σ product of_product, `[M, B, d]`.

    Args:
        columns: Result of `_columns`.
        joint: `_log2_sums` over all latents together.
        each: `_log2_sums` for each latent.
        of_joint: Gradient of the joint densities, `[M, B]`.
        of_product: Gradient of the products of densities, `[M, B]`.
    """
    models, _, latents, size = columns.shape
    codes, components = (triton.cdiv(size, tile) for tile in TILE)
    weights = columns.new_empty(models, size, size)
    _weights_kernel[(models * codes * components,)](
        columns, joint, of_joint.contiguous(), weights, size, latents, *TILE
    )
    of_z, of_mu, of_logvar = columns.new_empty(3, models, size, latents)
    groups, codes, components = (
        triton.cdiv(length, tile)
        for length, tile in zip((latents, size, size), DEEP_TILE, strict=True)
    )
    given = columns, each, weights, of_product.contiguous()
    _codes_kernel[(models * codes * groups,)](*given, of_z, size, latents, *DEEP_TILE)
    _posteriors_kernel[(models * components * groups,)](
        *given, of_mu, of_logvar, size, latents, *DEEP_TILE
    )
    return of_z, of_mu, of_logvar


def _plain_gradients(
    z: Tensor, mu: Tensor, logvar: Tensor, of_joint: Tensor, of_product: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `gradients` by differentiable formulas, on tensors `[M, j, i, l]`."""
    away, spread = z[:, :, None] - mu[:, None], logvar[:, None]
    pull = away * (-spread).exp()
    log_q = -0.5 * (pull * away + spread + math.log(2 * math.pi))
    weights = log_q.sum(-1).softmax(-1) * of_joint[..., None]
    slope = weights[..., None] + log_q.softmax(2) * of_product[..., None, None]
    of_mu = slope * pull
    of_logvar = 0.5 * slope * (pull * away - 1)
    return -of_mu.sum(2), of_mu.sum(1), of_logvar.sum(1)


def _columns(z: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Return z, μ, s and c, `[M, 4, d, B]`, with each latent contiguous over images."""
    models, size, latents = z.shape
    columns = z.new_empty(models, PARTS.value, latents, size)
    rows = [rows_of(tensor) for tensor in (z, mu, logvar)]
    strides = [tensor.stride(0) for tensor in rows]
    count = models * latents * size
    _columns_kernel[(triton.cdiv(count, BLOCK),)](
        *rows, columns, *strides, count, size, latents, BLOCK
    )
    return columns


def _log2_sums(columns: Tensor, groups: int) -> Tensor:
    """log₂ Σ_i Π_l q(z_jl|x_i), with l in each of `groups` equal groups, `[M, groups, B]`."""
    models, _, latents, size = columns.shape
    sums = columns.new_empty(models, groups, size)
    grid = (models * groups * triton.cdiv(size, TILE[0]),)
    _sums_kernel[grid](columns, sums, size, latents, groups, latents // groups, *TILE)
    return sums


@triton.jit
def _columns_kernel(
    z,
    mu,
    logvar,
    columns,
    z_stride,
    mu_stride,
    logvar_stride,
    count,
    size,
    latents,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    known = place < count
    model, latent, image = place // (latents * size), place // size % latents, place % size
    row = model * size + image
    code = tl.load(z + row * z_stride + latent, mask=known)
    mean = tl.load(mu + row * mu_stride + latent, mask=known)
    spread = tl.load(logvar + row * logvar_stride + latent, mask=known) * LOG2_E
    part = latents * size
    column = columns + model * PARTS * part + latent * size + image
    tl.store(column, code, mask=known)
    tl.store(column + part, mean, mask=known)
    tl.store(column + 2 * part, tl.exp2(-0.5 * spread) * SCALE_OF_1, mask=known)
    tl.store(column + 3 * part, -0.5 * (spread + LOG2_2PI), mask=known)


@triton.jit
def _sums_kernel(
    columns,
    sums,
    size,
    latents,
    groups,
    together,
    CODES: tl.constexpr,
    COMPONENTS: tl.constexpr,
):
    blocks = tl.cdiv(size, CODES)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    code = (tl.program_id(0) % blocks) * CODES + tl.arange(0, CODES)[:, None]
    own = columns + (row // groups) * PARTS * latents * size
    first = (row % groups).to(tl.int32) * together
    # Each entry of a tile has its own sum, so that entries are combined only once.
    largest = tl.full([CODES, COMPONENTS], LOWEST, tl.float32)
    total = tl.zeros([CODES, COMPONENTS], tl.float32)
    for start in range(0, size, COMPONENTS):
        component = start + tl.arange(0, COMPONENTS)[None, :]
        log_q = _log2_density(own, first, together, code, component, size, latents)
        smaller = tl.exp2(-tl.abs(log_q - largest))  # the larger of the two is 1
        grown = log_q > largest
        total = total * tl.where(grown, smaller, 1.0) + tl.where(grown, 1.0, smaller)
        largest = tl.maximum(log_q, largest)
    top = tl.max(largest, 1, keep_dims=True)
    total = tl.sum(total * tl.exp2(largest - top), 1, keep_dims=True)
    tl.store(sums + row * size + code, top + tl.log2(total), mask=code < size)


@triton.jit
def _weights_kernel(
    columns,
    joint,
    of_joint,
    weights,
    size,
    latents,
    CODES: tl.constexpr,
    COMPONENTS: tl.constexpr,
):
    across = tl.cdiv(size, COMPONENTS)
    component = (tl.program_id(0) % across) * COMPONENTS + tl.arange(0, COMPONENTS)[None, :]
    model, code = _model_and_places(tl.program_id(0) // across, size, CODES)
    code = code[:, None]
    own = columns + model * PARTS * latents * size
    log_q = _log2_density(own, 0, latents, code, component, size, latents)
    log_sum = tl.load(joint + model * size + code, mask=code < size, other=0.0)
    slope = tl.load(of_joint + model * size + code, mask=code < size, other=0.0)
    place = weights + (model * size + code) * size + component
    known = (code < size) & (component < size)
    tl.store(place, tl.exp2(log_q - log_sum) * slope, mask=known)


@triton.jit
def _codes_kernel(
    columns,
    each,
    weights,
    of_product,
    of_z,
    size,
    latents,
    LATENTS: tl.constexpr,
    CODES: tl.constexpr,
    COMPONENTS: tl.constexpr,
):
    # Adjacent programs read the same weights.
    groups = tl.cdiv(latents, LATENTS)
    latent = (tl.program_id(0) % groups) * LATENTS + tl.arange(0, LATENTS)[:, None, None]
    model, code = _model_and_places(tl.program_id(0) // groups, size, CODES)
    code = code[None, :, None]
    own = columns + model * PARTS * latents * size
    z, log_sum, slope = _code(own, each, of_product, model, latent, code, size, latents)
    total = tl.zeros([LATENTS, CODES, COMPONENTS], tl.float32)
    for start in range(0, size, COMPONENTS):
        component = start + tl.arange(0, COMPONENTS)[None, None, :]
        known = (component < size) & (latent < latents)
        place = own + latent * size + component
        mean, scale, constant = _component(place, latents * size, known)
        weight = _weight(weights, model, code, component, size)
        u = (z - mean) * scale
        pull = weight + tl.exp2(constant - u * u - log_sum) * slope
        total += pull * (u * scale)
    total = -CURVATURE * tl.sum(total, 2, keep_dims=True)
    place = of_z + (model * size + code) * latents + latent
    tl.store(place, total, mask=(code < size) & (latent < latents))


@triton.jit
def _posteriors_kernel(
    columns,
    each,
    weights,
    of_product,
    of_mu,
    of_logvar,
    size,
    latents,
    LATENTS: tl.constexpr,
    CODES: tl.constexpr,
    COMPONENTS: tl.constexpr,
):
    groups = tl.cdiv(latents, LATENTS)
    latent = (tl.program_id(0) % groups) * LATENTS + tl.arange(0, LATENTS)[:, None, None]
    model, component = _model_and_places(tl.program_id(0) // groups, size, COMPONENTS)
    component = component[None, None, :]
    own = columns + model * PARTS * latents * size
    known = (component < size) & (latent < latents)
    place = own + latent * size + component
    mean, scale, constant = _component(place, latents * size, known)
    of_mean = tl.zeros([LATENTS, CODES, COMPONENTS], tl.float32)
    of_spread = tl.zeros([LATENTS, CODES, COMPONENTS], tl.float32)
    for start in range(0, size, CODES):
        code = start + tl.arange(0, CODES)[None, :, None]
        z, log_sum, slope = _code(own, each, of_product, model, latent, code, size, latents)
        weight = _weight(weights, model, code, component, size)
        u = (z - mean) * scale
        pull = weight + tl.exp2(constant - u * u - log_sum) * slope
        of_mean += pull * u
        of_spread += pull * (CURVATURE * u * u - 1)
    place = (model * size + component) * latents + latent
    of_mean = CURVATURE * scale * tl.sum(of_mean, 1, keep_dims=True)
    tl.store(of_mu + place, of_mean, mask=known)
    tl.store(of_logvar + place, 0.5 * tl.sum(of_spread, 1, keep_dims=True), mask=known)


@triton.jit
def _log2_density(own, first, together, code, component, size, latents):
    """Σ_l log₂ q(z_jl|x_i) over some latents; -∞ for masked components."""
    constants = tl.zeros([1, component.shape[1]], tl.float32)
    squares = tl.zeros([code.shape[0], component.shape[1]], tl.float32)
    for latent in range(first, first + together):
        place = own + latent * size
        z = tl.load(place + code, mask=code < size, other=0.0)
        mean, scale, constant = _component(place + component, latents * size, component < size)
        u = (z - mean) * scale
        constants += constant
        squares += u * u
    return constants - squares


@triton.jit
def _model_and_places(block, size, LENGTH: tl.constexpr):
    """Return the model of a block, in 64 bits, and the indices of its codes or components."""
    blocks = tl.cdiv(size, LENGTH)
    return (block // blocks).to(tl.int64), (block % blocks) * LENGTH + tl.arange(0, LENGTH)


@triton.jit
def _component(place, part, known):
    """Load μ, s and c; masked components and latents have density 0."""
    mean = tl.load(place + part, mask=known, other=0.0)
    scale = tl.load(place + 2 * part, mask=known, other=0.0)
    return mean, scale, tl.load(place + 3 * part, mask=known, other=float("-inf"))


@triton.jit
def _code(own, each, of_product, model, latent, code, size, latents):
    """Load z, log₂ Σ_i q(z|x_i) and its gradient; masked codes have gradient 0."""
    known = (code < size) & (latent < latents)
    z = tl.load(own + latent * size + code, mask=known, other=0.0)
    place = each + (model * latents + latent) * size + code
    log_sum = tl.load(place, mask=known, other=0.0)
    return z, log_sum, tl.load(of_product + model * size + code, mask=code < size, other=0.0)


@triton.jit
def _weight(weights, model, code, component, size):
    place = weights + (model * size + code) * size + component
    return tl.load(place, mask=(code < size) & (component < size), other=0.0)
