"""Objectives are checked in float64, on a fleet small enough for plain loops."""

import pytest
import torch
from small_fleet import SmallFleet


@pytest.fixture
def double(monkeypatch):
    """Let what asks for float32 compute in float64, so that equations hold to many digits."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


@pytest.fixture
def fleet(double):
    """Three models with their networks and a batch."""
    return SmallFleet.make()
