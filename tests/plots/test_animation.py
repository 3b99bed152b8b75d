"""Animations go back and forth."""

import numpy as np
import pytest
from PIL import Image, ImageSequence

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnweaveError
from unweave.plots.animation import GAP, MARGIN, SIDE


@pytest.fixture(scope="module")
def animation(model, sprites):
    return uw.show.animate(model, sprites, index=5, steps=5, reach=2.0, milliseconds=50)


def frames_of(path):
    with Image.open(path) as file:
        return [
            np.asarray(frame.convert("RGB")).astype(int) for frame in ImageSequence.Iterator(file)
        ]


def test_frames_show_all_active_latents_at_once(animation, model, sprites, shown):
    start = model.encode(sprites.images([5]))[0]
    assert len(animation.frames) == 8
    for step, frame in enumerate(animation.frames[:5]):
        picture = np.asarray(frame)
        assert picture.shape[1] == 2 * MARGIN + 3 * SIDE + 2 * GAP
        for place, latent in enumerate([1, 3, 0]):
            code = start.copy()
            code[0, latent] = step - 2
            left = MARGIN + place * (SIDE + GAP)
            tile = picture[MARGIN : MARGIN + SIDE, left : left + SIDE]
            np.testing.assert_array_equal(tile[::2, ::2], shown(model.decode(code))[0])


def test_frames_go_forwards_and_backwards(animation):
    for frame, other in zip(animation.frames[1:4], animation.frames[:4:-1], strict=True):
        np.testing.assert_array_equal(np.asarray(frame), np.asarray(other))
    assert (np.asarray(animation.frames[0]) != np.asarray(animation.frames[4])).any()


@pytest.mark.parametrize(("ending", "close"), [("gif", 24), ("png", 0), ("webp", 60)])
def test_files_contain_all_frames_and_loop(animation, tmp_path, ending, close):
    path = tmp_path / f"latents.{ending}"
    animation.save(path)
    frames = frames_of(path)
    assert len(frames) == 8
    for frame, expected in zip(frames, animation.frames, strict=True):
        assert np.abs(frame - np.asarray(expected)).mean() <= close / 6
        assert np.quantile(np.abs(frame - np.asarray(expected)), 0.98) <= close
    with Image.open(path) as file:
        assert file.info["loop"] == 0
        file.seek(1)
        file.load()
        assert file.info["duration"] == 50
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_gif_has_a_white_background(animation, tmp_path):
    animation.save(tmp_path / "latents.gif")
    frames = frames_of(tmp_path / "latents.gif")
    for step in (1, 2, 3):
        np.testing.assert_array_equal(frames[step], frames[8 - step])
        assert (frames[step] != frames[step - 1]).any()
    assert (frames[0][:MARGIN] == 255).all()


def test_inactive_latents_can_be_shown_in_grey(model, sprites):
    grey = uw.show.animate(model, sprites, steps=2, inactive="grey")
    left = MARGIN + 3 * (SIDE + GAP)
    tile = np.asarray(grey.frames[0])[MARGIN : MARGIN + SIDE, left : left + SIDE]
    assert tile.min() > 180
    assert len(grey.frames) == 2


def test_notebook_display(animation):
    assert animation._repr_mimebundle_()["image/gif"].startswith(b"GIF89a")


def test_invalid_arguments_are_rejected(animation, model, lost, sprites, tmp_path):
    with pytest.raises(DataError, match=r"latents\.mp4"):
        animation.save(tmp_path / "latents.mp4")
    with pytest.raises(UnweaveError, check=about("model", 2)):
        uw.show.animate(lost, sprites)
    with pytest.raises(UnweaveError, match="1,000"):
        uw.show.animate(model, sprites, steps=1)
