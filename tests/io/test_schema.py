"""Schemas of files and the locations of errors."""

import pytest

from unweave.errors import UnknownNameError
from unweave.io.schema import (
    Number,
    Required,
    Schema,
    SchemaError,
    UnknownKeyError,
    Whole,
    several,
)

SCHEMA = Schema(
    "a thing",
    "setting of a thing",
    # Names that a class of pydantic could not have.
    {
        "beta": Required[float],
        "copy": Whole,
        "model_size": several(Number),
        "_x": str,
        "class": bool,
    },
)


def test_valid_data_are_returned():
    plain = {"beta": 1, "copy": 2, "model_size": 3, "_x": "y", "class": True}
    assert SCHEMA.check(plain) == {**plain, "model_size": [3]}
    assert SCHEMA.check({"beta": 1, "model_size": (1, 2.5)})["model_size"] == [1, 2.5]


@pytest.mark.parametrize(
    ("plain", "location"),
    [
        (None, "at"),
        ([], "at"),
        ({}, "at"),
        ({"beta": True}, "at.beta"),
        ({"beta": "1"}, "at.beta"),
        ({"beta": 10**400}, "at.beta"),
        ({"beta": float("nan")}, "at.beta"),
        ({"beta": 1, "copy": 1.0}, "at.copy"),
        ({"beta": 1, "copy": 2**63}, "at.copy"),
        ({"beta": 1, "model_size": "a"}, "at.model_size"),
        ({"beta": 1, "model_size": [1, "a"]}, "at.model_size.1"),
        ({"beta": 1, "model_size": {"a": 1}}, "at.model_size"),
        ({"beta": 1, "_x": b"y"}, "at._x"),
        ({"beta": 1, "class": 1}, "at.class"),
    ],
)
def test_errors_have_a_location(plain, location):
    with pytest.raises(SchemaError) as caught:
        SCHEMA.check(plain, ["at"])
    assert caught.value.location == location
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", ["bta", 7, None, ("beta",), "x" * 10**5])
def test_unknown_keys_are_named(name):
    with pytest.raises(UnknownKeyError) as caught:
        SCHEMA.check({"beta": 1, name: 2})
    assert isinstance(caught.value, UnknownNameError)
    assert len(str(caught.value)) < 300


def test_the_schema_chooses_the_class_of_errors():
    class OtherError(SchemaError):
        pass

    with pytest.raises(OtherError):
        Schema("a thing", "setting", {"x": int}, OtherError).check({"x": "y"})
