"""What a study trains and measures, as its file says it (`unweave.study.study_file` reads it):

    name: sprites
    data: [dsprites, {name: upright, load: dsprites, slice: {orientation: 0}}]
    methods: {beta_vae: {beta: [1, 4, 16]}, factor_vae: {gamma: [10, 30, 100]}}
    seeds: 10
    steps: 20000
    metrics: [classic, gaussian_total_correlation]
    sampled: [gaussian_total_correlation]
    settings: {precision: bf16}

A Python file says the same with `study = uw.study.Study(name="sprites", …)`.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from unweave.data.catalog import DATASETS, factors_of, find_loader, is_named
from unweave.data.dataset import Dataset
from unweave.data.origin import loading, origin_of
from unweave.data.origin_steps import (
    FILES,
    STEPS,
    apply_steps,
    check_options,
    check_steps,
)
from unweave.errors import DataError
from unweave.evaluation.choice import choose
from unweave.evaluation.score_cache import origin_text
from unweave.io.extensions import is_reference
from unweave.io.schema import Required, Schema, of_kind, several
from unweave.metrics import Metric, saved_name
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.nets.architectures import Architecture, name_of
from unweave.study.entries import (
    Entry,
    StudyFileError,
    check_count,
    check_settings,
    count_runs,
    named_methods,
    read_entries,
    runs_of,
)
from unweave.text import shown, spelled

__all__ = ["Source", "Study", "check_name"]

LONGEST_NAME = 100


@dataclass(frozen=True)
class Source:
    """A data set of a study.

    Args:
        name: What it is called in tables.
        load: Its name, or where your own images are.
        options: How it is loaded.
        changes: What it goes through then: methods of `Dataset`, and what they are given.
    """

    name: str
    load: str
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, said: "str | Mapping[str, Any] | Source") -> "Source":
        """What a study says of a data set: a name, or a mapping with `load`."""
        if isinstance(said, Source):
            return said
        if isinstance(said, str):
            said = {"load": said}
        if not isinstance(said, Mapping) or not isinstance(said.get("load"), str | Path):
            raise StudyFileError(
                f"a data set is a name, or a mapping with `load`, but got {shown(said)}"
            )
        load = str(said["load"])
        key = spelled(load)
        load = key if is_named(key) else _absolute(load)
        options = {
            n: _absolute(v) if n in FILES and isinstance(v, str | Path) else v
            for n, v in said.items()
            if n not in ("load", "name", *STEPS)
        }
        check_options(_loader(load), load, options, STEPS)
        changes = tuple((n, v) for n, v in said.items() if n in STEPS)
        name = said["name"] if "name" in said else _printable(_stem(load))
        check_name("the name of a data set", name)
        made = cls(name, load, options, changes)
        check_steps(made.steps, factors_of(load))
        return made

    @property
    def steps(self) -> list[list[Any]]:
        """What it goes through, as in `Dataset.origin`."""
        return [
            [n, *said] if isinstance(said, list | tuple) else [n, said] for n, said in self.changes
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `of` reads."""
        plain: dict[str, Any] = _plain({**self.options, **dict(self.changes)})
        return {"name": self.name, "load": self.load, **plain}

    def open(self) -> Dataset:
        """The data set."""
        from unweave.data import load

        return apply_steps(load(self.load, **self.options), self.steps)

    def open_as(self, origin: Sequence[Any]) -> Dataset:
        """The data set, if it is the one of an origin: the images that some runs learned from."""
        data = self.open()
        if origin_text(origin_of(data)) != origin_text(origin):
            raise DataError(
                f"{self.name} ({self.load}) is not what it was when the study was planned; bring "
                "the same images back"
            )
        return data

    @cached_property
    def origin(self) -> tuple[Any, ...]:
        """`Dataset.origin`; only where images or changes decide it are they loaded for it."""
        if is_named(self.load) and not self.changes:
            return (loading(self.load, self.options),)
        data = self.open()
        return origin_of(data)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of its images."""
        if self.load not in DATASETS:
            return self.open().shape
        height, width, channels = DATASETS[self.load].shape
        return height, width, channels


@dataclass(frozen=True, kw_only=True)
class Study:
    """A grid of runs and what to measure of each.

    Args:
        methods: By name or class, the grid of each: one value or several for each of its fields;
            several grids as a list. Or a list of methods whose values are grids. Beside fields a
            grid may have `settings` and `steps` in place of the study's, and a second stage needs
            `first`: see `unweave.study.entries`.
        data: Data sets: names, or mappings with `load`, options of loading, `name`, and `slice`,
            `leave_out`, `only` or `correlate`.
        name: What the study is called.
        seeds: How many seeds (0, 1, 2 …), or which.
        steps: Updates of the parameters.
        metrics: What to compute of mean codes: names, or `Metric` objects of a module.
        sampled: What to compute of sampled codes besides.
        settings: Of `Config`: batch, latents, architecture, likelihood, init, optimiser,
            precision. Several values, as `{"latents": [10, 32]}`, are trained each.

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

    def __post_init__(self) -> None:
        check_name("the name of a study", self.name)
        if not self.methods:
            raise StudyFileError(
                "a study needs methods: names, each with its grid, such as {beta_vae: {beta: 4}}"
            )
        object.__setattr__(self, "methods", named_methods(self.methods))
        if not isinstance(self.data, str | Mapping | Source | list | tuple):
            raise StudyFileError(f"data are one data set or a list, but got {shown(self.data)}")
        names = [source.name for source in self.sources]
        if not names:
            raise StudyFileError("a study needs data: the name of a data set, or several")
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise StudyFileError(
                f"two data sets are called {twice!r}; give each a `name` of its own"
            )
        for name in ("metrics", "sampled"):
            said = getattr(self, name) or ()
            every = said if isinstance(said, list | tuple) else [said]
            said = tuple(one if isinstance(one, str) else _metric_name(one) for one in every)
            if said:
                choose(said)
            object.__setattr__(self, name, said)
        object.__setattr__(self, "settings", self.settings or {})
        self.runs_of_origin(())

    @cached_property
    def sources(self) -> list[Source]:
        """The data sets."""
        single = isinstance(self.data, str | Mapping | Source)
        return [Source.of(said) for said in cast(list[Any], [self.data] if single else self.data)]

    @cached_property
    def entries(self) -> list[Entry]:
        """Every method with every combination of its values."""
        return read_entries(self.methods)

    def runs(self) -> list[Config]:
        """All runs: data by data, method by method, seeds fastest."""
        return [config for source in self.sources for config in self.runs_on(source)]

    def runs_on(self, source: Source) -> list[Config]:
        """The runs on one of the data sets."""
        return self.runs_of_origin(source.origin)

    def runs_of_origin(self, origin: Sequence[Any]) -> list[Config]:
        """The runs on a data set of an origin."""
        each = check_settings(self.settings)
        seeds = self.seeds if isinstance(self.seeds, int) else len(self._seeds())
        check_count(count_runs(self.entries, each, max(0, seeds)) * len(self.sources))
        configs = runs_of(self.entries, each, self._seeds(), self.steps, tuple(origin))
        if not configs:
            raise StudyFileError("a study needs at least one seed")
        if len({config.hash for config in configs}) != len(configs):
            raise StudyFileError("two of these runs are the same; give each value once")
        return configs

    def _seeds(self) -> Sequence[int]:
        seeds = self.seeds
        if type(seeds) is int:
            return range(seeds)
        if isinstance(seeds, list | tuple | range) and all(type(s) is int for s in seeds):
            return seeds
        raise StudyFileError(f"seeds are a number or a list of numbers, but got {shown(seeds)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON and YAML."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        settings = {name: _plain(said) for name, said in self.settings.items()}
        seeds = self.seeds if isinstance(self.seeds, int) else list(self.seeds)
        return {
            **plain,
            "methods": {name: _plain(said) for name, said in self.methods.items()},
            "data": [source.to_dict() for source in self.sources],
            "seeds": seeds,
            "metrics": list(self.metrics),
            "sampled": list(self.sampled),
            "settings": settings,
        }

    @classmethod
    def from_dict(cls, plain: Any) -> "Study":
        """The inverse of `to_dict`; what a study file says."""
        FILE.check(plain)
        return cls(**plain)


def _is_source(said: Any) -> bool:
    return isinstance(said, str) or (
        isinstance(said, Mapping) and isinstance(said.get("load"), str | Path)
    )


FILE = Schema(
    "a study",
    "entry of a study",
    {
        "methods": Required[dict[Any, Any]],
        "data": Required[several(of_kind(_is_source, "a name, or a mapping with `load`"))],
        "name": str,
        "seeds": several(int),
        "steps": int,
        "metrics": several(str) | None,
        "sampled": several(str) | None,
        "settings": dict[Any, Any] | None,
    },
    StudyFileError,
)
"""A study file, and what `study.json` has of one."""


def check_name(what: str, name: object) -> None:
    """Refuse names that cannot stand in tables and on screens.

    Args:
        what: What is named, for the message.
        name: From a file, so it may be anything.
    """
    if not isinstance(name, str):
        raise StudyFileError(f"{what} must be text, but got {shown(name)}; put it in quotes")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise StudyFileError(
            f"{what} must have 1 to {LONGEST_NAME} printable characters, but got {shown(name)}"
        )


def _printable(text: str) -> str:
    """A name made of a path, which may hold anything."""
    return "".join(c if c.isprintable() else "?" for c in text)[:LONGEST_NAME] or "images"


def _absolute(path: str | Path) -> str:
    return str(Path(os.path.expanduser(path)).absolute())  # noqa: PTH111 - as in `uw.data.load`


def _stem(load: str) -> str:
    """What a data set is called that has no name of its own."""
    return load.partition(":")[2] if is_reference(load) else Path(load).stem


def _loader(load: str) -> Any:
    """The function that loads a data set; its arguments are the options."""
    from unweave.data.custom import from_path

    return find_loader(load) if is_named(load) else partial(from_path, load)


def _plain(said: Any) -> Any:
    if isinstance(said, Adam):
        return dataclasses.asdict(said)
    if isinstance(said, Architecture):
        return name_of(said)
    if isinstance(said, Mapping):
        return {name: _plain(value) for name, value in said.items()}
    return [_plain(value) for value in said] if isinstance(said, list | tuple | range) else said


def _metric_name(metric: Any) -> str:
    if not isinstance(metric, Metric):
        raise StudyFileError(f"metrics are names or Metric objects, but got {shown(metric)}")
    name = saved_name(metric)
    if name is None:
        raise StudyFileError(
            f"{metric.name} must be a variable at the top level of a module, so that other "
            "processes find it; define it there"
        )
    return name
