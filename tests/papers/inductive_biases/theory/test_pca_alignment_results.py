"""The figure of all experiments."""

import numpy as np
import pandas as pd
import pytest

from unweave.papers.inductive_biases.theory.pca_alignment_results import draw_alignment


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
