"""HTML for notebooks: names from files are text, whatever they contain."""

import pytest

from tests.pages import Page
from unweave.io.markup import badge, block, bullets, paragraph, table

ODD = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" style="position:fixed',
    "'><b>&amp;",
    "\x1b[31m\u202e",
]


@pytest.mark.parametrize("name", ODD)
def test_any_name_is_text(name):
    page = Page(
        block(badge(name, "weak"), paragraph(name), bullets([name]), table([name], [[name]]))
    )
    assert len(page.texts) == 5
    assert len(set(page.texts)) == 1
    assert page.texts[0].isprintable()
    if name.isprintable():
        assert page.texts[0] == name


def test_an_empty_text_has_no_paragraph():
    assert paragraph("") == ""
