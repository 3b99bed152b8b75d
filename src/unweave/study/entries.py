"""What a study says of its methods: their grids, and settings of their own where they have any.

Methods:
      beta_tc_vae: [{beta: [1, 4]}, {beta: 4, settings: {latents: 15}}]
      ms_vae: {first: beta_tc_vae, steps: 20000, settings: {latents: 5, batch: 32}}

Besides the fields of the method an entry may have `settings` and `steps`, in place of those of the
study, and `first`, on whose runs a second stage builds: names of methods of the study, or a grid
as here, which is trained for it.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

from unweave.io.schema import Number, Schema, SchemaError, fields_of, several
from unweave.methods import Method, SecondStage, find_method, saved_name
from unweave.methods.settings import each_value
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.text import shown, spelled

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

OWN = {"method", "data", "seed", "steps", "first"}
"""Of a `Config`, what studies say elsewhere than in their settings."""
BESIDE = ("settings", "steps", "first")
"""What an entry may have besides the fields of its method."""
OF_THE_FIRST = ("architecture", "latents", "init")
"""Settings of a study that a second stage does not share."""


MOST_RUNS = 100_000
"""More runs than any study has; a slip, or a file that is not meant to be run."""


class StudyFileError(SchemaError):
    """A study that cannot be understood."""


@dataclass(frozen=True)
class Entry:
    """A method with one combination of its values.

    Args:
        method: The method.
        settings: Its own settings, each with one value or several.
        steps: Its own number of steps; None for that of the study.
        first: What it builds on: names of methods, or entries of its own.
    """

    method: Method
    settings: Mapping[str, list[Any]] = field(default_factory=dict)
    steps: int | None = None
    first: Sequence["str | Entry"] = ()

    @property
    def plain(self) -> bool:
        """Whether it is trained as the study says."""
        return not self.settings and self.steps is None


def named_methods(methods: Any) -> dict[str, Any]:
    """Methods by name with the grid of each, as files say them.

    Args:
        methods: Such a mapping, whose keys may also be classes; or a list of methods, whose
            values are grids: `[BetaVAE(beta=[1, 4])]`.
    """
    if isinstance(methods, Mapping):
        named = {_name_of(kind): _named_first(said) for kind, said in methods.items()}
        if len(named) == len(methods):
            return named
        raise StudyFileError("a method has two entries; give it one with a list of grids")
    if not isinstance(methods, list | tuple) or not all(isinstance(m, Method) for m in methods):
        raise StudyFileError(
            "a study needs methods: names, each with its grid, such as {beta_vae: {beta: 4}}, or "
            f"a list of methods, but got {shown(methods)}"
        )
    grids: dict[str, Any] = {}
    for method in methods:
        grid = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
        grids.setdefault(saved_name(type(method)), []).append(grid)
    return grids


def _name_of(kind: Any) -> Any:
    return saved_name(kind) if isinstance(kind, type) and issubclass(kind, Method) else kind


def _named_first(said: Any) -> Any:
    """A grid, or several, with what they build on by name."""
    if isinstance(said, list | tuple):
        return [_named_first(one) for one in said]
    if not isinstance(said, Mapping) or "first" not in said:
        return said
    first = said["first"]
    if isinstance(first, Mapping):
        first = named_methods(first)
    elif isinstance(first, list | tuple):
        first = [_name_of(one) for one in first]
    else:
        first = _name_of(first)
    return {**said, "first": first}


def read_entries(methods: Mapping[str, Any]) -> list[Entry]:
    """Every method with every combination of its values."""
    found: list[Entry] = []
    for name, said in methods.items():
        for values in said if isinstance(said, list | tuple) else [said or {}]:
            found += _entries(name, values)
            check_count(len(found))
    return found


def check_count(runs: int) -> None:
    """Refuse more runs than a study can have, before they are all made."""
    if runs > MOST_RUNS:
        raise StudyFileError(
            f"a study has at most {MOST_RUNS:,} runs, but this one would have {_rounded(runs)}; "
            "give fewer values or seeds"
        )


def _rounded(number: int) -> str:
    return f"{number:,}" if number < 10**15 else "far more"


def _entries(name: Any, values: Any) -> Iterator[Entry]:
    kind = find_method(spelled(name) if isinstance(name, str) else name)
    at = ("methods", str(name))
    _grid_schema(kind).check(values, at)
    settings = check_settings(values.get("settings") or {}, at)
    first = _first(name, values.get("first"))
    if issubclass(kind, SecondStage) and not first:
        raise StudyFileError(
            f"{name} builds on other models; say on those of which method: first: beta_tc_vae"
        )
    grid = {n: value for n, value in values.items() if n not in BESIDE}
    check_count(math.prod(len(each_value(value)) for value in grid.values()))
    for method in kind(**grid).grid():
        yield Entry(method, settings, values.get("steps"), first)


def _first(name: str, said: Any) -> Sequence[str | Entry]:
    if said is None:
        return ()
    if isinstance(said, Mapping):
        return read_entries(said)
    names = each_value(said)
    for one in names:
        if not isinstance(one, str):
            raise StudyFileError(f"what {name} builds on is a method's name, but got {shown(one)}")
    return [saved_name(find_method(spelled(one))) for one in names]


def check_settings(said: Any, at: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """Settings of runs, each with a list of its values.

    Args:
        said: One value or several of each setting.
        at: Whose settings they are, for messages.
    """
    at = (*at, "settings")
    each = SETTINGS.check(said, at)
    for name, values in each.items():
        if not values:
            place = ".".join([*at, name])
            raise StudyFileError(f"{place} needs at least one value", place)
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
    """What a study may say of a method."""
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
        for name in sorted({f.name for f in dataclasses.fields(Config)} - OWN | {"learning_rate"})
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
    """The runs of a study on one data set: settings slowest, then methods, seeds fastest.

    A second stage has a run for each that it builds on, with its seed.
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
    """How many runs `runs_of` would make, at most, by arithmetic alone."""
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
    """The runs of an entry itself, and of those that are trained for it alone."""
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
    """The runs of one entry, and whether each is trained as the study says."""
    found: list[tuple[Config, bool]] = []
    firsts: list[Config | None] = [None]
    if entry.first:
        shared_here = {n: v for n, v in shared.items() if n not in OF_THE_FIRST}
        own = [one for one in entry.first if isinstance(one, Entry)]
        names = [one for one in entry.first if isinstance(one, str)]
        for one in own:
            found += _runs_of_entry(one, shared, seeds, steps, data, before)
        of_method = [(saved_name(type(config.method)), config) for config, ok in before if ok]
        named = [config for name, config in of_method if name in names]
        missing = set(names) - {name for name, _ in of_method}
        if missing:
            raise StudyFileError(
                f"{entry.method.name} builds on {sorted(missing)[0]}, which must stand before it "
                "in the study, without settings of its own"
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
