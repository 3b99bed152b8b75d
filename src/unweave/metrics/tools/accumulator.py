"""Metrics for training loops: collect batches of codes and score them together."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.errors import UnknownNameError
from unweave.io.arguments import check_seed
from unweave.io.arrays import on_host
from unweave.metrics.base import Metric, MetricError, check_rows
from unweave.text import canonical_name

__all__ = ["Accumulator"]

WITH_FACTORS = ("factors", "pairs", "densities")


class Accumulator:
    """A metric with the methods of torchmetrics: `update`, `compute` and `reset`.

    The score is the same as that of the metric for all batches together. The rows are kept in
    memory until `reset`, because no disentanglement metric is a mean over batches.

    Args:
        metric: Name of a metric, an entry of `METRICS`, or a function `(codes, factors, seed,
            **options)`.
        seed: Random seed of the metric.
        options: Options of the metric that are the same for all rows.

    Example:
        >>> import torch
        >>> import unweave as uw
        >>> mig = uw.metrics.Accumulator("mig")
        >>> factors = torch.cartesian_prod(torch.arange(4), torch.arange(5))
        >>> for batch in factors.split(8):
        ...     mig.update(batch.float(), batch)
        >>> len(mig), mig.compute()
        (20, {'mig': 1.0})
        >>> mig.reset()
        >>> len(mig)
        0
    """

    def __init__(
        self,
        metric: str | Metric | Callable[..., dict[str, float]],
        seed: int = 0,
        **options: Any,
    ) -> None:
        from unweave.metrics import find_metric

        if isinstance(metric, str):
            metric = find_metric(canonical_name(metric))
        self.metric = metric if isinstance(metric, Metric) else Metric.of_function(metric)
        self.seed, self.options = check_seed(seed), options
        self._batches: dict[str, list[np.ndarray]] = {}
        self._check_options(options)

    def __len__(self) -> int:
        return sum(map(len, self._batches.get("codes", [])))

    def __repr__(self) -> str:
        return f"Accumulator({self.metric.name!r}, {len(self):,} rows)"

    def update(self, codes: Any, factors: Any = None, **arrays: Any) -> None:
        """Add a batch: arrays or tensors on any device, with or without gradients.

        Args:
            codes: Codes `[n, d]`.
            factors: Factors `[n, K]`, if the metric needs them.
            arrays: Further inputs of the metric with one row per image, such as `logvars`.
        """
        name = self.metric.name
        if factors is None and self.metric.needs in WITH_FACTORS:
            raise MetricError(
                f"{name} needs factors; pass them to update with the codes", subject="factors"
            )
        self._check_options(arrays)
        given = {"codes": codes, "factors": factors, **arrays}
        # A copy, since a training loop may write into its tensors again.
        batch = {key: np.array(on_host(rows)) for key, rows in given.items() if rows is not None}
        for key, rows in batch.items():
            if rows.ndim == 0:
                raise MetricError.expected(key, "have one row per image", "a single number")
        check_rows(batch["codes"], **{key: batch[key] for key in batch if key != "codes"})
        self._check_like_before(batch)
        for key, rows in batch.items():
            self._batches.setdefault(key, []).append(rows)

    def compute(self) -> dict[str, float]:
        """Return the scores of all rows since the start or the last `reset`."""
        if not self._batches:
            raise MetricError(
                f"{self.metric.name} has no codes yet; call update before compute",
                subject="codes",
            )
        joined = {key: np.concatenate(batches) for key, batches in self._batches.items()}
        codes, factors = joined.pop("codes"), joined.pop("factors", None)
        return self.metric(codes, factors, self.seed, **joined, **self.options)

    def reset(self) -> None:
        """Forget all batches."""
        self._batches.clear()

    def _check_options(self, options: dict[str, Any]) -> None:
        """Check that the metric has these arguments, and none twice."""
        arguments = inspect.signature(self.metric.function).parameters
        if any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values()):
            return
        valid = [name for name in arguments if name not in ("codes", "factors", "seed")]
        for name in options:
            if name not in valid:
                raise UnknownNameError(f"option of {self.metric.name}", name, valid)

    def _check_like_before(self, batch: dict[str, np.ndarray]) -> None:
        """Check that a batch has the same arrays as the batches before, with the same columns."""
        for key in batch:
            if key in self.options:
                raise MetricError(
                    f"{key} must be passed to update or to Accumulator, not to both", subject=key
                )
        if not self._batches:
            return
        if batch.keys() != self._batches.keys():
            (key, *_) = sorted(batch.keys() ^ self._batches.keys())
            raise MetricError(
                f"{key} must be passed to every update or to none; call reset to start again",
                subject=key,
            )
        for key, rows in batch.items():
            shape = self._batches[key][0].shape[1:]
            if rows.shape[1:] != shape:
                if len(shape) == len(rows.shape[1:]) == 1:
                    wanted, got = f"have {shape[0]} columns", rows.shape[1]
                else:
                    wanted, got = f"have rows of shape {list(shape)}", list(rows.shape[1:])
                raise MetricError.expected(key, f"{wanted} as in the batches before", got)
