"""Hyperparameter grids of a study's methods, and the runs that they define.

The entry `methods` of a study maps names of methods to grids:

    beta_tc_vae: [{beta: [1, 4]}, {beta: 4, settings: {latents: 15}}]
    ms_vae: {first: beta_tc_vae, steps: 20000, settings: {latents: 5, batch: 32}}

Besides the fields of the method, an entry may have `settings` and `steps`, which replace those of
the study, and `first`, the first-stage models of a second stage: names of methods in the study, or
a grid of first-stage models to train for it.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, Self

from unweave.io.schema import Number, Schema, SchemaError, fields_of, several
from unweave.methods import Method, SecondStage, find_method, saved_name
from unweave.methods.settings import as_list
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.text import canonical_name

__all__ = [
    "Entry",
    "StudyFileError",
    "check_count",
    "check_settings",
    "count_runs",
    "named_methods",
    "read_entries",
    "runs_of",
]

NOT_SETTINGS = {"method", "data", "seed", "steps", "first"}
"""Fields of a `Config` that are not given in a study's `settings`."""
ENTRY_OPTIONS = ("settings", "steps", "first")
"""Keys that an entry may have besides the fields of its method."""
FIRST_STAGE_SETTINGS = ("architecture", "latents", "init")
"""Settings of a study that do not apply to second stages."""
MAX_RUNS = 100_000
"""Largest number of runs in a study; more are assumed to be a mistake."""


class StudyFileError(SchemaError):
    """An invalid study definition.

    Args:
        message: The problem.
        location: The location in the study, such as `methods.beta_vae.beta`.
        value: The invalid value.
    """

    def __init__(self, message: str, location: str = "", value: object = None) -> None:
        super().__init__(message, location)
        self.value = value

    @classmethod
    def must(cls, subject: str, requirement: str, value: object) -> Self:
        """Return an error about the entry of a study at this location."""
        error = super().must(subject, requirement, value)
        error.location = subject
        return error


@dataclass(frozen=True)
class Entry:
    """A method with one combination of its hyperparameters."""

    method: Method  # the method
    # Settings that replace those of the study, each with one or more values.
    settings: Mapping[str, list[Any]] = field(default_factory=dict)
    steps: int | None = None  # number of steps (default: that of the study)
    # First-stage models of a second stage: names of methods, or entries to train for it.
    first: Sequence["str | Entry"] = ()

    @property
    def plain(self) -> bool:
        """Whether it uses the settings and steps of the study."""
        return not self.settings and self.steps is None


def named_methods(methods: Any) -> dict[str, Any]:
    """Convert methods to a mapping from names to grids, as in study files.

    Args:
        methods: A mapping from names or classes to grids, or a list of methods whose values are
            grids: `[BetaVAE(beta=[1, 4])]`.
    """
    if isinstance(methods, Mapping):
        named = {_name_of(kind): _named_first(grid) for kind, grid in methods.items()}
        if len(named) == len(methods):
            return named
        raise StudyFileError(
            "a method has two entries; merge them into one with a list of grids", "methods"
        )
    if not isinstance(methods, list | tuple) or not all(isinstance(m, Method) for m in methods):
        either = "map names to grids, such as {beta_vae: {beta: 4}}, or be a list of methods"
        raise StudyFileError.must("methods", either, methods)
    grids: dict[str, Any] = {}
    for method in methods:
        names = {f.name: method.saved_as.get(f.name, f.name) for f in dataclasses.fields(method)}
        grid = {saved: getattr(method, name) for name, saved in names.items()}
        grids.setdefault(saved_name(type(method)), []).append(grid)
    return grids


def _name_of(kind: Any) -> Any:
    return saved_name(kind) if isinstance(kind, type) and issubclass(kind, Method) else kind


def _named_first(grid: Any) -> Any:
    """Replace classes in the `first` entries of one or more grids by names."""
    if isinstance(grid, list | tuple):
        return [_named_first(one) for one in grid]
    if not isinstance(grid, Mapping) or "first" not in grid:
        return grid
    first = grid["first"]
    if isinstance(first, Mapping):
        first = named_methods(first)
    elif isinstance(first, list | tuple):
        first = [_name_of(one) for one in first]
    else:
        first = _name_of(first)
    return {**grid, "first": first}


def read_entries(methods: Mapping[str, Any]) -> list[Entry]:
    """Every method with every combination of its hyperparameters."""
    found: list[Entry] = []
    for name, grids in methods.items():
        for values in grids if isinstance(grids, list | tuple) else [grids or {}]:
            found += _entries(name, values)
            check_count(len(found))
    return found


def check_count(runs: int) -> None:
    """Raise an error for too many runs, before they are all created."""
    if runs > MAX_RUNS:
        raise StudyFileError(
            f"a study must have at most {MAX_RUNS:,} runs, got {_rounded(runs)}; use fewer "
            "values or seeds",
            "runs",
            runs,
        )


