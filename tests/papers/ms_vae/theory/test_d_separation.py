"""The example with six images: the published tables and their limits."""

from fractions import Fraction as F
from itertools import combinations, product

import pandas as pd
import pytest

import unweave.cli.reproduce as command
from tests.raising import about
from unweave.papers import find
from unweave.papers.ms_vae.theory import d_separation as example_of
from unweave.papers.ms_vae.theory.d_separation import (
    BESIDE,
    BLURRED,
    GRAPH,
    all_tables,
    example,
    tables,
)
from unweave.papers.ms_vae.theory.graphs import d_separated
from unweave.papers.theory import TheoryError

GIVEN = [(), ("X",), ("Y",), ("X", "Y")]


def pairs(law):
    """P(C, Z) of those that are possible."""
    return law.of("C", "Z").positive


def test_the_published_tables():
    given_x = example().given(X=4)
    assert pairs(given_x) == {(1, 1): F(3, 8), (2, 0): F(1, 4), (2, 1): F(3, 8)}
    assert given_x.of("C").positive == {(1,): F(3, 8), (2,): F(5, 8)}
    assert given_x.of("Z").positive == {(0,): F(1, 4), (1,): F(3, 4)}
    assert not given_x.independent("C", "Z")
    assert pairs(example().given(X=4, Y=1)) == {(1, 1): 1}
    assert pairs(example().given(X=4, Y=2)) == {(2, 0): F(2, 5), (2, 1): F(3, 5)}


def test_the_distribution_matches_enumeration():
    """By going through all 3 × 2 × 3 × 2 equally probable draws, with either number of masks."""
    images = {frozenset(parts): k for k, parts in example_of.IMAGES.items()}
    drawn = {}
    for c, z, one, other in product((1, 2, 3), (0, 1), range(3), range(2)):
        mask = example_of.MASKS[z][other if z else one]
        x = images[frozenset({c}) | mask]
        drawn[c, c, z, x] = drawn.get((c, c, z, x), 0) + F(1, 36)
    assert example().of("C", "Y", "Z", "X").positive == drawn
    assert {x for *_, x in drawn} == {1, 2, 3, 4, 5, 6}


def test_no_other_masks_give_the_published_tables():
    """Of all sets of masks that add parts and stay within the six images."""
    single = [frozenset(parts) for parts in ((), (1,), (2,), (3,))]
    sets = [masks for count in range(1, 5) for masks in combinations(single, count)]
    wanted = pairs(example().given(X=4))
    found = []
    for zero, one in product(sets, repeat=2):
        law = example(masks={0: zero, 1: one})
        if law.of("X")[(4,)] and pairs(law.given(X=4)) == wanted:
            found.append({0: zero, 1: one})
    assert found == [dict(example_of.MASKS)]


@pytest.mark.parametrize("errs", [0, F(1, 2), F(2, 3), F(1, 7)])
def test_what_the_graph_separates_is_independent(errs):
    for given in GIVEN:
        for beside, graph in ((False, GRAPH), (True, BESIDE)):
            if d_separated(graph, "C", "Z", given):
                law = example(errs, beside=beside)
                assert law.independent("C", "Z", given)
                assert law.information("C", "Z", given) == 0


def test_only_x_without_y_connects_c_and_z():
    assert [d_separated(GRAPH, "C", "Z", given) for given in GIVEN] == [True, False, True, True]
    assert [example().independent("C", "Z", given) for given in GIVEN] == [True, False, True, True]
    assert example().information("C", "Z", ("X",)) == pytest.approx(0.16428, abs=1e-5)


def test_connected_does_not_mean_dependent_for_every_image():
    """An image of one part determines C for any Z."""
    found = {x: example().given(X=x).independent("C", "Z") for x in range(1, 7)}
    assert found == {1: True, 2: True, 3: True, 4: False, 5: False, 6: False}


def test_given_y_the_published_example_cannot_tell_the_graphs_apart_and_a_blurred_one_can():
    assert not d_separated(BESIDE, "C", "Z", ("X", "Y"))
    assert example(beside=True).independent("C", "Z", ("X", "Y"))
    assert not example(BLURRED, beside=True).independent("C", "Z", ("X", "Y"))
    assert example(BLURRED).independent("C", "Z", ("X", "Y"))
    beside = example(BLURRED, beside=True).given(X=4, Y=2)
    assert pairs(beside) == {(1, 1): F(3, 13), (2, 0): F(4, 13), (2, 1): F(6, 13)}


