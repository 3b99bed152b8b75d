"""The command `unweave`: its subcommands, each a dataclass of options with a method `run`."""

import dataclasses
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_origin

from tyro.conf import arg
from tyro.extras import SubcommandApp

__all__ = ["App", "Command", "app", "data_app", "quiet", "study_app", "theory_app", "unsaid"]


class Command(Protocol):
    """The options of a command, as tyro read them from the command line."""

    def run(self) -> None:
        """Do what the options say."""


Options = TypeVar("Options", bound=type)


class App(SubcommandApp):
    """Subcommands whose help does not mention that the default of an option is None."""

    def add(self, name: str) -> Callable[[Options], Options]:
        """Decorate a dataclass to make it a subcommand."""

        def added(options: Options) -> Options:
            return self.command(name=name)(quiet(options))

        return added

    def run(self, words: list[str], prog: str, description: str) -> None:
        """Read a command line and run it."""
        command: Command = self.cli(args=words, prog=prog, description=description)
        command.run()


def quiet(options: Options) -> Options:
    """A dataclass of options whose help leaves out defaults of None."""
    own = vars(options).get("__annotations__", {})
    for field in dataclasses.fields(options):
        if field.default is None and field.name in own:
            own[field.name] = unsaid(own[field.name])
    return options


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
    """The placeholder for a value in the help: for `int | None`, `INT`."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, parts)) + "}"
    if get_origin(kind) is tuple:
        return f"{_metavar(parts[0])}…" if parts[-1] is ... else " ".join(map(_metavar, parts))
    if parts:  # a union
        return "|".join(_metavar(part) for part in parts if part is not NoneType)
    return str(kind.__name__).upper()


app = App()
data_app = App()
study_app = App()
theory_app = App()
