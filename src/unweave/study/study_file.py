"""Reading the file of a study: YAML, JSON or Python."""

import os
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.data.origin_steps import FILES
from unweave.io.plain_data import MOST_YAML_BYTES, parse_yaml, read_text
from unweave.study.entries import StudyFileError
from unweave.study.study import Study, check_name
from unweave.text import shown

__all__ = ["read"]

EXPONENT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
"""Numbers that YAML takes for text."""


def read(path: str | Path) -> Study:
    """The study in a `.yaml`, `.json` or `.py` file; only a `.py` file is executed."""
    path = Path(path)
    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file fails on very long paths
        raise StudyFileError(f"there is no study file {shown(str(path))}; check the path")
    if path.suffix == ".py":
        found = runpy.run_path(str(path)).get("study")
        if not isinstance(found, Study):
            raise StudyFileError(f"{path} must set `study` to a uw.study.Study")
        return found
    try:
        plain = parse_yaml(read_text(path, MOST_YAML_BYTES))
    except (OSError, ValueError) as error:
        raise StudyFileError(f"{path} is no YAML: {error}") from error
    if not isinstance(plain, Mapping):
        return Study.from_dict(plain)
    said = {"name": path.stem, **_numbers(plain)}
    _check_folder_name(said["name"])
    return Study.from_dict({**said, "data": _beside(said.get("data"), path.absolute().parent)})


def _check_folder_name(name: object) -> None:
    """Refuse a name that leads out of the current folder, where a study goes by default."""
    check_name("the name of a study", name)
    if not isinstance(name, str) or name[0] == "." or "/" in name or "\\" in name:
        raise StudyFileError(
            f"the name of a study is that of its folder and cannot be {shown(name)}; "
            "leave out slashes and dots in front"
        )


def _numbers(said: Any) -> Any:
    """What a file says, with 3e4 as the number that is meant."""
    if isinstance(said, Mapping):
        return {name: _numbers(value) for name, value in said.items()}
    if isinstance(said, list):
        return [_numbers(value) for value in said]
    if isinstance(said, str) and EXPONENT.fullmatch(said):
        number = float(said)
        return int(number) if number.is_integer() else number
    return int(said) if isinstance(said, float) and said.is_integer() else said


def _beside(data: Any, folder: Path) -> Any:
    """Data sets whose files are given from the folder of the study's file."""
    if isinstance(data, list):
        return [_beside(one, folder) for one in data]
    if isinstance(data, Mapping):
        return {n: _beside(v, folder) if n in ("load", *FILES) else v for n, v in data.items()}
    there = isinstance(data, str) and os.path.exists(folder / data)  # noqa: PTH110 - as above
    return str(folder / data) if there else data
