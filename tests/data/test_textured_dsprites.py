"""Textured dSprites: pixels match the formula, sprites match dSprites, devices agree."""

import colorsys
import hashlib
import math

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.data.textured_dsprites import GRID, MATERIALS

# Of 512 images, computed on a CPU; another value means that other images are made.
DIGEST = "dae239bb7768726b"


@pytest.fixture(scope="module")
def data():
    return uw.data.load("textured-dsprites")


@pytest.fixture(scope="module")
def sprites():
    return uw.data.load("dsprites")


@pytest.fixture(scope="module")
def some(data):
    return np.random.default_rng(0).integers(0, len(data), 100)


def textbook(data, factors, column, row):
    """What the formula says of one pixel: on the sprite and on the ground, each before rounding.

    The tile is taken without cells, so cells of 1/32 wavelength make a difference; the largest
    and the smallest value near the place are given.
    """
    _, _, turn, x, y, material = factors
    pattern, wavelength = MATERIALS[material].split()[0], 3 + material * 3 % 4 / 2
    direction, phase = math.pi * (material * 5 % 16) / 16, (material * 7 % 16) / 16
    hue = (material * 11 % 16) / 16
    light, dark = colorsys.hsv_to_rgb(hue, 0.5, 1), colorsys.hsv_to_rgb(hue + 0.1, 0.9, 0.35)

    def share(theta, x0, y0):
        alpha, dx, dy = direction + theta, column + 0.5 - x0, row + 0.5 - y0
        i = (math.cos(alpha) * dx - math.sin(alpha) * dy) / wavelength + phase
        j = (math.sin(alpha) * dx + math.cos(alpha) * dy) / wavelength + phase
        shares = []
        # A cell stands for its lower corner; places are kept to less than a tenth of a cell.
        for down, back in np.ndindex(8, 8):
            p, q = 2 * math.pi * (i - (down - 0.5) / 192), 2 * math.pi * (j - (back - 0.5) / 192)
            a, b = math.cos(p), math.cos(q)
            shares.append(
                {
                    "stripes": (1 + a) / 2,
                    "checks": (1 + a * b) / 2,
                    "dots": (1 + a) * (1 + b) / 4,
                    "waves": (1 + math.cos(p + math.pi / 2 * math.sin(q))) / 2,
                }[pattern]
            )
        return np.array(shares)

    angle = data.grid.axes[2].values[turn]
    here = share(angle, 16 + 32 * x / 31, 16 + 32 * y / 31)[:, None]
    cloth = 255 * (here * np.array(light) + (1 - here) * np.array(dark))
    ground = 24 + 32 * share(0, 32, 32)[:, None]
    return cloth, ground


def test_the_factors_are_those_of_dsprites_and_the_material(data, sprites):
    assert data.grid.names == (*sprites.grid.names, "material")
    assert data.grid.sizes == (3, 6, 40, 32, 32, 16)
    assert len(data) == 16 * 737_280
    assert len(set(MATERIALS)) == 16
    assert GRID.axes[-1].categorical
    assert data.factors([16 * 5 + 3]).tolist() == [[0, 0, 0, 0, 5, 3]]
    assert not data.random


def test_images_have_the_recorded_hash(data):
    indices = np.random.default_rng(1).integers(0, len(data), 512)
    assert hashlib.sha256(data.images(indices).tobytes()).hexdigest()[:16] == DIGEST


