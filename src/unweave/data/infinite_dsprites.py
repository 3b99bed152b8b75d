r"""Infinite dSprites: random shapes in random poses, bit-identical to those of PyPI's `idsprites`.

A shape has n ~ U{5, …, 8} vertices at angles 2πi/n + N(0, s/2), clipped to ±s with s = π/n - 10⁻⁶,
and radii N(1, 0.4), clipped to [0.1, 1.9]. A periodic spline of degree 3 or 1, with equal chances,
connects them. Its 1,000 points are rotated until their principal axis is vertical, scaled to a
bounding box of 1 × 1, and shifted so that the mean of the pixels is in the middle.

An image shows a white shape on grey (169) at

    0.45 size · scale · R(orientation) · points + size / 4 + size / 2 · (position_x, position_y)

with coordinates rounded towards zero. A pixel is set if it is on an edge of the polygon
(Bresenham's algorithm) or inside by the even-odd rule, as in OpenCV's `fillPoly` without
anti-aliasing. The right half of the shape is black, so that every orientation looks different.

The images are those of `RandomDSprites(img_size=size, shapes=shapes, dataset_size=count,
grayscale=True)` after `np.random.seed(seed)`, times 255. The factor `shape` is the shape in the
image; the package's `shape_id` is an unrelated random number if shapes are reused (version 1.0.1).

References:
    Dziadzio et al., Infinite dSprites for Disentangled Continual Learning, arXiv:2312.16731.
"""

from collections.abc import Sequence

import numba
import numpy as np

from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Labels
from unweave.data.stores import Bytes
from unweave.io.arguments import check_count
from unweave.progress import track

__all__ = ["POSE", "load", "render"]

LEVELS = 32
POSE = (
    Factor("scale", np.linspace(0.5, 1.0, LEVELS)),
    Factor("orientation", np.linspace(0, 2 * np.pi * LEVELS / (LEVELS + 1), LEVELS)),
    Factor("position_x", np.linspace(0, 1, LEVELS)),
    Factor("position_y", np.linspace(0, 1, LEVELS)),
)
"""Factors besides the shape."""

LENGTH = 0.45  # of a shape at scale 1, relative to the side of the image
POINTS = 1000
BLACK, GREY, WHITE = 0, 169, 255
ONE = 1 << 16  # crossings of edges and rows are computed in units of 2⁻¹⁶ pixels


def load(count: int = 10_000, shapes: int = 10, size: int = 64, seed: int = 0) -> Dataset:
    """Render random images.

    Args:
        count: Number of images (default: 10,000).
        shapes: Number of random shapes (default: 10).
        size: Side of the images, 16 to 256 pixels (default: 64).
        seed: Random seed of shapes and images, below 2³² (default: 0).
    """
    check_count("count", count, 1, 1_000_000)
    check_count("shapes", shapes, 1, 10_000)
    check_count("size", size, 16, 256)
    check_count("seed", seed, 0, 2**32 - 1)
    # The generator of the package, whose stream NumPy keeps unchanged.
    random = np.random.RandomState(seed)
    outlines = [make_shape(random, size) for _ in range(shapes)]
    classes = np.empty((count, 1 + len(POSE)), np.int64)
    images = np.empty((count, size, size, 1), np.uint8)
    for number in track(range(count), "rendering Infinite dSprites"):
        shape = random.randint(shapes)
        random.randint(shapes)  # the package draws another shape here and does not use it
        classes[number] = shape, *(random.randint(len(axis)) for axis in POSE)
        pose = [axis.values[k] for axis, k in zip(POSE, classes[number, 1:], strict=True)]
        images[number, ..., 0] = render(outlines[shape], pose, size)
    axes = (Factor("shape", np.arange(shapes), categorical=True), *POSE)
    return Dataset("infinite_dsprites", Bytes(images), labels=Labels(axes, classes))


