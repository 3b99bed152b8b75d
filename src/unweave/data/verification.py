"""Full checks of the cached and downloaded files of data sets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unweave.data.archives import READ_ERRORS, read_npz
from unweave.data.cached_files import check_fully, mapped_array, read_sums, sums_path
from unweave.data.catalog import DATASETS, RENDERED, RemoteFile
from unweave.data.fetch import MismatchError, check_whole
from unweave.data.published import MAX_METADATA_BYTES
from unweave.errors import DataError, UnknownNameError
from unweave.io.temporary import remove_leftovers
from unweave.io.writing import cache_folder, open_plain
from unweave.text import canonical_name

__all__ = ["CheckResult", "check"]

WEIGHTS = "inception"
"""Cache folder of the downloaded Inception weights for FID."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """Result of checking a file.

    Args:
        path: Path of the file.
        damage: Description of the damage, or None if the file is intact.
        recorded: Whether checksums were missing and have now been recorded.
        download: Whether the file was downloaded rather than created locally.
    """

    path: Path
    damage: str | None = None
    recorded: bool = False
    download: bool = False

    def remove(self) -> None:
        """Delete the file, so that it is created or downloaded again at the next use.

        The checksums of a download are kept, so that different content is still rejected.
        """
        self.path.unlink(missing_ok=True)
        if not self.download:
            sums_path(self.path).unlink(missing_ok=True)


def check(names: Sequence[str] = ()) -> Iterator[CheckResult]:
    """Check every cached file of the named data sets (default: all).

    Files without checksums, left by unweave 0.1 or copied by a user, are accepted as they are and
    their checksums are recorded, unless the expected content is known in advance.
    """
    chosen = [canonical_name(name) for name in names]
    for name in chosen:
        if name not in DATASETS:
            raise UnknownNameError("data set", name, DATASETS)
    entries = [DATASETS[name] for name in chosen or DATASETS]
    folders = dict.fromkeys(folder for entry in entries for folder in entry.folders)
    for folder in [*folders, *([] if chosen else [WEIGHTS])]:
        remove_leftovers(cache_folder() / folder)
        made_from = [entry.files for entry in entries if folder in entry.folders]
        downloads = {file.name: file for files in made_from for file in files}
        for path in _files(cache_folder() / folder):
            yield _check(path, f"{folder}/{path.name}", downloads.get(path.name))


def _files(folder: Path) -> list[Path]:
    """List the files in a folder, except hidden ones and downloads in progress."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and path.suffix != ".part" and not path.is_dir()
    )


def _check(path: Path, name: str, published: RemoteFile | None) -> CheckResult:
    new = False
    try:
        new = read_sums(path) is None
        if published is not None:
            check_whole(path, published)
            damage = None
        else:
            damage = _damage(path, RENDERED.get(name))
    except (MismatchError, DataError, *READ_ERRORS) as error:
        damage = str(error)
    recorded = new and damage is None and read_sums(path) is not None
    download = published is not None
    return CheckResult(path=path, damage=damage, recorded=recorded, download=download)


def _damage(path: Path, sha256: str | None) -> str | None:
    with open_plain(path) as file:
        if path.suffix == ".npy":
            mapped_array(file)
        if path.suffix == ".npz":
            read_npz(file, MAX_METADATA_BYTES)
        return check_fully(path, file, sha256)