def test_pixels_match_the_formula(data, sprites, some):
    rng = np.random.default_rng(2)
    for index, image in zip(some, data.images(some), strict=True):
        covered = sprites.images(index // 16)[..., 0] > 0
        for row, column in (
            *rng.permutation(np.argwhere(covered))[:3],
            *rng.integers(0, 64, (2, 2)),
        ):
            cloth, ground = textbook(data, data.factors(index), column, row)
            near = cloth if covered[row, column] else ground
            assert (image[row, column] >= near.min(0) - 0.51).all()
            assert (image[row, column] <= near.max(0) + 0.51).all()


def test_sprites_match_dsprites_and_are_brighter_than_the_background(data, sprites, some):
    images, covered = data.images(some), sprites.images(some // 16)[..., 0] > 0
    ground = images[~covered]
    assert (ground == ground[:, :1]).all()
    assert ground.min() == 24
    assert ground.max() == 56
    assert images[covered].max(-1).min() > 56


def test_the_background_depends_only_on_the_material(data, some):
    factors = np.random.default_rng(3).integers(0, GRID.sizes, (200, 6))
    images = data.images(data.index(factors))
    grey = (images == images[..., :1]).all(-1, keepdims=True) & (images <= 56)
    backgrounds = []
    for material in range(16):
        same = factors[:, -1] == material
        seen = np.where(grey[same], images[same], 0)
        ground = seen.max(0)
        assert (
            seen[grey[same][..., 0]] == np.broadcast_to(ground, seen.shape)[grey[same][..., 0]]
        ).all()
        backgrounds.append(ground)
    different = [(a != b).mean() > 0.5 for k, a in enumerate(backgrounds) for b in backgrounds[:k]]
    assert all(different)


def test_the_texture_moves_with_the_sprite(data, sprites):
    """The first and last positions are exactly 32 pixels apart, so the bytes are the same."""
    for material in range(16):
        near, far = ([2, 5, 7, place, place, material] for place in (0, 31))
        covered = sprites.images(sprites.index(near[:5]))[:32, :32, 0] > 0
        one, other = data.images(data.index(near)), data.images(data.index(far))
        np.testing.assert_array_equal(one[:32, :32][covered], other[32:, 32:][covered])


def test_the_texture_rotates_with_the_sprite(data, sprites):
    """The dominant Fourier direction of the texture rotates with the orientation."""
    for turn in (0, 5, 10, 20, 33):
        factors = [0, 5, turn, 16, 16, 0]
        covered = sprites.images(sprites.index(factors[:5]))[..., 0] > 0
        grey = data.images(data.index(factors)).mean(-1)
        wave = np.where(covered, grey - grey[covered].mean(), 0)
        power = np.abs(np.fft.fft2(wave, (512, 512)))
        rows, columns = np.fft.fftfreq(512)[:, None], np.fft.fftfreq(512)
        power[np.hypot(rows, columns) < 1 / 6] = 0  # the outline
        row, column = np.unravel_index(power.argmax(), power.shape)
        direction = math.atan2(-rows[row, 0], columns[column])
        expected = GRID.axes[2].values[turn]
        assert abs(math.remainder(direction - expected, math.pi)) < 0.12, turn
        assert math.hypot(rows[row, 0], columns[column]) == pytest.approx(1 / 3, abs=0.02)


def test_the_detail_is_finer_than_a_small_image_can_hold(data, some):
    """Downsampling by four removes most of the variation within sprite and background."""
    images = data.images(some).astype(float)
    blurred = images.reshape(-1, 16, 4, 16, 4, 3).mean((2, 4)).repeat(4, 1).repeat(4, 2)
    ground = (images <= 56).all((-1,))[..., None]
    inside = np.where(ground, images - blurred, 0)
    assert inside.std() > 0.8 * np.where(ground, images - images[ground[..., 0]].mean(), 0).std()


def test_images_do_not_depend_on_the_order_or_shape_of_indices(data, some):
    images = data.images(some)
    order = np.random.default_rng(4).permutation(len(some))
    np.testing.assert_array_equal(data.images(some[order]), images[order])
    np.testing.assert_array_equal(data.images(some[3]), images[3])
    np.testing.assert_array_equal(
        data.images(some.reshape(4, 25)), images.reshape(4, 25, 64, 64, 3)
    )
    assert images.dtype == np.uint8


def test_torch_gives_the_same_bytes(data, some):
    tensors = data.to("cpu")
    for shape in [(100,), (4, 25), (1,)]:
        indices = torch.as_tensor(some[: math.prod(shape)]).reshape(shape)
        images = tensors.store.gather(indices)
        assert images.dtype == torch.uint8
        np.testing.assert_array_equal(images, data.images(indices.numpy()))
    assert tensors.store.gather(torch.arange(0)).shape == (0, 64, 64, 3)
    assert data.images(np.arange(0)).shape == (0, 64, 64, 3)


def test_a_slice_contains_the_chosen_images_without_rendering_them(data):
    small = data.slice(shape=[0, 2], orientation=range(0, 40, 10), material=[3, 12])
    assert len(small) == 2 * 6 * 4 * 32 * 32 * 2
    factors = np.random.default_rng(5).integers(0, small.grid.sizes, (50, 6))
    whole = factors * [2, 1, 10, 1, 1, 9] + [0, 0, 0, 0, 0, 3]
    expected = data.images(data.index(whole))
    np.testing.assert_array_equal(small.images(small.index(factors)), expected)
    on_device = small.to("cpu")
    np.testing.assert_array_equal(on_device.images(small.index(factors)), expected)
    smaller = small.slice(material=1)
    np.testing.assert_array_equal(smaller.images(7), small.images(15))
    assert small.store.nbytes < data.store.nbytes + 8 * len(small) + 1


def test_a_saved_origin_recreates_the_same_data(data):
    from unweave.data.origin import rebuild

    small = data.slice(shape=1, material=[2, 5])
    again = rebuild(small.origin)
    assert again.name == "textured_dsprites"
    np.testing.assert_array_equal(again.images([5, 9_000]), small.images([5, 9_000]))
