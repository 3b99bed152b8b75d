"""Pictures of images with any number of channels."""

import numpy as np
import pytest

from unweave.plots.sheet import pictures_of


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "L"), (3, "RGB"), (5, "RGB")])
def test_pictures_show_the_first_channels(channels, mode):
    images = np.random.default_rng(0).integers(0, 256, (2, 6, 9, channels), np.uint8)
    for picture, image in zip(pictures_of(images), images, strict=True):
        assert picture.mode == mode
        shown = np.asarray(picture).reshape(6, 9, -1)
        assert np.array_equal(shown, image[..., : shown.shape[-1]])
