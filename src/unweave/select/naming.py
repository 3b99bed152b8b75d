"""Names of latents from labelled images.

Shapes: n images, d latents, K factors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.activity import Activity, shown_activity
from unweave.analysis.association import associations
from unweave.errors import DataError
from unweave.io.arrays import on_host

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.data.grid import Factor
    from unweave.models.model import Model

__all__ = ["MIN_ASSOCIATION", "latents_table", "matched", "name_latents", "named_after"]

MIN_ASSOCIATION = 0.7
"""Association above which a latent is named after a factor. Above √½, a latent cannot be as
close to a second factor that is independent of the first."""
MIN_DEVIATIONS = 4.0
"""How many standard deviations an association must exceed that of independent variables, 1/√n."""


def name_latents(model: "Model | str | Path", data: "Dataset") -> pd.DataFrame:
    """Name the latents of a model after the known factors of a few labelled images.

    Latents and factors are matched one to one so that the sum of their associations (see
    `unweave.analysis.association`) is largest. A latent is named if its association is more than
    0.7 and more than 4/√n, where n is the number of images, and if it is clear (more than 0.3
    nats). With fewer than 17 images, no latent is named.

    Args:
        model: A model, its folder, or a folder with a model in `best`.
        data: Images with known factors.

    Returns:
        A row per latent: `latent`, `name` (empty if there is none), `amount` (information in
        nats, or the standard deviation of codes without a prior), `clear`, the most strongly
        associated `factor` and this `association`.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> fleet = uw.train(uw.methods.VAE(), data, steps=2, batch=8, latents=3, progress=False)
        >>> name_latents(fleet[0], data)["name"].tolist()
        ['', '', '']
    """
    known = data.grid or data.labels
    if known is None:
        raise DataError(
            f"{data.name} has no known factors to name latents after; pass factors=",
            subject="factors",
        )
    return latents_table(model, data)


def named_after(table: pd.DataFrame) -> dict[int, str]:
    """Return the names in a table of `name_latents`, in the form in which they are recorded.

    Names that are too long are shortened, and letters that cannot be printed are left out.
    """
    from unweave.models.names import MAX_LENGTH

    names = {}
    for latent, text in zip(table["latent"], table["name"], strict=True):
        name = "".join(filter(str.isprintable, str(text))).strip()[:MAX_LENGTH].strip()
        if name:
            names[int(latent)] = name
    return names


def latents_table(model: "Model | str | Path", data: "Dataset") -> pd.DataFrame:
    """Return the table of `name_latents`; without known factors, no latent is named."""
    from unweave.models.encoding import posteriors
    from unweave.models.finding import one_model
    from unweave.models.images import NUM_SAMPLED, sample_rows

    model = one_model(model) if isinstance(model, str | Path) else model
    rows = sample_rows(data, NUM_SAMPLED)
    (means,), (logvars,) = posteriors(model, data, rows)
    method = model.config.method
    activity = shown_activity(
        means, logvars, deterministic=method.deterministic, standard_noise=method.standard_noise
    )
    known = data.grid or data.labels
    axes = () if known is None else known.axes
    classes: Any = on_host(data.factors(rows)) if axes else np.zeros((len(rows), 0), np.int64)
    return matched(means, activity, classes, axes)


def matched(
    codes: np.ndarray, activity: Activity, classes: np.ndarray, factors: "Sequence[Factor]"
) -> pd.DataFrame:
    """Match latents with factors; see `name_latents`.

    Args:
        codes: Codes `[n, d]`.
        activity: Information in each latent.
        classes: Classes of the factors `[n, K]`.
        factors: The K factors.
    """
    from scipy.optimize import linear_sum_assignment

    table = pd.DataFrame(
        {
            "latent": range(len(activity.amounts)),
            "name": "",
            "amount": activity.amounts,
            "clear": activity.clear,
            "factor": "",
            "association": np.nan,
        }
    )
    if not factors:
        return table
    found = associations(codes, classes, [factor.categorical for factor in factors])
    table["factor"] = [factors[k].name for k in found.argmax(0)]
    table["association"] = found.max(0)
    enough = max(MIN_ASSOCIATION, MIN_DEVIATIONS / np.sqrt(len(codes)))
    eligible = np.where(activity.clear, found, 0.0)
    for k, latent in zip(*linear_sum_assignment(-eligible), strict=True):
        if eligible[k, latent] > enough:
            table.loc[latent, "name"] = factors[k].name
    return table
