"""`data check`: full checks of all cached files."""

import hashlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.data.damage_tools import flip_bit
from tests.raising import about
from unweave.cli import main
from unweave.data.cached_files import checked_file, open_array, sums_path, whole_array
from unweave.data.catalog import RemoteFile
from unweave.data.fetch import fetch
from unweave.data.verification import check
from unweave.errors import UnknownNameError

CONTENT = np.random.default_rng(0).bytes(10_000)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def layers(cache):
    """A cached array in the folder of the data set rooms3d."""
    path = cache / "rooms3d" / "layers.npy"
    with whole_array(path, (30, 1 << 20)) as array:
        array[:] = 5
    return path


@pytest.fixture
def download(cache, publish):
    """A downloaded file of shapes3d with a published checksum."""
    file = RemoteFile(name="3dshapes.h5", md5=hashlib.md5(CONTENT).hexdigest())
    publish("shapes3d", file)
    path = cache / "shapes3d" / file.name
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return fetch(file, path.parent)


def states(names=()):
    return {file.path.name: bool(file.damage) for file in check(names)}


def test_intact_files(layers, download):
    assert states() == {"layers.npy": False, "3dshapes.h5": False}
    assert states(["rooms3d"]) == {"layers.npy": False}
    assert states(["shapes3d-noise"]) == {"3dshapes.h5": False}
    assert states(["pendulum"]) == {}


@pytest.mark.parametrize("block", [1, 9, 22])
def test_a_flipped_bit_anywhere_is_found(layers, block):
    flip_bit(layers, block << 20)
    assert states() == {"layers.npy": True}


def test_a_damaged_download_is_found(download):
    flip_bit(download, 5000)
    assert states() == {"3dshapes.h5": True}
    sums_path(download).unlink()  # and without a record, as its checksum is published
    assert states() == {"3dshapes.h5": True}


def test_missing_checksums_are_recorded(layers, cache):
    sums_path(layers).unlink()
    (cache / "mnist").mkdir()
    (cache / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(CONTENT)
    assert all(file.recorded for file in check())
    assert not any(file.recorded for file in check())


def test_a_truncated_file_without_checksums_is_damaged(layers):
    sums_path(layers).unlink()
    os.truncate(layers, 5000)
    assert states() == {"layers.npy": True}
    assert not sums_path(layers).exists()


def test_links_are_damage_but_hidden_and_partial_files_are_ignored(layers, cache):
    (cache / "rooms3d" / "link.npy").symlink_to(layers)
    (cache / "rooms3d" / "x.part").write_bytes(b"")
    (cache / "rooms3d" / ".hidden").write_bytes(b"")
    assert states() == {"layers.npy": False, "link.npy": True}


def test_metadata_is_checked(cache):
    path = cache / "cars3d" / "images.npz"
    with checked_file(path) as temporary:
        np.savez(temporary, objects=np.arange(5))
    assert states() == {"images.npz": False}
    flip_bit(path, 100)
    assert states() == {"images.npz": True}


def test_unknown_names():
    with pytest.raises(UnknownNameError, check=about("data set", "dsprite")):
        list(check(["dsprite"]))


def test_the_command_lists_damaged_files_and_repairs_them(layers, download, capsys):
    main(["data", "check"])
    assert capsys.readouterr().out.split() == [
        "ok",
        "rooms3d/layers.npy",
        "ok",
        "shapes3d/3dshapes.h5",
    ]
    flip_bit(layers, 7 << 20)
    with pytest.raises(SystemExit) as caught:
        main(["data", "check", "rooms3d"])
    assert caught.value.code == 1
    said = capsys.readouterr()
    assert said.out.startswith("damaged")
    assert "--repair" in said.err
    main(["data", "check", "--repair"])
    assert "removed" in capsys.readouterr().out
    assert open_array(layers) is None
    assert not sums_path(layers).exists()
    main(["data", "check"])
    assert capsys.readouterr().out.split() == ["ok", "shapes3d/3dshapes.h5"]


def test_repairing_a_download_keeps_its_pinned_checksum(cache, publish):
    file = RemoteFile(name="3dshapes.h5")
    publish("shapes3d", file)
    path = cache / "shapes3d" / file.name
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    fetch(file, path.parent)
    flip_bit(path, 0)
    main(["data", "check", "--repair"])
    assert not path.exists()
    path.write_bytes(CONTENT[::-1])
    assert states() == {"3dshapes.h5": True}


def test_leftovers_of_a_killed_command_are_removed_by_the_next(cache):
    command = [sys.executable, "-m", "unweave", "data", "prepare", "rooms3d"]
    process = subprocess.Popen(command)
    folder = cache / "rooms3d"
    while not (folder.exists() and any(folder.iterdir())):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert [path.name for path in folder.iterdir()] != []
    main(["data", "check"])
    assert list(folder.iterdir()) == []
