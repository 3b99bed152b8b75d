"""`unweave theory pca-alignment`, and its figure."""

import numpy as np
import pandas as pd
import pytest

from unweave.cli import main
from unweave.papers.inductive_biases.theory.pca_alignment_figures import draw_alignment

FILES = [
    "alignment.svg",
    "autoencoders.csv",
    "contrastive.csv",
    "modified-data.csv",
    "rotations.csv",
]


def test_the_command_prints_what_theory_says_and_what_came_out(capsys, tmp_path):
    words = ["--seeds", "1", "--moments", "3000", "--ending", "svg", "-o", str(tmp_path)]
    main(["theory", "pca-alignment", *words])
    said = capsys.readouterr().out
    (row,) = [
        line for line in said.splitlines() if "δ = 0.5, with factors" in line and "VAE" in line
    ]
    assert row.split()[-4:] == ["θ", "=", "0.826", "0.8256"]
    assert sorted(file.name for file in tmp_path.iterdir()) == FILES
    assert pd.read_csv(tmp_path / "rotations.csv")["fixed"].tolist() == [False, True]
    assert pd.read_csv(tmp_path / "contrastive.csv")["pcl"].min() > 0.98
    with pytest.raises(SystemExit):
        main(["theory", "pca-alignment", *words])
    assert "alignment.svg is already there" in capsys.readouterr().err


def test_no_runs_are_refused(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["theory", "pca-alignment", "--seeds", "0", "-o", str(tmp_path / "new")])
    assert "seeds must be a whole number from 1" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_figure_shows_the_numbers():
    autoencoders = pd.DataFrame(
        {"kind": ["vae", "equal", "autoencoder"], "factors": [1.0, 0.7, 0.5]}
    )
    modified = pd.DataFrame({"delta": [0.0, 0.5], "factors": [1.0, 0.83], "principal": 1.0})
    contrasted = pd.DataFrame({"delta": [0.0, 0.5], "pcl": 1.0, "pca": [1.0, 0.81]})
    left, middle, right = draw_alignment(autoencoders, modified, contrasted).axes
    assert np.concatenate([dots.get_offsets() for dots in left.collections]).tolist() == [
        [0, 1.0],
        [1, 0.7],
        [2, 0.5],
    ]
    assert middle.lines[0].get_ydata()[[0, -1]] == pytest.approx([1, 0.8256], abs=1e-4)
    assert middle.collections[0].get_offsets().tolist() == [[0, 1], [0.5, 0.83]]
    assert right.collections[0].get_offsets().tolist() == [[0, 1], [0.5, 0.81]]
