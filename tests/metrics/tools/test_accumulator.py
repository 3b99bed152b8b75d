"""Metrics in training loops: equal to the functions, whatever the batches."""

import numpy as np
import pytest
import torch

import unweave as uw
from tests.metrics.test_common import QUICK, make_codes, make_factors
from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.metrics import METRICS, Accumulator, MetricError

SPLITS = (1, 50, 250, 251)
"""Rows at which batches end; batches have different sizes."""


@pytest.fixture(scope="module")
def rows():
    """Inputs of all metrics, by name."""
    generator = np.random.default_rng(0)
    factors = make_factors()
    codes = make_codes(factors)
    images = generator.integers(0, 2, (2, len(codes), 8)).astype(float)
    return {
        "codes": codes,
        "factors": factors,
        "logvars": generator.normal(-2, 1, codes.shape),
        "images": images[0],
        "reconstructions": 0.1 + 0.8 * images[1],
    }


def inputs(name, rows):
    """The inputs with one row per image that a metric needs."""
    needed = {
        "posterior": ["logvars"],
        "densities": ["factors", "logvars"],
        "images": ["logvars", "images", "reconstructions"],
        "reconstructions": ["images", "reconstructions"],
        "codes": [],
    }.get(METRICS[name].needs, ["factors"])
    arrays = {key: rows[key] for key in ["codes", *needed]}
    if name == "pixel_error":
        arrays.update({key: rows[key].reshape(-1, 2, 2, 2)[..., :1] for key in needed})
    return arrays


# FID and PIPE need networks and many images; the others do not take long here.
SLOW = {"fid", "pipe", "downstream", "reduced_downstream", "strong_generalisation", "fairness"}


@pytest.mark.parametrize("name", sorted(METRICS.keys() - SLOW))
def test_batches_have_the_score_of_all_rows(name, rows):
    arrays, options = inputs(name, rows), QUICK.get(name, {})
    collected = Accumulator(name, seed=3, **options)
    for numbers in np.split(np.arange(len(rows["codes"])), SPLITS):
        collected.update(**{key: torch.tensor(array[numbers]) for key, array in arrays.items()})
    assert len(collected) == len(rows["codes"])
    codes, factors = arrays.pop("codes"), arrays.pop("factors", None)
    assert collected.compute() == METRICS[name](codes, factors, 3, **arrays, **options)


def test_tensors_with_gradients_of_any_precision_that_change_afterwards():
    factors = torch.cartesian_prod(torch.arange(4), torch.arange(5))
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        collected = Accumulator("mig")
        for batch in factors.split(7):
            codes = batch.to(dtype).requires_grad_()
            collected.update(codes, batch)
            codes.data.zero_()
        assert collected.compute() == {"mig": 1.0}


def test_reset_forgets_rows_and_columns(rows):
    collected = Accumulator(METRICS["mig"])
    collected.update(rows["codes"], rows["factors"])
    before = collected.compute()
    collected.reset()
    with pytest.raises(MetricError, check=about("codes")):
        collected.compute()
    collected.update(rows["codes"][:, :2], rows["factors"][:, :2])
    assert collected.compute() != before
    assert repr(collected) == "Accumulator('mig', 600 rows)"


def test_compute_may_be_called_between_updates(rows):
    collected = Accumulator("mig", count=10)
    for end in (300, 600):
        part = slice(end - 300, end)
        collected.update(rows["codes"][part], rows["factors"][part])
        expected = uw.metrics.mig(rows["codes"][:end], rows["factors"][:end], count=10)
        assert collected.compute() == expected


def test_any_function_is_a_metric(rows):
    def spread(codes, factors=None, seed=0, *, power=1, **others):
        return {"spread": float(codes.std() ** power), "others": float(len(others["weights"]))}

    collected = Accumulator(spread, power=2)
    collected.update(rows["codes"], weights=np.ones(600))
    expected = {"spread": float(rows["codes"].std() ** 2), "others": 600.0}
    assert collected.compute() == expected


def test_wrong_batches_are_rejected_and_leave_no_trace(rows):
    codes, factors = rows["codes"], rows["factors"]
    collected = Accumulator("rmig")
    with pytest.raises(MetricError, check=about("factors")):
        collected.update(codes)
    with pytest.raises(MetricError, check=about("factors", 599)):
        collected.update(codes, factors[1:])
    with pytest.raises(MetricError, check=about("codes", "a single number")):
        collected.update(1.0, 2)
    assert len(collected) == 0
    collected.update(codes, factors)
    with pytest.raises(MetricError, check=about("codes", 4)):
        collected.update(codes[:, :4], factors)
    with pytest.raises(MetricError, check=about("factors", 2)):
        collected.update(codes, factors[:, :2])
    with pytest.raises(MetricError, check=about("codes", [])):
        collected.update(codes[:, 0], factors)
    with pytest.raises(MetricError, check=about("logvars")):
        collected.update(codes, factors, logvars=codes)
    with pytest.raises(UnknownNameError, check=about("option of rmig", "images")):
        collected.update(codes, factors, images=codes)
    assert len(collected) == 600


def test_wrong_options(rows):
    with pytest.raises(UnknownNameError, check=about("metric", "migg")):
        Accumulator("migg")
    with pytest.raises(UnknownNameError, check=about("option of mig", "bins")):
        Accumulator("mig", bins=10)
    collected = Accumulator("rmig", logvars=rows["logvars"])
    with pytest.raises(MetricError, check=about("logvars")):
        collected.update(rows["codes"], rows["factors"], logvars=rows["logvars"])
