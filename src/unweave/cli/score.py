"""The commands `unweave evaluate` and `unweave score`: what they read, compute and print."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from unweave.cli.commands.models import Evaluate, Score
from unweave.errors import DataError, UnweaveError
from unweave.evaluation.choice import choose, needs_factors
from unweave.evaluation.files import in_order, read_columns, write_table
from unweave.io.arguments import check_seed
from unweave.io.paths import check_out
from unweave.metrics import Metric
from unweave.progress import lines, say, tell
from unweave.text import readable

__all__ = ["evaluate_runs", "score_files"]

TABLES = (".csv", ".parquet")
GAP = 3


def evaluate_runs(asked: Evaluate) -> None:
    """Score saved runs and print one row each."""
    from unweave.evaluation import evaluate

    check_seed(asked.seed)
    check_out(asked.out, TABLES, asked.overwrite)
    chosen = choose(asked.metrics)
    table = evaluate(
        asked.runs,
        asked.images.named(asked.data),
        metrics=asked.metrics,
        seed=asked.seed,
        sampled=asked.sampled,
        again=asked.again,
        device=asked.device,
    )
    _print(table, [metric.name for metric in chosen if metric.name in table])
    if asked.out is not None:
        write_table(table, asked.out)
        tell(f"{len(table)} rows: {asked.out}")


def _print(table: pd.DataFrame, scores: Sequence[str]) -> None:
    """Headline scores, so many at a time that a row fits its line."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200
    cells = {name: [_cell(value) for value in table[name]] for name in table}
    widths = {name: max(map(len, [name, *cells[name]])) + GAP for name in table}
    about = list(table.columns[: table.columns.get_loc("steps") + 1])
    room = console.width - sum(widths[name] for name in about)
    for part in _parts(scores, widths, room):
        drawn = Table(box=box.SIMPLE_HEAD)
        for name in (*about, *part):
            side: Literal["left", "right"] = "left" if name in ("run", "method") else "right"
            drawn.add_column(name, justify=side, no_wrap=True)
        for row in zip(*(cells[name] for name in (*about, *part)), strict=True):
            drawn.add_row(*row)
        # Where not even one score fits, a line that the terminal breaks beats numbers cut short.
        console.width = max(console.width, sum(widths[n] for n in (*about, *part)) + GAP)
        console.print(drawn)


def _parts(names: Sequence[str], widths: Mapping[str, int], room: int) -> Iterator[list[str]]:
    """Names cut into parts that fit the room, one at least in each."""
    part: list[str] = []
    for name in names:
        if part and sum(widths[n] for n in (*part, name)) > room - GAP:
            yield part
            part = []
        part.append(name)
    yield part


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else readable(str(value))


def score_files(asked: Score) -> None:
    """Score codes from files and print one line per number."""
    from unweave.evaluation.evaluate import column
    from unweave.plots.saving import FIGURES

    check_seed(asked.seed)
    check_out(asked.out, TABLES, asked.overwrite)
    check_out(asked.matrices, FIGURES, asked.overwrite)
    if asked.matrices is not None and asked.factors is None:
        raise DataError("the matrices of codes × factors need a file of factors")
    chosen = _possible(choose(asked.metrics), asked.factors)
    of_codes = read_columns(asked.codes, "codes")
    z, v, names = of_codes.values, None, None
    if asked.factors is not None:
        of_factors = read_columns(asked.factors, "factors")
        v, names = in_order(of_factors, of_codes), of_factors.names
    rows: list[tuple[str, float]] = []
    errors: dict[str, UnweaveError] = {}
    with lines({metric.name: 1 for metric in chosen}) as advance:
        for metric in chosen:
            try:
                scores = metric(z, v, asked.seed)
                rows += [(column(metric, part), score) for part, score in scores.items()]
            except UnweaveError as error:
                errors[metric.name] = error
            advance(metric.name, 1)
    if not rows:
        raise next(iter(errors.values()))
    for name, reason in errors.items():
        say(f"no {name}: {reason}")
    table = pd.DataFrame(rows, columns=["score", "value"])
    width = max(map(len, table["score"]))
    for name, value in rows:
        tell(f"{name:<{width}}  {value:.6g}")
    if asked.out is not None:
        write_table(table, asked.out)
    if asked.matrices is not None:
        from unweave.plots import matrices, save_figure

        save_figure(matrices(z, v, asked.seed, names=names), asked.matrices)
        tell(f"Matrices: {asked.matrices}")


def _possible(metrics: Sequence[Metric], factors: Path | None) -> list[Metric]:
    """The metrics for which files of codes and factors are enough."""
    reasons = {
        "factors are not given": [m for m in metrics if factors is None and needs_factors(m)],
        "a model is needed (unweave evaluate)": [
            m for m in metrics if m.of_posteriors or m.of_images
        ],
    }
    left_out = [metric for unable in reasons.values() for metric in unable]
    possible = [metric for metric in metrics if metric not in left_out]
    for reason, unable in reasons.items():
        names = ", ".join(metric.name for metric in unable)
        if unable and not possible:
            raise DataError(f"nothing can be computed: {reason} for {names}")
        if unable:
            say(f"{reason}: without {names}")
    return possible
