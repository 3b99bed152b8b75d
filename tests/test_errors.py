"""Fields of errors, and errors that cross processes."""

import copy
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.io.extensions import ExtensionError
from unweave.io.schema import SchemaError, UnknownKeyError
from unweave.study.ledger_file import DamagedLedgerError

ERRORS = [
    DataError("row 4 is empty", subject="v", value=4),
    UnknownNameError("factor", "hight", ["height", "hue"]),
    SchemaError("not a number", "methods.beta_vae.beta"),
    UnknownKeyError("setting", "betta", ["beta"], "methods.beta_vae.betta"),
    ExtensionError("shop.methods:FreeBits", "not installed"),
    DamagedLedgerError(Path("study/ledger.sqlite"), "a page\n is torn"),
]


@pytest.fixture(scope="module")
def process():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_a_round_trip_through_another_process(error, process):
    arrived = process.submit(copy.copy, error).result()
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.__dict__ == error.__dict__


def test_the_fields_of_an_unknown_name():
    error = UnknownNameError("factor", "hight", ["height", "hue"])
    assert (error.subject, error.value, error.valid) == ("factor", "hight", ["height", "hue"])
    assert "height" in str(error)


def test_a_message_is_one_line_of_plain_text():
    assert str(UnweaveError("a\x1b[31mred\nname")).isprintable()
