"""The report: everything about a study, a folder of runs or a fleet on one page for the mail."""

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
"""Bytes that a report may take, so that it passes through any mailbox."""


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
    """Write one HTML file about trained models, which needs nothing else to be read.

    It holds a summary, a leader board, distributions, a trade-off, what the models agree on, what
    the scores mean, and how to do it again. The model is chosen without labels. Where the images
    are no longer to be had, the report is written from the tables and says what is missing.

    Args:
        source: A study, by its folder or its results; or trained models, as `uw.evaluate` takes
            them.
        out: The file to write.
        data: What the models learned from; by default made again from what they remember. Your own
            images have to be given, by a path or loaded.
        scores: Scores of a fleet in memory, as `uw.evaluate` returns them.
        title: The heading; by default the name of the study or folder.
        rows: How many images models are compared on; by default 3,000, fewer for many models.
        seed: Of the draw of these images.
        limit: Bytes that the file may take: pictures are made smaller until they fit.
        overwrite: Replace the file if it is there.
        progress: Whether to show how far it is.
        device: Where models encode and decode; by default a GPU where there is one.
        options: How `data` is loaded, where it is a path or a name: `size`, `factors`, ….
        command: What to run to have the same again, where that is not plain from the models.

    Returns:
        The file.

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
