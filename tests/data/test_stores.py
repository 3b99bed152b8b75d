"""Stores give back the images that went in, on host and device alike."""

import numpy as np
import pytest
import torch

from unweave.data.stores import Bits, Bytes


@pytest.mark.parametrize("shape", [(8, 8, 1), (5, 3, 1), (4, 4, 3)])
def test_bits_unpack_to_the_images_that_were_packed(shape):
    images = np.random.default_rng(0).integers(0, 2, (7, *shape), dtype=np.uint8) * 255
    store = Bits.pack(images)
    assert store.nbytes == 7 * -(-np.prod(shape) // 8)
    indices = np.array([[6, 0], [3, 3]])
    np.testing.assert_array_equal(store.gather(indices), images[indices])
    on_device = store.to("cpu").gather(torch.from_numpy(indices))
    assert on_device.dtype == torch.uint8
    np.testing.assert_array_equal(on_device.numpy(), images[indices])
    np.testing.assert_array_equal(
        store.take(np.array([5, 2])).gather(np.arange(2)), images[[5, 2]]
    )


def test_bytes_gather_take_and_move():
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
    images.flags.writeable = False
    store = Bytes(images)
    assert (len(store), store.shape, store.nbytes) == (5, (4, 6, 3), images.nbytes)
    np.testing.assert_array_equal(store.gather([4, 1]), images[[4, 1]])
    np.testing.assert_array_equal(store.take(np.array([2])).gather([0]), images[[2]])
    moved = store.to("cpu").gather(torch.tensor([4, 1]))
    np.testing.assert_array_equal(moved.numpy(), images[[4, 1]])