def test_where_y_is_blurred_c_depends_on_y_alone_and_z_on_x_and_y():
    law = example(BLURRED)
    both = law.given(X=4, Y=2)
    assert both.of("C").positive == {(1,): F(1, 4), (2,): F(1, 2), (3,): F(1, 4)}
    assert both.of("C").positive == law.given(Y=2).of("C").positive
    assert both.of("Z").positive == {(0,): F(2, 5), (1,): F(3, 5)}
    assert pairs(both)[1, 0] == F(1, 10)


def test_tables_are_named_as_in_the_paper():
    frame = tables(example(), X=4, Y=1)
    assert frame["law"].unique().tolist() == [
        "P(C, Z | X = 4, Y = 1)",
        "P(C | X = 4, Y = 1)",
        "P(Z | X = 4, Y = 1)",
    ]
    assert frame["event"].tolist()[4:9] == ["C=3, Z=0", "C=3, Z=1", "C=1", "C=2", "C=3"]
    assert frame["probability"].tolist() == [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_all_tables():
    frame = all_tables()
    conditions = frame.groupby(["model", "X", "Y"], dropna=False, sort=False)
    assert set(conditions["probability"].sum()) == set(conditions["product"].sum()) == {1}
    assert conditions.size().unique().tolist() == [6]
    assert conditions.ngroups == (6 + 9) + (6 + 9) + (6 + 18)
    apart = frame[frame["probability"] != frame["product"]]
    assert set(apart[apart["Y"].notna()]["model"]) == {"beside"}
    assert set(apart[apart["Y"].isna()]["model"]) == {"published", "blurred", "beside"}
    (row,) = frame.query(
        "model == 'published' and X == 4 and Y.isna() and C == 2 and Z == 1"
    ).values
    assert row[-2:].tolist() == [F(3, 8), F(15, 32)]


@pytest.mark.parametrize("errs", [F(-1, 2), F(3, 2)])
def test_invalid_probabilities_are_rejected(errs):
    with pytest.raises(TheoryError, check=about("errs", errs)):
        example(errs)


def test_masks_that_give_other_images_are_rejected():
    with pytest.raises(TheoryError, check=about("masks")):
        example(masks={0: (frozenset({1, 2}),), 1: (frozenset(),)})


NOTHING = pd.DataFrame()


def test_all_fractions_are_the_published_ones(capsys, tmp_path):
    command.Reproduce(name="ms-vae/tables-2-3", out=tmp_path).run()
    said = capsys.readouterr().out
    frame = pd.read_csv(tmp_path / "tables-2-3.csv")
    assert len(frame) == 22
    assert frame["exactly"].tolist() == frame["fraction"].tolist()
    assert frame["obtained"].tolist() == frame["published"].tolist()
    for sentence in (
        "holds for 22 of 22 fractions.",
        "Given X = 4: P(C, Z) = P(C) P(Z): holds for 2 of 6 events.",
        "Given X = 4, Y = 1: P(C, Z) = P(C) P(Z): holds for 6 of 6 events.",
        "X from Y: P(C, Z) = P(C) P(Z): holds for 1 of 1 examples.",
        "X from C: P(C, Z) = P(C) P(Z): holds for 0 of 1 examples.",
        "not Figure 36.",
    ):
        assert sentence in said
    assert (tmp_path / "tables-2-3.svg").stat().st_size > 10_000


def test_other_fractions_would_be_reported():
    recipe = find("ms-vae/tables-2-3")
    frame = recipe.obtain(NOTHING)
    assert frame[recipe.published().columns].equals(recipe.published())
    given_both = frame["law"] == "P(C, Z | X = 4, Y = 1)"
    frame.loc[given_both, "exactly"] = ["1/2", "1/2", "0", "0", "0", "0"]
    first, _, third, *_ = recipe.verdict(frame)
    assert first.endswith(": holds for 20 of 22 fractions.")
    assert third.endswith("P(Z): holds for 4 of 6 events.")
