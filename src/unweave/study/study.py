"""The definition of a study: what to train and which metrics to compute.

A study file in YAML:

    name: sprites
    data: [dsprites, {name: upright, load: dsprites, slice: {orientation: 0}}]
    methods: {beta_vae: {beta: [1, 4, 16]}, factor_vae: {gamma: [10, 30, 100]}}
    seeds: 10
    steps: 20000
    metrics: [classic, gaussian_total_correlation]
    sampled: [gaussian_total_correlation]
    settings: {precision: bf16}

The same study in a Python file: `study = uw.study.Study(name="sprites", …)`.
"""

import dataclasses
import os
import re
import runpy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from unweave.data.origin import FILES
from unweave.evaluation.choice import choose
from unweave.io.plain_data import MAX_YAML_BYTES, parse_yaml, read_text
from unweave.io.schema import Required, Schema, of_kind, several
from unweave.metrics import Metric, saved_name
from unweave.models.config import Config
from unweave.study.method_grids import (
    Entry,
    StudyFileError,
    check_count,
    check_settings,
    count_runs,
    named_methods,
    read_entries,
    runs_of,
)
from unweave.study.sources import Source, as_plain, check_name, is_source
from unweave.text import shown

__all__ = ["Study", "read"]

EXPONENT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
"""Numbers such as 3e4, which YAML reads as text."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A grid of training runs and the metrics to compute for each run.

    Args:
        methods: A mapping from method names or classes to grids: one or more values for each
            field, or a list of grids. Or a list of methods whose values are grids. A grid may
            also have `settings` and `steps`, which replace those of the study. A second stage
            needs `first`; see `unweave.study.method_grids`.
        data: Data sets: names, or mappings with `load`, loading options, `name`, and `slice`,
            `leave_out`, `only` or `correlate`.
        name: Name of the study (default: `"study"`).
        seeds: Number of random seeds (0, 1, 2 …), or a list of seeds (default 1).
        steps: Number of training steps (default 300,000).
        metrics: Metrics for mean codes: names, or `Metric` objects of a module.
        sampled: Metrics for sampled codes (default: none).
        settings: Settings of `Config`: batch, latents, architecture, likelihood, init, optimiser,
            precision. A list of values, as in `{"latents": [10, 32]}`, adds runs for each value.
        keep_optimiser: Whether to save optimiser states, so that runs continue when the study asks
            for more steps (default: False).

    Example:
        >>> study = Study(methods={"beta_vae": {"beta": [1, 4]}}, data=["dsprites"], seeds=3)
        >>> len(study.runs())
        6
    """

    methods: Any
    data: Sequence[Any] | str
    name: str = "study"
    seeds: int | Sequence[int] = 1
    steps: int = 300_000
    metrics: Any = ("classic",)
    sampled: Any = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    keep_optimiser: bool = False

    def __post_init__(self) -> None:
        check_name("the name of a study", self.name)
        if not self.methods:
            raise StudyFileError(
                "a study must have methods: names with grids, such as {beta_vae: {beta: 4}}",
                "methods",
            )
        object.__setattr__(self, "methods", named_methods(self.methods))
        if not isinstance(self.data, str | Mapping | Source | list | tuple):
            raise StudyFileError.must("data", "be a data set or a list of data sets", self.data)
        names = [source.name for source in self.sources]
        if not names:
            raise StudyFileError("data must name at least one data set", "data")
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise StudyFileError(
                f"two data sets are named {twice!r}; give each a different `name`",
                "data",
                twice,
            )
        for name in ("metrics", "sampled"):
            given = getattr(self, name) or ()
            every = given if isinstance(given, list | tuple) else [given]
            names = [one if isinstance(one, str) else _metric_name(one) for one in every]
            if names:
                choose(names)
            object.__setattr__(self, name, tuple(names))
        object.__setattr__(self, "settings", self.settings or {})
        self.runs_of_origin(())

    @cached_property
    def sources(self) -> list[Source]:
        """The data sets."""
        single = isinstance(self.data, str | Mapping | Source)
        return [Source.of(one) for one in cast(list[Any], [self.data] if single else self.data)]

    @cached_property
    def entries(self) -> list[Entry]:
        """Every method with every combination of its hyperparameters."""
        return read_entries(self.methods)

    def runs(self) -> list[Config]:
        """All runs, ordered by data set, then by method, then by seed."""
        return [config for source in self.sources for config in self.runs_on(source)]

    def runs_on(self, source: Source) -> list[Config]:
        """The runs on one of the data sets."""
        return self.runs_of_origin(source.origin)

    def runs_of_origin(self, origin: Sequence[Any]) -> list[Config]:
        """The runs on the data set with the given origin."""
        each = check_settings(self.settings)
        seeds = self.seeds if isinstance(self.seeds, int) else len(self._seeds())
        check_count(count_runs(self.entries, each, max(0, seeds)) * len(self.sources))
        configs = runs_of(self.entries, each, self._seeds(), self.steps, tuple(origin))
        if not configs:
            raise StudyFileError("a study must have at least one seed", "seeds", self.seeds)
        if len({config.hash for config in configs}) != len(configs):
            raise StudyFileError("two runs are identical; list each value only once", "runs")
        return configs

    def _seeds(self) -> Sequence[int]:
        seeds = self.seeds
        if type(seeds) is int:
            return range(seeds)
        if isinstance(seeds, list | tuple | range) and all(type(s) is int for s in seeds):
            return seeds
        raise StudyFileError.must("seeds", "be an integer or a list of integers", seeds)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON and YAML."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        settings = {name: as_plain(value) for name, value in self.settings.items()}
        seeds = self.seeds if isinstance(self.seeds, int) else list(self.seeds)
        return {
            **plain,
            "methods": {name: as_plain(grid) for name, grid in self.methods.items()},
            "data": [source.to_dict() for source in self.sources],
            "seeds": seeds,
            "metrics": list(self.metrics),
            "sampled": list(self.sampled),
            "settings": settings,
        }

    @classmethod
    def from_dict(cls, plain: Any) -> "Study":
        """Create a study from plain data, such as the content of a study file."""
        FILE.check(plain)
        return cls(**plain)


