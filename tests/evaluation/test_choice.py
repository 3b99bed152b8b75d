"""Metrics are chosen by family or name."""

import pytest

from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.evaluation.choice import choose
from unweave.metrics import CLASSIC, METRICS


def names(metrics):
    return [metric.name for metric in choose(metrics)]


def test_families_and_names():
    assert names("classic") == list(CLASSIC)
    assert names("all") == [name for name in METRICS if name != "fid"]
    assert names(["all", "fid"])[-1] == "fid"
    assert names("mig") == ["mig"]
    assert names(["irs", "Factor-VAE"]) == ["irs", "factor_vae"]
    assert names(["mig", "classic", "irs"]) == [
        "mig",
        *(name for name in CLASSIC if name != "mig"),
        "irs",
    ]


def test_invalid_metrics():
    with pytest.raises(UnknownNameError, check=about("metric", "modularty")):
        choose(["mig", "modularty"])
    with pytest.raises(UnweaveError, check=about("metrics", None)):
        choose([])
