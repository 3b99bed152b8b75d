"""Batches that are read ahead of the steps of a GPU, tested on a CPU too."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.data import streaming
from unweave.data.streaming import OnDisk, Streamed
from unweave.fleet.engine import Engine
from unweave.fleet.feeding import read_ahead
from unweave.fleet.train import all_runs

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 3), dtype=np.uint8)
FACTORS = {"one": np.arange(24) // 6, "two": np.arange(24) % 6}


def test_images_are_those_of_the_indices_and_draws_are_one_step_ahead():
    images, drawn = Streamed(OnDisk.of(IMAGES)), []

    def draws():
        for step in range(5):
            drawn.append(step)
            yield [torch.tensor([[step, 7], [7, 0]]), torch.tensor([[23 - step]])]

    addresses = set()
    for step, (pairs, single) in enumerate(read_ahead(images, draws(), torch.device("cpu"))):
        assert len(drawn) == min(step + 2, 5)
        assert np.array_equal(pairs, IMAGES[[[step, 7], [7, 0]]])
        assert np.array_equal(single, IMAGES[[[23 - step]]])
        addresses.add((pairs.data_ptr(), single.data_ptr()))
    assert len(drawn) == 5
    assert len(addresses) == 1


@pytest.mark.parametrize(
    "methods",
    [
        [uw.methods.BetaVAE(beta=[1, 4])],
        [uw.methods.AdaGVAE()],
        ["vae", uw.methods.AdaGVAE(), uw.methods.FactorVAE(gamma=10), uw.methods.AdaMLVAE()],
    ],
    ids=["single", "pairs", "both"],
)
def test_fed_steps_have_the_weights_of_steps_on_images_in_memory(tmp_path, methods, monkeypatch):
    np.save(tmp_path / "images.npy", IMAGES)

    def engine():
        data = uw.data.load(tmp_path / "images.npy", factors=FACTORS)
        runs = all_runs(methods, data, 2, 10, batch=4, latents=3, architecture="small_mlp")
        return Engine(runs, data, "cpu")

    expected = engine()
    expected._runner.run(expected._step, 5)
    monkeypatch.setattr(streaming, "SHARE", 0)
    fed = engine()
    store = fed.data.store
    for steps in (2, 3):
        fed._advance_streamed(store, steps)
    assert not store.queue
    assert int(fed.step) == 5
    for name, group in expected.groups.items():
        assert torch.equal(group.parameters, fed.groups[name].parameters)
