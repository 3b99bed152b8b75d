r"""A trained m: a small change of an image that depends on one combination of its factors.

    s = a·w + b,    m(w) = ε tanh(g(s)),    x̃ = r(x + m(w)),    r(x) = x - 2 (x - 1)₊ + 2 (-x)₊

with w the factors, each of mean 0 and variance 1, g the decoder of the protocol for a
one-dimensional code, and r a reflection at 0 and 1, which keeps images in range without clipping.

The file is a safetensors file with the parameters and training curve of m. Its metadata holds
ε, the image shape, all training settings, and a checksum of everything. Files of earlier versions
have no checksum.

References:
    Zietlow, Rolínek, Martius, Demystifying Inductive Biases for (Beta-)VAE Based Architectures,
    ICML 2021, arXiv:2102.06822. The supplement describes the network. We interpret its first layer
    as linear, so that m follows one mixed direction of factors.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors
import torch
from safetensors.torch import save as save_bytes
from torch import Tensor
from torch.nn.functional import relu

from unweave.data.dataset import Dataset
from unweave.data.grid import Grid
from unweave.data.origin import BY_CONTENT, check_origin, rebuild
from unweave.errors import DataError
from unweave.io.checksums import sha256_of
from unweave.io.plain_data import parse_json
from unweave.io.tensors import digest_of
from unweave.io.writing import cache_folder, whole_file
from unweave.models import files as model_files
from unweave.nets.architectures import Shape, conv_decoder
from unweave.nets.layers import Linear
from unweave.nets.network import Network
from unweave.papers.inductive_biases.manipulation.images import (
    PARTS,
    Altered,
    Mixture,
    check_alterable,
    check_epsilon,
    in_bytes,
    own_origin,
)
from unweave.text import shown, size_text

__all__ = [
    "COLUMNS",
    "Manipulation",
    "find",
    "load_modified",
    "manipulation_network",
    "reflect",
    "standardised",
]

COLUMNS = ("step", "disentangling", "entangling", "difference")
"""Columns of the curve of an m learned from pairs of models: the losses on held-out images, summed
over pixels, and L_ent - L_dis."""
GOALS = {"difference": "L_ent - L_dis", "excess": "extra nats for one latent per factor"}
KEY, CHECK = "unweave", "check"
"""Key of the metadata in the file, and key of the checksum in the metadata."""
UNREADABLE = (*model_files.UNREADABLE, safetensors.SafetensorError)
"""Exceptions that reading a file may raise."""
BATCH = 64
FEWEST_ROWS, MOST_ROWS = 256, 8_192
"""Smallest and largest number of rows in the lookup table of changes."""
MOST_BYTES = 1 << 30
MOST = 1_000_000
"""Upper bound on pixels per side and on classes per factor."""


def manipulation_network(factors: int, shape: Shape) -> Network:
    """Map factors `[M, B, K]` to one neuron, dense 256 and 1024, then to `[M, B, H, W, C]`."""
    return Network((Linear(factors, 1, "none"), *conv_decoder(shape, 1).layers))


def reflect(images: Tensor) -> Tensor:
    """Reflect values in [-1, 2] into [0, 1].

    Example:
        >>> reflect(torch.tensor([-0.1, 0.0, 0.3, 1.0, 1.1]))
        tensor([0.1000, 0.0000, 0.3000, 1.0000, 0.9000])
    """
    return images - 2 * relu(images - 1) + 2 * relu(-images)


def standardised(grid: Grid) -> list[np.ndarray]:
    """Values of w for each class of each factor: class indices scaled to mean 0 and variance 1.

    Example:
        >>> from unweave.data.grid import Factor
        >>> [w.round(3) for w in standardised(Grid((Factor("a", [5, 7]), Factor("b", [1, 2, 3]))))]
        [array([-1.,  1.]), array([-1.225,  0.   ,  1.225])]
    """
    centred = [np.arange(size) - np.arange(size, dtype=np.float64).mean() for size in grid.sizes]
    return [classes / (classes.std() or 1) for classes in centred]


@dataclass(frozen=True, eq=False)
class Manipulation:
    """A network m that changes images as a function of their factors.

    Args:
        parameters: Parameters by name, float32, without a model axis.
        epsilon: Largest change of a pixel.
        shape: Height, width and channels of the images.
        sizes: Number of classes of each factor.
        settings: Training settings: `data`, the origin of the data set, and others.
        curve: Training curve, with `step` first and the objective of m last.
        sealed: Whether the file has a checksum. A file from an earlier version has none and is
            saved again unchanged, because origins of data identify files by their content.
    """

    parameters: Mapping[str, Tensor]
    epsilon: float
    shape: tuple[int, int, int]
    sizes: tuple[int, ...]
    settings: Mapping[str, Any]
    curve: pd.DataFrame
    sealed: bool = True

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        shapes = {name: tuple(value.shape) for name, value in self.parameters.items()}
        if shapes != dict(self.network.shapes):
            raise DataError(
                f"parameters must have the shapes of a manipulation of images {list(self.shape)} "
                f"with {len(self.sizes)} factors, got {shapes}",
                subject="parameters",
                value=shapes,
            )
        for name, value in self.parameters.items():
            if not value.isfinite().all():
                raise DataError(
                    f"parameter {name} is not finite; train the manipulation again",
                    subject="parameters",
                    value=name,
                )

    @property
    def network(self) -> Network:
        """Layers of m."""
        return manipulation_network(len(self.sizes), self.shape)

    def __call__(self, factors: Any) -> np.ndarray:
        """Compute m(w) for standardised factors `[n, K]`: float64 `[n, H, W, C]` in [-ε, ε]."""
        weight, bias = (self._exact[f"0.{name}"] for name in ("weight", "bias"))
        w = torch.as_tensor(np.asarray(factors), dtype=torch.float64)
        return self.along((w @ weight[0] + bias)[..., 0].numpy())

    def along(self, numbers: np.ndarray) -> np.ndarray:
        """Compute m for values `[n]` of s, the linear combination of factors."""
        rest = Network(self.network.layers[1:])
        names = [name for name in self.network.shapes if not name.startswith("0.")]
        own = {name: self._exact[of_m] for name, of_m in zip(rest.shapes, names, strict=True)}
        parts = torch.as_tensor(numbers, dtype=torch.float64)[None, :, None].split(BATCH, 1)
        changes = [self.epsilon * rest(own, part).tanh() for part in parts]
        return torch.cat(changes, 1)[0].numpy()

    def steps(self, grid: Grid) -> tuple[np.ndarray, float]:
        """Contribution of each class to s, `[K, classes]`, and the lowest s.

        The smallest contribution of each factor is 0: s = lowest + Σ_k steps[k, class of k].
        """
        weight = self._exact["0.weight"][0, :, 0].numpy()
        steps = np.zeros((len(grid.axes), max(grid.sizes)))
        lowest = float(self._exact["0.bias"][0, 0])
        for k, values in enumerate(standardised(grid)):
            parts = weight[k] * values
            steps[k, : len(parts)] = parts - parts.min()
            lowest += parts.min()
        return steps, lowest

    @cached_property
    def _exact(self) -> dict[str, Tensor]:
        """Parameters with a model axis, in float64 so that rounding does not change any byte."""
        return {name: value[None].double() for name, value in self.parameters.items()}

    def modified(self, data: Dataset) -> Dataset:
        """The data set, or another with as many classes per factor, with images r(x + m(w))."""
        check_alterable(data)
        if data.grid is None or data.grid.sizes != self.sizes or data.shape != self.shape:
            raise DataError(
                f"data must have images {list(self.shape)} and {list(self.sizes)} classes of "
                f"factors, which {data.name} does not; pass the data that m was trained on",
                subject="data",
                value=data.name,
            )
        store = Altered(data.store, self._mixture(data.grid))
        origin = own_origin(data, ["modified", self.digest])
        return replace(data, name=f"{data.name}_modified", store=store, origin=origin)

    def _mixture(self, grid: Grid) -> Mixture:
        """Changes of all images of a grid, as integers.

        The table has enough rows for neighbours to differ by at most 1, so a change differs from
        the output of m by at most 1, rounded or not.
        """
        steps, lowest = self.steps(grid)
        span = float(steps.max(1).sum()) or 1.0
        limit = in_bytes(self.epsilon)
        rows = FEWEST_ROWS
        while True:
            changes = 255 * self.along(lowest + span * np.linspace(0, 1, rows))
            if not np.isfinite(changes).all():
                raise DataError(
                    "the changes computed by this manipulation are not finite; train it again"
                )
            if rows >= MOST_ROWS or np.abs(np.diff(changes, axis=0)).max() <= 1:
                break
            rows *= 2
        table = np.rint(changes).clip(-limit, limit).astype(np.int8)
        whole = np.rint(steps / span * (rows - 1) * (1 << PARTS)).astype(np.int64)
        return Mixture(grid, whole, table)

    @property
    def digest(self) -> str:
        """Short hash of the content of its file."""
        return hashlib.sha256(self._content).hexdigest()[:16]

    @cached_property
    def _content(self) -> bytes:
        tensors = {name: value.cpu().contiguous() for name, value in self.parameters.items()}
        tensors["curve"] = torch.as_tensor(self.curve.to_numpy(np.float64).copy())
        facts = {
            "columns": list(self.curve),
            "epsilon": self.epsilon,
            "shape": self.shape,
            "sizes": self.sizes,
            "settings": self.settings,
        }
        if self.sealed:
            facts[CHECK] = _check(facts, tensors)
        return save_bytes(tensors, {KEY: json.dumps(facts, sort_keys=True)})

    def save(self, path: str | Path) -> Path:
        """Write the manipulation to a file, atomically."""
        path = Path(path)
        with whole_file(path) as temporary:
            temporary.write_bytes(self._content)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Manipulation":
        """Read a file written by `save`."""
        path = Path(path)
        if not path.is_file():
            raise DataError(
                f"manipulation file {path} not found; check the path", subject="path", value=path
            )
        try:
            if path.stat().st_size > MOST_BYTES:
                size = path.stat().st_size
                raise ValueError(f"it has {size:,} bytes, expected at most {MOST_BYTES:,}")
            with safetensors.safe_open(path, "pt") as file:
                facts = parse_json(file.metadata()[KEY])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            sealed = CHECK in facts
            if sealed and facts.pop(CHECK) != _check(facts, tensors):
                raise ValueError("its content does not match its checksum")
            columns = facts.get("columns", COLUMNS)
            _check_facts(facts, columns)
            curve = pd.DataFrame(tensors.pop("curve").numpy(), columns=list(columns))
            for name, value in tensors.items():
                if value.dtype != torch.float32 or not bool(value.isfinite().all()):
                    raise ValueError(f"{name} must hold finite float32 numbers")
            epsilon, settings = float(facts["epsilon"]), dict(facts["settings"])
            shape, sizes = tuple(facts["shape"]), tuple(facts["sizes"])
            return cls(tensors, epsilon, shape, sizes, settings, curve, sealed)
        except UNREADABLE as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"cannot read manipulation {path}: {reason}; create it with `unweave manipulate`",
                subject=path,
                value=reason,
            ) from error

    def __repr__(self) -> str:
        note = f", {self.course}" if len(self.curve) else ""
        return f"manipulation of {size_text(self.shape)} images, ε = {self.epsilon:g}{note}"

    @property
    def course(self) -> str:
        """Objective before and after training, as text."""
        name = str(self.curve.columns[-1])
        before, after = self.curve[name].iloc[[0, -1]]
        return f"{GOALS.get(name, name)} from {before:.4g} to {after:.4g}"


def _check_facts(facts: Mapping[str, Any], columns: Any) -> None:
    """Reject metadata that do not describe a manipulation, since a file may contain anything."""
    if not isinstance(facts["settings"], Mapping):
        raise TypeError(f"settings must be a mapping, got {shown(facts['settings'])}")
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(f"the curve must have named columns, got {shown(columns)}")
    shape, sizes = facts["shape"], facts["sizes"]
    whole = all(type(number) is int and 0 < number < MOST for number in (*shape, *sizes))
    if not whole or len(shape) != 3:
        raise ValueError(f"invalid image shape {shown(shape)} or factor sizes {shown(sizes)}")


def _check(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    text = json.dumps(facts, sort_keys=True) + digest_of(tensors)
    return hashlib.sha256(text.encode()).hexdigest()


def find(path: str | Path) -> Manipulation:
    """Load a manipulation from a file, or from the cache by its content.

    Args:
        path: Path of the file; or `"file 0123456789abcdef"`, as in the origin of a data set.
            Loaded files are cached, so that the data of a saved model can be rebuilt.
    """
    known = BY_CONTENT.fullmatch(str(path))
    if known is not None:
        cached = _cached(known[1])
        if not cached.is_file():
            raise DataError(
                f"the manipulation with SHA-256 {known[1]}… is not cached; load the data with "
                "path=FILE",
                subject="SHA-256",
                value=known[1],
            )
        if sha256_of(cached)[:16] != known[1]:
            raise DataError(
                f"{cached} is damaged; remove it and load the data with path=FILE",
                subject="SHA-256",
                value=cached,
            )
        return Manipulation.load(cached)
    found = Manipulation.load(path)
    content = Path(path).read_bytes()
    cached = _cached(hashlib.sha256(content).hexdigest()[:16])
    if not cached.is_file():
        with whole_file(cached) as temporary:
            temporary.write_bytes(content)
    return found


def _cached(digest: str) -> Path:
    return cache_folder() / "manipulations" / f"{digest}.safetensors"


def load_modified(base: str, path: str | Path | None = None) -> Dataset:
    """Load a data set changed by a manipulation that `unweave manipulate` saved."""
    if path is None:
        raise DataError(
            f"{base}_modified needs path=FILE, a file created by `unweave manipulate`",
            subject="path",
        )
    m = find(path)
    origin: Any = m.settings.get("data")
    check_origin(origin)
    (kind, made_of, *_), *rest = origin
    if (kind, made_of) != ("load", base):
        raise DataError(
            f"{path} is a manipulation of {shown(made_of)}, not of {base}; load it by that name",
            subject=path,
            value=made_of,
        )
    data = rebuild([["load", base, {}], *rest])
    return replace(m.modified(data), name=f"{base}_modified")
