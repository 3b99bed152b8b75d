"""What an encoder says of images: a normal distribution of codes for each.

Shapes: M models of a fleet, B images per model and step, d latents.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from unweave.kernels.dispatch import fused

__all__ = ["Posterior"]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Diagonal normal distributions `q(z|x)`: mean and log-variance, each `[M, B, d]`."""

    mu: Tensor
    logvar: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """z = μ + σ ε."""
        return self.mu + (self.logvar / 2).exp() * noise

    def kl(self) -> Tensor:
        """KL(q(z|x) ‖ N(0, I)) = ½ Σ (μ² + σ² - log σ² - 1) of every image, in nats, `[M, B]`."""
        return 0.5 * (self.mu**2 + self.logvar.expm1() - self.logvar).sum(-1)

    def sample_and_kl(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """z and KL(q(z|x) ‖ N(0, I)), which a GPU computes in one pass."""
        if fused(self.mu) and self.mu.shape == self.logvar.shape == noise.shape:
            from unweave.kernels import gpu_latents

            return gpu_latents.sample_and_kl(self.mu, self.logvar, noise)
        return self.sample(noise), self.kl()

    def log_density(self, z: Tensor) -> Tensor:
        """log q(z_l | x) of every latent, for z that broadcasts against the mean."""
        return -0.5 * (
            (z - self.mu) ** 2 * (-self.logvar).exp() + self.logvar + math.log(2 * math.pi)
        )
