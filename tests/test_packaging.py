"""The wheel contains exactly the package and works without the repository."""

import ast
import os
import pty
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from PIL import Image

import unweave as uw
from tools.constraints import CONSTRAINTS, wanted

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIREMENTS = [Requirement(line) for line in wanted(PROJECT)]
PAGES = {".js", ".css", ".html", ".j2", ".svg"}


def run(*words, cwd, **environment):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run("hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the files that pip would install into site-packages."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder that contains only images."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "images").mkdir()
    for number in range(64):
        image = np.zeros((32, 32), np.uint8)
        image[number % 8 * 3 :, number // 8 * 3 :][:8, :8] = 255
        Image.fromarray(image).save(folder / "images" / f"{number:02}.png")
    return folder


def test_the_wheel_contains_only_the_package(wheel):
    there = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "unweave").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == there
    assert "unweave/py.typed" in held
    assert {Path(name).suffix for name in held} >= PAGES
    assert wheel.stat().st_size < 5e6


def test_the_wheel_works_without_the_repository(installed, outside):
    here = {"PYTHONPATH": str(installed), "cwd": outside}
    say = "import unweave; print(unweave.__file__)"
    there = subprocess.check_output(
        [sys.executable, "-c", say], cwd=outside, env={**os.environ, "PYTHONPATH": str(installed)}
    )
    assert Path(there.decode().strip()).is_relative_to(installed)
    assert "unweave data list" in run("unweave", "--help", **here)
    assert "dsprites" in run("unweave", "data", "list", **here)
    words = "fit images --size 32 --steps 2 --method beta-vae --strengths 1 --seeds 2 --latents 3"
    assert "Report: images-fit/report.html" in run("unweave", *words.split(), **here)
    assert "<style>" in (outside / "images-fit" / "report.html").read_text()
    codes = (outside / "images-fit" / "codes.csv").read_text().splitlines()
    assert len(codes) == 65


def test_the_version_is_the_same_everywhere(installed, outside):
    (about,) = installed.glob("*.dist-info/METADATA")
    version = message_from_bytes(about.read_bytes())["Version"]
    assert run("unweave", "--version", cwd=outside, PYTHONPATH=str(installed)) == (
        f"unweave {version}\n"
    )
    assert Version(version) > Version("0.0")


def version_of(folder):
    return run("hatchling", "version", cwd=folder).strip().splitlines()[-1]


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_versions_come_from_tags_if_there_are_any(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert version_of(tmp_path) == "0.2.0.dev0"
    git(tmp_path, "init")
    git(tmp_path, "add", "pyproject.toml")
    git(tmp_path, "commit", "-m", "one")
    assert version_of(tmp_path).startswith("0.2.0.dev1+g")
    git(tmp_path, "tag", "v0.3.0")
    assert version_of(tmp_path) == "0.3.0"
    git(tmp_path, "commit", "--allow-empty", "-m", "two")
    assert version_of(tmp_path).startswith("0.3.1.dev1+g")


def test_source_code_that_is_not_installed_has_a_version_too(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    assert uw.__version__ == "0+unknown"


def pinned():
    """The version of each package in constraints.txt."""
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_every_dependency_is_pinned_to_a_compatible_version(requirement):
    version = pinned()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


def test_packages_are_pinned_once():
    lines = CONSTRAINTS.read_text().splitlines()[1:]
    assert len(pinned()) == len(lines) > len(REQUIREMENTS) / 2


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("shell") / "unweave.bash"
    path.write_text(run("unweave", "completion", "bash", cwd=path.parent))
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["da"], ["data"]),
        (["data", "l"], ["list"]),
        (["fit", "images", "--lik"], ["--likelihood"]),
        (["reproduce", "--scale", "p"], ["paper"]),
        (["--ver"], []),
        (["fit", "ima"], []),  # bash itself then completes names of files
        (["fit", ""], []),
    ],
)
def test_bash_completes_commands_and_flags(words, expected, script):
    asked = f"""source {script}
        COMP_WORDS=("unweave" "$@"); COMP_CWORD=$#
        $(complete -p unweave | sed -E 's/.* -F ([^ ]+) .*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(
        ["bash", "-c", asked, "bash", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected


def test_help_of_options_has_no_line_breaks_which_separate_suggestions(script):
    (line,) = re.findall("^COMPLETION_SPEC = (.+)$", script.read_text(), re.MULTILINE)

    def descriptions(spec):
        for option in spec["options"]:
            yield option["description"]
        for command in spec.get("subcommands", {}).values():
            yield from descriptions(command)

    found = list(descriptions(ast.literal_eval(line)))
    assert len(found) > 100
    assert [text for text in found if "\n" in text] == []


def test_bash_completes_file_names(script, tmp_path):
    (tmp_path / "images").mkdir()
    ours, theirs = pty.openpty()
    words = ["bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True
    )
    os.write(ours, f'source {script}; unweave() {{ printf "<%s>" "$@"; }}\n'.encode())
    os.write(ours, b"unweave da\t sh\t ima\t\n")
    os.write(ours, b"exit\n")
    shell.wait(20)
    shown = os.read(ours, 100_000).decode()
    assert "<data><show><images/>" in shown


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_their_own_script(shell, tmp_path):
    script = run("unweave", "completion", shell, cwd=tmp_path)
    assert {"zsh": "#compdef unweave", "fish": "complete --no-files"}[shell] in script
    assert "'prepare'" in script
