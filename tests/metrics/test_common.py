"""Properties of every metric: accepted inputs and invariances."""

import inspect

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.io.arguments import MAX_SEED
from unweave.metrics import CLASSIC, METRICS, MetricError
from unweave.metrics.base import LARGEST

# FID and PIPE are slow and use only images; they are tested in `test_fid.py` and `test_pipe.py`.
ALL = sorted(METRICS.keys() - {"fid", "pipe"})
WITH_FACTORS = [name for name in ALL if METRICS[name].needs in ("factors", "pairs", "densities")]
SIZES = (3, 4, 5)
ROWS = 600
# Small enough for many runs; rows and codes are few, so the scores do not need the protocol's.
QUICK = {
    "beta_vae": {"train": 400, "test": 200},
    "z_diff": {"train": 400, "test": 200},
    "factor_vae": {"train": 400, "test": 200},
    "z_min_var": {"train": 400, "test": 200},
    "z_max_var": {"train": 400, "test": 200},
    "downstream": {"predictors": ["trees"], "sizes": [10_000]},
    "strong_generalisation": {"experiments": 2},
    "dci_es": {"trees": 20},
    "omes": {"pairs": 10_000},
}


def make_factors(rows=ROWS, seed=0):
    return np.random.default_rng(seed).integers(0, SIZES, (rows, len(SIZES)))


def make_codes(factors, seed=1):
    """One code per factor, one mixture of two factors, and one of noise."""
    generator = np.random.default_rng(seed)
    mixed = factors[:, :1] - 0.7 * factors[:, 1:2]
    clean = np.concatenate([factors, mixed, np.zeros_like(mixed)], 1)
    return clean + generator.normal(0, 0.3, clean.shape)


def score(name, codes, factors, seed=0, logvars=None):
    """Return the headline score, passing all inputs that the metric needs."""
    extra = dict(QUICK.get(name, {}))
    generator = np.random.default_rng(5)
    if METRICS[name].needs in ("posterior", "densities", "images"):
        spread = generator.normal(-2, 1, np.shape(codes))
        extra["logvars"] = spread if logvars is None else logvars
    if METRICS[name].needs == "images":
        extra["images"] = generator.integers(0, 2, (len(codes), 8)).astype(float)
        extra["reconstructions"] = generator.uniform(0.1, 0.9, (len(codes), 8))
    if METRICS[name].needs == "reconstructions":
        extra["images"], extra["reconstructions"] = generator.random((2, len(codes), 4, 4, 1))
    return METRICS[name](codes, factors, seed, **extra)[name]


@pytest.fixture(scope="module")
def factors():
    return make_factors()


@pytest.fixture(scope="module")
def codes(factors):
    return make_codes(factors)


@pytest.fixture(scope="module")
def plain(codes, factors):
    """Score of every metric for the plain codes."""
    return {name: score(name, codes, factors) for name in ALL}


def assert_sensible(name, value):
    low, high = METRICS[name].bounds
    assert isinstance(value, float)
    assert np.isfinite(value)
    assert low - 1e-9 <= value <= high + 1e-9


@pytest.mark.parametrize("name", METRICS)
def test_description(name):
    metric = METRICS[name]
    assert metric.name == name
    assert getattr(uw.metrics, name) is metric.function
    assert metric.reference
    assert metric.failure.endswith(".")
    assert len(metric.failure) < 120
    assert "\n" not in metric.failure
    parameters = list(inspect.signature(metric.function).parameters.values())
    assert [p.name for p in parameters[:3]] == ["codes", "factors", "seed"]
    assert parameters[2].default == 0
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters[3:])


def test_the_classic_six():
    assert set(CLASSIC) == {"beta_vae", "factor_vae", "mig", "modularity", "dci", "sap"}
    assert set(CLASSIC) <= set(METRICS)


@pytest.mark.parametrize("name", ALL)
def test_plain_codes(name, plain):
    assert_sensible(name, plain[name])


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_score(name, codes, factors, plain):
    assert score(name, codes, factors) == plain[name]


@pytest.mark.parametrize("name", ALL)
def test_torch_and_lists(name, codes, factors, plain):
    assert score(name, torch.tensor(codes), torch.tensor(factors)) == plain[name]
    assert score(name, codes.tolist(), factors.tolist()) == plain[name]


@pytest.mark.parametrize("name", ALL)
def test_inputs_are_not_modified(name, codes, factors):
    copies = codes.copy(), factors.copy()
    score(name, *copies)
    assert (copies[0] == codes).all()
    assert (copies[1] == factors).all()


