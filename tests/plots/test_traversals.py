"""Traversal pictures show what the model decodes."""

from unittest.mock import ANY

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.models.images import ShapeError
from unweave.plots.colours import PAPER
from unweave.plots.drawn_codes import draw_codes
from unweave.plots.sheet import FADE
from unweave.plots.traversals import traversals

ORDER = [1, 3, 0, 2]


def test_rows_are_latents_by_kl_and_columns_their_values(model, sprites, shown):
    sheet = traversals(model, sprites, index=5, columns=5, reach=2.0)
    mean, _ = model.encode(sprites.images([5]))
    np.testing.assert_array_equal(sheet.part(0, 0), shown(sprites.images([5]))[0])
    np.testing.assert_array_equal(sheet.part(0, 1), shown(model.decode(mean))[0])
    assert np.argsort(-draw_codes(model, sprites).amounts).tolist() == ORDER
    for row, latent in enumerate(ORDER[:3], start=1):
        codes = np.repeat(mean, 5, axis=0)
        codes[:, latent] = [-2, -1, 0, 1, 2]
        expected = shown(model.decode(codes))
        assert (expected[0] != expected[4]).any()
        for column in range(5):
            np.testing.assert_array_equal(sheet.part(row, column), expected[column])


def test_inactive_latents_are_greyed_or_hidden(model, sprites, shown):
    sheet = traversals(model, sprites, index=5, columns=3, reach=2.0)
    mean, _ = model.encode(sprites.images([5]))
    codes = np.repeat(mean, 3, axis=0)
    codes[:, 2] = [-2, 0, 2]
    decoded = shown(model.decode(codes)).astype(float)
    assert PAPER == "#FFFFFF"
    for column in range(3):
        expected = (1 - FADE) * decoded[column] + FADE * 255
        np.testing.assert_allclose(sheet.part(4, column), expected, atol=1)
        assert sheet.part(4, column).min() > 180
    hidden = traversals(model, sprites, index=5, columns=3, reach=2.0, inactive="hide")
    assert [len(row) for row in hidden.boxes] == [2, 3, 3, 3]
    np.testing.assert_array_equal(hidden.part(3, 2), sheet.part(3, 2))


def test_kl_is_that_of_the_posterior(model, sprites):
    mean, logvar = (x.astype(np.float64) for x in model.encode(sprites))
    expected = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
    np.testing.assert_allclose(draw_codes(model, sprites).amounts, expected, rtol=1e-6)
    assert expected[2] == pytest.approx(0, abs=1e-9)


def test_quantiles_set_the_range(model, sprites, shown):
    sheet = traversals(model, sprites, index=7, columns=3, quantiles=(0.1, 0.8))
    codes = model.encode(sprites)[0]
    low, high = np.quantile(codes.astype(np.float64), [0.1, 0.8], axis=0)
    start = model.encode(sprites.images([7]))[0]
    codes_shown = np.repeat(start, 3, axis=0)
    codes_shown[:, 1] = [low[1], (low[1] + high[1]) / 2, high[1]]
    for column, expected in enumerate(shown(model.decode(codes_shown))):
        np.testing.assert_array_equal(sheet.part(1, column), expected)


def test_start_from_a_custom_image(model, sprites):
    by_index = traversals(model, sprites, index=9, columns=3)
    image = sprites[9]
    for own in (image, image[..., 0], image.astype(np.float64) / 255):
        sheet = traversals(model, sprites, image=own, columns=3)
        np.testing.assert_array_equal(np.asarray(sheet), np.asarray(by_index))


