"""`unweave theory d-separation`, and its figure."""

from fractions import Fraction

import pandas as pd
import pytest
from PIL import Image

from unweave.cli import main
from unweave.papers.ms_vae.theory.d_separation import draw_example


def test_published_and_obtained_are_printed_and_tables_are_saved(capsys, tmp_path):
    main(["theory", "d-separation", "-o", str(tmp_path / "new")])
    output = capsys.readouterr().out
    (row,) = [line for line in output.splitlines() if "P(C | X = 4) " in line and "C=2" in line]
    assert row.split()[-2:] == ["5/8", "5/8"]
    assert "22 of 22" in output
    with Image.open(tmp_path / "new" / "example.png") as picture:
        assert picture.size[0] > 1000
    table = pd.read_csv(tmp_path / "new" / "example.csv")
    shares = table.query("model == 'blurred' and X == 4 and Y == 2")["probability"]
    assert sum(map(Fraction, shares)) == 1
    assert shares.tolist() == ["1/10", "3/20", "1/5", "3/10", "1/10", "3/20"]


def test_nothing_is_overwritten_by_default(capsys, tmp_path):
    args = ["theory", "d-separation", "--format", "svg", "-o", str(tmp_path)]
    (tmp_path / "example.csv").write_text("mine")
    with pytest.raises(SystemExit):
        main(args)
    assert "example.csv" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["example.csv"]
    main([*args, "--overwrite"])
    assert "published" in (tmp_path / "example.csv").read_text()
    assert "dependent" in (tmp_path / "example.svg").read_text()


def test_the_figure_shows_the_fractions():
    images, *laws = draw_example().axes
    shown = [[text.get_text() for text in panel.texts] for panel in laws]
    assert shown[0] == ["0", "3/8", "1/4", "3/8", "0", "0"]
    assert shown[1] == ["3/32", "9/32", "5/32", "15/32", "0", "0"]
    assert shown[2] == shown[3] == ["0", "1", "0", "0", "0", "0"]
    assert shown[4] == shown[5] == ["1/10", "3/20", "1/5", "3/10", "1/10", "3/20"]
    frames = [p for p in images.patches if type(p).__name__ == "Rectangle"]
    parts = [p for p in images.patches if type(p).__name__ == "Circle"]
    assert (len(frames), len(parts)) == (3 + 3 + 2 + 6, 3 + 2 + 2 + 9)
