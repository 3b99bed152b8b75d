"""What a change of images does: how large it is, what it looks like, whether factors survive.

And what to ask of models that were trained on such images: which use too few latents, and how well
each factor has a latent of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.activity import WEAK_NOISE, mean_noise
from unweave.errors import DataError
from unweave.io.arrays import on_host
from unweave.models.drawn_images import drawn_rows

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.data.grid import Grid
    from unweave.models.finding import Models
    from unweave.plots.sheet import Sheet

__all__ = ["active_by_noise", "change_sizes", "factor_gaps", "over_pruned", "show_changes"]

ROWS = 10_000


def change_sizes(
    original: "Dataset", modified: "Dataset", count: int = 1_000, seed: int = 0
) -> dict[str, float]:
    """How far images moved, in units of their range [0, 1].

    Args:
        original: The images.
        modified: The same, changed, in the same order.
        count: How many to compare, drawn once each.
        seed: Of that draw.

    Returns:
        `linf`, the largest change of any pixel; `l2`, the mean over images of ‖x̃ - x‖₂; `rms`, the
        root of the mean square of a pixel's change; `changed`, the share of pixels that changed.
    """
    before, after = _compared(original, modified, drawn_rows(original, max(count, 2), seed))
    change = (after.astype(np.float64) - before) / 255
    return {
        "linf": float(np.abs(change).max()),
        "l2": float(np.sqrt(np.square(change).sum((1, 2, 3))).mean()),
        "rms": float(np.sqrt(np.square(change).mean())),
        "changed": float((change != 0).any(-1).mean()),
    }


def show_changes(
    original: "Dataset",
    modified: Mapping[str, "Dataset"],
    count: int = 10,
    seed: int = 0,
    scale: float | None = None,
) -> "Sheet":
    """Draw images, what became of them, and the difference.

    Args:
        original: The images.
        modified: The same, changed, under names such as `"modified"` and `"noise"`.
        count: How many, drawn once each.
        seed: Of that draw.
        scale: The change that is drawn black (down) or white (up); by default the largest.

    Returns:
        A picture, to be saved with `.save("changes.png")`.
    """
    from unweave.plots.sheet import Row, lay_out, pictures_of

    rows = np.sort(drawn_rows(original, max(count, 2), seed)[:count])
    shown = [Row(pictures_of(_images(original, rows)), "original")]
    for name, data in modified.items():
        before, after = _compared(original, data, rows)
        change = (after.astype(np.float64) - before) / 255
        most = scale or float(np.abs(change).max()) or 1.0
        grey = (0.5 + change / (2 * most)).clip(0, 1)
        shown.append(Row(pictures_of(after), name))
        shown.append(Row(pictures_of(grey), "difference", f"±{most:.3g}"))
    return lay_out(shown)


def active_by_noise(logvars: Any, noise: float = WEAK_NOISE.threshold) -> np.ndarray:
    """Which latents are active, E_x[σ_k²] < 0.8, `[d]` for log-variances `[n, d]`.

    Example:
        >>> active_by_noise(np.log([[0.1, 0.9], [0.3, 1.0]]))
        array([ True, False])
    """
    return replace(WEAK_NOISE, threshold=noise).holds(mean_noise(logvars))


def over_pruned(
    models: "Models", data: "Dataset", noise: float = WEAK_NOISE.threshold, seed: int = 0
) -> pd.DataFrame:
    """Which models have fewer active latents than the data has factors that vary.

    Args:
        models: As for `uw.evaluate`.
        data: Images with a grid of factors; 10,000 are encoded at most.
        noise: What the mean σ² of an active latent stays below.
        seed: Of the draw of images.

    Returns:
        A row per model: `run`, `active`, `factors` and `over_pruned`. Rows of a table of scores
        that stay are `table[~table["run"].isin(found.loc[found["over_pruned"], "run"])]`.
    """
    from unweave.models.finding import models_of

    rows = drawn_rows(data, ROWS, seed)
    factors = sum(size > 1 for size in _grid(data).sizes)
    found = []
    for model in models_of(models):
        _, logvars = model.encode(_images(data, rows))
        active = int(active_by_noise(logvars, noise).sum())
        found.append((model.config.hash, active, factors, active < factors))
    return pd.DataFrame(found, columns=["run", "active", "factors", "over_pruned"])


def factor_gaps(models: "Models", data: "Dataset", seed: int = 0) -> pd.DataFrame:
    """MIG of each factor by itself.

    Args:
        models: As for `uw.evaluate`.
        data: Images with a grid of factors; 10,000 are encoded at most.
        seed: Of the draw of images.

    Returns:
        A row per model and factor: `run`, `factor`, `gap`. The mean over the factors of a model is
        its MIG on these images.
    """
    from unweave.metrics.mig import mig_of_factors
    from unweave.models.finding import models_of

    rows, names = drawn_rows(data, ROWS, seed), _grid(data).names
    classes = on_host(data.factors(rows))
    found = []
    for model in models_of(models):
        means, _ = model.encode(_images(data, rows))
        gaps = mig_of_factors(means, classes, seed)
        found += [(model.config.hash, names[k], gap) for k, gap in gaps.items()]
    return pd.DataFrame(found, columns=["run", "factor", "gap"])


def _grid(data: "Dataset") -> "Grid":
    if data.grid is None:
        raise DataError(f"{data.name} has no grid of factors, which this needs")
    return data.grid


def _compared(
    original: "Dataset", modified: "Dataset", rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if len(original) != len(modified) or original.shape != modified.shape:
        raise DataError(
            f"{original.name} and {modified.name} do not have the same images, image by image; "
            "give a data set and what was made of it"
        )
    return _images(original, rows), _images(modified, rows)


def _images(data: "Dataset", rows: np.ndarray) -> np.ndarray:
    return on_host(data.images(rows))
