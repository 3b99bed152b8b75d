"""Optional dependencies: imported, or an error with the command that installs them."""

import sys

import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.io.extras import import_extra


def test_a_module_that_is_installed_is_returned():
    assert import_extra("json", "JSON", "json") is sys.modules["json"]


@pytest.mark.parametrize("use", ["", "reads a.tif"])
def test_a_missing_module_is_an_error_with_the_command(use):
    with pytest.raises(UnweaveError, match=r"'unweave\[tiff\]'", check=about("tiff")) as raised:
        import_extra("no_such_module", "tifffile", "tiff", use)
    assert use in str(raised.value)
