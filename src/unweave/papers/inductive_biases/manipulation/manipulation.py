"""A trained m: what it does to images, and the small file in which it is kept.

The file has the parameters of m and the curve of its training as safetensors and, as text beside
them, ε, the shape of images, all that m was trained with, and a checksum of everything. Files of
earlier versions have no checksum.
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

from unweave.data.dataset import Dataset
from unweave.data.grid import Grid
from unweave.data.origin import BY_CONTENT
from unweave.errors import DataError
from unweave.io.checksums import sha256_of
from unweave.io.plain_data import parse_json
from unweave.io.tensors import digest_of
from unweave.io.writing import cache_folder, whole_file
from unweave.models import files as model_files
from unweave.nets.network import Network
from unweave.papers.inductive_biases.manipulation.images import (
    Altered,
    check_alterable,
    check_epsilon,
    mixture,
    own_origin,
)
from unweave.papers.inductive_biases.manipulation.network import manipulation_network, standardised
from unweave.text import shown, size_text

__all__ = ["COLUMNS", "Manipulation", "find"]

COLUMNS = ("step", "disentangling", "entangling", "difference")
"""Of the curve of an m that models were pitted for: the losses on held-out images, summed over
pixels, and L_ent - L_dis."""
GOALS = {"difference": "L_ent - L_dis", "excess": "nats that codes of single factors cost"}
KEY = "unweave"
"""Where the file has its text."""
UNREADABLE = (*model_files.UNREADABLE, safetensors.SafetensorError)
"""What reading a file may raise."""
AT_ONCE = 64
CHECK = "check"
"""Where the file has its checksum."""
MOST_BYTES = 1 << 30
MOST = 1_000_000
"""Pixels of a side, and classes of a factor, are fewer than these."""


@dataclass(frozen=True, eq=False)
class Manipulation:
    """A network m that changes images as a function of their factors.

    Args:
        parameters: By name, float32, without a model axis.
        epsilon: How far a pixel moves, at most.
        shape: Height, width and channels of the images.
        sizes: How many classes each factor has.
        settings: What it was trained with: `data`, the origin of the data set, and more.
        curve: What was followed over training, `step` first and what m is to lower last.
        sealed: Whether its file has a checksum. One from an earlier version has none, and is
            saved again as it was, since the origins of data name files by their content.
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
                f"these are not the parameters of an m for images {list(self.shape)} with "
                f"{len(self.sizes)} factors; take those of such a one"
            )
        if not all(value.isfinite().all() for value in self.parameters.values()):
            raise DataError("some parameters of this m are not finite; train it again")

    @property
    def network(self) -> Network:
        """The layers of m."""
        return manipulation_network(len(self.sizes), self.shape)

    def __call__(self, factors: Any) -> np.ndarray:
        """m(w) for standardised factors `[n, K]`, float64 in [-ε, ε], `[n, H, W, C]`."""
        weight, bias = (self._exact[f"0.{name}"] for name in ("weight", "bias"))
        w = torch.as_tensor(np.asarray(factors), dtype=torch.float64)
        return self.along((w @ weight[0] + bias)[..., 0].numpy())

    def along(self, numbers: np.ndarray) -> np.ndarray:
        """The same for values `[n]` of the one number that m makes of factors."""
        rest = Network(self.network.layers[1:])
        names = [name for name in self.network.shapes if not name.startswith("0.")]
        own = {name: self._exact[of_m] for name, of_m in zip(rest.shapes, names, strict=True)}
        parts = torch.as_tensor(numbers, dtype=torch.float64)[None, :, None].split(AT_ONCE, 1)
        drawn = [self.epsilon * rest(own, part).tanh() for part in parts]
        return torch.cat(drawn, 1)[0].numpy()

    def steps(self, grid: Grid) -> tuple[np.ndarray, float]:
        """How the number s grows with classes: what each adds `[K, classes]`, and the lowest s.

        What the class that adds least adds is 0, so that s = lowest + Σ_k steps[k, class of k].
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
        """The parameters with a model axis, in float64: no rounding of sums reaches a byte."""
        return {name: value[None].double() for name, value in self.parameters.items()}

    def modified(self, data: Dataset) -> Dataset:
        """The images r(x + m(w)) of a data set, in its order and with its factors.

        Args:
            data: What m was trained on, or another with as many classes of each factor.
        """
        check_alterable(data)
        if data.grid is None or data.grid.sizes != self.sizes or data.shape != self.shape:
            raise DataError(
                f"m changes images {list(self.shape)} with {list(self.sizes)} classes of factors, "
                f"which {data.name} has not; give the data that it was trained on"
            )
        store = Altered(data.store, mixture(self, data.grid))
        origin = own_origin(data, ["modified", self.digest])
        return replace(data, name=f"{data.name}_modified", store=store, origin=origin)

    @property
    def digest(self) -> str:
        """A short hash of the content of its file."""
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
        """Write it into a file, whole or not at all."""
        path = Path(path)
        with whole_file(path) as temporary:
            temporary.write_bytes(self._content)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Manipulation":
        """What `save` wrote."""
        path = Path(path)
        if not path.is_file():
            raise DataError(f"there is no file {path} of a manipulation; check the path")
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"it has {path.stat().st_size:,} bytes")
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
                    raise ValueError(f"{name} has other numbers than finite ones in float32")
            epsilon, settings = float(facts["epsilon"]), dict(facts["settings"])
            shape, sizes = tuple(facts["shape"]), tuple(facts["sizes"])
            return cls(tensors, epsilon, shape, sizes, settings, curve, sealed)
        except UNREADABLE as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{path} is no whole manipulation ({reason}); make it with `unweave manipulate`"
            ) from error

    def __repr__(self) -> str:
        note = f", {self.course}" if len(self.curve) else ""
        return f"manipulation of {size_text(self.shape)} images, ε = {self.epsilon:g}{note}"

    @property
    def course(self) -> str:
        """How far it came, in words."""
        name = str(self.curve.columns[-1])
        before, after = self.curve[name].iloc[[0, -1]]
        return f"{GOALS.get(name, name)} from {before:.4g} to {after:.4g}"


def _check_facts(facts: Mapping[str, Any], columns: Any) -> None:
    """Refuse metadata that do not describe an m; those of a file may be anything."""
    if not isinstance(facts["settings"], Mapping):
        raise TypeError(f"its settings are {shown(facts['settings'])}")
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(f"the columns of its curve are {shown(columns)}")
    shape, sizes = facts["shape"], facts["sizes"]
    whole = all(type(number) is int and 0 < number < MOST for number in (*shape, *sizes))
    if not whole or len(shape) != 3:
        raise ValueError(f"its images are {shown(shape)}, with {shown(sizes)} classes of factors")


def find(path: str | Path) -> Manipulation:
    """The manipulation in a file; or by its content, where it was loaded here before.

    Args:
        path: The file; or `"file 0123456789abcdef"`, as the origin of a data set has it. Files
            that were loaded are kept in the cache, so that the data of a saved model can be made
            again.
    """
    known = BY_CONTENT.fullmatch(str(path))
    if known is not None:
        kept = _kept(known[1])
        if not kept.is_file():
            raise DataError(
                f"the images were changed by an m that is not at hand (its file's SHA-256 begins "
                f"with {known[1]}); load them yourself, with path=FILE"
            )
        if sha256_of(kept)[:16] != known[1]:
            raise DataError(f"{kept} is damaged; remove it, and load the images with path=FILE")
        return Manipulation.load(kept)
    found = Manipulation.load(path)
    content = Path(path).read_bytes()
    kept = _kept(hashlib.sha256(content).hexdigest()[:16])
    if not kept.is_file():
        with whole_file(kept) as temporary:
            temporary.write_bytes(content)
    return found


def _check(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    text = json.dumps(facts, sort_keys=True) + digest_of(tensors)
    return hashlib.sha256(text.encode()).hexdigest()


def _kept(digest: str) -> Path:
    return cache_folder() / "manipulations" / f"{digest}.safetensors"
