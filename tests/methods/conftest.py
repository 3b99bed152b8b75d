"""Objectives are checked in float64, on a fleet small enough for plain loops."""

import pytest
import torch

from tests.methods.small_fleet import SmallFleet
from tests.papers.ms_vae.conftest import first, sprites

__all__ = ["first", "sprites"]


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread, since tiny tensors do not benefit from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def double(monkeypatch):
    """Compute in float64 instead of float32, so that equations hold to many digits."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


@pytest.fixture
def fleet(double):
    """Three models with their networks and a batch."""
    return SmallFleet.make()
