import hashlib

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.data import infinite_dsprites
from unweave.errors import UnweaveError

# SHA-256 of the images of RandomDSprites in idsprites 1.0.1, with OpenCV 4.11 and 5.0.
PUBLISHED = {
    (100, 10, 64, 0): "05a6410d9650f460017d352cd68b91be660a5a5df162f9295830e1cd1b73e3b9",
    (30, 30, 16, 1): "86c3561444233e5a650b996e20a3f98a96d762978a4d67a46bab3190ca4e2006",
    (20, 5, 100, 2): "34f9d1875157bf04551906be536b5a737f614f1ba53f4e96b1c69476941c02f4",
    (10, 3, 256, 3): "000327ecca60f503ad1d4323e017c25abf1eb96ac8da477c30775f8e330f2759",
}


@pytest.mark.parametrize("options", PUBLISHED)
def test_images_are_those_of_the_package(options):
    count, shapes, size, seed = options
    data = infinite_dsprites.load(count, shapes, size, seed)
    images = data.images(np.arange(count))
    assert images.shape == (count, size, size, 1)
    assert hashlib.sha256(images.tobytes()).hexdigest() == PUBLISHED[options]


def test_factors_are_those_of_the_images():
    data = uw.data.load("infinite-dsprites", count=40, shapes=4)
    assert data.labels.names == ("shape", "scale", "orientation", "position_x", "position_y")
    assert [len(axis) for axis in data.labels.axes] == [4, 32, 32, 32, 32]
    random = np.random.RandomState(0)
    shapes = [infinite_dsprites.make_shape(random, 64) for _ in range(4)]
    for number, (shape, *pose) in enumerate(data.factors(range(40))):
        values = [axis.values[k] for axis, k in zip(data.labels.axes[1:], pose, strict=True)]
        drawn = infinite_dsprites.render(shapes[shape], values, 64)
        np.testing.assert_array_equal(data.images(number)[..., 0], drawn)
    # A shape that is fully visible is where its position says, to the nearest pixel.
    image = infinite_dsprites.render(shapes[0], [0.5, 0.0, 0.0, 1.0], 64)
    rows, columns = np.nonzero(image != 169)
    assert abs(rows.mean() - 48) < 1
    assert abs(columns.mean() - 16) < 1


def test_a_shorter_data_set_is_the_start_of_a_longer_one():
    short, long = (infinite_dsprites.load(count, shapes=3, size=16) for count in (5, 9))
    np.testing.assert_array_equal(short.images(range(5)), long.images(range(5)))
    np.testing.assert_array_equal(short.factors(range(5)), long.factors(range(5)))
    other = infinite_dsprites.load(5, shapes=3, size=16, seed=1)
    assert np.any(other.images(range(5)) != short.images(range(5)))


def test_principal_axis_agrees_with_pca():
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    for _ in range(20):
        points = rng.normal(size=(2, 2)) @ rng.normal(size=(2, 100))
        x, y = PCA(n_components=2).fit(points.T).components_[0]
        assert infinite_dsprites._principal_angle(points) == pytest.approx(np.arctan2(y, x))


def test_filled_polygon():
    """A slanted polygon that leaves the image, pixel by pixel: `#` as in OpenCV's fillPoly."""
    filled = infinite_dsprites.fill(np.array([[1, 1], [9, 3], [4, 4], [3, 9], [-3, 5]]), 8)
    drawn = ["".join(".#"[pixel] for pixel in row) for row in filled.astype(int)]
    assert drawn == [
        "........",
        ".##.....",
        "######..",
        "########",
        "######..",
        "#####...",
        "####....",
        "####....",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", 0), ("shapes", 0), ("size", 15), ("size", 257), ("seed", 1 << 32), ("seed", -1)],
)
def test_options_out_of_range(name, value):
    with pytest.raises(UnweaveError, check=about(name, value)):
        infinite_dsprites.load(**{"count": 1, "shapes": 1, name: value})