# Tie-breaks of trees, stopping of solvers and random noise change slightly.
PERMUTED = {
    "mig_density": 0.03,
    "dci": 0.01,
    "downstream": 0.02,
    "reduced_downstream": 0.02,
    "strong_generalisation": 0.02,
    "dci_es": 0.03,
}


@pytest.mark.parametrize("name", ALL)
def test_order_of_codes(name, codes, factors):
    order = [3, 1, 4, 0, 2]
    logvars = np.random.default_rng(6).normal(-2, 1, codes.shape)
    before = score(name, codes, factors, logvars=logvars)
    after = score(name, codes[:, order], factors, logvars=logvars[:, order])
    assert_allclose(after, before, atol=PERMUTED.get(name, 1e-6))


@pytest.mark.parametrize("name", ALL)
def test_sign_of_codes(name, codes, factors, plain):
    signs = np.array([1, -1, -1, 1, -1])
    assert_allclose(
        score(name, codes * signs, factors), plain[name], atol=PERMUTED.get(name, 1e-6)
    )


# Regularised models depend on scale, IRS weights by it, and the rest have its units.
RESCALED = {"beta_vae": 0.05, "z_diff": 0.05, "sap": 0.05, "irs": 0.3}
IN_UNITS_OF_THE_CODE = {
    "elbo",
    "polarised_regime",
    "gaussian_wasserstein_correlation",
    "mig_density",
}


@pytest.mark.parametrize("name", [name for name in ALL if name not in IN_UNITS_OF_THE_CODE])
def test_scale_of_codes(name, codes, factors, plain):
    scales = np.array([2.0, 1.0, 4.0, 0.5, 1.0])
    after = score(name, codes * scales, factors)
    assert_allclose(after, plain[name], atol=RESCALED.get(name, 1e-6))


@pytest.mark.parametrize("name", sorted(IN_UNITS_OF_THE_CODE))
def test_scale_matters_where_documented(name, codes, factors, plain):
    assert abs(score(name, 2 * codes, factors) - plain[name]) > 1e-3


# These sample rows, or split them into other training and test rows.
SAMPLED = ("beta_vae", "z_diff", "factor_vae", "z_min_var", "z_max_var", "mig_density", "omes")
LEARNED = ("dci", "sap", "dci_es", "downstream", "reduced_downstream", "strong_generalisation")
REORDERED = dict.fromkeys((*SAMPLED, *LEARNED), 0.08)


@pytest.mark.parametrize("name", ALL)
def test_order_of_rows(name, codes, factors):
    order = np.random.default_rng(3).permutation(len(codes))
    logvars = np.tile(np.linspace(-3, 0, codes.shape[1]), (len(codes), 1))
    before = score(name, codes, factors, logvars=logvars)
    after = score(name, codes[order], factors[order], logvars=logvars)
    assert_allclose(after, before, atol=REORDERED.get(name, 1e-6))


@pytest.mark.parametrize("name", ALL)
def test_constant_code(name, codes, factors):
    constant = np.full((len(codes), 1), 0.1)
    assert_sensible(name, score(name, np.concatenate([codes, constant], 1), factors))
    assert_sensible(name, score(name, np.full_like(codes, 0.1), factors))


@pytest.mark.parametrize("name", ALL)
def test_duplicated_code(name, codes, factors):
    value = score(name, np.concatenate([codes, codes[:, :1]], 1), factors)
    if name == "gaussian_total_correlation":
        assert value == np.inf
    else:
        assert_sensible(name, value)


# Explicitness is relative to the best predictor, however bad: its known failure.
BLIND_TO_THE_AMOUNT = {"dci_es"}


@pytest.mark.parametrize("name", ALL)
def test_perfect_code_and_noise(name, factors):
    perfect = score(name, factors.astype(float), factors)
    noise = score(name, np.random.default_rng(2).normal(size=factors.shape), factors)
    assert_sensible(name, perfect)
    assert_sensible(name, noise)
    if name in WITH_FACTORS and METRICS[name].higher_is_better and name not in BLIND_TO_THE_AMOUNT:
        assert perfect > noise


ABOUT_TWO_FACTORS = {"fairness", "strong_generalisation"}


@pytest.mark.parametrize("name", ALL)
def test_single_factor(name, codes, factors):
    if name in ABOUT_TWO_FACTORS:
        with pytest.raises(MetricError, check=about("factors", 1)):
            score(name, codes, factors[:, :1])
        return
    assert_sensible(name, score(name, codes, factors[:, :1]))
    assert score(name, codes, factors[:, 0]) == score(name, codes, factors[:, :1])


