"""Fixed seed of torch's global generator in every test."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
