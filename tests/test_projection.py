"""The projected cost of the large study: arithmetic, bases, ranges, and the page."""

import dataclasses

import pytest

import unweave as uw
from benchmarks import projection
from benchmarks.projection import STUDY, Slices, committed, measure, project

METHODS = list(STUDY["methods"])


def slices(**changes):
    plain = {
        "device": "a GPU",
        "source": "a test",
        "models": 300,
        "rates": {method: {"dsprites": 80.0, "color_dsprites": 100.0} for method in METHODS},
        "loop_ms": 0.0,
        "factor": 1.0,
        "start_seconds": 0.0,
        "encode_seconds": 0.0,
        "score_seconds": 50.0,
        "between_machines": 0.0,
    }
    return Slices(**plain | changes)


def test_hours_are_models_times_steps_times_the_time_of_a_step():
    """2 × 1,800 models at 80 µs and 5 × 1,800 at 100, 300,000 steps; 50 s of a core for scores."""
    found = project(slices())
    assert found.models == 12_600
    assert found.training == pytest.approx((3_600 * 80e-6 + 9_000 * 100e-6) * 300_000 / 3600)
    assert found.total == pytest.approx((found.training, found.training))
    assert found.score_hours == pytest.approx(12_600 * 50 / 3600)


def test_each_overhead_adds_its_own_hours():
    plain = project(slices()).training
    loop = project(slices(loop_ms=1.0, factor=1.5)).loop
    assert loop == pytest.approx((42 * 300_000 * 1e-3 / 3600, plain / 2))
    smaller = project(slices(loop_ms=1.0, factor=1.5, models=100)).loop
    assert smaller == pytest.approx((3 * loop[0], loop[1]))
    fixed = project(slices(start_seconds=36, encode_seconds=0.5))
    assert fixed.total == pytest.approx([plain + 42 * 0.01 + 12_600 * 0.5 / 3600] * 2)
    spread = project(slices(between_machines=0.1)).total
    assert spread == pytest.approx((0.9 * plain, 1.1 * plain))


def test_data_sets_are_measured_scaled_or_assumed():
    rates = {method: {"dsprites": 50.0, "color_dsprites": 100.0} for method in METHODS}
    rates["beta_vae"] |= {"color_dsprites": 80.0, "noisy_dsprites": 88.0}
    found = {(part.method, part.data): part for part in project(slices(rates=rates)).parts}
    expected = {
        ("beta_vae", "noisy_dsprites"): (88.0, "measured"),
        ("factor_vae", "noisy_dsprites"): (110.0, "scaled"),
        ("factor_vae", "shapes3d"): (100.0, "assumed"),
        ("beta_vae", "smallnorb"): (50.0, "assumed"),
        ("dip_vae_i", "dsprites"): (50.0, "measured"),
    }
    for key, (rate, basis) in expected.items():
        assert (found[key].microseconds, found[key].basis) == (pytest.approx(rate), basis)
    hours = [project(slices(rates=rates)).hours_by("basis", b) for b in ("measured", "assumed")]
    grey, colour = 6 * 50.0, 5 * 100.0 + 80.0
    a_microsecond = 1e-6 * 300 * 300_000 / 3600
    assert hours[0] == pytest.approx((grey + colour + 88.0) * a_microsecond)
    assert hours[1] == pytest.approx((grey + 3 * colour) * a_microsecond)


def test_half_the_steps_of_factor_vae_are_a_twelfth_less_if_all_methods_are_equal():
    one, other = project(slices()), project(slices(), updates_as_published=True)
    assert other.training == pytest.approx(one.training * 11 / 12)


def test_committed_rates_lie_between_those_of_the_measured_fleets():
    """At 256 models they are the averages of `benchmarks/results`: 54.4 and 67.9 µs."""
    rates = committed(256).rates
    for data, mean in (("dsprites", 54.4), ("color_dsprites", 67.9)):
        assert sum(rates[method][data] for method in METHODS) / 6 == pytest.approx(mean, abs=0.05)
    rows = [{"method": "vae", "data": "x", "models": n, "us_per_model_step": us} for n, us in
            ((100, 40.0), (300, 20.0))]  # fmt: skip
    found = [projection.interpolated(rows, "vae", "x", models) for models in (50, 200, 400)]
    assert found == pytest.approx([40.0, (4000 + 6000) / 2 / 200, 20.0])


def test_committed_overheads_are_those_of_undisturbed_fleets():
    """Fleets of 12 that shared the GPU would give more than twice the benchmark."""
    found = committed()
    assert found.factor == pytest.approx(1.28, abs=0.01)
    assert found.encode_seconds == pytest.approx(0.55, abs=0.01)
    assert found.score_seconds == pytest.approx(88, abs=0.5)


def test_the_page_contains_the_projection():
    page = projection.PAGE.read_text()
    assert projection.with_section(page, projection.text(committed())) == page
    other = dataclasses.replace(committed(), encode_seconds=2.0)
    assert projection.with_section(page, projection.text(other)) != page


def test_slices_are_measured_with_the_training_loop():
    data = uw.data.load("dsprites").slice(scale=5, orientation=0)
    found = measure({"dsprites": data}, ["beta_vae"], 1, ["mig"], scored=1, slice_steps=(1, 3))
    assert found.models == 1
    assert found.rates["beta_vae"]["dsprites"] > 100
    assert found.loop_ms >= 0
    assert found.factor >= 1
    assert found.encode_seconds > 0
    assert found.score_seconds > 0
