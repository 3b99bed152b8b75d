"""Batches of images for encoding."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.models.batches import batch_size
from unweave.nets.architectures import build


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("architecture", ["conv", "big_conv", "mlp"])
def test_batches_are_multiples_of_64_and_smaller_for_more_models(device, architecture):
    networks = build(architecture, (64, 64, 1), 10)
    counts = [
        batch_size(networks, (64, 64, 1), models, torch.device(device))
        for models in (1, 3, 7, 1000, 5000)
    ]
    assert all(count > 0 and count % 64 == 0 for count in counts)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_images_too_large_for_64_of_them_come_one_by_one():
    assert batch_size((), (8192, 8192, 1), 1, torch.device("cuda")) == 2
    assert batch_size((), (2**14, 2**14, 1), 1, torch.device("cuda")) == 1


def test_pieces_of_any_size_are_encoded_to_the_same_bits(sprites, monkeypatch):
    fleet = uw.train(uw.methods.BetaVAE(), sprites, seeds=3, steps=1, batch=4, progress=False)
    whole = fleet.encode(sprites)
    monkeypatch.setattr("unweave.models.batches.CACHED_IMAGES", 30)
    for pieces, together in zip(fleet.encode(sprites), whole, strict=True):
        np.testing.assert_array_equal(pieces, together)
