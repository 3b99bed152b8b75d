"""`unweave theory pca-alignment`."""

import pandas as pd
import pytest

from unweave.cli import main

FILES = [
    "alignment.svg",
    "autoencoders.csv",
    "contrastive.csv",
    "modified-data.csv",
    "rotations.csv",
]


def test_the_command_prints_expected_and_obtained_values(capsys, tmp_path):
    args = ["--seeds", "1", "--moments", "3000", "--format", "svg", "-o", str(tmp_path)]
    main(["theory", "pca-alignment", *args])
    output = capsys.readouterr().out
    (row,) = [
        line for line in output.splitlines() if "δ = 0.5, with factors" in line and "VAE" in line
    ]
    assert row.split()[-4:] == ["θ", "=", "0.826", "0.8256"]
    assert sorted(file.name for file in tmp_path.iterdir()) == FILES
    assert pd.read_csv(tmp_path / "rotations.csv")["fixed"].tolist() == [False, True]
    assert pd.read_csv(tmp_path / "contrastive.csv")["pcl"].min() > 0.98
    with pytest.raises(SystemExit):
        main(["theory", "pca-alignment", *args])
    assert str(tmp_path / "alignment.svg") in capsys.readouterr().err


def test_zero_seeds_are_an_error(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["theory", "pca-alignment", "--seeds", "0", "-o", str(tmp_path / "new")])
    assert "seeds" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
