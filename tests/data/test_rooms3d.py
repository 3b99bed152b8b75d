import colorsys
import math
import shutil
from itertools import combinations

import numpy as np
import pytest
import torch

from unweave.data import rooms3d
from unweave.data.rooms3d import (
    AMBIENT,
    CAMERA_HEIGHT,
    CAMERA_RADIUS,
    CAPSULE_HALF,
    CAPSULE_RADIUS,
    CUBE_HALF,
    CYLINDER_HALF,
    CYLINDER_RADIUS,
    DEGREES,
    DIFFUSE,
    FLOOR,
    FLOOR_HEIGHT,
    GRID,
    HALF_HEIGHTS,
    HALF_WIDTH,
    LAMP_SIZE,
    OBJECT,
    SCALES,
    SHADED,
    SHAPES,
    SKY,
    SPHERE_RADIUS,
    TARGET_HEIGHT,
    VIEW,
    WALL,
    WALL_HEIGHT,
)

LAMP = rooms3d.LAMP[:, 0].tolist()
TILT = math.atan2(CAMERA_HEIGHT - TARGET_HEIGHT, CAMERA_RADIUS)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def data(cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNWEAVE_CACHE", str(cache))
        return rooms3d.load()


@pytest.fixture(scope="module")
def layers(data):
    """Coefficients [scale, shape, orientation, layer, row, column] as integers."""
    return data.store.layers.reshape(8, 4, 15, 4, 64, 64).astype(int)


def test_the_grid_matches_shapes3d():
    names = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
    assert GRID.names == names
    assert GRID.sizes == (10, 10, 10, 8, 4, 15)
    assert [axis.categorical for axis in GRID.axes] == [name == "shape" for name in names]
    np.testing.assert_allclose(GRID.axes[0].values, [k / 10 for k in range(10)])
    np.testing.assert_allclose(GRID.axes[3].values, [0.75 + k / 14 for k in range(8)])
    np.testing.assert_allclose(GRID.axes[5].values, [60 * k / 14 - 30 for k in range(15)])


def test_load_returns_all_images_in_index_order(data):
    assert data.name == "rooms3d"
    assert len(data) == 480_000
    assert data.shape == (64, 64, 3)
    assert data.factors([1, 479_999]).tolist() == [[0, 0, 0, 0, 0, 1], [9, 9, 9, 7, 3, 14]]
    for index in np.random.default_rng(0).integers(0, len(data), 10):
        *hues, scale, shape, orientation = data.factors(index).tolist()
        colours = [colorsys.hsv_to_rgb(hue / 10, 1, 1) for hue in hues] + [(1, 1, 1)]
        drawn = np.einsum("lp,lc->pc", rooms3d.render(scale, shape, orientation), colours)
        difference = data.images(index).reshape(-1, 3) - drawn
        assert np.abs(difference).max() < 1.01


def test_coefficients_sum_to_at_most_one(layers):
    assert layers.sum(3).max() == 255
    assert layers.sum(3).min() > 50


@pytest.mark.parametrize("layer", [FLOOR, WALL, OBJECT])
def test_a_hue_changes_its_own_surface_only(data, layers, layer):
    rng = np.random.default_rng(layer)
    for factors in rng.integers(0, GRID.sizes, (20, 6)):
        other = factors.copy()
        other[layer] = (factors[layer] + rng.integers(1, 10)) % 10
        changed = (data.images(data.index(factors)) != data.images(data.index(other))).any(-1)
        coefficient = layers[tuple(factors[3:])][layer]
        assert not changed[coefficient == 0].any()
        assert changed[coefficient > 10].all()


@pytest.mark.parametrize("layer", [FLOOR, WALL, OBJECT])
@pytest.mark.parametrize("hue", range(10))
def test_a_surface_has_the_hue_of_its_class(data, layers, layer, hue):
    factors = np.array([1, 4, 8, 5, 1, 9])
    factors[layer] = hue
    here = layers[5, 1, 9]
    alone = (here[layer] > 100) & (here.sum(0) == here[layer])
    pixels = data.images(data.index(factors))[alone].astype(int)
    assert len(pixels) > 200
    expected = here[layer][alone][:, None] * np.array(colorsys.hsv_to_rgb(hue / 10, 1, 1))
    assert np.abs(pixels - expected).max() < 1.01


def test_the_sky_is_white(data, layers):
    assert (layers[..., SKY, :, :].max((-1, -2)) == 255).all()
    corner_of_room = layers[0, 0, 0, SKY] == 255
    assert (data.images(0)[corner_of_room] == 255).all()


def test_objects_grow_with_scale_and_stay_inside_the_image(layers):
    covered = layers[:, :, :, OBJECT] > 0
    areas = covered.sum((-1, -2))
    assert (np.diff(areas, axis=0) > 0).all()
    assert (areas[-1] > 2 * areas[0]).all()
    outside = np.ones((64, 64), dtype=bool)
    outside[4:-4, 4:-4] = False
    assert not covered[..., outside].any()
    widths = covered.any(-2).sum(-1)
    assert widths.min() >= 12
    assert widths.max() <= 36


def test_shapes_and_orientations_look_different(layers):
    objects = layers[:, :, :, OBJECT]
    for one, two in combinations(range(4), 2):
        different = np.abs(objects[:, one] - objects[:, two]) > 40
        assert different.sum((-1, -2)).min() > 40, (SHAPES[one], SHAPES[two])
    walls = layers[:, :, :, WALL]
    for one, two in combinations(range(15), 2):
        different = np.abs(walls[:, :, one] - walls[:, :, two]) > 10
        assert different.sum((-1, -2)).min() > 60, (one, two)
    cubes = objects[:, 0]
    assert (np.abs(np.diff(cubes, axis=1)) > 20).sum((-1, -2)).min() > 10


def test_opposite_orientations_mirror_the_outlines(layers):
    covered = layers > 0
    mirrored = covered[:, :, ::-1, ..., ::-1]
    # A ray that only grazes an edge may miss it on one side.
    assert (covered != mirrored).sum((-1, -2)).max() <= 4


def test_the_object_casts_a_shadow_on_the_floor(layers):
    floor = np.where(layers.sum(3) == layers[:, :, :, FLOOR], layers[:, :, :, FLOOR], 0)
    dark = (floor > 0) & (floor < 0.65 * floor.max((-1, -2), keepdims=True))
    assert dark.sum((-1, -2)).min() > 5
    assert (dark.sum((-1, -2)) < 300).all()


def surface_points(shape):
    """Points of a shape of scale 1 that stands on the plane y = 0, enough to know its outline."""
    turn, rise = np.meshgrid(
        np.linspace(0, 2 * np.pi, 181), np.linspace(-np.pi / 2, np.pi / 2, 91)
    )
    ball = np.stack([np.cos(rise) * np.cos(turn), np.sin(rise), np.cos(rise) * np.sin(turn)])
    ball = ball.reshape(3, -1)
    sign = np.sign(ball[1])
    match SHAPES[shape]:
        case "cube":
            points = CUBE_HALF * np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1)
        case "cylinder":
            points = np.stack([np.cos(turn[0]), 1 + 0 * turn[0], np.sin(turn[0])])
            points = np.hstack([points, points * [[1], [-1], [1]]])
            points *= [[CYLINDER_RADIUS], [CYLINDER_HALF], [CYLINDER_RADIUS]]
        case "sphere":
            points = SPHERE_RADIUS * ball
        case _:
            points = CAPSULE_RADIUS * ball + CAPSULE_HALF * np.stack([0 * sign, sign, 0 * sign])
    points[1] -= points[1].min()
    return points


