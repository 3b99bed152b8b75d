"""Parsing, counting and printing of layouts."""

import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.priors.layouts import Run, Tree, tree_of


@pytest.mark.parametrize(
    ("layout", "sizes", "exponents", "written"),
    [
        ("5x4", (4,) * 5, 6, "5x4"),
        ("5×4", (4,) * 5, 6, "5x4"),
        (" 2 x 4, 3 x 1 ", (4, 4, 1, 1, 1), 3, "2x4,3x1"),
        ("4,3,3", (4, 3, 3), 4, "4,2x3"),
        ("4,4,3x4", (4,) * 5, 6, "5x4"),
        ("20x1", (1,) * 20, 1, "20x1"),
        ("20", (20,), 2, "20"),
        ("1", (1,), 1, "1"),
        ("12x11", (11,) * 12, 13, "12x11"),
        ("1,2", (1, 2), 2, "1,2"),
        ("2x(1,2),4", (3, 3, 4), 6, "2x(1,2),4"),
        ("(1,2),(1,2),4", (3, 3, 4), 6, "2x(1,2),4"),
        ("(2x3)", (6,), 4, "(2x3)"),
        ("(4),((1)),3x(2x1)", (4, 1, 2, 2, 2), 5, "4,1,3x2"),
    ],
)
def test_layouts(layout, sizes, exponents, written):
    tree = tree_of(layout)
    assert (tree.sizes, tree.num_exponents, str(tree)) == (sizes, exponents, written)
    assert tree.num_latents == sum(sizes)
    assert tree_of(written) == tree
    assert tree_of(tree) is tree


def test_equal_subspaces_are_one_run():
    four = Tree((Run(4),))
    assert tree_of("2x4,4,1,4").runs == (Run(3, four), Run(1), Run(1, four))
    assert tree_of("2x(1,2),4").num_branches == 3 + 2 * (2 + 2) + 4


@pytest.mark.parametrize(
    "layout",
    [
        "",
        "5x",
        "x4",
        "0x4",
        "5x0",
        "5x4,",
        ",4",
        "-4",
        "2.5",
        "4 4",
        "(4",
        "4)",
        "()",
        "a",
        [4, 4],
    ],
)
def test_invalid_layouts_are_rejected(layout):
    with pytest.raises(UnweaveError, check=about("layout", str(layout))):
        tree_of(layout)
