"""The command `unweave` and its subcommands, each a dataclass of options with a `run` method."""

import dataclasses
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_origin

import tyro
from tyro.conf import arg
from tyro.extras import SubcommandApp

from unweave.errors import UnknownNameError

__all__ = [
    "App",
    "Command",
    "app",
    "data_app",
    "hide_default",
    "hide_none_defaults",
    "study_app",
    "theory_app",
]


class Command(Protocol):
    """The options of a command, as parsed by tyro."""

    def run(self) -> None:
        """Run the command with these options."""


Options = TypeVar("Options", bound=type)


class App(SubcommandApp):
    """Subcommands whose help leaves out defaults of None."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: dict[str, type] = {}
        self.groups: dict[str, tuple[App, str]] = {}

    def add(self, name: str) -> Callable[[Options], Options]:
        """Decorate a dataclass to make it a subcommand."""

        def register(options: Options) -> Options:
            self.commands[name] = hide_none_defaults(options)
            return self.command(name=name)(options)

        return register

    def add_group(self, name: str, group: "App", description: str) -> None:
        """Add a group of subcommands, such as `unweave data …`."""
        self.groups[name] = (group, description)
        self.command(group, name=name, help=description)

    def run(self, args: Sequence[str], prog: str, description: str) -> None:
        """Parse a command line and run the command.

        Each command has its own parser, so that errors refer to `unweave fit --help`.
        """
        name, rest = (args[0], args[1:]) if args else ("", [])
        if name in self.groups:
            group, description = self.groups[name]
            group.run(rest, f"{prog} {name}", description)
            return
        if name and name not in self.commands and not name.startswith("-"):
            raise UnknownNameError("command", name, [*self.commands, *self.groups])
        command: Command = (
            tyro.cli(self.commands[name], prog=f"{prog} {name}", args=rest)
            if name in self.commands
            else self.cli(args=args, prog=prog, description=description)
        )
        command.run()


def hide_none_defaults(options: Options) -> Options:
    """Return the dataclass of options, changed so that its help leaves out defaults of None."""
    own = vars(options).get("__annotations__", {})
    for field in dataclasses.fields(options):
        if field.default is None and field.name in own:
            own[field.name] = hide_default(own[field.name])
    return options


def hide_default(kind: Any) -> Any:
    """Return the type of an optional flag whose help shows the expected value but no default.

    Example:
        >>> for kind in (int | None, Literal[1, 3] | None, tuple[float, ...] | None):
        ...     print(get_args(hide_default(kind))[1].metavar)
        INT
        {1,3}
        FLOAT…
    """
    plain, *metadata = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    found = [item for item in metadata if hasattr(item, "help_behavior_hint")]
    config: Any = found[0] if found else arg()
    hidden = dataclasses.replace(
        config, help_behavior_hint="", metavar=config.metavar or _metavar(plain)
    )
    return Annotated[(plain, *(item for item in metadata if item is not config), hidden)]


def _metavar(kind: Any) -> str:
    """Return the placeholder for a value in the help: `INT` for `int | None`."""
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