def _rounded(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"more than {10**15:,}"


def _entries(name: Any, values: Any) -> Iterator[Entry]:
    kind = find_method(canonical_name(name) if isinstance(name, str) else name)
    at = ("methods", str(name))
    values = kind.with_new_names(values) if isinstance(values, Mapping) else values
    _grid_schema(kind).check(values, at)
    settings = check_settings(values.get("settings") or {}, at)
    first = _first(name, values.get("first"))
    if issubclass(kind, SecondStage) and not first:
        raise StudyFileError(
            f"{name} is a second stage and needs first-stage models; name their method, for "
            "example first: beta_tc_vae",
            f"methods.{name}.first",
        )
    grid = {n: value for n, value in values.items() if n not in ENTRY_OPTIONS}
    check_count(math.prod(len(as_list(value)) for value in grid.values()))
    for method in kind(**grid).grid():
        yield Entry(method, settings, values.get("steps"), first)


def _first(name: str, first: Any) -> Sequence[str | Entry]:
    if first is None:
        return ()
    if isinstance(first, Mapping):
        return read_entries(first)
    names = as_list(first)
    for one in names:
        if not isinstance(one, str):
            raise StudyFileError.must(f"methods.{name}.first", "be the name of a method", one)
    return [saved_name(find_method(canonical_name(one))) for one in names]


def check_settings(settings: Any, at: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """Check settings of runs and return each as a list of values.

    Args:
        settings: One or more values for each setting.
        at: Location of the settings in the study, for error messages.
    """
    at = (*at, "settings")
    each = SETTINGS.check(settings, at)
    for name, values in each.items():
        if not values:
            location = ".".join([*at, name])
            raise StudyFileError(f"{location} must have at least one value", location)
    if "optimiser" in each:
        each["optimiser"] = [
            one if isinstance(one, Adam) else Adam(**OPTIMISER.check(one, [*at, "optimiser"]))
            for one in each["optimiser"]
        ]
    if "learning_rate" in each:
        rates = each.pop("learning_rate")
        optimisers = each.get("optimiser", [Adam()])
        each["optimiser"] = [dataclasses.replace(o, lr=rate) for o in optimisers for rate in rates]
    return each


@cache
def _grid_schema(kind: type[Method]) -> Schema:
    """Schema of a method's entry in a study."""
    own = {n: several(Number if t is float else t) for n, t in fields_of(kind).items()}
    return Schema(
        f"the grid of {kind.name}",
        f"setting of {kind.name}",
        {**own, "settings": Any, "steps": Any, "first": Any},
        StudyFileError,
    )


SETTINGS = Schema(
    "the settings of a study",
    "setting",
    {
        name: several(Any)
        for name in sorted(
            {f.name for f in dataclasses.fields(Config)} - NOT_SETTINGS | {"learning_rate"}
        )
    },
    StudyFileError,
)
OPTIMISER = Schema("the optimiser", "setting of the optimiser", fields_of(Adam), StudyFileError)


def runs_of(
    entries: Sequence[Entry],
    settings: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    steps: int,
    data: tuple[Any, ...],
) -> list[Config]:
    """The runs of a study on one data set: settings vary slowest, then methods, seeds fastest.

    A second stage has one run per first-stage model, with the same seed.
    """
    found: list[Config] = []
    for shared in _combinations(settings):
        here: list[tuple[Config, bool]] = []
        for entry in entries:
            here += _runs_of_entry(entry, shared, seeds, steps, data, here)
        found += [config for config, _ in here]
    if any(entry.first or not entry.plain for entry in entries):
        return list({config.hash: config for config in found}.values())
    return found


def count_runs(entries: Sequence[Entry], settings: Mapping[str, Sequence[Any]], seeds: int) -> int:
    """Upper bound on the number of runs that `runs_of` would create, without creating them."""
    total = 0
    named: dict[str, int] = {}
    for entry in entries:
        runs, below = _count_of_entry(entry, seeds, named)
        total += runs + below
        if entry.plain or entry.first:
            name = saved_name(type(entry.method))
            named[name] = named.get(name, 0) + runs
    return total * math.prod(map(len, settings.values()))


def _count_of_entry(entry: Entry, seeds: int, named: Mapping[str, int]) -> tuple[int, int]:
    """Count the runs of an entry, and the first-stage models that are trained only for it."""
    own = math.prod(map(len, entry.settings.values()))
    if not entry.first:
        return own * seeds, 0
    inner = [sum(_count_of_entry(e, seeds, named)) for e in entry.first if isinstance(e, Entry)]
    before = sum(named.get(name, 0) for name in entry.first if isinstance(name, str))
    return own * (before + sum(inner)), sum(inner)


def _runs_of_entry(
    entry: Entry,
    shared: Mapping[str, Any],
    seeds: Sequence[int],
    steps: int,
    data: tuple[Any, ...],
    before: Sequence[tuple[Config, bool]],
) -> list[tuple[Config, bool]]:
    """The runs of one entry, and whether second stages can refer to each by method name."""
    found: list[tuple[Config, bool]] = []
    firsts: list[Config | None] = [None]
    if entry.first:
        shared_here = {n: v for n, v in shared.items() if n not in FIRST_STAGE_SETTINGS}
        own = [one for one in entry.first if isinstance(one, Entry)]
        names = [one for one in entry.first if isinstance(one, str)]
        for one in own:
            found += _runs_of_entry(one, shared, seeds, steps, data, before)
        of_method = [(saved_name(type(config.method)), config) for config, ok in before if ok]
        named = [config for name, config in of_method if name in names]
        missing = set(names) - {name for name, _ in of_method}
        if missing:
            raise StudyFileError(
                f"{entry.method.name} builds on {sorted(missing)[0]}, which must come before it "
                "in the study and must not have its own settings",
                f"methods.{entry.method.name}.first",
                sorted(missing)[0],
            )
        firsts = [*named, *(config for config, _ in found)]
    else:
        shared_here = dict(shared)
    for own_settings in _combinations(entry.settings):
        for first in firsts:
            for seed in seeds if first is None else [first.seed]:
                config = Config(
                    method=entry.method,
                    data=data,
                    seed=seed,
                    steps=steps if entry.steps is None else entry.steps,
                    first=first,
                    **{**shared_here, **own_settings},
                )
                found.append((config, entry.plain or bool(entry.first)))
    return found


def _combinations(settings: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*settings.values()):
        yield dict(zip(settings, values, strict=True))
