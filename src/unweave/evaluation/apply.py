"""What a metric says of one model, given all that it needs."""

from typing import Any

import numpy as np

from unweave.errors import DownloadError, UnweaveError
from unweave.evaluation.codes import Codes, Posteriors
from unweave.evaluation.score_cache import Outcome
from unweave.metrics import Metric

__all__ = ["apply"]


def apply(metric: Metric, codes: Posteriors, place: int, sampled: bool) -> Outcome:
    """What a metric says of one model; those that need images need `Codes`."""
    try:
        options: dict[str, Any] = {}
        means, factors = codes.means[place], codes.factors
        if metric.of_images:
            assert isinstance(codes, Codes)
            rows, options = _decoded(metric, codes, place, sampled)
            means, factors = means[rows], None
        elif sampled and not metric.of_posteriors:
            options = {"means": means} if "means" in metric.takes else {}
            means = codes.sampled(place)
        elif "logvars" in metric.takes:
            options = {"logvars": codes.logvars[place]}
        return Outcome(metric(means, factors, codes.seed, **options))
    except DownloadError as error:
        return Outcome({}, str(error), passing=True)
    except UnweaveError as error:
        return Outcome({}, str(error))


def _decoded(
    metric: Metric, codes: Codes, place: int, sampled: bool
) -> tuple[np.ndarray, dict[str, Any]]:
    """Which rows a metric of images sees, and the options that show them."""
    if metric.needs == "images":
        rows = codes.decoded_rows
        options: dict[str, Any] = {
            "logvars": codes.logvars[place][rows],
            "images": codes.images,
            "reconstructions": codes.reconstructions(place, sampled),
            "likelihood": codes.fleet.configs[place].likelihood,
        }
        # A processor takes seconds for the pixels of one model, while the GPU would wait.
        if codes.fleet.device.type == "cuda" and "device" in metric.takes:
            options["device"] = codes.fleet.device
        return rows, options
    options = {
        "images": codes.compared_images,
        "reconstructions": codes.compared_reconstructions(place, sampled),
    }
    if "device" in metric.takes:
        options["device"] = codes.fleet.device
    return codes.compared_rows, options
