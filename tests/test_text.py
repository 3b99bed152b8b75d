"""Escaping of names."""

import os

import pytest

from unweave.errors import DataError
from unweave.text import printable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (os.fsdecode(b"caf\xe9.png"), r"caf\xe9.png"),
        (os.fsdecode(b"\xff\xed\xa0\x80"), r"\xff\xed\xa0\x80"),
        ("two\nlines\t.png", r"two\nlines\t.png"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u2028b", r"a\u2028b"),
        ("\ud800", r"\ud800"),
        ("café 😀 שלום 👩‍🚀 a,b\"'-.png", "café 😀 שלום 👩‍🚀 a,b\"'-.png"),
    ],
)
def test_names_are_escaped_to_one_line_of_text(name, shown):
    assert printable(name) == shown
    assert len(printable(name).encode().splitlines()) == 1


def test_error_messages_are_escaped():
    name = os.fsdecode(b"caf\xe9")
    assert str(DataError(f"no {name}\nhere")) == r"no caf\xe9\nhere"
