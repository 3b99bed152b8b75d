"""Every picture has `save`, which writes whole files by their ending."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.errors import DataError
from unweave.plots import colours
from unweave.plots.sheet import Row, lay_out, letters


@pytest.fixture
def sheet():
    rng = np.random.default_rng(0)
    pictures = [
        Image.fromarray(rng.integers(90, 110, (64, 64, 3), dtype=np.uint8)) for _ in range(9)
    ]
    return lay_out([Row(pictures, "latent 3", "→ orientation", "2.51")] * 3, "a caption")


@pytest.mark.parametrize(("ending", "exact"), [("png", True), ("webp", True), ("JPG", False)])
def test_sheets_are_saved_by_file_extension(sheet, tmp_path, ending, exact):
    path = tmp_path / f"sheet.{ending}"
    sheet.save(path)
    sheet.save(str(path))
    with Image.open(path) as file:
        difference = np.abs(np.asarray(file.convert("RGB")).astype(int) - np.asarray(sheet))
    assert difference.max() == 0 if exact else difference.mean() < 6
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_sheets_are_pil_images(sheet):
    file = io.BytesIO()
    sheet.save(file, "PNG")
    assert np.array_equal(np.asarray(Image.open(file)), np.asarray(sheet))
    assert sheet.convert("L").size == sheet.size


def test_other_endings_are_rejected_and_nothing_is_left(sheet, tmp_path):
    with pytest.raises(DataError, match=r"a\.svg"):
        sheet.save(tmp_path / "a.svg")
    with pytest.raises(DataError, match=r"a\.pdf"):
        uw.show.heat_map([[1.0]], "votes").save(tmp_path / "a.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"a\.png"):
        sheet.save(tmp_path / "file" / "a.png")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_saving_a_figure_is_deterministic(tmp_path):
    for name in ("a.svg", "b.svg"):
        uw.show.heat_map([[0.25, 0.75]], "importance").save(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    uw.show.heat_map([[0.25, 0.75]], "importance").save(tmp_path / "a.PNG")
    with Image.open(tmp_path / "a.PNG") as file:
        assert file.format == "PNG"


def test_text_is_at_least_7_points(sheet):
    """At 3.25 inches of width, what is written is at least 7 points high."""
    left = sheet.boxes[0][0][0]
    points = 3.25 * 72 / sheet.width
    size = next(
        size
        for size in range(10, 60)
        if letters(size).getlength("→ orientation") + size // 2 + 8 >= left - 1
    )
    assert 6.8 <= size * points <= 8


def test_labels_do_not_touch_pictures(sheet):
    top, bottom = sheet.boxes[0][0][1], sheet.boxes[0][0][3]
    pixels = np.asarray(sheet)
    left, right = sheet.boxes[0][0][0], sheet.boxes[0][-1][2]
    assert (pixels[top:bottom, left - 4 : left] == 255).all()
    assert (pixels[top:bottom, right : right + 4] == 255).all()
    assert (pixels[top:bottom, :left].min(axis=(1, 2)) < 255).any()
    assert (pixels[top:bottom, right:].min(axis=(1, 2)) < 255).any()


def test_faint_text_has_contrast():
    def light(colour):
        channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    for ink in (colours.INK, colours.FAINT):
        assert 1.05 / (light(ink) + 0.05) >= 4.5
    assert len(set(colours.PALETTE)) == len(colours.MARKERS) == 8
    assert colours.palette(9)[8] == colours.PALETTE[0]


def test_the_package_imports_without_matplotlib():
    code = (
        "import sys, unweave as uw; uw.show.traversals; "
        "assert 'matplotlib' not in sys.modules; "
        "[getattr(uw.show, name) for name in uw.show.__all__]; "
        "assert callable(uw.show.trade_off) and callable(uw.show.trade_off); "
        "assert callable(uw.show.study_plots.metric_agreement)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_notebook_display(sheet):
    from unweave.plots.plot import panels

    figure, axes = panels(1, 1, (2, 1))
    axes[0, 0].plot([0, 1])
    shown = [Image.open(io.BytesIO(one._repr_png_())) for one in (sheet, figure)]
    assert [picture.size for picture in shown] == [sheet.size, (200, 100)]
    assert np.asarray(shown[1].convert("L")).min() < 50


def test_wide_captions_are_wrapped():
    rows = [Row([Image.new("RGB", (64, 64), "navy")] * 3, "name")]
    caption = "C of the image above, Z of the image that the row names"
    sheet = lay_out(rows, caption)
    bottom = sheet.boxes[-1][-1][3]
    inked = (np.asarray(sheet.convert("L"))[bottom:] < 200).any(0)
    assert inked.any()
    assert not inked[-8:].any()
    assert sheet.height > lay_out(rows, "short").height
    assert lay_out(rows, "short").height > lay_out(rows).height
