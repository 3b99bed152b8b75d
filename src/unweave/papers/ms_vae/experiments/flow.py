r"""MS-FLOW: a mixture of normals says roughly which image it is, a flow adds the rest.

    log p(x) ≥ E_p(c|x) [log p(x | y_c)] - KL(p(c | x) ‖ p(c))

First a mixture of ten normals with components c, fitted by EM. Then Y, the mean of a component
drawn from p(c | x), or a point drawn from it; then a conditional flow p(x | y). The mixture is
kept as it is while the flow learns.

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
from unweave.papers.ms_vae.experiments.mixture import PART, Mixture, fit, in_parts
from unweave.progress import lines
from unweave.random import Stream

if TYPE_CHECKING:
    from unweave.papers.ms_vae.experiments.coupling import ConditionalFlow

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
"""How far pixels are kept from 0 and 1, whose logits are not finite."""
CONDITIONS = ("means", "samples")


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowConfig:
    """What to train; the defaults are the published ones.

    Args:
        num_components: Of the mixture.
        em_epochs: Updates of the mixture.
        condition: What the flow is given of a component: its mean (`means`) or a point drawn from
            it (`samples`).
        couplings: How many.
        width: Of the hidden layers of both networks of a coupling.
        rate: Adam's learning rate.
        batch: Images per step.
        epochs: Times that the flow sees every image.
        seed: Of everything that is drawn.
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
                raise DataError(f"{name} must be above 0, but got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class MsFlow:
    """A trained mixture and flow.

    Args:
        mixture: The first stage.
        flow: The second stage, in evaluation mode.
        config: What was trained.
        history: A row per epoch: `epoch`, `step`, `training` (the mean log p(x | y) of its
            batches, each by its own statistics) and `held_out` (in evaluation mode; empty where
            no images were held out).
    """

    mixture: Mixture
    flow: "ConditionalFlow"
    config: FlowConfig
    history: pd.DataFrame

    def conditions(self, x: Tensor, purpose: str = "condition", step: int = 0) -> Tensor:
        """Y for images `[n, D]`: the mean of a component of each, or a point of it."""
        return _conditions(self.mixture, x, self.config, purpose, step)

    def evaluate(self, x: Tensor) -> dict[str, float]:
        """Nats per image `[n, D]`, in evaluation mode.

        Returns:
            `mixture`: log p(x) of the first stage; `conditional`: log p(x | y); `kl`:
            KL(p(c | x) ‖ p(c)); `bound`: their difference, which log p(x) is not below.
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
        """Y of images `[n, D]`, and new images of the same Y, `[n, D]` each."""
        y = self.conditions(x, "sample")
        return y, self.flow.sample(y, seed)


def to_logits(pixels: np.ndarray | Tensor, seed: int = 0) -> Tensor:
    """Pixels 0 … 255 `[n, D]` as real numbers: x / 255 + U / 256 in [0, 1], then its logit.

    Args:
        pixels: Bytes.
        seed: Of the noise U in [0, 1), which makes densities of bytes finite.
    """
    found = torch.as_tensor(np.asarray(pixels))
    noise = in_parts(Stream(seed, "dequantise").uniform, len(found), found)
    shares = (found.float() / 255 + noise / 256).clamp(0, 1)
    # In float64, where 1 - 1e-6 keeps its digits.
    logits = [torch.logit(ALPHA + (1 - 2 * ALPHA) * part.double()) for part in shares.split(PART)]
    return torch.cat([part.float() for part in logits])


def from_logits(x: Tensor) -> np.ndarray:
    """The pixels 0 … 255 of real numbers, as bytes."""
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
        x: Images `[n, D]` as `to_logits` makes them, or any real numbers.
        config: What to train; as published unless given.
        held_out: Images of which the log density is followed.
        mixture: A first stage that is there already.
        device: `cpu` or `cuda`.
        progress: Whether to show any.
    """
    require_zuko()
    from unweave.papers.ms_vae.experiments.coupling import ConditionalFlow

    config = config or FlowConfig()
    if x.ndim != 2 or x.shape[1] < 2 or not x.isfinite().all():
        raise DataError(f"a flow needs finite points [n, D] with D ≥ 2, but got {list(x.shape)}")
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
    """Say how to install zuko where it is missing."""
    if find_spec("zuko") is None:
        raise UnweaveError("flows need zuko, which is not here: pip install 'unweave[flow]'")


def _epoch(model: MsFlow, optimiser: torch.optim.Optimizer, x: Tensor, epoch: int) -> float:
    """Every image once, in a new order; the mean log p(x | y)."""
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
            f"the log density is no longer finite in epoch {epoch + 1}; lower the rate "
            f"({config.rate:g}), or train on larger batches"
        )
    return found


def _conditions(
    mixture: Mixture, x: Tensor, config: FlowConfig, purpose: str, step: int
) -> Tensor:
    key = torch.tensor(config.seed, device=x.device)
    components = mixture.draw(x, Stream(key, f"component for {purpose}", step))
    if config.condition == "means":
        return mixture.means[components]
    return mixture.around(components, Stream(key, f"point for {purpose}", step))


def _steps(x: Tensor, config: FlowConfig) -> int:
    """Whole batches in an epoch; the rest is left out, since few images have poor statistics."""
    return max(1, len(x) // config.batch)


def _mean(nats: Tensor) -> float:
    return float(nats.double().mean())
