r"""MS-FLOW: a mixture of normals models the coarse image, and a flow adds the details.

    log p(x) ≥ E_p(c|x) [log p(x | y_c)] - KL(p(c | x) ‖ p(c))

A mixture of ten normals with components c is fitted by EM. Y is the mean of a component sampled
from p(c | x), or a sample from that component. A conditional flow models p(x | y); the mixture is
frozen while the flow is trained.

Shapes: n images of D pixels.

References:
    Improving the Reconstruction of Disentangled Representation Learners via Multi-Stage
    Modelling, Appendix D.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.papers.ms_vae.mixture import PART, Mixture, fit, in_parts
from unweave.progress import lines
from unweave.random import Stream

if TYPE_CHECKING:
    from unweave.papers.ms_vae.coupling import ConditionalFlow

__all__ = [
    "CONDITIONS",
    "FlowConfig",
    "MsFlow",
    "from_logits",
    "require_zuko",
    "to_logits",
    "train",
]

ALPHA = 1e-6
"""Distance of pixels from 0 and 1, whose logits are infinite."""
CONDITIONS = ("means", "samples")


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowConfig:
    """Training configuration, with the published values as defaults.

    Args:
        num_components: Components of the mixture.
        em_epochs: EM updates of the mixture.
        condition: Input of the flow: the mean of a component (`means`) or a sample from it
            (`samples`).
        couplings: Number of couplings.
        width: Width of the hidden layers of both networks of a coupling.
        rate: Learning rate of Adam.
        batch: Images per step.
        epochs: Training epochs of the flow.
        seed: Seed of all random numbers.
    """

    num_components: int = 10
    em_epochs: int = 10
    condition: str = "means"
    couplings: int = 5
    width: int = 1000
    rate: float = 1e-3
    batch: int = 1000
    epochs: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.condition not in CONDITIONS:
            raise UnknownNameError("condition", self.condition, CONDITIONS)
        for name in ("num_components", "couplings", "width", "rate", "batch"):
            if getattr(self, name) <= 0:
                raise DataError(
                    f"{name} must be positive, got {getattr(self, name)}",
                    subject=name,
                    value=getattr(self, name),
                )


@dataclass(frozen=True, eq=False)
class MsFlow:
    """A trained mixture and flow.

    Args:
        mixture: First stage.
        flow: Second stage, in evaluation mode.
        config: Training configuration.
        history: A row per epoch: `epoch`, `step`, `training` (mean log p(x | y) of its batches,
            each with its own statistics) and `held_out` (in evaluation mode; NaN without held-out
            images).
    """

    mixture: Mixture
    flow: "ConditionalFlow"
    config: FlowConfig
    history: pd.DataFrame

    def conditions(self, x: Tensor, purpose: str = "condition", step: int = 0) -> Tensor:
        """Y for images `[n, D]`: the mean of a sampled component, or a sample from it."""
        key = torch.tensor(self.config.seed, device=x.device)
        components = self.mixture.draw(x, Stream(key, f"component for {purpose}", step))
        if self.config.condition == "means":
            return self.mixture.means[components]
        return self.mixture.around(components, Stream(key, f"point for {purpose}", step))

    def evaluate(self, x: Tensor) -> dict[str, float]:
        """Compute mean nats per image `[n, D]`, in evaluation mode.

        Returns:
            `mixture`: log p(x) of the first stage; `conditional`: log p(x | y); `kl`:
            KL(p(c | x) ‖ p(c)); `bound`: `conditional` minus `kl`, a lower bound of log p(x).
        """
        conditional = _mean(self.flow.log_densities(x, self.conditions(x, "evaluation")))
        kl = _mean(self.mixture.kl_to_weights(x))
        return {
            "mixture": _mean(self.mixture.log_density(x)),
            "conditional": conditional,
            "kl": kl,
            "bound": conditional - kl,
        }

    def sample(self, x: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Y of images `[n, D]`, and new images sampled given the same Y, `[n, D]` each."""
        y = self.conditions(x, "sample")
        return y, self.flow.sample(y, seed)


def to_logits(pixels: np.ndarray | Tensor, seed: int = 0) -> Tensor:
    """Dequantise pixels 0 … 255 `[n, D]`, x / 255 + U / 256 in [0, 1], and return logits."""
    found = torch.as_tensor(np.asarray(pixels))
    noise = in_parts(Stream(seed, "dequantise").uniform, len(found), found)
    shares = (found.float() / 255 + noise / 256).clamp(0, 1)
    # In float64, since float32 rounds 1 - 1e-6.
    logits = [torch.logit(ALPHA + (1 - 2 * ALPHA) * part.double()) for part in shares.split(PART)]
    return torch.cat([part.float() for part in logits])


