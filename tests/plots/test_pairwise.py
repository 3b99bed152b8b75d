"""A pair of latents on a grid."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError


def test_first_latent_is_vertical_and_second_horizontal(model, sprites, shown):
    sheet = uw.show.pairwise(model, sprites, (3, 0), index=8, columns=3, reach=1.5)
    start = model.encode(sprites.images([8]))[0][0]
    for row, first in enumerate((-1.5, 0, 1.5)):
        for column, second in enumerate((-1.5, 0, 1.5)):
            code = start.copy()
            code[3], code[0] = first, second
            np.testing.assert_array_equal(
                sheet.part(row, column), shown(model.decode(code[None]))[0]
            )
    assert (sheet.part(0, 2) != sheet.part(2, 0)).any()


def test_default_is_the_two_most_informative_latents(model, sprites):
    default = uw.show.pairwise(model, sprites, columns=2)
    chosen = uw.show.pairwise(model, sprites, (1, 3), columns=2)
    np.testing.assert_array_equal(np.asarray(default), np.asarray(chosen))


def test_quantiles(model, sprites, shown):
    sheet = uw.show.pairwise(model, sprites, (1, 3), prior="mean", columns=2, quantiles=(0.2, 0.7))
    ends = np.quantile(model.encode(sprites)[0].astype(np.float64), [0.2, 0.7], axis=0)
    code = np.array([[0, ends[1, 1], 0, ends[0, 3]]])
    np.testing.assert_array_equal(sheet.part(1, 0), shown(model.decode(code))[0])


@pytest.mark.parametrize("latents", [(0, 0), (0, 4), (-1, 2), (0, 1, 2)])
def test_other_pairs_are_rejected(model, sprites, latents):
    with pytest.raises(UnweaveError, check=about("latents", list(latents))):
        uw.show.pairwise(model, sprites, latents)


def test_models_with_one_latent_are_rejected(grey):
    (model,) = uw.train(uw.methods.VAE(), grey, steps=1, batch=4, latents=1, progress=False)
    with pytest.raises(UnweaveError, check=about("model", 1)):
        uw.show.pairwise(model, grey)
