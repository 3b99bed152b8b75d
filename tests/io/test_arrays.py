"""Conversion of arrays and tensors."""

import numpy as np
import pytest
import torch

from unweave.io.arrays import cast


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
def test_cast_gives_the_same_numbers_in_both_libraries(dtype):
    values = np.array([[0, 7], [200, 100]])
    array, tensor = cast(values, dtype), cast(torch.from_numpy(values), dtype)
    assert array.dtype == np.dtype(dtype)
    assert tensor.dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_cast_accepts_a_single_number():
    assert cast(np.int64(3), "int16").dtype == np.int16
