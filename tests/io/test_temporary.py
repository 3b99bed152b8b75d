"""Temporary files of killed processes are removed, those of running processes are not."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import unweave as uw
from unweave.io.temporary import remove_leftovers, temporary_name
from unweave.io.writing import temporary_folder, whole_file, whole_folder

DAYS = 2 * 24 * 60 * 60
WRITERS = {
    "file": "whole_file(folder / 'a.bin')",
    "array": "whole_array(folder / 'a.npy', (1 << 20,))",
    "folder": "whole_folder(folder / 'a')",
    "aside": "temporary_folder(folder / 'a')",
}
PROGRAM = """
import sys, time
from pathlib import Path
from unweave.io.writing import temporary_folder, whole_file, whole_folder
from unweave.data.cached_files import whole_array
folder = Path(sys.argv[1])
with {writer} as temporary:
    if isinstance(temporary, Path) and temporary.is_dir():
        (temporary / "inside").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def start(folder, writer="file"):
    """A process that is writing into a folder."""
    program = PROGRAM.format(writer=WRITERS[writer])
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_a_killed_process_are_removed_by_the_next_write(tmp_path, writer):
    kill(start(tmp_path, writer))
    assert len(names(tmp_path)) == 1
    with whole_file(tmp_path / "other.txt") as temporary:
        temporary.write_text("whole")
    assert names(tmp_path) == ["other.txt"]


def test_files_of_a_running_process_are_not_removed(tmp_path):
    process = start(tmp_path)
    (left,) = names(tmp_path)
    try:
        with whole_folder(tmp_path / "other") as temporary:
            (temporary / "x").touch()
        assert names(tmp_path) == sorted([left, "other"])
    finally:
        kill(process)


def test_files_of_a_zombie_process_are_removed(tmp_path):
    process = start(tmp_path)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []
    process.wait()
    process.stdout.close()


def test_another_process_with_the_same_pid_is_not_the_owner(tmp_path):
    name = temporary_name("a.bin")
    host, pid, _, random = name.split(".")[3].split("-")
    assert int(pid) == os.getpid()
    (tmp_path / name).touch()
    (tmp_path / f".a.bin.{host}-{pid}-1-{random}.bin").touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [name]


def test_files_of_another_host_are_removed_after_a_day(tmp_path):
    host = temporary_name("a.bin").split(".")[3].split("-")[0]
    other = "0" * 8 if host != "0" * 8 else "1" * 8
    for name in (f".new.bin.{other}-1-1-{'0' * 8}.bin", f".old.bin.{other}-1-1-{'0' * 8}.bin"):
        (tmp_path / name).touch()
    old = time.time() - DAYS
    os.utime(tmp_path / name, (old, old))
    remove_leftovers(tmp_path)
    assert [name.split(".")[1] for name in names(tmp_path)] == ["new"]


def test_a_folder_of_another_host_in_use_is_not_old(tmp_path):
    folder = tmp_path / f".a.{'0' * 8}-1-1-{'0' * 8}"
    folder.mkdir()
    (folder / "weights").touch()
    old = time.time() - DAYS
    os.utime(folder, (old, old))
    remove_leftovers(tmp_path)
    assert folder.exists()


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        (".bits.npy.k3_x9a0b.npy", True),
        ("..fleet-0123456789abcdef.safetensors.abc1defg.safetensors", True),
        (".0123456789abcdef.abc_defg/", True),
        (".best.abc1defg/", True),
        (".bits.npy.original.npy", False),
        (".gitignore.backup01", False),
        (".config.abc1defg/", False),
        (".bits.npy.sum", False),
        (".3dshapes.h5.lock", False),
        ("3dshapes.h5.part", False),
        (".fleet-0123456789abcdef.safetensors", False),
    ],
)
def test_names_without_an_owner_are_removed_after_a_day(tmp_path, name, removed):
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    else:
        path.touch()
    remove_leftovers(tmp_path)
    assert path.exists()
    old = time.time() - DAYS
    os.utime(path, (old, old))
    again = tmp_path.with_name(f"{tmp_path.name}-again")  # a folder is looked through once
    tmp_path.rename(again)
    remove_leftovers(again)
    assert (again / name).exists() != removed


def test_a_link_that_looks_like_a_leftover_is_removed_but_not_its_target(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    folder = tmp_path / "cache"
    folder.mkdir()
    host = temporary_name("a").split(".")[2].split("-")[0]
    (folder / f".a.{host}-4000000-1-{'0' * 8}").symlink_to(precious)
    remove_leftovers(folder)
    assert names(folder) == []
    assert names(precious) == ["file"]


@pytest.mark.parametrize("name", ["a" * 251 + ".npy", "é" * 120 + ".npy", "a." + "b" * 250])
def test_a_name_of_full_length_can_be_written(tmp_path, name):
    with whole_file(tmp_path / name) as temporary:
        temporary.write_text("whole")
        assert len(os.fsencode(temporary.name)) <= 255
    assert names(tmp_path) == [name]


def test_a_temporary_folder_is_removed_after_use(tmp_path):
    with temporary_folder(tmp_path / "best") as aside:
        (aside / "file").touch()
        assert aside.parent == tmp_path
    assert names(tmp_path) == []


def test_training_removes_leftovers_before_its_first_write(tmp_path):
    kill(start(tmp_path, "folder"))
    data = uw.data.load(np.zeros((9, 32, 32, 1), np.uint8))
    seen = []

    class Watching(uw.methods.BetaVAE):
        def regularizer(self, elbo, batch):
            seen.append(names(tmp_path))
            return super().regularizer(elbo, batch)

    uw.train(Watching(), data, steps=1, batch=4, out=tmp_path, progress=False)
    assert seen[0] == []