@pytest.mark.parametrize("name", ALL)
def test_single_code(name, codes, factors):
    assert_sensible(name, score(name, codes[:, :1], factors))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(name, bad, codes, factors):
    broken = codes.copy()
    broken[7, 2] = bad
    with pytest.raises(MetricError, check=about("codes", (7, 2))):
        score(name, broken, factors)


def extremes(codes):
    """Degenerate codes by name."""
    constant = codes.copy()
    constant[:, 1:3] = [0.1, -1e14]
    apart = codes.copy()
    apart[0] = 1e14
    return {
        **{f"times {scale:g}": codes * scale for scale in (1e-320, 1e-160, 1e-30, 1e14, 1e38)},
        **{f"times {scale:g}": codes * scale for scale in (1e150, 1e300)},
        "float32 large": (codes * 1e36).astype(np.float32),
        "float32 small": (codes * 1e-30).astype(np.float32),
        "float32 denormal": (codes * 1e-44).astype(np.float32),
        "float16": codes.astype(np.float16),
        "mixed scales": codes * [1e-320, 1e-20, 1.0, 1e6, 1e12],
        "some constant": constant,
        "one far away": apart,
        "far from zero": 1e9 + codes,
        "whole numbers": np.round(codes * 1e9).astype(np.int64),
        "negative zero": np.where(codes > 0, 0.0, -0.0),
        "long double": codes.astype(np.longdouble) * np.longdouble("1e4000"),
    }


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", extremes(np.ones((4, 5))))
def test_extreme_codes_get_a_finite_score_or_an_error(name, kind, codes, factors):
    odd = extremes(codes)[kind]
    if float(np.max(np.abs(odd))) > LARGEST:
        with pytest.raises(MetricError, check=about("codes", float(np.abs(odd).max()))):
            score(name, odd, factors)
        return
    value = score(name, odd, factors)
    assert np.isfinite(value) or (name, value) == ("gaussian_total_correlation", np.inf)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", ["complex128", "object", "U3", "M8[s]", "m8[s]", "V4"])
def test_non_numeric_inputs_are_rejected(name, kind, codes, factors):
    odd = np.ones(codes.shape, dtype=kind) if kind[0] in "co" else np.zeros(codes.shape, "i4")
    odd = odd if kind[0] in "co" else odd.astype(kind) if kind != "V4" else odd.view("V4")
    with pytest.raises(MetricError, check=about("codes", odd.dtype)):
        score(name, odd, factors)
    if name in WITH_FACTORS:
        with pytest.raises(MetricError, check=about("factors", odd.dtype)):
            score(name, codes, odd)


@pytest.mark.parametrize("name", WITH_FACTORS)
@pytest.mark.parametrize("scale", [1e300, 1e-320, -1.0, 2.0**60])
def test_factors_of_any_size_are_classes(name, scale, codes, factors):
    if name == "mcc" and scale > 1e15:  # which reads values, and not classes
        with pytest.raises(MetricError, check=about("factors", (factors * scale).max())):
            score(name, codes, factors * scale)
        return
    assert_sensible(name, score(name, codes, factors * scale))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", [-1, 10**30, 0.5, None])
def test_seeds_are_whole_numbers(name, seed, codes, factors):
    with pytest.raises(UnweaveError, match="seed"):
        score(name, codes, factors, seed)


@pytest.mark.parametrize("name", ALL)
def test_the_largest_seed(name, codes, factors):
    assert_sensible(name, score(name, codes, factors, MAX_SEED))


@pytest.mark.parametrize("name", WITH_FACTORS)
def test_bad_factors(name, codes, factors):
    broken = factors.astype(float)
    broken[7, 2] = np.nan
    with pytest.raises(MetricError, check=about("factors", (7, 2))):
        score(name, codes, broken)
    with pytest.raises(MetricError, check=about("factors", len(factors) - 1)):
        score(name, codes, factors[:-1])


@pytest.mark.parametrize("name", WITH_FACTORS)
def test_factor_with_one_value(name, codes, factors, plain):
    constant = np.full((len(factors), 1), 3)
    padded = np.concatenate([factors[:, :1], constant, factors[:, 1:]], 1)
    assert score(name, codes, padded) == plain[name]
    with pytest.raises(MetricError, check=about("factors", None)):
        score(name, codes, constant)


@pytest.mark.parametrize("name", WITH_FACTORS)
def test_factors_that_are_not_integers(name, codes, factors, plain):
    assert_allclose(score(name, codes, factors * 0.37 - 0.2), plain[name], atol=1e-9)
