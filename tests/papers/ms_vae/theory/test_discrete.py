"""Discrete distributions in fractions, compared with manual results."""

import math
from fractions import Fraction as F

import pytest

from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.papers.ms_vae.theory.discrete import joint
from unweave.papers.ms_vae.theory.graphs import read_graph
from unweave.papers.theory import TheoryError


@pytest.fixture
def sprinkler():
    """Rain one day in four; grass is wet by rain, or else by a sprinkler on one day in three."""
    return joint(
        read_graph("rain -> wet <- sprinkler"),
        {
            "rain": lambda: {0: F(3, 4), 1: F(1, 4)},
            "sprinkler": lambda: {0: F(2, 3), 1: F(1, 3)},
            "wet": lambda rain, sprinkler: {int(rain or sprinkler): F(1)},
        },
    )


def test_sums_and_conditions(sprinkler):
    assert sprinkler.of("wet").positive == {(0,): F(1, 2), (1,): F(1, 2)}
    wet = sprinkler.given(wet=1)
    assert wet.of("rain")[(1,)] == F(1, 2)
    assert wet.of("sprinkler", "rain")[1, 0] == F(1, 2)
    assert wet.of("rain", "sprinkler")[1, 0] == F(1, 3)
    assert wet.of("rain", "sprinkler")[0, 0] == 0
    assert wet.given(sprinkler=1).of("rain")[(1,)] == F(1, 4)
    assert sprinkler.given(wet=1, sprinkler=1).of("rain")[(1,)] == F(1, 4)
    assert list(wet.of("rain", "sprinkler")) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_causes_are_dependent_given_their_effect(sprinkler):
    assert sprinkler.independent("rain", "sprinkler")
    assert not sprinkler.independent("rain", "sprinkler", ["wet"])
    assert not sprinkler.independent("rain", "wet")
    assert sprinkler.given(wet=0).independent("rain", "sprinkler")


def test_information(sprinkler):
    """Given wet grass: shares 1/2 (sprinkler alone), 1/3 (rain alone), 1/6 (both)."""
    by_hand = sum(
        p * math.log(p / (rain * sprinkler))
        for p, rain, sprinkler in (
            (1 / 2, 1 / 2, 2 / 3),
            (1 / 3, 1 / 2, 1 / 3),
            (1 / 6, 1 / 2, 2 / 3),
        )
    )
    assert sprinkler.information("rain", "sprinkler") == 0
    assert sprinkler.given(wet=1).information("rain", "sprinkler") == pytest.approx(by_hand)
    assert sprinkler.information("rain", "sprinkler", ["wet"]) == pytest.approx(by_hand / 2)
    wet = math.log(2) - 0.75 * (math.log(3) - 2 / 3 * math.log(2))
    assert sprinkler.information("rain", "wet") == pytest.approx(wet)


def test_invalid_arguments_are_rejected(sprinkler):
    with pytest.raises(UnknownNameError, check=about("variable", "snow")):
        sprinkler.of("snow")
    with pytest.raises(TheoryError, check=about("names", ("rain", "wet", "wet"))):
        sprinkler.independent("rain", "wet", ["wet"])
    with pytest.raises(TheoryError, check=about("known", {"wet": 0, "rain": 1})):
        sprinkler.given(wet=0, rain=1)
    for table in ({0: F(1, 2)}, {0: F(-1), 1: F(2)}):
        with pytest.raises(TheoryError, check=about("rain", table)):
            joint({"rain": ()}, {"rain": lambda table=table: table})