FILE = Schema(
    "a study",
    "entry of a study",
    {
        "methods": Required[dict[Any, Any]],
        "data": Required[several(of_kind(is_source, "a name, or a mapping with `load`"))],
        "name": str,
        "seeds": several(int),
        "steps": int,
        "metrics": several(str) | None,
        "sampled": several(str) | None,
        "settings": dict[Any, Any] | None,
        "keep_optimiser": bool,
    },
    StudyFileError,
)
"""Schema of a study file, and of the entry `study` of `study.json`."""


def _metric_name(metric: Any) -> str:
    if not isinstance(metric, Metric):
        raise StudyFileError.must("metrics", "be names or Metric objects", metric)
    name = saved_name(metric)
    if name is None:
        raise StudyFileError(
            f"metric {metric.name} must be defined at the top level of a module, so that other "
            "processes can import it",
            "metrics",
            metric,
        )
    return name


def read(path: str | Path) -> Study:
    """Read a study from a `.yaml`, `.json` or `.py` file; only a `.py` file is executed."""
    path = Path(path)
    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file fails on very long paths
        raise StudyFileError(
            f"the study file {shown(str(path))} does not exist; check the path", str(path)
        )
    if path.suffix == ".py":
        found = runpy.run_path(str(path)).get("study")
        if not isinstance(found, Study):
            raise StudyFileError(f"{path} must set `study` to a uw.study.Study", "study", found)
        return found
    try:
        plain = parse_yaml(read_text(path, MAX_YAML_BYTES))
    except (OSError, ValueError) as error:
        raise StudyFileError(f"{path} is not valid YAML: {error}", str(path)) from error
    if not isinstance(plain, Mapping):
        return Study.from_dict(plain)
    content = {"name": path.stem, **_numbers(plain)}
    _check_folder_name(content["name"])
    data = _resolve_paths(content.get("data"), path.absolute().parent)
    return Study.from_dict({**content, "data": data})


def _check_folder_name(name: object) -> None:
    """Raise an error for a name that is not safe as the study's default folder name."""
    check_name("the name of a study", name)
    if not isinstance(name, str) or name[0] == "." or "/" in name or "\\" in name:
        raise StudyFileError(
            "the name of a study, which is also its default folder, must not start with a dot or "
            f"contain slashes, got {shown(name)}",
            "name",
            name,
        )


def _numbers(plain: Any) -> Any:
    """Convert text such as 3e4 to numbers, and whole floats to integers."""
    if isinstance(plain, Mapping):
        return {name: _numbers(value) for name, value in plain.items()}
    if isinstance(plain, list):
        return [_numbers(value) for value in plain]
    if isinstance(plain, str) and EXPONENT.fullmatch(plain):
        number = float(plain)
        return int(number) if number.is_integer() else number
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _resolve_paths(data: Any, folder: Path) -> Any:
    """Resolve paths of data sets relative to the folder of the study file."""
    if isinstance(data, list):
        return [_resolve_paths(one, folder) for one in data]
    if isinstance(data, Mapping):
        paths = ("load", *FILES)
        return {n: _resolve_paths(v, folder) if n in paths else v for n, v in data.items()}
    exists = isinstance(data, str) and os.path.exists(folder / data)  # noqa: PTH110 - as above
    return str(folder / data) if exists else data
