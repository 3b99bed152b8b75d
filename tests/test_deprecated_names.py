"""Old names, which still work for one release with a warning."""

import inspect

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.data.custom import from_array, from_path
from unweave.errors import UnweaveError
from unweave.io.arguments import renamed_arguments
from unweave.models.config import Config
from unweave.study import Plan

HASH = "49ef60ef94352f3d"
"""Hash of the config below, computed before `told` was renamed."""
IMAGES = np.zeros((4, 32, 32, 1), np.uint8)
PLACES = uw.methods.FromFactors(known_factors="posX,posY")


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (uw.evaluate, "again", "recompute"),
        (uw.fit, "fewest", "min_images"),
        (from_path, "fewest", "min_images"),
        (from_array, "fewest", "min_images"),
        (uw.methods.FromFactors.__init__, "told", "known_factors"),
        (uw.quality.reconstructions, "at_once", "batch"),
        (uw.select.consensus, "least_correlation", "min_correlation"),
    ],
)
def test_functions_accept_old_keywords(function, old, new):
    assert function.old_names[old] == new
    assert new in inspect.signature(function).parameters
    assert old not in inspect.signature(function).parameters


def test_an_old_keyword_has_the_effect_of_the_new_one():
    with pytest.warns(DeprecationWarning, match="told is deprecated; use known_factors"):
        method = uw.methods.FromFactors(told="posX,posY")
    assert method == PLACES
    with pytest.warns(DeprecationWarning, match="fewest"):
        assert len(uw.data.load(IMAGES[:1], fewest=1)) == 1
    with pytest.warns(DeprecationWarning, match="at_once"):
        uw.quality.reconstructions(None, None, at_once=4)  # a generator, which is not started


def test_a_warning_names_the_line_of_the_caller():
    with pytest.warns(DeprecationWarning, match="told") as caught:
        uw.methods.FromFactors(told="posX")
    assert caught[0].filename == __file__


def test_old_attributes_can_be_read():
    with pytest.warns(DeprecationWarning, match="use known_factors"):
        assert PLACES.told == "posX,posY"
    plan = Plan(name="a", device="cpu", parts=(), done=0, errors={}, measured=True)
    with pytest.warns(DeprecationWarning, match="use measured"):
        assert plan.met
    aligned = uw.select.Aligned(np.zeros(1), np.zeros(1), permutations=np.ones(1))
    with pytest.warns(DeprecationWarning, match="use permutations"):
        assert aligned.ways == 1


def test_both_names_are_refused():
    @renamed_arguments(colour="color")
    def paint(color):
        return color

    with pytest.raises(TypeError, match="colour"):
        paint(color=1, colour=1)
    with pytest.warns(DeprecationWarning, match="use color"):
        assert paint(colour=1) == 1


def test_saved_files_keep_the_old_key():
    config = Config(method=PLACES, latents=2, architecture="small_dcgan")
    assert config.to_dict()["method"] == {"name": "from_factors", "told": "posX,posY"}
    assert config.hash == HASH


@pytest.mark.parametrize("key", ["told", "known_factors"])
def test_saved_settings_are_read_by_either_name(key):
    config = Config(method=PLACES, latents=2, architecture="small_dcgan")
    saved = {**config.to_dict(), "method": {"name": "from_factors", key: "posX,posY"}}
    assert Config.from_dict(saved) == config
    methods = {"from_factors": {key: "posX,posY", "settings": {"latents": 2}}}
    (run,) = uw.study.Study(methods=methods, data="dsprites").runs()
    assert run.method == PLACES


def test_both_keys_in_a_file_are_refused():
    methods = {"from_factors": {"told": "posX", "known_factors": "posY"}}
    with pytest.raises(UnweaveError, check=about("setting of from_factors", "told")):
        uw.study.Study(methods=methods, data="dsprites").runs()
