"""Schemas for untrusted files: unknown keys and wrong types are errors.

A schema maps keys to types. Errors of pydantic become one sentence that starts with the location,
`methods.beta_vae.beta: …`. Bounds are checked by the objects constructed from the data.
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
MESSAGES = {
    "dict_type": "must be a mapping",
    "string_type": "must be text",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
}
"""Messages for the types of errors of pydantic."""
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""Integer that fits into tensors and files."""


class SchemaError(UnweaveError):
    """Data in a file that do not match the schema.

    Args:
        message: What is wrong.
        location: Location in the file: `methods.beta_vae.beta`.
    """

    def __init__(self, message: str, location: str = "") -> None:
        super().__init__(message, subject=location)
        self.location = location


class UnknownKeyError(SchemaError, UnknownNameError):
    """An unknown key in a file."""

    def __init__(self, kind: str, name: object, valid: Iterable[str], location: str) -> None:
        UnknownNameError.__init__(self, kind, name, valid)
        self.location = location


class Schema:
    """Keys and types of a mapping in a file.

    Args:
        what: Name of the mapping for messages: "a config".
        keys: Name of its keys for messages: "setting of Config".
        types: Type of each key; `Required[…]` for required keys.
        error: Class of the errors to raise.
    """

    def __init__(
        self,
        what: str,
        keys: str,
        types: Mapping[str, Any],
        error: type[SchemaError] = SchemaError,
    ) -> None:
        self.what, self.keys, self.names, self.error = what, keys, tuple(types), error
        # The functional form allows keys that are not Python identifiers.
        make: Any = TypedDict
        made = with_config(CONFIG)(make("Schema", dict(types), total=False))
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(made)

    def check(self, plain: Any, at: Iterable[str] = ()) -> dict[str, Any]:
        """Return the validated data, or raise an error.

        Args:
            plain: Untrusted data from a file.
            at: Location in the file.
        """
        if isinstance(plain, Mapping):
            for name in plain:
                if name not in self.names:
                    location = _location([*at, name])
                    raise UnknownKeyError(self.keys, name, self.names, location)
            plain = dict(plain)
        try:
            return self._adapter.validate_python(plain)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            location = _location([*at, *_path(plain, first["loc"])])
            if first["type"] == "missing":
                raise self.error(f"{self.what} requires {first['loc'][-1]}", location) from error
            text = first["msg"].removeprefix("Value error, ").lower()
            text = MESSAGES.get(first["type"]) or text.replace("input should", "must")
            message = f"{location or self.what}: {text}, got {shown(first['input'])}"
            raise self.error(message, location) from error


def several(kind: Any) -> Any:
    """Return the type of one value or a list of values, which is read as a list."""
    return Annotated[
        list[kind],
        BeforeValidator(lambda value: list(value) if isinstance(value, list | tuple) else [value]),
    ]


def of_kind(fits: Callable[[Any], bool], kind: str) -> Any:
    """Return the type of values for which `fits` is true, with its name for messages."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"must be {kind}")
        return value

    return Annotated[Any, AfterValidator(check)]


Number = of_kind(is_number, "a finite number")


def fields_of(kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass of settings, with the type of each in a file.

    Numbers are floats in a file, even where the class also accepts lists or tensors. Types other
    than numbers, text and booleans are checked by the class.
    """
    hints = get_type_hints(kind)
    plain = {Any: float, float: float, int: int, bool: bool, str: str}
    return {field.name: plain.get(hints[field.name], Any) for field in fields(kind)}


def _path(plain: Any, location: Iterable[int | str]) -> Iterable[str]:
    """Yield those parts of pydantic's location that are keys or indices of the data."""
    for part in location:
        known = range(len(plain)) if isinstance(plain, list | tuple) else plain
        if isinstance(known, Mapping | range) and part in known:
            plain = plain[part]
            yield str(part)


def _location(parts: Iterable[Any]) -> str:
    return ".".join(str(part)[:100] for part in parts)
