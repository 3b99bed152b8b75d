"""Codes and KL divergences on a GPU: one pass over the posteriors, forward and backward.

z = μ + σ ε,                          ∂z / ∂μ = 1,     ∂z / ∂ log σ² = ½ σ ε
KL = ½ Σ (μ² + σ² - log σ² - 1),      ∂KL / ∂μ = μ,    ∂KL / ∂ log σ² = ½ (σ² - 1)
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["gradients", "rows_of", "sample_and_kl"]

BLOCK = 512


def sample_and_kl(mu: Tensor, logvar: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return codes `[..., d]` and KL divergences `[...]`, from tensors `[..., d]`."""
    return _SampleAndKL.apply(mu, logvar, noise)


class _SampleAndKL(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, mu: Tensor, logvar: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        context.save_for_backward(mu, logvar, noise)
        z, kl = mu.new_empty(mu.shape), mu.new_empty(mu.shape[:-1])
        tensors = [rows_of(mu), rows_of(logvar), rows_of(noise)]
        _launch(_forward_kernel, tensors, z, kl)
        return z, kl

    @staticmethod
    def backward(context: Any, of_z: Tensor, of_kl: Tensor) -> tuple[Tensor | None, ...]:
        mu, logvar, noise = context.saved_tensors
        # For second derivatives, or the gradient of the noise, which training does not need.
        if torch.is_grad_enabled() or context.needs_input_grad[2]:
            sigma, weight = (logvar / 2).exp(), of_kl[..., None]
            of_logvar = 0.5 * (of_z * noise * sigma + weight * logvar.expm1())
            return of_z + weight * mu, of_logvar, of_z * sigma
        return *gradients(mu, logvar, noise, of_z, of_kl), None


def gradients(
    mu: Tensor, logvar: Tensor, noise: Tensor, of_z: Tensor, of_kl: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ∂ / ∂μ and ∂ / ∂ log σ² of Σ z of_z + Σ KL of_kl."""
    of_mu, of_logvar = mu.new_empty(mu.shape), logvar.new_empty(mu.shape)
    tensors = [rows_of(mu), rows_of(logvar), rows_of(noise), rows_of(of_z)]
    _launch(_backward_kernel, tensors, of_kl.contiguous(), of_mu, of_logvar)
    return of_mu, of_logvar


def rows_of(tensor: Tensor) -> Tensor:
    """Reshape `[..., d]` to `[rows, d]`, without copying half of an encoder's output."""
    rows = tensor.reshape(-1, tensor.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _launch(kernel: Any, inputs: list[Tensor], *dense: Tensor) -> None:
    rows, latents = inputs[0].shape
    width = triton.next_power_of_2(latents)
    height = max(1, BLOCK // width)
    strides = [tensor.stride(0) for tensor in inputs]
    kernel[(triton.cdiv(rows, height),)](*inputs, *dense, *strides, rows, latents, height, width)


@triton.jit
def _forward_kernel(
    mu,
    logvar,
    noise,
    z,
    kl,
    mu_stride,
    logvar_stride,
    noise_stride,
    rows,
    latents,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row, latent, known = _places(rows, latents, HEIGHT, WIDTH)
    m = tl.load(mu + row * mu_stride + latent, mask=known, other=0.0)
    v = tl.load(logvar + row * logvar_stride + latent, mask=known, other=0.0)
    e = tl.load(noise + row * noise_stride + latent, mask=known, other=0.0)
    sigma, excess = _spread(v)
    tl.store(z + row * latents + latent, m + sigma * e, mask=known)
    # Masked entries count as the prior, whose divergence is 0.
    divergence = 0.5 * tl.sum(m.to(tl.float64) * m + excess - v, 1, keep_dims=True)
    tl.store(kl + row, divergence.to(kl.dtype.element_ty), mask=row < rows)


@triton.jit
def _backward_kernel(
    mu,
    logvar,
    noise,
    of_z,
    of_kl,
    of_mu,
    of_logvar,
    mu_stride,
    logvar_stride,
    noise_stride,
    z_stride,
    rows,
    latents,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row, latent, known = _places(rows, latents, HEIGHT, WIDTH)
    m = tl.load(mu + row * mu_stride + latent, mask=known, other=0.0)
    v = tl.load(logvar + row * logvar_stride + latent, mask=known, other=0.0)
    e = tl.load(noise + row * noise_stride + latent, mask=known, other=0.0)
    g = tl.load(of_z + row * z_stride + latent, mask=known, other=0.0)
    weight = tl.load(of_kl + row, mask=row < rows, other=0.0)
    sigma, excess = _spread(v)
    slope = 0.5 * (g * e * sigma + weight * excess.to(tl.float32))
    tl.store(of_mu + row * latents + latent, g + weight * m, mask=known)
    tl.store(of_logvar + row * latents + latent, slope, mask=known)


@triton.jit
def _places(rows, latents, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    latent = tl.arange(0, WIDTH)[None, :]
    return row, latent, (row < rows) & (latent < latents)


@triton.jit
def _spread(logvar):
    """Return σ, and σ² - 1 in double precision to avoid cancellation."""
    sigma = tl.exp(0.5 * logvar.to(tl.float64))
    return sigma.to(tl.float32), sigma * sigma - 1
