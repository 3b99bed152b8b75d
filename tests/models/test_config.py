"""Configs: equal runs have equal names, and nothing unknown gets in."""

import json

import pytest

from unweave.errors import UnknownNameError, UnweaveError
from unweave.methods import METHODS, BetaTCVAE, BetaVAE
from unweave.models.config import Config, group_into_fleets
from unweave.nets.adam import Adam


@pytest.mark.parametrize("name", METHODS)
def test_a_config_survives_json(name):
    config = Config(
        method=METHODS[name](), seed=7, data=(["load", "dsprites", {}],), optimiser=Adam(lr=3e-4)
    )
    again = Config.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again.to_dict() == config.to_dict()
    assert again.hash == config.hash
    assert type(again.method) is METHODS[name]


def test_one_and_one_point_zero_are_the_same_run_and_anything_else_is_another():
    base = Config(method=BetaVAE(beta=1))
    assert base.hash == Config(method=BetaVAE(beta=1.0)).hash
    others = [
        Config(method=BetaVAE(beta=2)),
        Config(method=BetaVAE(beta=1), seed=1),
        Config(method=BetaVAE(beta=1), steps=5),
        Config(method=BetaVAE(beta=1), optimiser=Adam(lr=1e-3)),
        Config(method=BetaVAE(beta=1), data=(["load", "dsprites", {}],)),
        Config(method=BetaTCVAE(beta=1)),
    ]
    assert len({config.hash for config in [base, *others]}) == 7


def test_runs_that_differ_in_seed_and_strength_can_share_a_fleet():
    base = Config(method=BetaTCVAE(beta=1))
    assert base.fleet == Config(method=BetaTCVAE(beta=9), seed=4, optimiser=Adam(lr=1)).fleet
    assert base.fleet != Config(method=BetaTCVAE(beta=1, estimator="weighted")).fleet
    assert base.fleet != Config(method=BetaTCVAE(beta=1), latents=5).fleet


def test_runs_and_what_belongs_to_them_are_grouped_in_order():
    runs = [
        Config(method=BetaVAE(), latents=5, seed=1),
        Config(method=BetaTCVAE()),
        Config(method=BetaVAE(beta=9), latents=5),
        Config(method=BetaVAE()),
    ]
    assert group_into_fleets(runs) == [[runs[0], runs[2]], [runs[1]], [runs[3]]]
    places = group_into_fleets(range(4), lambda place: runs[place])
    assert places == [[0, 2], [1], [3]]
    assert group_into_fleets([]) == []


def test_what_is_unknown_is_named():
    plain = Config(method=BetaVAE()).to_dict()
    with pytest.raises(
        UnknownNameError, match="setting of Config is called 'bacth'; did you mean 'batch'"
    ):
        Config.from_dict({**plain, "bacth": 3})
    with pytest.raises(UnknownNameError, match="did you mean 'beta_vae'"):
        Config.from_dict({**plain, "method": {"name": "betavae"}})
    with pytest.raises(UnknownNameError, match="setting of BetaVAE"):
        Config.from_dict({**plain, "method": {"name": "beta_vae", "gamma": 3}})
    with pytest.raises(UnweaveError, match="precision is called 'fp8'"):
        Config(method=BetaVAE(), precision="fp8")


def changed(**changes):
    return {**Config(method=BetaVAE()).to_dict(), **changes}


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        (None, "a config is a mapping with a method"),
        ([], "a config is a mapping with a method"),
        ({}, "a config is a mapping with a method"),
        (changed(method="beta_vae"), "a config is a mapping with a method"),
        (changed(method={"name": ["beta_vae"]}), "no method is called"),
        (changed(method={"name": "beta_vae", "beta": "4"}), "beta of BetaVAE must be a number"),
        (changed(method={"name": "beta_vae", "beta": None}), "beta of BetaVAE must be a number"),
        (changed(method={"name": "beta_vae", "beta": [1, 4]}), "beta of BetaVAE must be a number"),
        (changed(method={"name": "beta_vae", "beta": 10**400}), "must be a number"),
        (changed(method={"name": "beta_vae", "beta": float("inf")}), "must be a number"),
        (changed(method={"name": "beta_tc_vae", "estimator": ["weighted"]}), "single value"),
        (changed(method={"name": "beta_tc_vae", "estimator": {}}), "must be text"),
        (changed(method={"name": "vae_ensemble", "members": 10**12}), "from 1 to 16"),
        (changed(method={"name": "vae_ensemble", "alignment": 1}), "must be True or False"),
        (changed(method={"name": "isa_vae", "layout": "(" * 60}), "a layout is the sizes"),
        (changed(method={"name": "isa_vae", "layout": "1," * 10**6}), "a layout is the sizes"),
        (changed(data=7), "data must be a list of steps"),
        (changed(data=[[]]), "data must be a list of steps"),
        (changed(data=[[7, 8]]), "data must be a list of steps"),
        (changed(seed=-1), "seed must be between 0"),
        (changed(seed=2**63), "seed must be between 0"),
        (changed(steps=-1), "steps must be between 0"),
        (changed(steps=10**12), "steps must be between 0"),
        (changed(steps=float("nan")), "steps must be a whole number"),
        (changed(batch=10**12), "batch must be between 1"),
        (changed(batch=True), "batch must be a whole number"),
        (changed(latents=10**12), "latents must be between 1"),
        (changed(latents=0), "latents must be between 1"),
        (changed(architecture=["conv"]), "must be a single value"),
        (changed(architecture=None), "no architecture is called"),
        (changed(precision={}), "no precision is called"),
        (changed(optimiser=3), "the optimiser is a mapping"),
        (changed(optimiser={"lr": "abc"}), "lr of Adam must be a number"),
        (changed(optimiser={"beta1": 1.0}), "beta1 of Adam must be at least 0 and below 1"),
        (changed(optimiser={"variant": 7}), "variant must be one of"),
        (changed(first=3), "a config is a mapping with a method"),
        (changed(first=changed()), "builds on no other models"),
        ({**changed(), 7: 3}, "setting of Config is called 7"),
    ],
)
def test_a_config_of_a_file_may_be_anything(plain, sentence):
    with pytest.raises(UnweaveError, match=sentence) as caught:
        Config.from_dict(plain)
    assert len(str(caught.value)) < 1_000


def test_stages_end_somewhere():
    chain = Config(method=BetaVAE()).to_dict()
    second = {**chain, "method": {"name": "ms_vae"}, "architecture": "dcgan"}
    for _ in range(7):
        chain = {**second, "first": chain}
    assert len(Config.from_dict(chain).stages) == 8
    with pytest.raises(UnweaveError, match="at most 8 stages"):
        Config.from_dict({**second, "first": chain})
    endless = {**second}
    endless["first"] = endless
    with pytest.raises(UnweaveError, match="at most 8 stages"):
        Config.from_dict(endless)
