"""A data set can be recreated from its origin."""

import json
from functools import partial

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.data.custom import from_path
from unweave.data.origin import (
    apply_steps,
    check_options,
    check_origin,
    check_steps,
    preprocessing,
    rebuild,
)
from unweave.errors import DataError, DownloadError, UnknownNameError, UnweaveError


def through_json(origin):
    return json.loads(json.dumps(origin))


def test_every_step_is_recorded_and_repeated():
    data = uw.data.load("color-dsprites").slice(scale=[0, 5], orientation=range(0, 40, 8))
    data = data.correlate("posX", "posY", 0.5).leave_out(shape=1, posX=[0, 1]).only(scale=1)
    again = rebuild(through_json(data.origin))
    assert again.grid.sizes == data.grid.sizes
    np.testing.assert_array_equal(again.weights, data.weights)
    np.testing.assert_array_equal(again.images([5, 7], seed=2), data.images([5, 7], seed=2))
    assert len(data.origin) == 5


def test_custom_images_are_identified_by_pixels_and_factors_not_by_path(tmp_path):
    rng = np.random.default_rng(0)
    first = tmp_path / "first"
    first.mkdir()
    for k in range(4):
        Image.fromarray(rng.integers(0, 256, (40, 40), dtype=np.uint8)).save(first / f"{k}.png")
    data = uw.data.load(first, size=32, name="mine")
    moved = first.rename(tmp_path / "moved")
    again = rebuild(through_json(data.origin), moved, size=32, name="mine")
    np.testing.assert_array_equal(again[:], data[:])
    assert again.origin == data.origin
    tables = [{"a": [0, 0, 1, 1]}, {"a": [0, 1, 1, 0]}, {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]}]
    origins = [str(uw.data.load(moved, size=32, factors=table).origin) for table in tables]
    assert len(set(origins)) == 3
    Image.new("L", (40, 40)).save(moved / "1.png")
    with pytest.raises(DataError, check=about("source", moved)):
        rebuild(data.origin, moved, size=32)


def test_a_picture_is_identified_by_its_content(tmp_path):
    for name, level in [("a.png", 10), ("b.png", 10), ("c.png", 20)]:
        Image.new("RGB", (300, 300), (level, 0, 0)).save(tmp_path / name)
    a, b, c = (
        uw.data.load("scream-dsprites", picture=tmp_path / name).origin
        for name in ("a.png", "b.png", "c.png")
    )
    assert a == b != c


@pytest.fixture
def dark(tmp_path):
    """A folder of 16-bit files with values of 12 bits, and one with values of 16 bits."""
    for name, high in (("dark", 4_096), ("bright", 65_536)):
        (tmp_path / name).mkdir()
        rng = np.random.default_rng(0)
        for k in range(3):
            levels = rng.integers(0, high, (40, 50)).astype(np.uint16)
            Image.fromarray(levels).save(tmp_path / name / f"{k}.png")
    return tmp_path


def test_the_preparation_of_custom_images_is_recorded_and_repeated(dark):
    for options in ({}, {"non_square": "pad"}, {"bits": 14}, {"bits": 14, "non_square": "pad"}):
        data = uw.data.load(dark / "dark", size=32, **options)
        origin = through_json(data.origin)
        check_origin(origin)
        assert preprocessing(origin) == {"bits": 12, **options}
        again = rebuild(origin, dark / "dark", size=32, **options)
        np.testing.assert_array_equal(again[:], data[:])
        assert through_json(again.origin) == origin


def test_origins_of_ordinary_images_are_those_of_unweave_0_1(dark):
    full = uw.data.load(dark / "bright", size=32)
    array = np.random.default_rng(0).integers(0, 256, (4, 32, 32), dtype=np.uint8)
    for data in (full, uw.data.load(array), uw.data.load(array, non_square="crop")):
        assert len(data.origin[0]) == 3
        assert preprocessing(data.origin) == {}
    deep = uw.data.load(array.astype(np.uint16) * 257)
    assert preprocessing(deep.origin) == {"bits": 16}
    np.testing.assert_array_equal(deep[:][..., 0], array)


