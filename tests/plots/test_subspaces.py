"""The picture of subspaces shows what latents know, together as the prior has them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.models.images import ShapeError
from unweave.plots import colours
from unweave.plots.drawn_codes import DrawnCodes, draw_codes
from unweave.plots.subspaces import Subspace, shares_known, subspaces_of

ACTIVE = [0, 1, 3]
"""The latents of the model that say something."""
NAMES = ["shape", "scale", "posX", "posY"]


def with_prior(model, **settings):
    """The model as if it had been trained with this prior."""
    method = uw.methods.ISAVAE(**settings)
    return replace(model, configs=(replace(model.config, method=method),))


@pytest.fixture(scope="module")
def isa(model):
    return with_prior(model, layout="1,3", p=2.5)


def known(model, data):
    """Mutual information of binned codes less chance, by the entropy, `[d, K]`."""
    factors = data.factors(np.arange(len(data)))
    varying = factors[:, np.ptp(factors, axis=0) > 0]
    codes, _ = model.encode(data)
    sizes = np.array([len(np.unique(column)) for column in varying.T])
    used = [np.count_nonzero(np.histogram(code, 20)[0]) for code in codes.T]
    freedom = np.outer(np.subtract(used, 1), sizes - 1)
    chance = (freedom + 3 * np.sqrt(2 * freedom)) / (2 * len(codes))
    information = uw.metrics.information_matrix(codes, varying)
    return np.maximum(information - chance, 0) / np.log(sizes)


def test_cells_are_the_shares_that_active_latents_explain(isa, sprites):
    cells, _ = uw.show.subspaces(isa, sprites).axes
    expected = known(isa, sprites)
    drawn = np.concatenate([image.get_array() for image in cells.images])
    np.testing.assert_allclose(drawn, expected[ACTIVE], atol=1e-6)
    assert drawn.max() > 0.05
    written = [text.get_text() for text in cells.texts if "$" not in text.get_text()]
    assert written == [f"{share:.2f}" for share in expected[ACTIVE].ravel()]
    assert [label.get_text() for label in cells.get_xticklabels()] == NAMES


def test_subspaces_are_separated_and_show_their_exponents(isa, sprites):
    cells, bars = uw.show.subspaces(isa, sprites).axes
    tops = [image.get_extent()[3] for image in cells.images]
    assert tops == [0, 1.5, 3.5]
    assert [bar.get_y() + bar.get_height() / 2 for bar in bars.patches] == [0.5, 2, 3, 4]
    said = {t.get_text(): t.xy[1] for t in cells.texts if "$" in t.get_text()}
    assert said == {"$p_{0}$ = 2.10": 0.5, "$p_{1}$ = 2.50": 3.0}
    assert cells.get_ylim() == (4.5, 0)


def test_inactive_latents_are_grey(isa, asleep, sprites):
    cells, bars = uw.show.subspaces(isa, sprites).axes
    inks = [label.get_color() for label in cells.get_yticklabels()]
    assert [ink == colours.GREY for ink in inks] == [False, False, True, False]
    filled = [bar.get_facecolor() for bar in bars.patches]
    assert filled[0] == filled[1] == filled[3] != filled[2]
    drawn = draw_codes(isa, sprites)
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], drawn.amounts)
    assert bars.get_xlim()[1] > drawn.amounts.max()
    cells, bars = uw.show.subspaces(with_prior(asleep, layout="2x2"), sprites).axes
    assert not cells.images
    assert bars.get_xlim() == (0, 0.1)
    assert {text.get_color() for text in cells.texts} == {colours.FAINT}


def test_without_factors_only_bars_are_plotted(isa, sprites):
    pictures = uw.data.load(sprites[:], name="pictures")
    (bars,) = uw.show.subspaces(isa, pictures).axes
    np.testing.assert_allclose(
        [bar.get_width() for bar in bars.patches], draw_codes(isa, sprites).amounts, rtol=1e-5
    )
    said = [text.get_text() for text in bars.texts]
    assert said == ["$p_{0}$ = 2.10", "$p_{1}$ = 2.50"]


def test_constant_factors_are_not_plotted(isa, sprites):
    cells, _ = uw.show.subspaces(isa, sprites.slice(scale=0)).axes
    assert [label.get_text() for label in cells.get_xticklabels()] == ["shape", "posX", "posY"]
    codes = np.random.default_rng(0).random((5, 4))
    nothing = DrawnCodes(codes, codes, np.zeros((5, 2)), ["a", "b"])
    assert shares_known(nothing)[1] == []


def test_the_exponents_of_a_subspace_are_those_of_its_nodes(grey):
    method = uw.methods.ISAVAE(layout="2,1,(1,2)", p=2.0, p0=3.0, learned=True)
    quick = {"steps": 1, "batch": 4, "architecture": "small_mlp", "progress": False}
    (model,) = uw.train(method, grey, latents=6, **quick)
    learned = torch.zeros_like(model.parameters["exponents"])
    learned[:, :3] = torch.tensor([0.25, 0.5, 0.75])
    model = replace(model, parameters={**model.parameters, "exponents": learned})
    assert subspaces_of(model) == [
        Subspace((0, 1), {1: 2.25}),
        Subspace((2,), {0: 3.0}),
        Subspace((3, 4, 5), {2: 2.5, 3: 2.75}),
    ]


def test_invalid_arguments_are_rejected(model, isa, lost, grey, sprites):
    with pytest.raises(UnweaveError, check=about("model", "beta_vae")):
        uw.show.subspaces(model, sprites)
    with pytest.raises(UnweaveError, check=about("model", 2)):
        uw.show.subspaces(lost, sprites)
    with pytest.raises(ShapeError):
        uw.show.subspaces(isa, grey)
