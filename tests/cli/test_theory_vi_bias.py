"""`unweave theory vi-bias`."""

import pandas as pd
import pytest
from PIL import Image

from unweave.cli import main


def test_all_experiments(capsys, tmp_path):
    main(["theory", "vi-bias", "-o", str(tmp_path / "new"), "--steps", "12", "--seed", "3"])
    output = capsys.readouterr().out
    names = ("rotation", "over-complete", "beta", "ica")
    for name in names:
        with Image.open(tmp_path / "new" / f"{name}.png") as picture:
            assert picture.size[0] > 1000
        assert f"new/{name}.csv" in output
    (row,) = [line for line in output.splitlines() if "free energy at π/4" in line]
    assert row.split().count("-57.16") == 2
    assert "does not hold" in output  # three components are left after 12 steps of β = 5
    assert "12 steps" in output
    table = pd.read_csv(tmp_path / "new" / "ica.csv")
    assert table.groupby("beta")["step"].max().to_dict() == {1: 12, 5: 12}
    assert table.groupby("beta")["norm_1"].first().tolist() == pytest.approx([3, 3])
    assert (table.groupby("beta")["free_energy"].diff().dropna() > 0).all()


def test_seed_beta_and_ending_are_applied(capsys, tmp_path):
    ends = {}
    for seed in ("0", "1"):
        args = ["ica", "--betas", "2", "--steps", "5", "--seed", seed, "--format", "svg"]
        main(["theory", "vi-bias", *args, "-o", str(tmp_path / seed)])
        ends[seed] = pd.read_csv(tmp_path / seed / "ica.csv")
    assert "components at β = 2 (step 5)" in capsys.readouterr().out
    assert set(ends["0"]["beta"]) == {2}
    assert ends["0"]["free_energy"].iloc[-1] != ends["1"]["free_energy"].iloc[-1]
    assert sorted(file.name for file in (tmp_path / "0").iterdir()) == ["ica.csv", "ica.svg"]


def test_beta_is_compared_with_1(capsys, tmp_path):
    main(["theory", "vi-bias", "beta", "--betas", "3", "-o", str(tmp_path), "--format", "svg"])
    assert pd.read_csv(tmp_path / "beta.csv")["beta"].tolist() == [1, 3]
    assert "β = 3 against 1" in capsys.readouterr().out


def test_learning_is_animated(tmp_path):
    args = ["ica", "--betas", "5", "--steps", "5", "--animate", "--format", "svg"]
    main(["theory", "vi-bias", *args, "-o", str(tmp_path)])
    with Image.open(tmp_path / "ica.gif") as file:
        assert file.n_frames > 1


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["rotatin"], "'rotation'"),
        (["rotation", "--animate"], "--animate"),
        (["rotation", "ica", "--betas", "0"], "β"),
        (["rotation", "ica", "--steps", "0"], "steps"),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(args, named, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main(["theory", "vi-bias", *args, "-o", str(tmp_path / "out")])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_by_default(capsys, tmp_path):
    args = ["theory", "vi-bias", "rotation", "--format", "svg", "-o", str(tmp_path)]
    main(args)
    stamp = (tmp_path / "rotation.svg").stat().st_mtime_ns
    with pytest.raises(SystemExit):
        main(args)
    assert str(tmp_path / "rotation.svg") in capsys.readouterr().err
    assert (tmp_path / "rotation.svg").stat().st_mtime_ns == stamp
    main([*args, "--overwrite"])
    assert (tmp_path / "rotation.svg").stat().st_mtime_ns > stamp
