"""Contours of priors lie where the density is what they say."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.plots.prior_contours import FRACTIONS


@pytest.mark.parametrize("latents", [(1, 2), (2, 0)])
def test_contours_are_at_fractions_of_the_largest_density(latents):
    p0, p1, scale = 3.0, 1.2, 1.5
    figure = uw.show.prior_contours([p0, p1], "1,2", latents, scale=scale)
    (panel,) = figure.axes
    _, lines = panel.collections
    assert lines.levels.tolist() == list(FRACTIONS)
    for fraction, path in zip(FRACTIONS, lines.get_paths(), strict=True):
        z = np.zeros((len(path.vertices), 3))
        z[:, list(latents)] = path.vertices
        subspace = (np.abs(z[:, 1:]) ** p1).sum(1) ** (1 / p1)
        power = np.abs(z[:, 0]) ** p0 + subspace**p0
        assert np.exp(-power / scale) == pytest.approx(fraction, abs=0.004)
    assert panel.get_xlabel() == f"$z_{{{latents[0]}}}$"
    assert panel.get_ylabel() == f"$z_{{{latents[1]}}}$"


def test_a_table_of_exponents_is_a_table_of_panels():
    table = [[[p0, p1] for p1 in (1, 2, 9)] for p0 in (1, 2)]
    figure = uw.show.prior_contours(table, "2")
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == [f"$p_{{0}}$ = {p0}, $p_{{1}}$ = {p1}" for p0 in (1, 2) for p1 in (1, 2, 9)]
    assert len(uw.show.prior_contours(table[0], "2").axes) == 3


def test_invalid_arguments_are_rejected():
    with pytest.raises(UnweaveError, check=about("latents", (0, 3))):
        uw.show.prior_contours([2, 2], "1,2", (0, 3))
    with pytest.raises(UnweaveError, check=about("exponents", (1, 1, 1, 2))):
        uw.show.prior_contours([[[[2, 2]]]], "1,2")
    with pytest.raises(UnweaveError, match=r"\[3\]"):
        uw.show.prior_contours([2, 2, 2], "1,2")
