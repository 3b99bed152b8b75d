"""Check the cached and downloaded files of data sets as a whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unweave.data.archives import BROKEN, MOST_FACTS, read_npz
from unweave.data.cached_files import full_damage, mapped_array, read_sums, sums_path
from unweave.data.catalog import DATASETS, RENDERED, Entry
from unweave.data.fetch import MismatchError, RemoteFile, check_whole
from unweave.errors import DataError, UnknownNameError
from unweave.io.temporary import remove_leftovers
from unweave.io.writing import cache_folder, open_plain
from unweave.text import spelled

__all__ = ["Checked", "check"]

WEIGHTS = "inception"
"""The folder of the weights of FID's network, which are downloaded too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """The result of checking a file.

    Args:
        path: The file.
        damage: What is wrong with it; None for an intact one.
        recorded: Whether its checksums were recorded just now, as nothing was known of it.
        download: Whether it was downloaded, and not made here.
    """

    path: Path
    damage: str | None = None
    recorded: bool = False
    download: bool = False

    def remove(self) -> None:
        """Remove the file, so that it is made or downloaded again at the next use.

        The checksum of a download stays, so that other content is still refused.
        """
        self.path.unlink(missing_ok=True)
        if not self.download:
            sums_path(self.path).unlink(missing_ok=True)


def check(names: Sequence[str] = ()) -> Iterator[Checked]:
    """Check every file of some data sets in the cache, by default of all.

    Files without a record, which unweave 0.1 left or a user put there, are recorded as they are
    unless their content is known beforehand.

    Args:
        names: Of `DATASETS`.
    """
    chosen = [spelled(name) for name in names]
    for name in chosen:
        if name not in DATASETS:
            raise UnknownNameError("data set", name, DATASETS)
    entries = [DATASETS[name] for name in chosen or DATASETS]
    folders = dict.fromkeys(folder for entry in entries for folder in entry.folders)
    for folder in [*folders, *([] if chosen else [WEIGHTS])]:
        remove_leftovers(cache_folder() / folder)
        downloads = {file.name: file for file in _downloads(entries, folder)}
        for path in _files(cache_folder() / folder):
            yield _check(path, f"{folder}/{path.name}", downloads.get(path.name))


def _downloads(entries: Sequence[Entry], folder: str) -> Iterator[RemoteFile]:
    for entry in entries:
        if folder in entry.folders:
            yield from entry.downloads()


def _files(folder: Path) -> list[Path]:
    """What lies in a folder, but for hidden files and downloads in progress."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and path.suffix != ".part" and not path.is_dir()
    )


def _check(path: Path, name: str, published: RemoteFile | None) -> Checked:
    new = False
    try:
        new = read_sums(path) is None
        if published is not None:
            check_whole(path, published)
            damage = None
        else:
            damage = _damage(path, RENDERED.get(name))
    except (MismatchError, DataError, *BROKEN) as error:
        damage = str(error)
    recorded = new and damage is None and read_sums(path) is not None
    download = published is not None
    return Checked(path=path, damage=damage, recorded=recorded, download=download)


def _damage(path: Path, sha256: str | None) -> str | None:
    with open_plain(path) as file:
        if path.suffix == ".npy":
            mapped_array(file)
        if path.suffix == ".npz":
            read_npz(file, MOST_FACTS)
        return full_damage(path, file, sha256)
