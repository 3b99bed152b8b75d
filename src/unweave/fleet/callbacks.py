"""Callbacks: user code that training calls with tables of all models."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import pandas as pd
from torch import Tensor

from unweave.errors import CallbackError, InterruptedTrainingError, UnweaveError
from unweave.models.config import Config
from unweave.progress import say
from unweave.text import shown

__all__ = ["Callback", "Callbacks"]


class Callback:
    """Base class of callbacks; its methods do nothing.

    A table has one row per model of the fleet in training. Its columns are `run` (the name of the
    model's folder), `method`, `seed`, the strengths of the methods, `step`, and the values, which
    are NaN for diverged models and where a method does not have them.

    `on_window` and `on_diagnostics` may return True to stop training as on Ctrl-C. If a method
    raises an exception, training stops in the same way with a `CallbackError`.

    Example:
        >>> import unweave as uw
        >>> class Losses(Callback):
        ...     def on_window(self, table):
        ...         print(table[["beta", "seed", "step"]])
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> method, few = uw.methods.BetaVAE(beta=[1, 4]), {"steps": 2, "batch": 8}
        >>> fleet = uw.train(method, data, callbacks=[Losses()], progress=False, **few)
           beta  seed  step
        0   1.0     0     2
        1   4.0     0     2
    """

    def on_window(self, table: pd.DataFrame) -> bool | None:
        """Called every 100 steps, and after the last step.

        Args:
            table: Mean terms of each model since the last call, such as `loss`, `reconstruction`
                and `kl`.
        """

    def on_diagnostics(self, table: pd.DataFrame) -> bool | None:
        """Called at most 30 times per fleet, and after the last step.

        Args:
            table: Diagnostics of each model: the KL divergence of each latent (`kl_0`, `kl_1`, …)
                and those of the method.
        """

    def on_end(self, result: Any) -> None:
        """Called once, when the call that trains has ended.

        Args:
            result: The trained `Fleet`, the `uw.study.Results` of a study, or None if training
                was interrupted.
        """


class Callbacks:
    """The callbacks of a call, as a context manager that calls `on_end` on exit.

    Exceptions of callbacks are held back until the state of training is saved.

    Args:
        callbacks: A callback or several.
    """

    def __init__(self, callbacks: Iterable[Callback] | Callback | None = None) -> None:
        given = (callbacks,) if isinstance(callbacks, Callback) else callbacks or ()
        self.callbacks: Sequence[Callback] = tuple(given)
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise UnweaveError(
                    f"callbacks must be objects of uw.trackers.Callback, got {shown(callback)}",
                    subject="callbacks",
                    value=callback,
                )
        self.stopping = False
        self.result: Any = None
        self._configs: Sequence[Config] = ()
        self._models = pd.DataFrame()
        self._failure: tuple[str, Exception] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = self._failure is not None
        self.call("on_end", self.result if kind is None else None)
        if self._failure is None:
            return
        if kind is None:
            raise self.interruption("training is finished")
        if not failed:
            say(self._failure[0])

    def call(self, hook: str, argument: Any) -> None:
        """Call a method of every callback; a true result or an exception sets `stopping`."""
        for callback in self.callbacks:
            try:
                stop = bool(getattr(callback, hook)(argument))
            except Exception as error:  # raised by `interruption` when training is saved
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                message = f"{type(callback).__name__}.{hook} failed ({reason})"
                self._failure = self._failure or (message, error)
                stop = True
            self.stopping |= stop

    def report(
        self, hook: str, configs: Sequence[Config], step: int, names: Sequence[str], values: Tensor
    ) -> None:
        """Call a method of every callback with the table of some values, `[names, M]`."""
        if not self.callbacks or not names:
            return
        if configs is not self._configs:
            self._configs, self._models = configs, models_of(configs)
        named = dict(zip(names, values.numpy(), strict=True))
        self.call(hook, self._models.assign(step=step, **named))

    def interruption(self, state: str, step: int | None = None) -> InterruptedTrainingError:
        """Return the error with which training stops, given its state and step."""
        if self._failure is None:
            subject = None if step is None else "step"
            return InterruptedTrainingError(state, subject=subject, value=step)
        message, cause = self._failure
        error = CallbackError(f"{message}; {state}", subject="callbacks", value=cause)
        error.result = self.result
        error.__cause__ = cause
        return error


def models_of(configs: Sequence[Config]) -> pd.DataFrame:
    """Return a table of models: their runs, methods, seeds and strengths."""
    methods = [config.method for config in configs]
    strengths = dict.fromkeys(name for method in methods for name in type(method).strengths())
    return pd.DataFrame(
        {
            "run": [config.hash for config in configs],
            "method": [method.name for method in methods],
            "seed": [config.seed for config in configs],
            **{
                name: [float(getattr(one, name, math.nan)) for one in methods]
                for name in strengths
            },
        }
    )