def make_shape(random: np.random.RandomState, size: int) -> np.ndarray:
    """Return the points `[2, 1000]` of a random shape, centred for images of `size` pixels."""
    from scipy.interpolate import splev, splprep

    vertices = _vertices(random)
    degree = 3 if random.rand() < 0.5 else 1
    spline, places = splprep(np.column_stack([vertices, vertices[:, 0]]), s=0, per=1, k=degree)[:2]
    points = np.array(splev(np.linspace(places.min(), places.max(), POINTS), spline))
    points = _rotate(points, -_principal_angle(points) - np.pi / 2)
    points = points - points.mean(1, keepdims=True)
    # The package measures the bounding box in whole thousandths, including both ends.
    box = np.ptp((points * 1000).astype(np.int32), axis=1) + 1
    points = points / (box[:, None] / 1000)
    inside = fill(_whole(LENGTH * size * points + size / 2), size)
    centre = np.argwhere(inside).mean(0)[::-1]
    return points - (centre - size // 2)[:, None] / (LENGTH * size)


def render(points: np.ndarray, pose: Sequence[float], size: int) -> np.ndarray:
    """Draw a shape `[2, 1000]` with values of the factors in `POSE`, as bytes `[size, size]`."""
    scale, orientation, x, y = pose
    centre = 0.25 * size + 0.5 * size * np.array([[x], [y]])
    inside = fill(_whole(_rotate(LENGTH * size * scale * points, orientation) + centre), size)
    # Rounded exactly as in the package, which decides about pixels on the axis of the shape.
    (x0,), (y0,) = centre
    angle = np.pi / 2 - orientation
    row, column = np.arange(size)[:, None], np.arange(size)
    right = (row - y0) * np.cos(angle) + (column - x0) * np.sin(angle) + y0 > y0
    return np.where(inside, np.where(right, BLACK, WHITE), GREY).astype(np.uint8)


def _vertices(random: np.random.RandomState) -> np.ndarray:
    count = random.randint(5, 9)
    radii = random.normal(1.0, 0.4, count).clip(0.1, 1.9)
    sector = np.pi / count - 1e-6
    angles = random.normal(0.0, sector * 0.5, count).clip(-sector, sector)
    angles = angles + np.linspace(0, 2 * np.pi, count, endpoint=False)
    return radii * np.stack([np.cos(angles), np.sin(angles)])


def _principal_angle(points: np.ndarray) -> float:
    """Return the angle of the principal axis of points `[2, N]`.

    As in scikit-learn's `PCA`, the larger component of the axis is positive.
    """
    (xx, xy), (_, yy) = np.cov(points)
    angle = np.arctan2(2 * xy, xx - yy) / 2
    return float(angle + np.pi if angle < -np.pi / 4 else angle)


def _rotate(points: np.ndarray, angle: float) -> np.ndarray:
    turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return np.array(turn) @ points


def _whole(points: np.ndarray) -> np.ndarray:
    """Round points `[2, N]` towards zero, `[N, 2]`."""
    return points.T.astype(np.int64)


@numba.njit(cache=True, nogil=True)
def fill(points: np.ndarray, size: int) -> np.ndarray:
    """Fill a polygon with integer vertices `[N, 2]`, as a mask `[size, size]` with its edges."""
    inside = np.zeros((size, size), np.bool_)
    count = len(points)
    first, last, start, slope = np.empty((4, count), np.int64)
    edges = 0
    for i in range(count):
        x1, y1 = points[i - 1]
        x2, y2 = points[i]
        # An edge that leaves the image is first cut there, which rounds its direction.
        visible, x3, y3, x4, y4 = _clip(x1, y1, x2, y2, size - 1)
        if visible:
            _draw_line(inside, x3, y3, x4, y4)
        if y1 == y2:
            continue
        if y3 == y4:
            y3, y4 = y1, y2
        slope[edges] = int(ONE * (x4 - x3) / (y4 - y3))
        first[edges], last[edges] = min(y1, y2), max(y1, y2)
        x, y = (x3, y3) if y1 < y2 else (x4, y4)
        start[edges] = ONE * x + (first[edges] - y) * slope[edges]
        edges += 1
    crossings = np.empty(edges, np.int64)
    for row in range(size):
        found = 0
        for i in range(edges):
            if first[i] <= row < last[i]:
                crossings[found] = start[i] + (row - first[i]) * slope[i]
                found += 1
        ends = np.sort(crossings[:found])
        for pair in range(0, found, 2):
            left, right = -(-ends[pair] // ONE), ends[pair + 1] // ONE
            inside[row, max(left, 0) : max(right + 1, 0)] = True
    return inside


@numba.njit(cache=True, nogil=True)
def _clip(x1: int, y1: int, x2: int, y2: int, end: int) -> tuple[bool, int, int, int, int]:
    """Cut a line to pixels 0 … `end`; return whether any of it is left, and its ends."""
    if _beyond(x1, y1, end) & _beyond(x2, y2, end):
        return False, x1, y1, x2, y2
    y1, x1, y2, x2 = _cut(y1, x1, y2, x2, end)
    if _beyond(x1, y1, end) & _beyond(x2, y2, end):
        return False, x1, y1, x2, y2
    x1, y1, x2, y2 = _cut(x1, y1, x2, y2, end)
    return True, x1, y1, x2, y2


@numba.njit(cache=True, nogil=True)
def _cut(u1: int, v1: int, u2: int, v2: int, end: int) -> tuple[int, int, int, int]:
    """Move the ends of a line along it to 0 ≤ u ≤ `end`, the second along what is left."""
    if not 0 <= u1 <= end:
        u = 0 if u1 < 0 else end
        u1, v1 = u, v1 + int((u - u1) * (v2 - v1) / (u2 - u1))
    if not 0 <= u2 <= end:
        u = 0 if u2 < 0 else end
        u2, v2 = u, v2 + int((u - u2) * (v2 - v1) / (u2 - u1))
    return u1, v1, u2, v2


@numba.njit(cache=True, nogil=True)
def _beyond(x: int, y: int, end: int) -> int:
    """Return the sides of the image that a point lies beyond, one bit each."""
    return (x < 0) + 2 * (x > end) + 4 * (y < 0) + 8 * (y > end)


@numba.njit(cache=True, nogil=True)
def _draw_line(image: np.ndarray, x1: int, y1: int, x2: int, y2: int) -> None:
    """Set the pixels of a line inside the image, from left to right (Bresenham)."""
    if x1 > x2:
        x1, y1, x2, y2 = x2, y2, x1, y1
    dx, dy = x2 - x1, abs(y2 - y1)
    down = 1 if y2 >= y1 else -1
    steep = dy > dx
    if steep:
        dx, dy = dy, dx
    error = dx - 2 * dy
    for _ in range(dx + 1):
        image[y1, x1] = True
        side = error < 0
        error += 2 * dx * side - 2 * dy
        x1 += 1 if not steep or side else 0
        y1 += down if steep or side else 0
