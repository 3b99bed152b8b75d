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
        "All 22 fractions are those printed.",
        "Given X = 4, C and Z are not independent: P(C=1, Z=0) is 0, P(C=1) P(Z=0) is 3/32.",
        "Given X = 4, Y = 1, C and Z are independent.",
        "C and Z are independent given X and Y if X is made from Y, and not independent if",
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
    assert first == "20 of 22 fractions are those printed."
    assert third == (
        "Given X = 4, Y = 1, C and Z are not independent: P(C=1, Z=0) is 1/2, P(C=1) P(Z=0) is 0."
    )
