"""Checkpoint files: the newest two are kept, each with a checksum of its content.

A damaged checkpoint is renamed, and training resumes from the previous one. Checkpoints of earlier
versions have no checksum; their content is checked as far as possible.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.tensors import TensorFile, digest_of, open_tensors, write_tensors
from unweave.io.writing import whole_file
from unweave.progress import say

__all__ = [
    "DAMAGED",
    "DamagedCheckpointError",
    "has_checksum",
    "opened",
    "previous_of",
    "put_aside",
    "remove",
    "save",
    "verified",
]

DIGEST = "sha256"
"""Metadata key of the checksum of all tensors."""
DAMAGED = ".damaged"
"""Suffix of damaged checkpoints that were renamed."""


class DamagedCheckpointError(UnweaveError):
    """A damaged checkpoint."""


def previous_of(path: Path) -> Path:
    """Return the path of the second newest checkpoint."""
    return path.with_stem(f"{path.stem}.previous")


def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically, and keep the one it replaces as the previous one."""
    on_host = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    if path.exists():
        # At most two checkpoints are on disk at any time.
        previous_of(path).unlink(missing_ok=True)
    with whole_file(path) as temporary:
        write_tensors(temporary, on_host, {**facts, DIGEST: digest_of(on_host)})
        with suppress(FileNotFoundError):
            path.replace(previous_of(path))


@contextmanager
def opened(path: Path) -> Iterator[TensorFile]:
    """Open a checkpoint; errors while reading it become a `DamagedCheckpointError`."""
    try:
        with open_tensors(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (OSError, LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise DamagedCheckpointError(f"checkpoint {path} is damaged ({reason})") from error


def verified(file: TensorFile) -> dict[str, Tensor]:
    """Return the tensors of an open checkpoint, after verifying their checksum."""
    tensors = file.tensors()
    if has_checksum(file) and digest_of(tensors) != file.facts[DIGEST]:
        raise ValueError("the content does not match the checksum")
    return tensors


def has_checksum(file: TensorFile) -> bool:
    """Whether a checkpoint has a checksum; those of earlier versions have none."""
    return file.checked


def put_aside(path: Path, error: DamagedCheckpointError) -> None:
    """Rename a damaged checkpoint, so that it is not used again, and print a message."""
    with suppress(FileNotFoundError):  # another process has renamed it
        renamed = path.with_name(path.name + DAMAGED)
        path.replace(renamed)
        say(
            f"{error}; renamed it to {renamed.name}; resuming from the previous checkpoint, if any"
        )


def remove(path: Path) -> None:
    """Remove all checkpoints of a finished job."""
    for one in (path, previous_of(path)):
        one.unlink(missing_ok=True)
        one.with_name(one.name + DAMAGED).unlink(missing_ok=True)