def test_images_of_models_of_unweave_0_1_are_found(dark):
    """They were divided by 65535, whatever their largest value."""
    before = uw.data.load(dark / "dark", size=32, bits=16)
    assert len(before.origin[0]) == 3
    again = rebuild(through_json(before.origin), dark / "dark", size=32)
    np.testing.assert_array_equal(again[:], before[:])
    with pytest.raises(DataError, check=about("source", dark / "dark")):
        rebuild(before.origin, dark / "dark", size=32, bits=12)
    with pytest.raises(DataError, check=about("source", dark / "bright")):
        rebuild(before.origin, dark / "bright", size=32)


def test_arrays_are_distinguished_but_cannot_be_recreated():
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32), dtype=np.uint8)
    one, same, other = (uw.data.load(a) for a in (images, images.copy(), images[::-1]))
    assert one.origin == same.origin
    assert one.origin != other.origin
    with pytest.raises(DataError, check=about("source", "images")):
        rebuild(one.origin)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        7,
        "load",
        [7],
        [[]],
        [["load"]],
        [["load", "dsprites"]],
        [["load", "dsprites", []]],
        [["load", ["dsprites"], {}]],
        [["load", "../private", {}]],
        [["load", "dsprites", {"packed": 1}]],
        [["load", "dsprites_noise", {"base": "rooms3d"}]],
        [["load", "celeba", {"size": "64"}]],
        [["own", "mine"]],
        [["own", 7, "0123456789abcdef"]],
        [["own", "mine", "0123456789abcdef", {"bits": 11}]],
        [["own", "mine", "0123456789abcdef", {"bits": True}]],
        [["own", "mine", "0123456789abcdef", {"non_square": "stretch"}]],
        [["own", "mine", "0123456789abcdef", {"factors": "factors.csv"}]],
        [["own", "mine", "0123456789abcdef", "bits"]],
        [["own", "mine", "0123456789abcdef", {"bits": 12}, {}]],
        [["slice", {"shape": 0}]],
        [["load", "cars3d", {}], ["slice", {"shape": 0}]],
        [["load", "cars3d", {}], ["__class__", 3]],
    ],
)
def test_invalid_origins_are_rejected_before_anything_is_loaded(origin):
    with pytest.raises(UnweaveError) as caught:
        check_origin(origin)
    assert not isinstance(caught.value, DownloadError)
    with pytest.raises(UnweaveError) as caught:
        rebuild(origin)
    assert not isinstance(caught.value, DownloadError)


def test_paths_in_an_origin_are_not_opened(tmp_path):
    with pytest.raises(DataError, check=about("path", str(tmp_path))):
        rebuild([["load", "celeba", {"path": str(tmp_path)}]])
    with pytest.raises(DataError, check=about("picture", "/dev/zero")):
        rebuild([["load", "scream_dsprites", {"picture": "/dev/zero"}]])
    with pytest.raises(DataError, check=about("path", "/dev/zero")):
        rebuild([["load", "dsprites_modified", {"path": "/dev/zero"}]])
    with pytest.raises(DataError, match="0123456789abcdef"):
        rebuild([["load", "dsprites_modified", {"path": "file 0123456789abcdef"}]])


PENDULUM = ("length", "damping", "mass")


def test_steps_match_the_methods_of_dataset():
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
def test_invalid_steps_are_rejected(steps):
    with pytest.raises(DataError) as caught:
        check_steps(steps)
    assert len(str(caught.value)) < 300


def test_an_unknown_step_or_factor_is_named():
    with pytest.raises(DataError, check=about("step 1")):
        check_steps([["__call__", "x"]])
    with pytest.raises(UnknownNameError, check=about("factor", "self")):
        check_steps([["slice", {"self": 0}]], PENDULUM)


def test_all_steps_are_checked_before_the_first_is_applied():
    data = uw.data.load("pendulum")
    with pytest.raises(DataError, check=about("step 2")):
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
def test_option_types_are_checked(options):
    loader = partial(from_path, "images")
    check_options(loader, "images", {"size": 64, "channels": None, "name": "mine"})
    with pytest.raises(UnweaveError):
        check_options(loader, "images", options)
