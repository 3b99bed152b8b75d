"""The command `unweave` and those of its commands that have commands of their own."""

import dataclasses
import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from tyro.conf import arg
from tyro.extras import SubcommandApp

__all__ = ["add_groups", "app", "data_app", "study_app", "theory_app", "unsaid"]


Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(SubcommandApp):
    """Commands whose help leaves out that what nobody gave is None."""

    # The library's takes more and returns Any, which would leave every command untyped.
    def command(self, *, name: str) -> Callable[[Function], Function]:  # type: ignore[override] # see above
        """Make a function a command."""
        join = super().command

        def joined(function: Function) -> Function:
            return join(name=name)(_quiet(function))

        return joined

    def group(self, commands: "Commands", name: str, about: str) -> None:
        """Add a command that has commands of its own."""
        super().command(commands, name=name, help=about)


def unsaid(kind: Any) -> Any:
    """The type of an option that is None if it is not given: its help says only what it takes.

    Example:
        >>> for kind in (int | None, Literal[1, 3] | None, tuple[float, ...] | None):
        ...     print(get_args(unsaid(kind))[1].metavar)
        INT
        {1,3}
        FLOAT…
    """
    plain, *notes = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    described = [note for note in notes if hasattr(note, "help_behavior_hint")]
    note: Any = described[0] if described else arg()
    silent = dataclasses.replace(
        note, help_behavior_hint="", metavar=note.metavar or _metavar(plain)
    )
    return Annotated[(plain, *(other for other in notes if other is not note), silent)]


def _metavar(kind: Any) -> str:
    """What stands for a value in the help: for `int | None`, `INT`."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, parts)) + "}"
    if get_origin(kind) is tuple:
        return f"{_metavar(parts[0])}…" if parts[-1] is ... else " ".join(map(_metavar, parts))
    if parts:  # a union
        return "|".join(_metavar(part) for part in parts if part is not NoneType)
    return str(kind.__name__).upper()


def _quiet(function: Function) -> Function:
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is None:
            function.__annotations__[name] = unsaid(parameter.annotation)
    return function


app = Commands()
data_app = Commands()
study_app = Commands()
theory_app = Commands()


def add_groups() -> None:
    """Add the commands that have commands of their own, after the others, which come first."""
    app.group(data_app, "data", "The data sets: list, prepare, show, export.")
    app.group(study_app, "study", "Grids of runs: plan, run, status, table, check.")
    app.group(
        theory_app,
        "theory",
        "Small exact experiments: vi-bias, d-separation, impossibility, pca-alignment.",
    )