def project(points, degrees):
    """Project points in space to columns and rows, in pixels from the upper left."""
    angle = np.radians(degrees)
    x, y, z = points
    right = np.cos(angle) * x - np.sin(angle) * z
    near = CAMERA_RADIUS - (np.sin(angle) * x + np.cos(angle) * z)
    above = y - CAMERA_HEIGHT
    depth = np.cos(TILT) * near - np.sin(TILT) * above
    up = np.cos(TILT) * above + np.sin(TILT) * near
    return 32 * (1 + right / depth / VIEW), 32 * (1 - up / depth / VIEW)


def test_objects_stand_on_the_floor_and_have_their_size(layers):
    contact = np.array([[0.0], [FLOOR_HEIGHT], [0.0]])
    for scale, shape, turn in np.ndindex(8, 4, 15):
        covered = layers[scale, shape, turn, OBJECT] > 0
        column, row = (int(v[0]) for v in project(contact, DEGREES[turn]))
        assert covered[row, column]
        columns, rows = project(contact + SCALES[scale] * surface_points(shape), DEGREES[turn])
        seen_rows, seen_columns = covered.any(1).nonzero()[0], covered.any(0).nonzero()[0]
        edges = [rows.min(), rows.max(), columns.min(), columns.max()]
        seen = [seen_rows[0], seen_rows[-1] + 1, seen_columns[0], seen_columns[-1] + 1]
        assert np.abs(np.subtract(edges, seen)).max() < 1.3, (scale, shape, turn)


