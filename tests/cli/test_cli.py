"""The command line as a whole: help, bad input and unprintable names."""

import os
import re
import resource
import subprocess
import sys

import pytest
from PIL import Image

from benchmarks.attacks.inputs import attacks, prepare
from tests.cli.calling import NOTHING, run
from tests.cli.calling import start as new_python

COMMANDS = [
    *(f"data {word}" for word in ("list", "prepare", "check", "show", "export")),
    *("fit", "train", "evaluate", "score", "show", "encode", "export", "report", "explore"),
    *("manipulate", "reproduce", "zoo", "completion"),
    *(f"study {word}" for word in ("plan", "run", "status", "table", "check")),
    *("theory vi-bias", "theory d-separation", "theory impossibility", "theory pca-alignment"),
]


def computed():
    """Return the CPU time of finished child processes."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def test_help_is_quick_and_does_not_import_torch():
    times = []
    for _ in range(3):
        before = computed()
        done = new_python("--help")
        times.append(computed() - before)
        assert done.returncode == 0
    assert "unweave data list" in done.stdout
    assert min(times) < 0.5
    code = "import sys, unweave.cli, unweave.data; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_closed_pipe_is_not_an_error():
    reader, writer = os.pipe()
    os.close(reader)
    args = [sys.executable, "-m", "unweave", "reproduce"]
    done = subprocess.run(args, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    done = run(*command.split(), "--help")
    assert done.returncode == 0
    assert f"Example: unweave {command}" in done.stdout
    assert not NOTHING.search(done.stdout)


def test_help_lists_the_most_common_commands_first():
    commands = re.search(r"\{(.*?)\}", run("--help").stdout)[1].split(",")
    assert commands[0] == "fit"
    assert commands[-3:] == ["data", "study", "theory"]


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("fit", ["images", "--unknown", "3"]),
        ("fit", []),
        ("fit", ["images", "--steps", "many"]),
        ("theory vi-bias", ["--unknown"]),
        ("data", []),
        ("train dsprites beta-vae", ["--unknown"]),
    ],
)
def test_usage_errors_refer_to_the_help_of_the_subcommand(command, args):
    done = run(*command.split(), *args)
    assert done.returncode == 2
    assert f"unweave {command} --help" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "meant"), [(["explor"], "explore"), (["data", "lst"], "list"), (["studdy"], "study")]
)
def test_an_unknown_command_is_an_error_with_the_nearest_one(words, meant):
    done = run(*words)
    assert done.returncode == 2
    assert repr(words[-1]) in done.stderr
    assert repr(meant) in done.stderr


def test_no_command_prints_the_help():
    assert run() == run("--help")


def test_help_lists_the_version_flag():
    assert "unweave --version" in run("--help").stdout


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A folder of bad files of every kind."""
    here = tmp_path_factory.mktemp("attacked")
    prepare(here)
    return here


@pytest.mark.parametrize("attack", attacks()[::16], ids=lambda attack: attack.name[:80])
def test_bad_inputs_are_one_sentence_errors(attack, attacked):
    before = {path: path.lstat().st_mtime_ns for path in attacked.rglob("*")}
    done = run(*attack.words, cwd=attacked)
    assert done.returncode in attack.expected, done.stderr
    if attack.expected == (2,):
        assert "--help" in done.stderr or done.stderr.splitlines()[-1].startswith("unweave: ")
        assert {path: path.lstat().st_mtime_ns for path in attacked.rglob("*")} == before


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_any_name_can_be_printed(tmp_path, start, encoding):
    folder = tmp_path / os.fsdecode(b"im\xe9ges \xe2\x98\x83")
    folder.mkdir()
    for name in (b"caf\xe9.png", b"two\nlines.png", "\u2603.png".encode()):
        Image.new("L", (32, 32)).save(folder / os.fsdecode(name))
    (folder / os.fsdecode(b"bro\xe9ken.png")).write_text("no picture")
    code = f"""
import sys
for file in (sys.stdout, sys.stderr):
    file.reconfigure(encoding={encoding!r})
from unweave.cli import main; main()
"""
    done = start("data", "show", folder, "-o", tmp_path / "sheet.png", code=code)
    assert done.wait() == 0, done.stderr
    assert r"im\xe9ges" in done.stdout
    assert r"bro\xe9ken.png" in done.stderr
    done = start("data", "show", folder / os.fsdecode(b"caf\xe9"), code=code)
    assert done.wait() == 2
    assert done.stderr.count("\n") == 1
    assert "caf" in done.stderr
