"""Packed bits unpacked on a GPU as on the host; without a GPU, in Triton's interpreter."""

import numpy as np
import pytest
import torch

from unweave.data.stores import Bits
from unweave.kernels import gpu_bits as bits_gpu

COUNT = 7
INDICES = [
    torch.tensor(4),
    torch.tensor([6]),
    torch.tensor([[6, 0, 3], [3, 3, 1]]),
    torch.tensor([[6, 0, 3], [3, 5, 1]]).T,
    torch.tensor([[[0, 1], [2, 3], [6, 5]]]),
    torch.zeros(0, dtype=torch.int64),
]


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 3, 1), (4, 4, 3), (32, 32, 1), (31, 37, 1), (32, 32, 3)], ids=str
)
def test_images_are_those_of_the_host(device, shape):
    drawn = np.random.default_rng(0).integers(0, 2, (COUNT, *shape), dtype=np.uint8)
    host = Bits.pack(drawn)
    array = host.to(device).array
    for indices in INDICES:
        images = bits_gpu.gather(array, indices.to(device), shape)
        assert images.dtype == torch.uint8
        np.testing.assert_array_equal(images.cpu().numpy(), host.gather(indices.numpy()))
        np.testing.assert_array_equal(images.cpu().numpy(), 255 * drawn[indices.numpy()])


@pytest.mark.parametrize(
    "indices",
    [torch.arange(6)[::2], torch.arange(6)[2:3].expand(3)],
    ids=["every second", "shared"],
)
def test_indices_may_be_views(device, indices):
    drawn = np.random.default_rng(0).integers(0, 2, (COUNT, 5, 3, 1), dtype=np.uint8)
    images = bits_gpu.gather(Bits.pack(drawn).to(device).array, indices.to(device), (5, 3, 1))
    np.testing.assert_array_equal(images.cpu().numpy(), 255 * drawn[indices.numpy()])
