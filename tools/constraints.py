"""Write constraints.txt anew: what pip would install of every dependency and extra, and of theirs.

    .venv/bin/python -m tools.constraints            # keep versions, add and drop packages
    .venv/bin/python -m tools.constraints --upgrade  # the newest versions that fit together

Nothing is installed. Run it when the dependencies in pyproject.toml change; then `make test`,
which installs exactly these.
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
HEADING = "# Every version that was tested together. make setup installs exactly these."


def wanted(project: dict[str, Any]) -> list[str]:
    """Requirements of a project with all its extras, and of building it.

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
    """A line for each package that pip's report would install; builds of one version are alike.

    Example:
        >>> found = [{"metadata": {"name": "Torch", "version": "2.13.0+cpu"}}]
        >>> list(pins({"install": found}))
        ['Torch==2.13.0']
    """
    packages = [item["metadata"] for item in report["install"]]
    for package in sorted(packages, key=lambda one: one["name"].lower()):
        yield f"{package['name']}=={package['version'].partition('+')[0]}"


def resolved(requirements: list[str], upgrade: bool) -> dict[str, Any]:
    """What pip would install into an empty environment."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    words += ["--dry-run", "--ignore-installed", "--report", "-"]
    words += [] if upgrade else ["--constraint", str(CONSTRAINTS)]
    done = subprocess.run([*words, *requirements], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true")
    upgrade = parser.parse_args().upgrade
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = [HEADING, *pins(resolved(wanted(project), upgrade))]
    CONSTRAINTS.write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} packages: {CONSTRAINTS.name}")


if __name__ == "__main__":
    main()
