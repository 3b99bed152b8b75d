r"""What two stages know: whether the second keeps to the code of the first, and what each holds.

With E the mean encoder of the first stage, Y its image, G the second stage and ε noise, the codes

    C^R = E(X),   C^Y = E(Y),   C^X = E(G(Y, Z)),   C^rZ = E(G(Y, ε)),   C^rY = E(G(ε, Z))

are compared with those of the data,

    MI[C^R; C] = 1/n Σ_i I(c_i; c^R_i) / H(c^R_i),     each code cut into 20 bins of equal width,

    M1 = MI[C^R; C^Y],   M2 = MI[C^R; C^X],   M3 = MI[C^R; C^rZ],   M4 = MI[C^R; C^rY].

M1 is what the first stage's own image keeps of its code, M2 what the second stage's image keeps,
M3 the same whatever the second code is, and M4 what would be left without the first code.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import MetricError, Table, check_codes, table
from unweave.metrics.discretise import bins, entropy, mutual_information
from unweave.nets.device import chosen_device
from unweave.random import Stream

__all__ = ["predictions", "shared_information", "shared_per_code", "terms"]

BINS = 20
HIDDEN = 256
LEARNING_RATE = 1e-3
TRAINED_SHARE = 0.8
ROWS_AT_ONCE = 4_096


def terms(real: Any, of_y: Any, of_x: Any, of_random_z: Any, of_random_y: Any) -> dict[str, float]:
    """M1 to M4, each from 0 (nothing of the code is kept) to 1 (all of it is).

    Args:
        real: C^R, the first stage's mean codes of the data, `[n, d]`.
        of_y: C^Y, of the first stage's images, row by row those of the same data.
        of_x: C^X, of the second stage's images.
        of_random_z: C^rZ, with the second code drawn from its prior.
        of_random_y: C^rY, with the first stage's image replaced by that of other data, or noise.

    Returns:
        `m1`, `m2`, `m3` and `m4`.
    """
    others = {"m1": of_y, "m2": of_x, "m3": of_random_z, "m4": of_random_y}
    return {name: shared_information(real, codes) for name, codes in others.items()}


def shared_information(real: Any, codes: Any, *, count: int = BINS) -> float:
    """MI[C^R; C], the mean of `shared_per_code`.

    Notes:
        Codes that are the same for all data have nothing to keep and are left out. Codes that
        have nothing in common share about (20 - 1)² / 2n / H, since bins are finite.

    Example:
        >>> real = np.random.default_rng(0).uniform(size=(10_000, 3))
        >>> round(shared_information(real, 2 - real), 2)
        1.0
        >>> round(shared_information(real, real[::-1]), 2)
        0.01
    """
    shares = shared_per_code(real, codes, count=count)
    if np.isnan(shares).all():
        raise MetricError("all codes of the data are constant; there is nothing to keep")
    return float(np.nanmean(shares))


def shared_per_code(real: Any, codes: Any, *, count: int = BINS) -> np.ndarray:
    """I(c_i; c^R_i) / H(c^R_i) of each code, `[d]`; NaN where c^R_i is constant.

    Args:
        real: C^R, `[n, d]`.
        codes: C, of the same shape.
        count: Bins per code.
    """
    real, codes = check_codes(real, "the codes of the data"), check_codes(codes)
    if real.shape != codes.shape:
        raise MetricError(
            "codes are compared one by one, so both sides need the same shape, but got "
            f"{list(real.shape)} and {list(codes.shape)}"
        )
    known, seen = bins(real, count), bins(codes, count)
    shared = [
        mutual_information(a[:, None], b[:, None]).item()
        for a, b in zip(known.T, seen.T, strict=True)
    ]
    total = entropy(known)
    return np.divide(shared, total, out=np.full(len(total), np.nan), where=total > 0)


def predictions(
    codes_c: Any,
    codes_z: Any,
    factors: Any,
    seed: int = 0,
    *,
    steps: int = 2_000,
    batch: int = 128,
    device: str | torch.device | None = None,
) -> pd.DataFrame:
    """How well each factor is predicted from the first code, from the second, and from both.

    A network of two layers of 256 units per factor and code learns from four fifths of the rows,
    drawn, by Adam, and is tested on the others.

    Args:
        codes_c: C, the first stage's codes, `[n, d]`.
        codes_z: Z, the second stage's codes, `[n, e]`.
        factors: `[n, K]`, of which those with one value are left out.
        seed: Of the split, of the weights and of the batches.
        steps: Of training.
        batch: Rows per step.
        device: By default a GPU where there is one.

    Returns:
        A row per factor: its number `factor`, the test accuracies `c`, `z` and `both`, and
        `most_frequent`, that of always saying the most frequent value.

    Notes:
        Codes are brought to mean 0 and standard deviation 1 over the rows that are learned from.
    """
    codes_c, codes_z = check_codes(codes_c, "C"), check_codes(codes_z, "Z")
    if len(codes_c) != len(codes_z):
        raise MetricError(
            f"both codes must have the same rows, but got {len(codes_c):,} and {len(codes_z):,}"
        )
    rows = table(np.concatenate([codes_c, codes_z], 1), factors)
    order = numpy_rng(seed).permutation(len(rows))
    border = int(TRAINED_SHARE * len(rows))
    learned, tested = rows.rows(order[:border]), rows.rows(order[border:])
    predictors = _Predictors.start(rows, codes_c.shape[1], seed, chosen_device(device))
    inputs = [_scaled(part.codes, learned.codes) for part in (learned, tested)]
    predictors.learn(inputs[0], learned.factors, seed, steps, batch)
    found = predictors.accuracies(inputs[1], tested.factors)
    frequent = [np.bincount(column).argmax() for column in learned.factors.T]
    return pd.DataFrame(
        {
            "factor": rows.columns,
            **dict(zip(("c", "z", "both"), found, strict=True)),
            "most_frequent": (tested.factors == frequent).mean(0),
        }
    )


@dataclass(frozen=True, eq=False)
class _Predictors:
    """A network for each code or both (3) and each factor (K), side by side.

    Args:
        weights: Weights and biases of three layers in turn, each for 3K networks.
        seen: Which columns of the codes a network sees, `[3K, 1, d + e]`, 1 or 0.
        impossible: Which answers its factor does not have, `[3K, 1, most values]`.
    """

    weights: list[Tensor]
    seen: Tensor
    impossible: Tensor

    @classmethod
    def start(cls, rows: Table, width: int, seed: int, device: torch.device) -> "_Predictors":
        """Normal weights of variance 2 / inputs, and biases of 0."""
        first = torch.arange(rows.codes.shape[1]) < width
        kinds = torch.stack([first, ~first, first | ~first]).float()
        seen = kinds.repeat_interleave(len(rows.sizes), 0)[:, None]
        values = torch.as_tensor(rows.sizes)
        impossible = (torch.arange(int(values.max())) >= values[:, None]).repeat(3, 1)[:, None]
        weights = []
        widths = (seen.shape[2], HIDDEN, HIDDEN, impossible.shape[2])
        for layer, (above, below) in enumerate(pairwise(widths)):
            drawn = Stream(seed, f"weights {layer}").normal(len(seen), above * below)
            inputs = seen.sum(2, keepdim=True) if layer == 0 else torch.tensor(float(above))
            weight = drawn.reshape(-1, above, below) * (2 / inputs).sqrt()
            weights += [weight, torch.zeros(len(seen), 1, below)]
        placed = [part.to(device).requires_grad_() for part in weights]
        return cls(placed, seen.to(device), impossible.to(device))

    def learn(
        self, codes: np.ndarray, factors: np.ndarray, seed: int, steps: int, batch: int
    ) -> None:
        inputs = torch.as_tensor(codes, device=self.seen.device)
        answers = torch.as_tensor(factors, device=self.seen.device)
        optimiser = torch.optim.Adam(self.weights, LEARNING_RATE)
        seeds = torch.tensor(seed, device=self.seen.device)
        for step in range(steps):
            drawn = Stream(seeds, "predictions", step).integers(len(inputs), batch, 1)[:, 0]
            wanted = answers[drawn].T.repeat(3, 1)
            losses = cross_entropy(self.logits(inputs[drawn]).mT, wanted, reduction="none")
            optimiser.zero_grad()
            # Summed over networks, so that each learns as it would alone.
            losses.mean(1).sum().backward()
            optimiser.step()

    def logits(self, codes: Tensor) -> Tensor:
        """What all networks say of codes `[n, d + e]`, `[3K, n, most values]`."""
        hidden = codes * self.seen
        for layer in range(0, len(self.weights), 2):
            hidden = hidden if layer == 0 else hidden.relu()
            hidden = torch.baddbmm(self.weights[layer + 1], hidden, self.weights[layer])
        return hidden.masked_fill(self.impossible, -torch.inf)

    @torch.no_grad()
    def accuracies(self, codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """The share of right answers, `[3, K]`."""
        parts = torch.as_tensor(codes, device=self.seen.device).split(ROWS_AT_ONCE)
        said = torch.cat([self.logits(part).argmax(2) for part in parts], 1).cpu().numpy()
        return (said.reshape(3, -1, len(codes)) == factors.T).mean(2)


def _scaled(codes: np.ndarray, learned: np.ndarray) -> np.ndarray:
    mean, spread = learned.mean(0), learned.std(0)
    return ((codes - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)
