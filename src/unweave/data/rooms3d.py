r"""rooms3d: a coloured object in a coloured room, with the 480,000 images of the Shapes3D grid.

A small ray caster renders the scene. The object stands on the floor in the middle of a square room
without a ceiling, and the camera circles around it: orientation moves the corners of the room and
rotates the object. A ray is p(t) = o + t d. Solids are built from slabs and balls,

    slab    |p_k| ≤ h       between t = (-o_k - h) / d_k and t = (-o_k + h) / d_k
    ball    Σ_k p_k² ≤ r²   between the roots of a t² + 2 b t + c,
                            a = Σ_k d_k²,  b = Σ_k o_k d_k,  c = Σ_k o_k² - r²,

where a ball over x and z only is an infinite cylinder. With the unit normal n of the surface and
the unit vector l towards the lamp, the brightness is

    ambient + diffuse (1 + n·l) / 2,   times a constant where the object casts a shadow.

Brightness does not depend on hue, so a pixel, the mean over its rays, is linear in the colours,

    rgb = a_floor · floor + a_wall · wall + a_object · object + a_sky · white,

and four coefficient maps for each of 480 geometries suffice for all images.

References:
    Burgess & Kim, 3D Shapes Dataset, 2018 (github.com/google-deepmind/3d-shapes): factors and
    look. Camera, lamp and sizes differ, since those of the original are not published.
"""

import colorsys
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from unweave.data.cached_files import open_array, whole_array
from unweave.data.dataset import Dataset
from unweave.data.grid import Array, Factor, Grid
from unweave.data.stores import Bytes
from unweave.io.writing import cache_folder
from unweave.progress import track

__all__ = ["GRID", "Painted", "load", "render"]

HUES = np.arange(10) / 10
SCALES = np.linspace(0.75, 1.25, 8)
SHAPES = ("cube", "cylinder", "sphere", "capsule")
DEGREES = np.linspace(-30, 30, 15)

GRID = Grid(
    (
        Factor("floor_hue", HUES),
        Factor("wall_hue", HUES),
        Factor("object_hue", HUES),
        Factor("scale", SCALES),
        Factor("shape", SHAPES, categorical=True),
        Factor("orientation", DEGREES),
    )
)

SIDE = 64
SPLIT = 4  # a pixel is the mean of SPLIT × SPLIT rays
FLOOR, WALL, OBJECT, SKY = range(4)
LAYERS_SHAPE = (len(SCALES), len(SHAPES), len(DEGREES), 4, SIDE * SIDE)

CAMERA_RADIUS, CAMERA_HEIGHT, TARGET_HEIGHT = 6.0, 2.1, 0.1
VIEW = np.tan(np.radians(26))  # tangent of half the angle of view
FLOOR_HEIGHT, WALL_HEIGHT, HALF_WIDTH = -1.2, 2.8, 4.7
LAMP = np.array([[-4.5], [9.0], [1.0]])
LAMP_SIZE = 1.6
AMBIENT, DIFFUSE, SHADED = 0.25, 0.75, 0.6

# Sizes at scale 1; the capsule is a cylinder of this half height with a ball at each end.
CUBE_HALF, CYLINDER_HALF, CYLINDER_RADIUS, SPHERE_RADIUS = 0.85, 0.9, 0.9, 1.0
CAPSULE_HALF, CAPSULE_RADIUS = 0.6, 0.72
HALF_HEIGHTS = (CUBE_HALF, CYLINDER_HALF, SPHERE_RADIUS, CAPSULE_HALF + CAPSULE_RADIUS)

Span = tuple[np.ndarray, np.ndarray]
"""Values of t at which each ray enters and leaves a solid; it misses if it leaves first."""


