"""3D Chairs: 1,393 chairs seen from 31 azimuths and two elevations, on white.

The published tar contains PNG files of 600 × 600 pixels, whose names contain the factors. The
central 400 × 400 pixels are cropped and resized. Chairs are numbered in the order of their names.

References:
    Aubry et al., Seeing 3D chairs: exemplar part-based 2D-3D alignment, CVPR 2014.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from unweave.data.archives import batches, members, open_tar, read_member, reading
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid, Labels
from unweave.data.pictures import centre, open_image, shrink
from unweave.data.published import Metadata, given_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["load"]

CROP, SIDE = 400, 64
MODES = {1: "L", 3: "RGB"}
BATCH = 512
MEMBER = re.compile(r"([^/]+)/renders/image_\d+_p(\d+)_t(\d+)_r\d+\.png$")


def load(path: str | Path | None = None, channels: int = 1) -> Dataset:
    """Load 3D Chairs from the published tar, or from the tar at `path`.

    The factors form a grid, or labels if some combination is missing.

    Args:
        path: Path of the tar (default: download the published file).
        channels: 1 for grey (default), 3 for colour.
    """
    if channels not in MODES:
        raise DataError(
            f"channels must be 1 or 3, got {channels}", subject="channels", value=channels
        )
    work = partial(convert, channels=channels)
    given = given_files("chairs3d", path)
    images, metadata = prepare("chairs3d", given, work, f"images-{channels}")
    axes = (
        Factor("chair", metadata["chair"].tolist(), categorical=True),
        Factor("elevation", metadata["elevation"]),
        Factor("azimuth", metadata["azimuth"]),
    )
    grid = Grid(axes)
    if len(grid) == len(images):
        return Dataset("chairs3d", Bytes(images), grid)
    return Dataset("chairs3d", Bytes(images), labels=Labels(axes, metadata["classes"]))


def convert(sources: Sequence[Path], target: Path, channels: int) -> Metadata:
    """Write all images, sorted by chair, elevation and azimuth, and return these factors."""
    (source,) = sources
    with reading(source), open_tar(source) as tar:
        found = [(member, MEMBER.search(member.name)) for member in members(tar)]
        pictures = [member for member, match in found if match]
        names = [match.groups() for _, match in found if match]
        metadata, positions = _sort(names, source)

        def decode(name: str, content: bytes) -> np.ndarray:
            with reading(source / name), open_image(content) as image:
                return shrink(centre(image.convert(MODES[channels]), CROP), SIDE)

        with (
            whole_array(target, (len(pictures), SIDE, SIDE, channels)) as out,
            ThreadPoolExecutor() as pool,
        ):
            numbers = batches(range(len(pictures)), BATCH)
            for batch in track(numbers, "reading 3D Chairs"):
                chosen = [pictures[number] for number in batch]
                contents = [read_member(tar, member) for member in chosen]
                images = pool.map(decode, [member.name for member in chosen], contents)
                for number, image in zip(batch, images, strict=True):
                    out[positions[number]] = image
    return metadata


def _sort(names: Sequence[tuple[str, ...]], source: Path) -> tuple[Metadata, np.ndarray]:
    """Return the factor values, the classes of the sorted images, and the rank of each image."""
    if not names:
        raise DataError(
            f"{source} has no files rendered_chairs/*/renders/*.png; download the published file",
            subject=source,
            value=0,
        )
    chairs = np.array([name[0] for name in names])
    angles = np.array([name[1:] for name in names], dtype=np.int64)
    columns = (chairs, angles[:, 0], angles[:, 1])
    values, ranks = zip(*(np.unique(c, return_inverse=True) for c in columns), strict=True)
    classes = np.stack(ranks, -1)
    order = np.lexsort(ranks[::-1])
    if len(np.unique(classes, axis=0)) != len(classes):
        raise DataError(
            f"{source} has two images of a chair from the same view; download the published file",
            subject=source,
            value=len(classes),
        )
    metadata = dict(zip(("chair", "elevation", "azimuth"), values, strict=True))
    return metadata | {"classes": classes[order]}, np.argsort(order)
