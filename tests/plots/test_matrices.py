"""Heat maps show the matrices with names and numbers."""

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnknownNameError
from unweave.plots.matrices import MATRICES, PAPER_WIDTH

NAMES = ["shape", "scale", "angle"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [3, 6, 10], (600, 3))
    return factors + 0.1 * rng.normal(size=(600, 3)), factors


def texts(axes):
    return np.array([text.get_text() for text in axes.texts])


def test_all_three_matrices_side_by_side(table):
    codes, factors = table
    figure = uw.show.matrices(codes, factors, 1, names=NAMES)
    assert [axes.get_title() for axes in figure.axes] == [title for title, _ in MATRICES.values()]
    matrices = {
        "importance": uw.metrics.importance_matrix(codes, factors, 1),
        "information": uw.metrics.information_matrix(codes, factors, 1),
        "votes": uw.metrics.vote_matrix(codes, factors, 1),
    }
    for axes, (kind, matrix) in zip(figure.axes, matrices.items(), strict=True):
        written = texts(axes).reshape(3, 3).astype(float)
        np.testing.assert_allclose(written, matrix, atol=0.0051)
        assert [label.get_text() for label in axes.get_xticklabels()] == NAMES
        np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
        assert kind in MATRICES
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["z0", "z1", "z2"]
    assert figure.get_size_inches()[0] <= PAPER_WIDTH


def test_constant_factors_have_no_column(table):
    codes, factors = table
    constant = np.insert(factors, 1, 4, axis=1)
    figure = uw.show.matrices(
        codes, constant, names=["shape", "colour", "scale", "angle"], kinds=["information"]
    )
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == NAMES


def test_matrices_with_many_factors_are_stacked():
    rng = np.random.default_rng(0)
    figure = uw.show.matrices(rng.random((300, 2)), rng.integers(0, 2, (300, 12)))
    assert figure.get_size_inches()[0] <= PAPER_WIDTH
    tops = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    assert tops == [0, 1, 2]


def test_numbers_contrast_with_their_cell():
    figure = uw.show.heat_map([[0.0, 0.5, 1.0]], "importance")
    assert [text.get_color() for text in figure.axes[0].texts] == ["black", "black", "white"]


def test_png_and_svg(tmp_path):
    figure = uw.show.heat_map([[0.9, 0.1], [0.2, 0.8]], "importance", ["shape", "scale"])
    uw.show.save_figure(figure, tmp_path / "matrix.png")
    with Image.open(tmp_path / "matrix.png") as picture:
        assert picture.size[0] == round(figure.get_size_inches()[0] * 300)
        assert np.asarray(picture.convert("L")).std() > 10
    uw.show.save_figure(figure, tmp_path / "matrix.svg")
    text = (tmp_path / "matrix.svg").read_text()
    for word in ("shape", "scale", "z1", "0.90", "DCI importance"):
        assert f">{word}</text>" in text


def test_invalid_arguments_are_rejected(tmp_path, table):
    figure = uw.show.heat_map([[1.0]], "votes")
    with pytest.raises(DataError, match=r"matrix\.jpg"):
        uw.show.save_figure(figure, tmp_path / "matrix.jpg")
    with pytest.raises(DataError, check=about("names", 1)):
        uw.show.heat_map([[1.0, 0.0]], "votes", ["shape"])
    with pytest.raises(DataError, check=about("names", 2)):
        uw.show.matrices(*table, names=["shape", "scale"])
    with pytest.raises(DataError, check=about("matrix", (1,))):
        uw.show.heat_map([1.0], "votes")
    with pytest.raises(UnknownNameError, check=about("matrix", "vote")):
        uw.show.heat_map([[1.0]], "vote")
