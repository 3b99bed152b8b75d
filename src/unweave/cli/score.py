"""The commands `unweave evaluate` and `unweave score`: scores of models and of saved codes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from unweave.cli.app import app
from unweave.cli.options import CustomImages, Device, MetricsOption, SavedImages, ScoresOption
from unweave.errors import DataError, UnweaveError
from unweave.io.paths import check_out
from unweave.progress import lines, print_output, say
from unweave.text import counted, printable

if TYPE_CHECKING:
    import pandas as pd

    from unweave.metrics import Metric

TABLES = (".csv", ".parquet")
GAP = 3


@app.add("evaluate")
@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score trained models, and print a table with one row per model.

    Scores are cached in the folders of the runs.

    Example: unweave evaluate runs --metrics classic irs --out scores.csv
    """

    runs: Annotated[
        Positional[tuple[Path, ...]],
        arg(
            metavar="RUN…",
            help="Folders of saved models, or folders that contain several of them.",
            help_behavior_hint="(required)",
        ),
    ]
    metrics: MetricsOption = ("classic",)
    data: SavedImages = None
    seed: int = 0
    """Random seed."""
    sampled: bool = False
    """Score codes sampled from the posterior instead of its mean."""
    recompute: bool = False
    """Recompute cached scores."""
    out: ScoresOption = None
    overwrite: bool = False
    """Replace an existing file."""
    device: Device = None
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.evaluation import evaluate
        from unweave.evaluation.choice import choose
        from unweave.evaluation.files import write_table
        from unweave.io.arguments import check_seed

        check_seed(self.seed)
        check_out(self.out, TABLES, self.overwrite)
        chosen = choose(self.metrics)
        table = evaluate(
            self.runs,
            self.images.load_optional(self.data),
            metrics=self.metrics,
            seed=self.seed,
            sampled=self.sampled,
            recompute=self.recompute,
            device=self.device,
        )
        _print(table, [metric.name for metric in chosen if metric.name in table])
        if self.out is not None:
            write_table(table, self.out)
            print_output(f"Table of {counted(len(table), 'row')}: {self.out}")


def _print(table: "pd.DataFrame", scores: Sequence[str]) -> None:
    """Print headline scores, in several tables if they do not fit the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200
    cells = {name: [_cell(value) for value in table[name]] for name in table}
    widths = {name: max(map(len, [name, *cells[name]])) + GAP for name in table}
    labels = list(table.columns[: table.columns.get_loc("steps") + 1])
    available = console.width - sum(widths[name] for name in labels)
    for part in _parts(scores, widths, available):
        output = Table(box=box.SIMPLE_HEAD)
        for name in (*labels, *part):
            side: Literal["left", "right"] = "left" if name in ("run", "method") else "right"
            output.add_column(name, justify=side, no_wrap=True)
        for row in zip(*(cells[name] for name in (*labels, *part)), strict=True):
            output.add_row(*row)
        # If not even one score fits, wrapped lines are better than truncated numbers.
        console.width = max(console.width, sum(widths[n] for n in (*labels, *part)) + GAP)
        console.print(output)


def _parts(names: Sequence[str], widths: Mapping[str, int], available: int) -> Iterator[list[str]]:
    """Split names into parts that fit the available width, each with at least one."""
    part: list[str] = []
    for name in names:
        if part and sum(widths[n] for n in (*part, name)) > available - GAP:
            yield part
            part = []
        part.append(name)
    yield part


def _cell(value: Any) -> str:
    import pandas as pd

    if pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))


@app.add("score")
@dataclass(frozen=True, kw_only=True)
class Score:
    """Score codes of any model, read from files.

    Example: unweave score codes.npy factors.npy --metrics mig dci --matrices matrices.png
    """

    codes: Annotated[
        Positional[Path],
        arg(
            metavar="CODES",
            help="File of codes (.npy, .npz, .csv or .parquet), one row per image.",
        ),
    ]
    factors: Annotated[
        Positional[Path | None],
        arg(
            metavar="[FACTORS]",
            help="File of ground-truth factors in the same order; text is categorical "
            "(default: none, for metrics that need only codes).",
        ),
    ] = None
    metrics: MetricsOption = ("classic",)
    seed: int = 0
    """Random seed."""
    out: ScoresOption = None
    matrices: Annotated[
        Path | None,
        arg(metavar="FILE", help="Output file for heat maps of codes × factors (.png or .svg)."),
    ] = None
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        import pandas as pd

        from unweave.evaluation.choice import choose
        from unweave.evaluation.evaluate import column
        from unweave.evaluation.files import in_order, read_columns, write_table
        from unweave.io.arguments import check_seed
        from unweave.plots import matrices, save_figure
        from unweave.plots.saving import FIGURES

        check_seed(self.seed)
        check_out(self.out, TABLES, self.overwrite)
        check_out(self.matrices, FIGURES, self.overwrite)
        if self.matrices is not None and self.factors is None:
            raise DataError("--matrices requires a file of factors; add FACTORS after CODES")
        chosen = _computable(choose(self.metrics), self.factors)
        codes = read_columns(self.codes, "codes")
        z, v, names = codes.values, None, None
        if self.factors is not None:
            factors = read_columns(self.factors, "factors")
            v, names = in_order(factors, codes), factors.names
        rows: list[tuple[str, float]] = []
        errors: dict[str, UnweaveError] = {}
        with lines({metric.name: 1 for metric in chosen}) as advance:
            for metric in chosen:
                try:
                    scores = metric(z, v, self.seed)
                    rows += [(column(metric, part), score) for part, score in scores.items()]
                except UnweaveError as error:
                    errors[metric.name] = error
                advance(metric.name, 1)
        if not rows:
            raise next(iter(errors.values()))
        for name, reason in errors.items():
            say(f"cannot compute {name}: {reason}")
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            print_output(f"{name:<{width}}  {value:.6g}")
        if self.out is not None:
            write_table(pd.DataFrame(rows, columns=["score", "value"]), self.out)
        if self.matrices is not None:
            save_figure(matrices(z, v, self.seed, names=names), self.matrices)
            print_output(f"Matrices: {self.matrices}")


def _computable(metrics: "Sequence[Metric]", factors: Path | None) -> "list[Metric]":
    """Return the metrics that need only the given files."""
    from unweave.evaluation.choice import needs_factors

    reasons = {
        "no factors were given": [m for m in metrics if factors is None and needs_factors(m)],
        "scoring requires a model (use unweave evaluate)": [
            m for m in metrics if m.of_posteriors or m.of_images
        ],
    }
    skipped = [metric for group in reasons.values() for metric in group]
    computable = [metric for metric in metrics if metric not in skipped]
    for reason, group in reasons.items():
        names = ", ".join(metric.name for metric in group)
        if group and not computable:
            raise DataError(f"cannot compute {names}: {reason}")
        if group:
            say(f"skipped {names}: {reason}")
    return computable
