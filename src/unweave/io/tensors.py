"""Tensors and metadata (`facts`) in a safetensors file, written reproducibly byte for byte.

The metadata is JSON under a single key of the file's header, with its own checksum, so that
it can be verified without reading the tensors. Older files have a key per entry and no checksum.
"""

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from unweave.io.plain_data import parse_json

__all__ = ["Layout", "TensorFile", "digest_of", "open_tensors", "write_tensors"]

KEY = "unweave"
"""The only key, because the order of several keys differs between processes."""
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "BOOL": torch.bool,
}

Layout = Mapping[str, tuple[torch.dtype | None, tuple[int, ...]]]
"""Type and shape of tensors, by name; the type is None if it is not one of `TYPES`."""


@dataclass(frozen=True, eq=False)
class TensorFile:
    """An open safetensors file.

    Args:
        facts: Metadata about the tensors.
        checked: Whether the metadata had a checksum, which was then verified.
        layout: Types and shapes of the tensors, which have not been read yet.
    """

    facts: Mapping[str, Any]
    checked: bool
    layout: Layout
    _file: Any

    def tensor(self, name: str) -> Tensor:
        """Read one tensor."""
        value: Tensor = self._file.get_tensor(name)
        return value

    def tensors(self) -> dict[str, Tensor]:
        """Read all tensors, by name."""
        return {name: self.tensor(name) for name in self.layout}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and metadata to a file."""
    on_host = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps({"facts": facts, "check": _check(facts)}, sort_keys=True)
    save_file(on_host, path, metadata={KEY: text})


@contextmanager
def open_tensors(path: Path, device: str | torch.device = "cpu") -> Iterator[TensorFile]:
    """Open a file that `write_tensors` wrote, or an older one.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: The file is damaged.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe could block forever
        raise ValueError(f"{path.name} is not a regular file")
    try:
        with safetensors.safe_open(path, "pt", device=str(device)) as file:
            metadata = file.metadata() or {}
            try:
                facts = _facts(metadata)
            except ValueError as error:
                raise ValueError(f"the metadata of {path.name} is damaged: {error}") from error
            layout = {}
            for name in file.keys():  # noqa: SIM118 - not a mapping
                part = file.get_slice(name)
                layout[name] = (TYPES.get(part.get_dtype()), tuple(part.get_shape()))
            yield TensorFile(facts, KEY in metadata, layout, file)
    except safetensors.SafetensorError as error:
        raise ValueError(f"cannot read {path.name}: {error}") from error


def _facts(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    if KEY not in metadata:
        return {key: parse_json(value) for key, value in metadata.items()}
    content = parse_json(metadata[KEY])
    facts = content.get("facts") if isinstance(content, dict) else None
    if not isinstance(facts, dict) or content.get("check") != _check(facts):
        raise ValueError("it does not match its checksum")
    return facts


def _check(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of the names, types, shapes and values of tensors on the host."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach()
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
