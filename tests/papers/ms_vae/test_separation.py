"""The recipe of the example of d-separation."""

import pandas as pd

import unweave.cli.reproduce as command
from unweave.papers import find

NOTHING = pd.DataFrame()


def test_all_fractions_are_the_published_ones(capsys, tmp_path):
    command.Reproduce(name="ms-vae/tables-2-3", out=tmp_path).run()
    said = capsys.readouterr().out
    frame = pd.read_csv(tmp_path / "tables-2-3.csv")
    assert len(frame) == 22
    assert frame["exactly"].tolist() == frame["fraction"].tolist()
    assert frame["obtained"].tolist() == frame["published"].tolist()
    for sentence in (
        "Fractions are those printed: holds for 22 of 22 fractions.",
        "Given X = 4: P(C, Z) = P(C) P(Z): holds for 2 of 6 events.",
        "Given X = 4, Y = 1: P(C, Z) = P(C) P(Z): holds for 6 of 6 events.",
        "X made from Y: the same: holds for 1 of 1 examples.",
        "X made from C itself: the same: holds for 0 of 1 examples.",
        "not Figure 36.",
    ):
        assert sentence in said
    assert (tmp_path / "tables-2-3.svg").stat().st_size > 10_000


def test_other_fractions_would_be_said():
    recipe = find("ms-vae/tables-2-3")
    frame = recipe.obtain(NOTHING)
    assert frame[recipe.published().columns].equals(recipe.published())
    given_both = frame["law"] == "P(C, Z | X = 4, Y = 1)"
    frame.loc[given_both, "exactly"] = ["1/2", "1/2", "0", "0", "0", "0"]
    first, _, third, *_ = recipe.verdict(frame)
    assert first.endswith(": holds for 20 of 22 fractions.")
    assert third.endswith("P(Z): holds for 4 of 6 events.")
