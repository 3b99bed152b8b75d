"""Color-, Noisy- and Scream-dSprites: each pixel by its definition, each number uniform."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

import unweave as uw
from tests.raising import about
from unweave.data.catalog import RemoteFile
from unweave.data.dsprites_variants import read_painting
from unweave.errors import DataError
from unweave.random import Stream

INDICES = np.arange(0, 737_280, 7_321)


@pytest.fixture(scope="module")
def sprites():
    return uw.data.load("dsprites").images(INDICES)[..., 0] == 255


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """A picture that names each of its pixels: red is the column, green is the row."""
    rows, columns = np.mgrid[0:200, 0:250]
    pixels = np.stack([columns, rows, np.full_like(rows, 128)], -1).astype(np.uint8)
    path = tmp_path_factory.mktemp("picture") / "gradient.png"
    Image.fromarray(pixels).save(path)
    return path


def test_color_is_one_colour_per_sprite_on_black(sprites):
    data = uw.data.load("color-dsprites")
    pixels = data.pixels(INDICES, seed=3).numpy()
    assert data.shape == (64, 64, 3)
    assert (pixels[~sprites] == 0).all()
    colours = []
    for image, sprite in zip(pixels, sprites, strict=True):
        assert (image[sprite] == image[sprite][0]).all()
        colours.append(image[sprite][0])
    assert stats.kstest(np.ravel(colours), stats.uniform(0.5, 0.5).cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(np.array(colours).T) - np.eye(3)).max() < 0.35


def test_noise_is_uniform_off_the_sprite_and_the_sprite_is_white(sprites):
    pixels = uw.data.load("noisy-dsprites").pixels(INDICES, seed=3).numpy()
    assert (pixels[sprites] == 1).all()
    noise = pixels[~sprites]
    assert stats.kstest(noise.flatten()[::7], "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.01


def test_scream_is_a_tinted_crop_inverted_on_the_sprite(sprites, picture):
    data = uw.data.load("scream-dsprites", picture=picture)
    rows, columns = np.mgrid[0:64, 0:64]
    tints = []
    for image, sprite in zip(data.pixels(INDICES, seed=3).numpy(), sprites, strict=True):
        background = np.where(sprite[..., None], 1 - image, image) * 2 * 255
        crop = background - background[0, 0]
        np.testing.assert_allclose(crop[..., 0], columns, atol=1e-2)
        np.testing.assert_allclose(crop[..., 1], rows, atol=1e-2)
        tints.append((background[0, 0, 2] - 128) / 255)
    assert stats.kstest(tints, "uniform").pvalue > 1e-3


def test_crops_lie_uniformly_within_the_picture(picture):
    """With the tint set to nothing, the corner of a crop is its first pixel's red and green."""
    appearance = uw.data.load("scream-dsprites", picture=picture).appearance
    black = torch.zeros(1, 64, 64, 1).expand(2_000, -1, -1, -1)
    stream = Stream(0, "test")
    shown = appearance(black, stream, torch.arange(2_000))
    tint = stream.uniform(torch.arange(2_000), 5)[:, :3]
    corner = ((shown[:, 0, 0] * 2 - tint) * 255).round().long()
    left, top = corner[:, 0].numpy(), corner[:, 1].numpy()
    assert (left.min(), left.max()) == (0, 185)
    assert (top.min(), top.max()) == (0, 135)
    assert stats.kstest((left + 0.5) / 186, "uniform").pvalue > 1e-3
    assert stats.kstest((top + 0.5) / 136, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", ["color-dsprites", "noisy-dsprites"])
def test_one_seed_is_one_data_set_on_host_and_device(name):
    data = uw.data.load(name)
    host = data.images(INDICES[:10], seed=4)
    np.testing.assert_array_equal(host, data.images(INDICES[:10], seed=4))
    np.testing.assert_array_equal(host[3], data.images(INDICES[3], seed=4))
    np.testing.assert_array_equal(host, data.to("cpu").images(INDICES[:10], seed=4).numpy())
    assert (host != data.images(INDICES[:10], seed=5)).any()
    rounded = np.rint(data.pixels(INDICES[:10], seed=4).numpy() * 255)
    np.testing.assert_array_equal(host, rounded)


def test_images_of_a_batch_differ_even_where_the_index_repeats():
    data = uw.data.load("color-dsprites").slice(shape=0, scale=5, orientation=0, posX=0, posY=0)
    batch = data.draw(50, seed=0)
    assert len(np.unique(batch.images.max(axis=(1, 2)), axis=0)) > 45
    first, second = data.draw(50, seed=0).images, data.draw(50, seed=0, step=1).images
    assert (first != second).any()


def test_a_picture_is_reduced_as_in_the_protocol(tmp_path):
    path = tmp_path / "portrait.jpg"
    Image.fromarray(np.full((1900, 1500, 3), 90, dtype=np.uint8)).save(path)
    assert read_painting(path).shape == (274, 216, 3)
    assert read_painting(path).max() == pytest.approx(90 / 255, abs=0.01)


def test_missing_and_unusable_pictures_are_errors(tmp_path, publish):
    tiny = tmp_path / "tiny.png"
    Image.new("RGB", (64, 400)).save(tiny)
    with pytest.raises(DataError, check=about(tiny)):
        uw.data.load("scream-dsprites", picture=tiny)
    with pytest.raises(DataError, match=r"missing\.jpg"):
        uw.data.load("scream-dsprites", picture=tmp_path / "missing.jpg")
    urls = ("http://127.0.0.1:9/scream.jpg",)
    publish("scream_dsprites", RemoteFile(name="scream.jpg", urls=urls))
    with pytest.raises(DataError, match=r"scream\.jpg"):
        uw.data.load("scream-dsprites")


def test_a_picture_with_too_many_pixels_is_an_error(tmp_path):
    for side in (10_100, 20_000):
        path = tmp_path / f"{side}.png"
        Image.new("1", (side, side)).save(path)
        with pytest.raises(DataError, check=about(path, None)):
            uw.data.load("scream-dsprites", picture=path)