def distance(shape, size, p):
    """The signed distance from p to the surface of a shape that stands on the floor."""
    x, y, z = p[0] / size, (p[1] - FLOOR_HEIGHT) / size - HALF_HEIGHTS[shape], p[2] / size
    match SHAPES[shape]:
        case "cube":
            q = [abs(x) - CUBE_HALF, abs(y) - CUBE_HALF, abs(z) - CUBE_HALF]
        case "cylinder":
            q = [math.hypot(x, z) - CYLINDER_RADIUS, abs(y) - CYLINDER_HALF]
        case "sphere":
            return size * (math.hypot(x, y, z) - SPHERE_RADIUS)
        case _:
            beyond = max(abs(y) - CAPSULE_HALF, 0)
            return size * (math.hypot(x, beyond, z) - CAPSULE_RADIUS)
    return size * (min(max(q), 0) + math.hypot(*(max(v, 0) for v in q)))


def first_hit(function, o, d, far):
    """The least t in [0, far] at which a function, convex along the ray, is zero; or None."""

    def along(t):
        return function([a + t * b for a, b in zip(o, d, strict=True)])

    low, high = 0.0, far
    for _ in range(90):
        third = (high - low) / 3
        if along(low + third) < along(high - third):
            high -= third
        else:
            low += third
    if along(low) >= 0:
        return None
    outside, inside = 0.0, low
    for _ in range(60):
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if along(middle) > 0 else (outside, middle)
    return inside


def light(p, n):
    to_lamp = [a - b for a, b in zip(LAMP, p, strict=True)]
    cosine = sum(a * b for a, b in zip(n, to_lamp, strict=True)) / math.hypot(*to_lamp)
    return AMBIENT + DIFFUSE * (1 + cosine) / 2


def trace(geometry, pixel, part):
    """The surface and its brightness for the ray through one of the 4 × 4 parts of a pixel."""
    (scale, shape, orientation), (row, column), (i, j) = geometry, pixel, part

    def body(p):
        return distance(shape, SCALES[scale], p)

    angle = math.radians(DEGREES[orientation])
    eye = [CAMERA_RADIUS * math.sin(angle), CAMERA_HEIGHT, CAMERA_RADIUS * math.cos(angle)]
    right = ((column + (j + 0.5) / 4) / 32 - 1) * VIEW
    up = (1 - (row + (i + 0.5) / 4) / 32) * VIEW
    rise = up * math.cos(TILT) - math.sin(TILT)
    ahead = up * math.sin(TILT) + math.cos(TILT)
    d = [
        right * math.cos(angle) - ahead * math.sin(angle),
        rise,
        -right * math.sin(angle) - ahead * math.cos(angle),
    ]
    t = first_hit(body, eye, d, 12.0)
    if t is not None:
        p = [a + t * b for a, b in zip(eye, d, strict=True)]
        steps = [[1e-6 * (a == b) for a in range(3)] for b in range(3)]
        ends = [[[v + s * w for v, w in zip(p, e, strict=True)] for s in (1, -1)] for e in steps]
        n = [(body(a) - body(b)) / 2e-6 for a, b in ends]
        return OBJECT, light(p, n)

    planes = [(1, FLOOR_HEIGHT)] if d[1] < 0 else []
    planes += [(axis, math.copysign(HALF_WIDTH, d[axis])) for axis in (0, 2)]
    t, axis = min(((level - eye[axis]) / d[axis], axis) for axis, level in planes)
    p = [a + t * b for a, b in zip(eye, d, strict=True)]
    if p[1] > WALL_HEIGHT:
        return SKY, 1.0
    u, v = (j - 1.5) / 4, (i - 1.5) / 4
    lamp = [LAMP[0] + LAMP_SIZE * (u + v / 4), LAMP[1], LAMP[2] + LAMP_SIZE * (v - u / 4)]
    to_lamp = [a - b for a, b in zip(lamp, p, strict=True)]
    hidden = first_hit(body, p, to_lamp, 1.0) is not None
    n = [-math.copysign(a == axis, d[a]) for a in range(3)]
    return (FLOOR if axis == 1 else WALL), light(p, n) * (SHADED if hidden else 1)