def from_logits(x: Tensor) -> np.ndarray:
    """Convert logits to pixels 0 … 255, as bytes."""
    shares = (torch.sigmoid(x.double()) - ALPHA) / (1 - 2 * ALPHA)
    return (255 * shares).round().clamp(0, 255).to(torch.uint8).cpu().numpy()


def train(
    x: Tensor,
    config: FlowConfig | None = None,
    *,
    held_out: Tensor | None = None,
    mixture: Mixture | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> MsFlow:
    """Fit the mixture, then train the flow.

    Args:
        x: Images `[n, D]` from `to_logits`, or other real-valued data.
        config: Training configuration (default: the published one).
        held_out: Images whose log density is recorded after each epoch.
        mixture: Fitted first stage (default: fit one).
        device: Device, `cpu` or `cuda`.
        progress: Whether to show progress.
    """
    require_zuko()
    from unweave.papers.ms_vae.coupling import ConditionalFlow

    config = config or FlowConfig()
    if x.ndim != 2 or x.shape[1] < 2 or not x.isfinite().all():
        raise DataError(
            f"x must be finite and of shape [n, D] with D ≥ 2, got {list(x.shape)}",
            subject="x",
            value=tuple(x.shape),
        )
    x = x.to(device)
    held_out = None if held_out is None else held_out.to(device)
    if mixture is None:
        mixture = fit(x, config.num_components, config.em_epochs, config.seed, progress)
    features = x.shape[1]
    flow = ConditionalFlow(features, features, config.couplings, config.width, config.seed)
    flow.to(device)
    optimiser = torch.optim.Adam(flow.parameters(), lr=config.rate, fused=True)
    rows: list[dict[str, Any]] = []
    model = MsFlow(mixture, flow, config, pd.DataFrame())
    with lines({f"flow on {config.condition}": config.epochs}, progress) as advance:
        for epoch in range(config.epochs):
            training = _epoch(model, optimiser, x, epoch)
            row: dict[str, Any] = {"epoch": epoch + 1, "step": (epoch + 1) * _steps(x, config)}
            row |= {"training": training, "held_out": float("nan")}
            if held_out is not None or epoch + 1 == config.epochs:
                flow.settle(x, model.conditions(x, "settle", epoch))
            if held_out is not None:
                y = model.conditions(held_out, "evaluation")
                row["held_out"] = _mean(flow.log_densities(held_out, y))
            rows.append(row)
            advance(f"flow on {config.condition}", 1)
    flow.eval()
    return MsFlow(mixture, flow, config, pd.DataFrame(rows))


def require_zuko() -> None:
    """Raise an error with installation instructions if zuko is not installed."""
    if find_spec("zuko") is None:
        raise UnweaveError("zuko is not installed; run pip install 'unweave[flow]'")


def _epoch(model: MsFlow, optimiser: torch.optim.Optimizer, x: Tensor, epoch: int) -> float:
    """Train for one epoch in a new random order; return the mean log p(x | y)."""
    config, flow = model.config, model.flow
    flow.train()
    steps = _steps(x, config)
    key = torch.tensor(config.seed, device=x.device)
    order = Stream(key, "order", epoch).uniform64(len(x)).argsort()
    densities = []
    for place, rows in enumerate(order[: steps * config.batch].split(config.batch)):
        y = model.conditions(x[rows], "training", epoch * steps + place)
        nats = flow.log_density(x[rows], y).mean()
        optimiser.zero_grad()
        (-nats).backward()
        optimiser.step()
        densities.append(nats.detach())
    found = _mean(torch.stack(densities))
    if not np.isfinite(found):
        raise UnweaveError(
            f"the log density is not finite in epoch {epoch + 1}; use a rate below "
            f"{config.rate:g} or a larger batch",
            subject="rate",
            value=config.rate,
        )
    return found


def _steps(x: Tensor, config: FlowConfig) -> int:
    """Number of full batches in an epoch; the rest is skipped, as its statistics would be poor."""
    return max(1, len(x) // config.batch)


def _mean(nats: Tensor) -> float:
    return float(nats.double().mean())
