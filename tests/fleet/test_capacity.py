"""Fleets that fit into memory: splitting, measurement, and no effect on models."""

import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet import capacity as size
from unweave.fleet.capacity import fleet_capacity, fleet_sizes, max_models
from unweave.fleet.train import train_runs
from unweave.methods import VAE
from unweave.models.config import Config

CPU = torch.device("cpu")


def runs(count, **settings):
    return [Config(method=VAE(), seed=seed, batch=4, steps=3, **settings) for seed in range(count)]


@pytest.fixture(scope="module")
def data():
    return uw.data.load("dsprites").slice(scale=5, orientation=0, posX=range(0, 32, 4))


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(10, 10, [10]), (10, 4, [4, 3, 3]), (300, 128, [100] * 3), (1, 7, [1]), (5, 1, [1] * 5)],
)
def test_runs_are_shared_out_evenly_over_as_few_fleets_as_possible(count, most, expected):
    assert fleet_sizes(count, most) == expected


def out_of_memory(count):
    raise torch.cuda.OutOfMemoryError


def test_a_few_runs_need_no_measuring():
    assert max_models(size.LARGE_FLEET, 1, out_of_memory) == size.LARGE_FLEET


@pytest.mark.parametrize(
    ("free", "expected"), [(1000, 80), (500, 35), (150, 3), (50, 1), (10**6, 90)]
)
def test_the_size_follows_from_free_memory_and_two_measurements(free, expected):
    assert max_models(90, free, lambda count: 100 + 10 * count) == expected


def in_pieces(count, piece=200):
    """10 bytes per model, allocated in blocks, so that small fleets use more per model."""
    return 100 + 10 * count + (piece if count == size.LARGE_FLEET else 0)


def test_a_larger_fleet_is_measured_if_not_all_models_fit():
    asked = []

    def measure(count):
        asked.append(count)
        return in_pieces(count)

    # Small fleets suggest 60 bytes per model, hence 150 models, but 890 fit.
    assert max_models(2000, 10_000, measure) == 890
    assert asked == [size.SMALL_FLEET, size.LARGE_FLEET, 75]


def test_a_larger_fleet_that_does_not_fit_is_not_the_answer():
    fits_less = max_models(
        2000, 10_000, lambda count: in_pieces(count) if count < 70 else out_of_memory(count)
    )
    assert fits_less == 37


def test_a_device_too_small_for_one_model_raises_an_error():
    with pytest.raises(UnweaveError, check=about("device", 2 * 10**9)):
        max_models(8, 2 * 10**9, out_of_memory)


def test_a_device_with_room_for_one_model_trains_them_one_by_one():
    assert max_models(8, 10**9, lambda count: 10**9 if count == 1 else out_of_memory(count)) == 1


@pytest.mark.parametrize("roomy", [size.ROOMY_BYTES, 1e15], ids=["estimated", "measured"])
def test_eight_models_fit_into_memory(data, monkeypatch, roomy):
    monkeypatch.setattr(size, "ROOMY_BYTES", roomy)
    assert fleet_capacity(runs(8), data, CPU) == 8


def test_the_estimate_exceeds_what_models_need(data):
    need = 62e6 * 4 / 64  # as measured for larger batches, see docs/engine.md
    assert size._roomy_bytes(runs(1)[0], data) > 4 * need
    ensemble = Config(method=uw.methods.VAEEnsemble(members=3), batch=4)
    assert size._roomy_bytes(ensemble, data) > 3 * size._roomy_bytes(runs(1)[0], data)


MEASURE = """
import torch
import unweave as uw
from unweave.models.config import Config
from unweave.fleet.capacity import memory_of_training
data = uw.data.load("dsprites").slice(scale=5, orientation=0, posX=range(0, 32, 4))
runs = [Config(method=uw.methods.VAE(), seed=seed, batch=4) for seed in range(9)]
print(*(memory_of_training(runs[:count], data, torch.device("cpu")) for count in (1, 9)))
"""


def test_more_models_take_more_memory(start):
    # In a separate process, since reused memory would not be measured.
    measuring = start(code=MEASURE)
    assert measuring.wait() == 0, measuring.stderr
    few, more = map(int, measuring.stdout.split())
    # 0.7 million parameters with two moments alone are 8 MB.
    assert more - few > 8 * 8e6


def test_the_size_of_a_fleet_changes_no_model(data, tmp_path):
    together = train_runs(runs(5), data, progress=False)
    apart = train_runs(runs(5), data, out=tmp_path, progress=False, fleet_size=2)
    assert [config.seed for config in apart.configs] == [0, 1, 2, 3, 4]
    for name, buffer in together.parameters.items():
        torch.testing.assert_close(apart.parameters[name], buffer, rtol=0, atol=1e-6)


def test_a_fleet_without_models_is_refused(data):
    with pytest.raises(UnweaveError, check=about("fleet_size", 0)):
        train_runs(runs(2), data, fleet_size=0, progress=False)
