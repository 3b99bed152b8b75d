"""Position maps are averages over everything else."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.plots.colours import PALETTE
from unweave.plots.position import mean_codes

SHAPE = (3, 2, 1, 8, 8)  # of the grid: shape, scale, orientation, posX, posY


@pytest.fixture(scope="module")
def codes(model, sprites):
    """Mean codes on the grid, `[3, 2, 1, 8, 8, d]`."""
    return model.encode(sprites)[0].astype(np.float64).reshape(*SHAPE, -1)


def test_maps_are_direct_averages(model, sprites, codes):
    figure = uw.show.position_maps(model, sprites)
    maps = [axes for axes in figure.axes if axes.images]
    assert [axes.get_ylabel().split("\n")[0] for axes in maps] == [
        "latent 1",
        "latent 3",
        "latent 0",
    ]
    for axes, latent in zip(maps, [1, 3, 0], strict=True):
        expected = codes[..., latent].mean((0, 1, 2)).T  # posY downwards, posX to the right
        np.testing.assert_allclose(axes.images[0].get_array(), expected, atol=1e-5)
    limits = {axes.images[0].get_clim() for axes in maps}
    largest = max(np.abs(codes[..., j].mean((0, 1, 2))).max() for j in (0, 1, 3))
    assert len(limits) == 1
    assert limits.pop() == pytest.approx((-largest, largest), rel=1e-4)


def test_other_factors_have_lines_by_shape(model, sprites, codes):
    figure = uw.show.position_maps(model, sprites)
    panels = [axes for axes in figure.axes if len(axes.lines) > 3]
    assert len(panels) == 3
    assert panels[0].get_title() == "scale"
    for shape in range(3):
        line = panels[0].lines[shape]
        expected = codes[shape, :, 0, :, :, 1].mean((1, 2))
        np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-5)
        assert line.get_color() == PALETTE[shape]
    assert [text.get_text() for text in panels[-1].get_xticklabels()] == ["0.8", "1"]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["square", "ellipse", "heart"]


def test_two_given_factors(model, sprites, codes):
    figure = uw.show.position_maps(model, sprites, ("posY", "scale"), inactive="grey")
    maps = [axes for axes in figure.axes if axes.images]
    assert len(maps) == 4
    expected = codes[..., 1].mean((0, 2, 3))
    np.testing.assert_allclose(maps[0].images[0].get_array(), expected, atol=1e-5)
    assert maps[0].get_title() == "posY →\nscale ↓"


def test_a_single_categorical_factor_has_a_panel(model, sprites, codes):
    small = sprites.slice(scale=1)
    figure = uw.show.position_maps(model, small)
    panel = next(axes for axes in figure.axes if axes.get_title() == "shape")
    expected = codes[:, 1, 0, :, :, 1].mean((1, 2))
    np.testing.assert_allclose(panel.lines[0].get_ydata(), expected, atol=1e-5)
    assert panel.lines[0].get_linestyle() == "None"
    assert not figure.legends


def test_images_with_zero_weight_leave_holes(model, sprites, codes):
    figure = uw.show.position_maps(model, sprites.leave_out(posX=0, posY=[0, 1]))
    drawn = next(axes for axes in figure.axes if axes.images).images[0].get_array()
    expected = codes[..., 1].mean((0, 1, 2)).T
    assert np.isnan(np.ma.filled(drawn, np.nan)[:2, 0]).all()
    np.testing.assert_allclose(np.ma.filled(drawn, np.nan)[2:, 0], expected[2:, 0], atol=1e-5)


def test_large_grids_are_sampled(model, sprites):
    figure = uw.show.position_maps(model, sprites, rows=200, seed=1)
    drawn = next(axes for axes in figure.axes if axes.images).images[0].get_array()
    chosen = np.random.default_rng(1).permutation(384)[:200]
    codes = model.encode(sprites.images(chosen))[0]
    expected = mean_codes(codes, sprites.factors(chosen)[:, [4, 3]], [8, 8])[1]
    np.testing.assert_allclose(np.ma.filled(drawn, np.nan), expected, atol=1e-5)


def test_a_file_is_written(model, sprites, tmp_path):
    uw.show.position_maps(model, sprites).save(tmp_path / "maps.svg")
    text = (tmp_path / "maps.svg").read_text()
    for word in ("scale", "mean code", "heart"):
        assert f">{word}</text>" in text


def test_invalid_arguments_are_rejected(model, sprites, grey, asleep):
    (other,) = uw.train(uw.methods.VAE(), grey, steps=1, batch=4, progress=False)
    with pytest.raises(DataError, check=about("data", "grey")):
        uw.show.position_maps(other, grey)
    with pytest.raises(UnknownNameError, check=about("factor", "posx")):
        uw.show.position_maps(model, sprites, ("posx", "posY"))
    with pytest.raises(DataError, check=about("factors", ("posX", "posX"))):
        uw.show.position_maps(model, sprites, ("posX", "posX"))
    with pytest.raises(DataError, check=about("factors", ("posX",))):
        uw.show.position_maps(model, sprites, ("posX",))
    with pytest.raises(UnweaveError, check=about("inactive", "hide")):
        uw.show.position_maps(asleep, sprites)
    images = np.random.default_rng(0).integers(0, 256, (6, 64, 64), dtype=np.uint8)
    table = {"hue": [0, 0, 0, 1, 1, 1], "size": [0, 1, 2, 0, 1, 2]}
    named = uw.data.load(images, factors=table)
    with pytest.raises(DataError, check=about("factors", ("hue", "size"))):
        uw.show.position_maps(model, named)