@dataclass(frozen=True, eq=False)
class Painted:
    """Images composed on demand: image `p * G + g` is geometry g in the colours of palette p.

    A byte is (Σ_l layers[g, l] · palettes[p, l] + 128) >> 8 in integers, the same on every device.

    Args:
        layers: Coefficients in 255ths with a sum of at most 255, uint8 `[G, L, H * W]`.
        palettes: Colours in 256ths, uint16 `[P, L, C]`.
        shape: Height, width and channels of an image.
    """

    layers: Array
    palettes: Array
    shape: tuple[int, int, int]

    @property
    def nbytes(self) -> int:
        return int(self.layers.nbytes + self.palettes.nbytes)

    def __len__(self) -> int:
        return len(self.layers) * len(self.palettes)

    def gather(self, indices: Array) -> Array:
        flat = indices.reshape(-1)
        mixed = self._mix(flat) if isinstance(flat, torch.Tensor) else self._mix_host(flat)
        return mixed.reshape(*indices.shape, *self.shape)

    def take(self, indices: np.ndarray) -> Bytes:
        return Bytes(self.gather(indices))

    def to(self, device: str | torch.device) -> "Painted":
        layers = torch.as_tensor(self.layers, device=device)
        # torch supports few operations in uint16
        palettes = torch.as_tensor(self.palettes).to(device, torch.int32)
        return Painted(layers, palettes, self.shape)

    def _mix(self, indices: torch.Tensor) -> torch.Tensor:
        layers = self.layers[indices % len(self.layers)].int()
        colours = self.palettes[indices // len(self.layers)]
        total = layers.new_full((len(indices), self.shape[2], layers.shape[2]), 128)
        for layer in range(layers.shape[1]):
            total.addcmul_(layers[:, None, layer], colours[:, layer, :, None])
        return (total >> 8).byte().mT

    def _mix_host(self, indices: np.ndarray) -> np.ndarray:
        height, width, channels = self.shape
        images = np.empty((len(indices), height * width, channels), np.uint8)
        for start in range(0, len(indices), 64):
            part = slice(start, start + 64)
            # 255 · 256 + 128 fits in 16 bits, which are the fastest.
            layers = self.layers[indices[part] % len(self.layers)].astype(np.uint16)
            colours = self.palettes[indices[part] // len(self.layers)]
            for channel in range(channels):
                total = np.einsum("nlp,nl->np", layers, colours[:, :, channel])
                images[part, :, channel] = (total + np.uint16(128)) >> 8
        return images


def load() -> Dataset:
    """Load rooms3d, whose 480 geometries are rendered into the cache on first use."""
    layers = cached_layers().reshape(-1, *LAYERS_SHAPE[-2:])
    return Dataset("rooms3d", Painted(layers, palettes(), (SIDE, SIDE, 3)), GRID)


def cached_layers() -> np.ndarray:
    """Return the coefficients of all geometries `[scale, shape, orientation, layer, pixel]`."""
    path = cache_folder() / "rooms3d" / "layers.npy"
    cached = open_array(path, LAYERS_SHAPE)
    if cached is not None:
        return np.asarray(cached)
    with whole_array(path, LAYERS_SHAPE) as out:
        # Orientation outermost, since the view of the room is cached for one at a time.
        angles = range(len(DEGREES))
        geometries = list(product(angles, range(len(SCALES)), range(len(SHAPES))))
        for orientation, scale, shape in track(geometries, "rendering rooms3d"):
            out[scale, shape, orientation] = render(scale, shape, orientation)
    result = open_array(path, LAYERS_SHAPE)
    assert result is not None
    return np.asarray(result)


def palettes() -> np.ndarray:
    """Return the colours of floor, wall, object and sky `[1000, 4, 3]` in 256ths, by index."""
    colours = [colorsys.hsv_to_rgb(hue, 1, 1) for hue in HUES]
    rows = [[*three, (1, 1, 1)] for three in product(colours, repeat=3)]
    return np.rint(256 * np.array(rows)).astype(np.uint16)


def render(scale: int, shape: int, orientation: int) -> np.ndarray:
    """Render the coefficients of floor, wall, object and sky, uint8 `[4, 64 * 64]`."""
    view, size = view_room(orientation), SCALES[scale]
    centre = np.array([[0], [FLOOR_HEIGHT + size * HALF_HEIGHTS[shape]], [0]])

    # The object is never behind a wall or beyond the lamp, so any hit on the line is a shadow.
    enters, leaves = intersect(shape, (view.points - centre) / size, view.to_lamp / size)
    brightness = np.where(enters < leaves, SHADED, 1) * view.brightness

    enters, leaves = intersect(shape, (view.eye - centre) / size, view.rays / size)
    hit = enters < leaves
    points = view.eye + enters[hit] * view.rays[:, hit]
    brightness[hit] = shade(points, normals(shape, (points - centre) / size))
    surfaces = np.where(hit, OBJECT, view.surfaces)

    layers = [np.where(surfaces == layer, brightness, 0) for layer in range(4)]
    means = np.reshape(layers, (4, SIDE * SIDE, SPLIT * SPLIT)).mean(-1)
    # Rounding the running sums keeps the sum of the four within 255.
    return np.diff(np.rint(255 * means.cumsum(0)), axis=0, prepend=0).astype(np.uint8)


class View(NamedTuple):
    """View of the empty room, with one entry per ray, pixel by pixel."""

    eye: np.ndarray
    rays: np.ndarray
    points: np.ndarray
    to_lamp: np.ndarray
    surfaces: np.ndarray
    brightness: np.ndarray


@lru_cache(maxsize=1)
def view_room(orientation: int) -> View:
    """Cast every ray to the floor or the walls, the far sides of a slab in x and one in z."""
    angle = np.radians(DEGREES[orientation])
    eye = np.array([CAMERA_RADIUS * np.sin(angle), CAMERA_HEIGHT, CAMERA_RADIUS * np.cos(angle)])
    forward = np.array([0, TARGET_HEIGHT, 0]) - eye
    forward /= np.linalg.norm(forward)
    right = np.array([np.cos(angle), 0, -np.sin(angle)])
    axes = np.stack([right, np.cross(right, forward), forward])

    pixel, part = np.arange(SIDE), (np.arange(SPLIT) + 0.5) / SPLIT
    across = ((pixel[:, None] + part) * 2 / SIDE - 1) * VIEW
    x, y = np.broadcast_arrays(across[None, :, None, :], -across[:, None, :, None])
    rays = axes.T @ np.stack([x, y, np.ones_like(x)]).reshape(3, -1)

    # Each ray of a pixel uses its own point of the lamp, which makes shadows soft. The points are
    # a square lattice, rotated so that an edge along x or z never hides two of them at once.
    u, v = np.meshgrid(part - 0.5, part - 0.5)
    offsets = np.stack([u + v / SPLIT, 0 * u, v - u / SPLIT]).reshape(3, -1)
    lamps = np.tile(LAMP + LAMP_SIZE * offsets, (1, SIDE * SIDE))

    eye = eye[:, None]
    floor = np.where(rays[1] < 0, (FLOOR_HEIGHT - eye[1]) / rays[1], np.inf)
    wall_x, wall_z = slab(eye, rays, 0, HALF_WIDTH)[1], slab(eye, rays, 2, HALF_WIDTH)[1]
    nearest = np.stack([wall_x, floor, wall_z])
    points = eye + nearest.min(0) * rays
    facing = np.arange(3)[:, None] == nearest.argmin(0)
    sky = points[1] > WALL_HEIGHT
    surfaces = np.where(facing[1], FLOOR, np.where(sky, SKY, WALL))
    brightness = np.where(sky, 1, shade(points, np.where(facing, -np.sign(rays), 0)))
    return View(eye, rays, points, lamps - points, surfaces, brightness)


def shade(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return the brightness of unshaded points `[3, n]` with unit normals `[3, n]`."""
    light = LAMP - points
    cosine = (normals * light).sum(0) / np.sqrt((light * light).sum(0))
    return AMBIENT + DIFFUSE * (1 + cosine) / 2


def intersect(shape: int, o: np.ndarray, d: np.ndarray) -> Span:
    """Intersect rays from o `[3, n]` along d `[3, n]` with a shape of scale 1 at the origin."""
    match SHAPES[shape]:
        case "cube":
            return inside_all(*(slab(o, d, axis, CUBE_HALF) for axis in range(3)))
        case "cylinder":
            return cylinder(o, d, CYLINDER_RADIUS, CYLINDER_HALF)
        case "sphere":
            return ball(o, d, SPHERE_RADIUS)
        case _:
            up = np.array([[0], [CAPSULE_HALF], [0]])
            balls = ball(o - up, d, CAPSULE_RADIUS), ball(o + up, d, CAPSULE_RADIUS)
            return inside_any(*balls, cylinder(o, d, CAPSULE_RADIUS, CAPSULE_HALF))


def normals(shape: int, p: np.ndarray) -> np.ndarray:
    """Return unit normals at points p `[3, n]` on the surface of a shape of scale 1."""
    x, y, z = p
    match SHAPES[shape]:
        case "cube":
            n = np.where(abs(p) == abs(p).max(0), p, 0)
        case "cylinder":
            end = abs(y) / CYLINDER_HALF > np.hypot(x, z) / CYLINDER_RADIUS
            n = np.where(end, [0 * x, y, 0 * z], [x, 0 * y, z])
        case "sphere":
            n = p
        case _:
            n = np.stack([x, y - y.clip(-CAPSULE_HALF, CAPSULE_HALF), z])
    return n / np.sqrt((n * n).sum(0))


def slab(o: np.ndarray, d: np.ndarray, axis: int, half: float) -> Span:
    """Return the span where |p_axis| ≤ half."""
    one, two = (-half - o[axis]) / d[axis], (half - o[axis]) / d[axis]
    return np.minimum(one, two), np.maximum(one, two)


def ball(o: np.ndarray, d: np.ndarray, radius: float) -> Span:
    """Return the span where Σ_k p_k² ≤ radius², over the given axes."""
    a, b = (d * d).sum(0), (o * d).sum(0)
    discriminant = b * b - a * ((o * o).sum(0) - radius * radius)
    root = np.sqrt(discriminant.clip(0))
    return np.where(discriminant > 0, (-b - root) / a, np.inf), (-b + root) / a


def cylinder(o: np.ndarray, d: np.ndarray, radius: float, half: float) -> Span:
    """Return the span where x² + z² ≤ radius² and |y| ≤ half."""
    return inside_all(ball(o[::2], d[::2], radius), slab(o, d, 1, half))


def inside_all(*spans: Span) -> Span:
    """Return the intersection of the spans of convex solids."""
    enters, leaves = zip(*spans, strict=True)
    return np.maximum.reduce(enters), np.minimum.reduce(leaves)


def inside_any(*spans: Span) -> Span:
    """Return the union of the spans of solids whose union is convex."""
    enters = [np.where(enter < leave, enter, np.inf) for enter, leave in spans]
    leaves = [np.where(enter < leave, leave, -np.inf) for enter, leave in spans]
    return np.minimum.reduce(enters), np.maximum.reduce(leaves)
