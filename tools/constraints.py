"""Regenerate constraints.txt, which pins all direct and indirect dependencies and extras.

    .venv/bin/python -m tools.constraints            # keep versions, add and drop packages
    .venv/bin/python -m tools.constraints --upgrade  # use the newest compatible versions

Nothing is installed. Run it when the dependencies in pyproject.toml change, followed by
`make test`, which installs exactly these versions.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
HEADING = "# Versions that were tested together. make setup installs exactly these."


def wanted(project: dict[str, Any]) -> list[str]:
    """Return the requirements of a project, of all its extras and of its build system.

    Example:
        >>> wanted(
        ...     {
        ...         "project": {"dependencies": ["b>=1"], "optional-dependencies": {"x": ["c"]}},
        ...         "build-system": {"requires": ["a"]},
        ...     }
        ... )
        ['a', 'b>=1', 'c']
    """
    about = project["project"]
    extras = [name for names in about["optional-dependencies"].values() for name in names]
    return sorted({*about["dependencies"], *extras, *project["build-system"]["requires"]})


def pins(report: dict[str, Any]) -> Iterable[str]:
    """Yield a pin for each package in an installation report of pip, without local versions.

    Example:
        >>> found = [{"metadata": {"name": "Torch", "version": "2.13.0+cpu"}}]
        >>> list(pins({"install": found}))
        ['Torch==2.13.0']
    """
    packages = [item["metadata"] for item in report["install"]]
    for package in sorted(packages, key=lambda one: one["name"].lower()):
        yield f"{package['name']}=={package['version'].partition('+')[0]}"


def resolved(requirements: list[str], upgrade: bool) -> dict[str, Any]:
    """Return the report of what pip would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--dry-run", "--ignore-installed", "--report", "-"]
    command += [] if upgrade else ["--constraint", str(CONSTRAINTS)]
    done = subprocess.run([*command, *requirements], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true")
    upgrade = parser.parse_args().upgrade
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = [HEADING, *pins(resolved(wanted(project), upgrade))]
    CONSTRAINTS.write_text("\n".join(lines) + "\n")
    print(f"Wrote {len(lines) - 1} packages to {CONSTRAINTS.name}")


if __name__ == "__main__":
    main()