@pytest.mark.parametrize("shape", range(4))
def test_pixels_agree_with_a_slow_ray_caster(layers, shape):
    rng = np.random.default_rng(shape)
    for scale, orientation in rng.integers(0, (8, 15), (5, 2)):
        here = layers[scale, shape, orientation]
        several = np.argwhere((here > 0).sum(0) > 1)
        inside = np.argwhere(here[OBJECT] > 0)
        places = [
            rng.choice(several),
            rng.choice(several),
            rng.choice(inside),
            *rng.integers(0, 64, (2, 2)),
        ]
        for row, column in places:
            expected = np.zeros(4)
            for part in np.ndindex(4, 4):
                surface, brightness = trace((scale, shape, orientation), (row, column), part)
                expected[surface] += 255 * brightness / 16
            assert np.abs(here[:, row, column] - expected).max() <= 1.001
            assert abs(here[:, row, column].sum() - expected.sum()) <= 0.501


def test_torch_gives_the_same_bytes(data):
    store = data.store.to("cpu").to("cpu")
    rng = np.random.default_rng(0)
    for shape in [(), (0,), (130,), (2, 3, 5)]:
        indices = rng.integers(0, len(data), shape)
        host, tensor = data.store.gather(indices), store.gather(torch.as_tensor(indices))
        assert host.dtype == np.uint8
        assert tensor.dtype == torch.uint8
        assert host.shape == (*shape, 64, 64, 3)
        np.testing.assert_array_equal(tensor.numpy(), host)
    assert len(store) == len(data)
    assert store.shape == data.store.shape


def test_extreme_coefficients_are_mixed_without_overflow():
    parts = np.array([[255, 0, 0, 100], [0, 255, 0, 100], [0, 0, 255, 55]], dtype=np.uint8)
    colours = np.random.default_rng(0).integers(0, 257, (7, 3, 2)).astype(np.uint16)
    colours[0] = 256
    store = rooms3d.Painted(parts[None], colours, (2, 2, 2))
    exact = (np.einsum("lp,ilc->ipc", parts.astype(int), colours.astype(int)) + 128) // 256
    assert exact.max() == 255
    images = store.gather(np.arange(7))
    np.testing.assert_array_equal(images, exact.reshape(7, 2, 2, 2))
    np.testing.assert_array_equal(store.to("cpu").gather(torch.arange(7)), images)


def test_a_slice_contains_the_chosen_images(data):
    small = data.slice(floor_hue=3, wall_hue=[0, 9], object_hue=7, scale=5, shape=2)
    assert len(small) == 30
    chosen = data.index([[3, 9, 7, 5, 2, turn] for turn in range(15)])
    np.testing.assert_array_equal(small.images(np.arange(15, 30)), data.images(chosen))


def test_loading_again_uses_the_cache(data, cache, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(cache))
    monkeypatch.delattr(rooms3d, "render")
    again = rooms3d.load()
    np.testing.assert_array_equal(again.images([7, 99_999]), data.images([7, 99_999]))


def test_a_truncated_cache_is_rendered_again(data, cache, tmp_path, monkeypatch):
    whole = (cache / "rooms3d" / "layers.npy").read_bytes()
    (tmp_path / "rooms3d").mkdir()
    (tmp_path / "rooms3d" / "layers.npy").write_bytes(whole[:-1000])
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path))
    monkeypatch.setattr(
        rooms3d, "render", lambda *geometry: data.index([0, 0, 0, *geometry]) % 251
    )
    layers = rooms3d.load().store.layers
    np.testing.assert_array_equal(layers[:, 2, 5], np.arange(480) % 251)
    assert (tmp_path / "rooms3d" / "layers.npy").stat().st_size == len(whole)


def test_a_damaged_cache_is_rendered_again(data, cache, tmp_path, monkeypatch):
    shutil.copytree(cache / "rooms3d", tmp_path / "rooms3d")
    file = tmp_path / "rooms3d" / "layers.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:5_000_000] + bytes([whole[5_000_000] ^ 1]) + whole[5_000_001:])
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path))
    monkeypatch.setattr(
        rooms3d, "render", lambda *geometry: data.index([0, 0, 0, *geometry]) % 251
    )
    layers = rooms3d.load().store.layers
    np.testing.assert_array_equal(layers[:, 2, 5], np.arange(480) % 251)
