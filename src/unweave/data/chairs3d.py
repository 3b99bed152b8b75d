"""3D Chairs: 1,393 chairs seen from 31 directions at two heights, on white.

Published as a tar of PNG files of 600 × 600 pixels whose names tell the factors; the square of 400
in the middle is resized. Chairs are numbered in the order of their names.

References:
    Aubry et al., Seeing 3D chairs: exemplar part-based 2D-3D alignment, CVPR 2014.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from unweave.data.archives import (
    Facts,
    batches,
    centre,
    fetching,
    find_files,
    members,
    open_image,
    open_tar,
    prepare,
    read_member,
    reading,
    shrink,
)
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.fetch import RemoteFile
from unweave.data.grid import Factor, Grid, Labels
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["FILES", "load"]

CROP, SIDE = 400, 64
MODES = {1: "L", 3: "RGB"}
IMAGES_AT_ONCE = 512
MEMBER = re.compile(r"([^/]+)/renders/image_\d+_p(\d+)_t(\d+)_r\d+\.png$")

FILES = (
    RemoteFile(
        name="rendered_chairs.tar",
        limit=4 << 30,
        urls=("https://www.di.ens.fr/willow/research/seeing3Dchairs/data/rendered_chairs.tar",),
    ),
)


def load(path: str | Path | None = None, channels: int = 1) -> Dataset:
    """3D Chairs, as published, or from the tar at `path`.

    The factors form a grid; where some combination is missing, they are labels instead.

    Args:
        path: None fetches the file.
        channels: 1 for grey, 3 for colour.
    """
    if channels not in MODES:
        raise DataError(f"chairs have 1 channel or 3, but got {channels=}")
    given = None if path is None else find_files(path, [FILES[0].name])
    work = partial(convert, channels=channels)
    images, facts = prepare("chairs3d", fetching(FILES), given, work, f"images-{channels}")
    axes = (
        Factor("chair", facts["chair"].tolist(), categorical=True),
        Factor("elevation", facts["elevation"]),
        Factor("azimuth", facts["azimuth"]),
    )
    grid = Grid(axes)
    if len(grid) == len(images):
        return Dataset("chairs3d", Bytes(images), grid)
    return Dataset("chairs3d", Bytes(images), labels=Labels(axes, facts["classes"]))


def convert(sources: Sequence[Path], place: Path, channels: int) -> Facts:
    """Write all images, sorted by chair, elevation and azimuth; the facts are these."""
    (source,) = sources
    with reading(source), open_tar(source) as tar:
        found = [(member, MEMBER.search(member.name)) for member in members(tar)]
        pictures = [member for member, match in found if match]
        names = [match.groups() for _, match in found if match]
        facts, positions = _sort(names, source)

        def decode(name: str, content: bytes) -> np.ndarray:
            with reading(source / name), open_image(content) as image:
                return shrink(centre(image.convert(MODES[channels]), CROP), SIDE)

        with (
            whole_array(place, (len(pictures), SIDE, SIDE, channels)) as out,
            ThreadPoolExecutor() as pool,
        ):
            numbers = batches(range(len(pictures)), IMAGES_AT_ONCE)
            for batch in track(numbers, "reading 3D Chairs"):
                chosen = [pictures[number] for number in batch]
                contents = [read_member(tar, member) for member in chosen]
                images = pool.map(decode, [member.name for member in chosen], contents)
                for number, image in zip(batch, images, strict=True):
                    out[positions[number]] = image
    return facts


def _sort(names: Sequence[tuple[str, ...]], source: Path) -> tuple[Facts, np.ndarray]:
    """The factors' values, the classes of the sorted images, and each image's place among them."""
    if not names:
        raise DataError(
            f"{source} should hold chairs as rendered_chairs/*/renders/*.png, but has none; "
            "get the published file"
        )
    chairs = np.array([name[0] for name in names])
    angles = np.array([name[1:] for name in names], dtype=np.int64)
    columns = (chairs, angles[:, 0], angles[:, 1])
    values, ranks = zip(*(np.unique(c, return_inverse=True) for c in columns), strict=True)
    classes = np.stack(ranks, -1)
    order = np.lexsort(ranks[::-1])
    if len(np.unique(classes, axis=0)) != len(classes):
        raise DataError(f"{source} shows some chair twice from one side; get the published file")
    facts = dict(zip(("chair", "elevation", "azimuth"), values, strict=True))
    return facts | {"classes": classes[order]}, np.argsort(order)
