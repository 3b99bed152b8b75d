"""Schemas of files that a stranger may have written: unknown keys and wrong types are refused.

A schema is a mapping of keys to types. What pydantic finds wrong becomes one sentence that begins
with the place, `methods.beta_vae.beta: …`. Bounds are checked by the objects made from the data.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Required, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.plain_data import is_number
from unweave.text import shown

__all__ = [
    "Number",
    "Required",
    "Schema",
    "SchemaError",
    "UnknownKeyError",
    "Whole",
    "fields_of",
    "of_kind",
    "several",
]

CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
WORDS = {
    "dict_type": "input should be a mapping",
    "string_type": "input should be text",
    "int_type": "input should be a whole number",
    "float_type": "input should be a number",
    "bool_type": "input should be true or false",
    "list_type": "input should be a list",
}
"""What errors of pydantic are called."""
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number that fits into tensors and files."""


class SchemaError(UnweaveError):
    """Plain data that are not what a file should hold.

    Args:
        message: What is wrong.
        location: Where: `methods.beta_vae.beta`.
    """

    def __init__(self, message: str, location: str = "") -> None:
        super().__init__(message)
        self.location = location


class UnknownKeyError(SchemaError, UnknownNameError):
    """A key that a mapping does not have."""

    def __init__(self, kind: str, name: object, valid: Iterable[str], location: str) -> None:
        UnknownNameError.__init__(self, kind, name, valid)
        self.location = location


class Schema:
    """What a mapping in a file may hold.

    Args:
        what: What it is, for messages: "a config".
        keys: What its keys are, for messages: "setting of Config".
        types: The type of each key; `Required[…]` for one that must be there.
        error: What to raise.
    """

    def __init__(
        self,
        what: str,
        keys: str,
        types: Mapping[str, Any],
        error: type[SchemaError] = SchemaError,
    ) -> None:
        self.what, self.keys, self.names, self.error = what, keys, tuple(types), error
        # Only a function makes one of keys that are no words of Python.
        make: Any = TypedDict
        made = with_config(CONFIG)(make("Schema", dict(types), total=False))
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(made)

    def check(self, plain: Any, at: Iterable[str] = ()) -> dict[str, Any]:
        """The data as they should be; anything else is an error.

        Args:
            plain: From a file, so it may be anything.
            at: Where it stands in the file.
        """
        if isinstance(plain, Mapping):
            for name in plain:
                if name not in self.names:
                    place = _place([*at, name])
                    raise UnknownKeyError(self.keys, name, self.names, place)
            plain = dict(plain)
        try:
            return self._adapter.validate_python(plain)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = _place([*at, *_path(plain, first["loc"])])
            if first["type"] == "missing":
                raise self.error(f"{self.what} needs {first['loc'][-1]}", place) from error
            said = WORDS.get(first["type"]) or first["msg"].removeprefix("Value error, ").lower()
            message = f"{place or self.what}: {said}, but got {shown(first['input'])}"
            raise self.error(message, place) from error


def several(kind: Any) -> Any:
    """The type of one value or a list of them; the data are then a list."""
    return Annotated[
        list[kind],
        BeforeValidator(lambda said: list(said) if isinstance(said, list | tuple) else [said]),
    ]


def of_kind(fits: Callable[[Any], bool], words: str) -> Any:
    """The type of values for which a function says yes, which stay as they are."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"input should be {words}")
        return value

    return Annotated[Any, AfterValidator(check)]


Number = of_kind(is_number, "a finite number")


def fields_of(kind: type) -> dict[str, Any]:
    """The fields of a dataclass of settings, and the type of each in a file.

    Numbers are floats, whatever a method takes in their place (lists, tensors); fields of other
    types than numbers, text and booleans are left to the class.
    """
    hints = get_type_hints(kind)
    plain = {Any: float, float: float, int: int, bool: bool, str: str}
    return {field.name: plain.get(hints[field.name], Any) for field in fields(kind)}


def _path(plain: Any, location: Iterable[int | str]) -> Iterable[str]:
    """The parts of pydantic's location that are keys or places of the data themselves."""
    for part in location:
        known = range(len(plain)) if isinstance(plain, list | tuple) else plain
        if isinstance(known, Mapping | range) and part in known:
            plain = plain[part]
            yield str(part)


def _place(parts: Iterable[Any]) -> str:
    return ".".join(str(part)[:100] for part in parts)
