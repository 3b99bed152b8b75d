"""Checkpoint files of any kind: the newest two are kept, each with a checksum of its content.

A checkpoint that turns out to be damaged is put aside, and training resumes from the one before.
Checkpoints of earlier versions have no checksum; as far as their content can be checked, it is.
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
    "is_sealed",
    "opened",
    "previous_of",
    "put_aside",
    "remove",
    "save",
    "verified",
]

DIGEST = "sha256"
"""The fact that holds the checksum of all tensors."""
DAMAGED = ".damaged"
"""How the names of checkpoints that were put aside end."""


class DamagedCheckpointError(UnweaveError):
    """A checkpoint that is not as it was written."""


def previous_of(path: Path) -> Path:
    """Where the checkpoint before the newest one is."""
    return path.with_stem(f"{path.stem}.previous")


def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all, and keep the one that it replaces."""
    here = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    if path.exists():
        # So that no more than two are on the disk at any time.
        previous_of(path).unlink(missing_ok=True)
    with whole_file(path) as temporary:
        write_tensors(temporary, here, {**facts, DIGEST: digest_of(here)})
        with suppress(FileNotFoundError):
            path.replace(previous_of(path))


@contextmanager
def opened(path: Path) -> Iterator[TensorFile]:
    """Open a checkpoint; whatever goes wrong in reading it is a `DamagedCheckpointError`."""
    try:
        with open_tensors(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (OSError, LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise DamagedCheckpointError(f"the checkpoint {path} is damaged ({reason})") from error


def verified(file: TensorFile) -> dict[str, Tensor]:
    """The tensors of an open checkpoint, compared with their checksum."""
    tensors = file.tensors()
    if is_sealed(file) and digest_of(tensors) != file.facts[DIGEST]:
        raise ValueError("its content does not match its checksum")
    return tensors


def is_sealed(file: TensorFile) -> bool:
    """Whether a checkpoint has a checksum, as all but those of earlier versions do."""
    return file.checked


def put_aside(path: Path, error: DamagedCheckpointError) -> None:
    """Rename a damaged checkpoint, so that it is not met again, and say so."""
    with suppress(FileNotFoundError):  # another process was faster
        aside = path.with_name(path.name + DAMAGED)
        path.replace(aside)
        say(f"{error}; it is now {aside.name}, and training resumes from an earlier one, if any")


def remove(path: Path) -> None:
    """Remove all checkpoints of a job that is done."""
    for one in (path, previous_of(path)):
        one.unlink(missing_ok=True)
        one.with_name(one.name + DAMAGED).unlink(missing_ok=True)