def test_start_from_the_prior(model, sprites, shown):
    sheet = traversals(model, sprites, prior="mean", columns=3, reach=1.5)
    codes = np.zeros((3, 4), dtype=np.float32)
    np.testing.assert_array_equal(sheet.part(0, 0), shown(model.decode(codes))[0])
    codes[:, 3] = [-1.5, 0, 1.5]
    np.testing.assert_array_equal(sheet.part(2, 2), shown(model.decode(codes))[2])
    drawn = [traversals(model, sprites, prior="draw", seed=s, columns=3) for s in (1, 1, 2)]
    first, again, other = (np.asarray(sheet) for sheet in drawn)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_default_start_is_the_middle_of_the_grid(model, sprites):
    middle = sprites.index(np.array(sprites.grid.sizes) // 2)
    default = traversals(model, sprites, columns=3)
    np.testing.assert_array_equal(
        np.asarray(default), np.asarray(traversals(model, sprites, index=int(middle), columns=3))
    )
    # Where the middle is never drawn, an image that is.
    left = sprites.leave_out(shape=1)
    start = traversals(model, left, columns=3).part(0, 0)[..., 0]
    assert any((start == image[..., 0]).all() for image in left.images(left.support))


def test_labels_name_the_followed_factor(model, sprites):
    drawn = draw_codes(model, sprites)
    names = {name for followed in drawn.follows for name in followed}
    assert names <= set(sprites.grid.names)
    assert drawn.follows[2] == ()


def test_small_images_are_enlarged_pixel_by_pixel(grey):
    (model,) = uw.train(uw.methods.AE(), grey, steps=2, batch=4, latents=2, progress=False)
    sheet = traversals(model, grey, index=3, columns=2)
    part = sheet.part(0, 0)
    assert part.shape == (64, 64, 3)
    np.testing.assert_array_equal(part[::2, ::2, 0], grey[3][..., 0])
    np.testing.assert_array_equal(part[1::2, 1::2, 0], grey[3][..., 0])


def test_autoencoders_use_quantiles_and_spread(grey, shown):
    (model,) = uw.train(uw.methods.AE(), grey, steps=2, batch=4, latents=3, progress=False)
    codes = model.encode(grey)[0]
    drawn = draw_codes(model, grey)
    np.testing.assert_allclose(drawn.amounts, codes.std(0), rtol=1e-5)
    sheet = traversals(model, grey, index=0, columns=2)
    first = int(np.argmax(codes.var(0)))
    codes_shown = np.repeat(codes[:1], 2, axis=0)
    codes_shown[:, first] = np.quantile(codes[:, first].astype(np.float64), [0.01, 0.99])
    np.testing.assert_array_equal(sheet.part(1, 1)[::2, ::2], shown(model.decode(codes_shown))[1])
    with pytest.raises(UnweaveError, check=about("prior", "ae")):
        traversals(model, grey, prior="mean")


@pytest.mark.parametrize(
    ("options", "subject", "value"),
    [
        ({"index": 384}, "index", 384),
        ({"index": -1}, "index", -1),
        ({"reach": 0}, "reach", 0),
        ({"reach": float("nan")}, "reach", ANY),
        ({"quantiles": (0.9, 0.1)}, "quantiles", (0.9, 0.1)),
        ({"quantiles": (0.1, 1.1)}, "quantiles", (0.1, 1.1)),
        ({"prior": "median"}, "prior", "median"),
        ({"inactive": "gone"}, "inactive", "gone"),
        ({"index": 1, "prior": "mean"}, "start", 2),
        ({"image": np.full((64, 64), 7.0)}, "image", np.float64),
        ({"image": np.zeros((64, 64), np.int64)}, "image", np.int64),
    ],
)
def test_invalid_arguments_are_rejected(model, sprites, options, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        traversals(model, sprites, **options)


def test_column_limits_and_image_shapes_are_checked(model, sprites):
    with pytest.raises(UnweaveError, match="1,000"):
        traversals(model, sprites, columns=1)
    with pytest.raises(ShapeError):
        traversals(model, sprites, image=np.zeros((32, 32, 1), np.uint8))


def test_models_that_cannot_be_plotted_are_rejected(model, sprites, lost, grey, asleep):
    with pytest.raises(UnweaveError, check=about("model", 2)):
        traversals(lost, sprites)
    with pytest.raises(ShapeError):
        traversals(model, grey)
    method = uw.methods.BetaVAE(beta=[1, 2])
    fleet = uw.train(method, grey, steps=1, batch=4, progress=False)
    with pytest.raises(UnweaveError, check=about("model", "Fleet")):
        traversals(fleet, grey)
    with pytest.raises(UnweaveError, check=about("inactive", "hide")):
        traversals(asleep, sprites, inactive="hide")
