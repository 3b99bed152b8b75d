import numpy as np
import pytest
import torch

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.quality.inception import check_width, resize


def resized_by_hand(image, side):
    """TensorFlow 1's bilinear interpolation, a pixel at a time."""
    height, width, channels = image.shape
    out = np.empty((side, side, channels))
    for row in range(side):
        for column in range(side):
            y, x = row * height / side, column * width / side
            top, left = int(y), int(x)
            bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
            upper = image[top, left] * (1 - (x - left)) + image[top, right] * (x - left)
            lower = image[bottom, left] * (1 - (x - left)) + image[bottom, right] * (x - left)
            out[row, column] = upper * (1 - (y - top)) + lower * (y - top)
    return out


@pytest.mark.parametrize("side", [3, 9, 20])
def test_images_are_resized_as_tensorflow_does(side):
    image = np.random.default_rng(0).random((9, 7, 3))
    found = resize(torch.from_numpy(image)[None].float(), side)[0]
    np.testing.assert_allclose(found, resized_by_hand(image, side), atol=1e-6)


def test_invalid_widths():
    with pytest.raises(UnweaveError, check=about("features", 100)):
        check_width(100)
