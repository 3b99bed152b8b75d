"""What a person sees while a fleet trains: models × steps per second, time left, the losses."""

import sys
import time
from typing import Self

from torch import Tensor

from unweave.fleet.engine import Engine
from unweave.text import counted

__all__ = ["Watch"]

LINE_SECONDS = 30.0


class Watch:
    """A line that lives on a terminal, or, where there is none, a line every half minute.

    Args:
        engine: What is being trained.
        step: Where it starts.
        shown: False is silent.
    """

    def __init__(self, engine: Engine, step: int, shown: bool) -> None:
        self.engine, self.shown, self.first = engine, shown, step
        self.total, self.models = engine.config.steps, len(engine.configs)
        self.terms = ""
        self.start = self.last = time.monotonic()

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.live = self.shown and console.is_terminal
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.fields[terms]}"),
        )
        self.progress = Progress(*columns, console=console, disable=not self.live)
        self.progress.start()
        self.task = self.progress.add_task(
            "training", total=self.total, completed=self.first, terms=""
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, step: int, means: Tensor | None = None) -> None:
        """Say where training is, and what the losses are where they were just fetched."""
        if means is not None:
            average = means.nanmean(1).tolist()
            self.terms = "  ".join(
                f"{name} {value:.4g}"
                for name, value in zip(self.engine.terms, average, strict=True)
            )
            lost = int(means[0].isnan().sum())
            self.terms += f"  ({lost} of {self.models} diverged)" if lost else ""
        now = time.monotonic()
        rate = (step - self.first) / max(now - self.start, 1e-9)
        pace = self.models * rate
        speed = f"{pace:,.0f} model-steps/s" if pace >= 10 else f"{pace:.1f} model-steps/s"
        text = f"{counted(self.models, 'model')}  step {step:,} of {self.total:,}  {speed}"
        self.progress.update(self.task, completed=step, description=text, terms=self.terms)
        if self.shown and not self.live and (now - self.last > LINE_SECONDS or step == self.total):
            left = (self.total - step) / max(rate, 1e-9)
            print(f"{text}  {left:,.0f} s left  {self.terms}", file=sys.stderr)  # noqa: T201
            self.last = now
