"""Self-contained HTML reports about a study, a folder of runs or a fleet."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["LIMIT", "report"]

LIMIT = 5_000_000
"""Default maximum size of a report in bytes, small enough to send by e-mail."""


def report(
    source: "Models",
    out: str | Path = "report.html",
    data: "Dataset | str | Path | None" = None,
    *,
    scores: "pd.DataFrame | None" = None,
    title: str | None = None,
    rows: int | None = None,
    seed: int = 0,
    limit: int = LIMIT,
    overwrite: bool = False,
    progress: bool = True,
    device: str | None = None,
    options: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> Path:
    """Write a self-contained HTML report about trained models.

    It contains a summary, a leaderboard, score distributions, a trade-off plot, the agreement
    between models, explanations of the scores, and the commands to reproduce everything. The best
    model is chosen without labels. If the images are not available, the report is written from
    the tables alone and states what is missing.

    Args:
        source: A study (its folder or results), or trained models as for `uw.evaluate`.
        out: File to write (default `report.html`).
        data: Data set that the models were trained on (default: loaded again from the saved
            settings). Custom images must be passed, as a path or a loaded data set.
        scores: Scores of a fleet in memory, as returned by `uw.evaluate`.
        title: Heading (default: the name of the study or folder).
        rows: Number of images to compare models on (default: 3,000, fewer for many models).
        seed: Random seed for sampling these images.
        limit: Maximum file size in bytes; pictures are shrunk until the report fits.
        overwrite: Whether to replace an existing file.
        progress: Whether to show progress.
        device: Device for encoding and decoding (default: a GPU if available).
        options: Options for loading `data` from a path or name: `size`, `factors`, ….
        command: Command that reproduces the models (default: derived from their settings).

    Returns:
        Path of the report.

    Example:
        >>> import tempfile, unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> fleet = uw.train(uw.methods.VAE(), data, seeds=2, steps=2, batch=8, progress=False)
        >>> folder = Path(tempfile.mkdtemp())
        >>> report(fleet, folder / "report.html", data, rows=50, progress=False).name
        'report.html'
    """
    from unweave.io.arguments import check_seed
    from unweave.io.paths import check_out
    from unweave.report.comparison import find
    from unweave.report.page import write
    from unweave.report.subject import opened

    out = Path(out)
    check_seed(seed)
    check_out(out, (".html", ".htm"), overwrite)
    given = opened(source, data, dict(options or {}), scores, title)
    given = replace(given, command=command)
    found = find(given, rows, seed, device, progress)
    return write(found, out, limit, progress)
