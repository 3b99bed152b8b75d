"""Reading the file of a study: YAML, JSON or Python."""

import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.study.entries import StudyFileError
from unweave.study.study import FILES, Study

__all__ = ["read"]

EXPONENT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
"""Numbers that YAML takes for text."""


def read(path: str | Path) -> Study:
    """The study in a `.yaml`, `.json` or `.py` file."""
    path = Path(path)
    if not path.is_file():
        raise StudyFileError(f"there is no study file {path}; check the path")
    if path.suffix == ".py":
        found = runpy.run_path(str(path)).get("study")
        if not isinstance(found, Study):
            raise StudyFileError(f"{path} must set `study` to a uw.study.Study")
        return found
    import yaml

    try:
        plain = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise StudyFileError(f"{path} is no YAML: {where}") from error
    if not isinstance(plain, Mapping):
        return Study.from_dict(plain)
    said = {"name": path.stem, **_numbers(plain)}
    return Study.from_dict({**said, "data": _beside(said.get("data"), path.absolute().parent)})


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
    there = isinstance(data, str) and (folder / data).exists()
    return str(folder / data) if there else data
