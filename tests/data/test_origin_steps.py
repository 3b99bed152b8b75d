"""What a data set goes through, as plain data: a closed list, checked before it is done."""

from functools import partial

import numpy as np
import pytest

import unweave as uw
from unweave.data.custom import from_path
from unweave.data.origin_steps import apply_steps, check_options, check_steps
from unweave.errors import DataError, UnknownNameError, UnweaveError

PENDULUM = ("length", "damping", "mass")


def test_steps_are_what_the_methods_of_data_sets_do():
    data = uw.data.load("pendulum")
    steps = [
        ["slice", {"length": [0, 1, 2], "mass": 1}],
        ["correlate", "length", "damping", 0.25],
        ["leave_out", {"damping": [3]}],
        ["only", {"length": [0, 1]}],
    ]
    made = apply_steps(data, steps)
    by_hand = data.slice(length=range(3), mass=1).correlate("length", "damping", 0.25)
    by_hand = by_hand.leave_out(damping=3).only(length=[0, 1])
    np.testing.assert_array_equal(made.weights, by_hand.weights)
    assert made.origin == by_hand.origin
    assert apply_steps(data, made.origin[1:]).origin == made.origin


def test_a_factor_may_have_any_name():
    images = np.zeros((4, 32, 32), np.uint8)
    data = uw.data.load(images, factors={"self": [0, 0, 1, 1], "a b": [0, 1, 0, 1]})
    assert len(apply_steps(data, [["slice", {"self": 1}], ["slice", {"a b": 0}]])) == 1


@pytest.mark.parametrize(
    "steps",
    [
        None,
        "slice",
        {"slice": {}},
        ["slice"],
        [[]],
        [[["slice"]]],
        [["__getattribute__", "images"]],
        [["tofile", "/tmp/x"]],
        [["to", "cuda"]],
        [["images", [0]]],
        [["slice"]],
        [["slice", {}, {}]],
        [["slice", [0]]],
        [["slice", {"length": True}]],
        [["slice", {"length": -1}]],
        [["slice", {"length": 2**31}]],
        [["slice", {"length": 10**400}]],
        [["slice", {"length": 0.5}]],
        [["slice", {"length": "0"}]],
        [["slice", {"length": {"0": 1}}]],
        [["slice", {"length": [[0]]}]],
        [["slice", {7: 0}]],
        [["correlate", "length"]],
        [["correlate", "length", "damping"]],
        [["correlate", "length", "damping", 2]],
        [["correlate", "length", "damping", float("nan")]],
        [["correlate", "length", "damping", True]],
        [["correlate", "length", "damping", 0.5, {}]],
        [["correlate", "length", ["damping"], 0.5]],
        [["leave_out", {"mass": 0}]] * 101,
    ],
)
def test_anything_else_is_refused(steps):
    with pytest.raises(DataError) as caught:
        check_steps(steps)
    assert len(str(caught.value)) < 300


def test_an_unknown_step_or_factor_is_named():
    with pytest.raises(DataError, match="no step called '__call__'; the steps are slice"):
        check_steps([["__call__", "x"]])
    with pytest.raises(UnknownNameError, match="no factor is called 'self'"):
        check_steps([["slice", {"self": 0}]], PENDULUM)


def test_all_steps_are_checked_before_the_first_is_done():
    data = uw.data.load("pendulum")
    with pytest.raises(DataError, match="no step called"):
        apply_steps(data, [["slice", {"length": 99}], ["__class__", 3]])


@pytest.mark.parametrize(
    "options",
    [
        {"size": "64"},
        {"size": True},
        {"size": 64.0},
        {"size": 10**30},
        {"name": 7},
        {"path": "elsewhere"},
        {7: 8},
    ],
)
def test_options_are_of_their_kind(options):
    loader = partial(from_path, "images")
    check_options(loader, "images", {"size": 64, "channels": None, "name": "mine"})
    with pytest.raises(UnweaveError):
        check_options(loader, "images", options)
