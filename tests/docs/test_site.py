"""The site is built without a broken link, and loads nothing from elsewhere."""

import pytest

from tools import site


@pytest.fixture(scope="module")
def built():
    folder = site.output()
    site.build(folder)
    return folder


def test_every_link_leads_somewhere(built):
    assert list(site.broken_links(built)) == []


def test_pages_of_methods_and_the_reference_are_there(built):
    page = (built / "docs" / "methods" / "beta_vae.html").read_text()
    assert "β KL(q(z|x) ‖ N(0, I))" in page
    assert '<h1 id="β-vae">' in page  # as the forge has it
    reference = (built / "docs" / "api" / "index.html").read_text()
    assert 'id="unweave.fleet.train.train"' in reference
    assert (built / "benchmarks" / "results" / "udr_h200.csv").is_file()


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">1</a><a href="b.html#gone">2</a>'
        '<a href="gone.html">3</a><a href="#here">4</a><a href="https://example.org">5</a>'
        '<img src="gone.png"><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">')
    assert sorted(site.broken_links(tmp_path)) == [
        "a.html links to b.html#gone",
        "a.html links to gone.html",
        "a.html links to gone.png",
        "a.html loads https://example.org/x.js",
    ]
