"""Configs: equal runs have equal names, and nothing unknown gets in."""

import json
from unittest.mock import ANY

import pytest

from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.schema import SchemaError
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
    other = Config(method=BetaTCVAE(beta=9), seed=4, optimiser=Adam(lr=1))
    weighted = Config(method=BetaTCVAE(beta=1, estimator="weighted"))
    small = Config(method=BetaTCVAE(beta=1), latents=5)
    assert base.kind == other.kind
    assert len({config.kind for config in (base, weighted, small)}) == 3
    assert base.fleet == other.fleet == weighted.fleet != small.fleet


def test_runs_and_items_are_grouped_in_order():
    runs = [
        Config(method=BetaVAE(), latents=5, seed=1),
        Config(method=BetaTCVAE()),
        Config(method=BetaVAE(beta=9), latents=5),
        Config(method=BetaVAE()),
    ]
    assert group_into_fleets(runs) == [[runs[0], runs[2]], [runs[1], runs[3]]]
    places = group_into_fleets(range(4), lambda place: runs[place])
    assert places == [[0, 2], [1, 3]]
    assert group_into_fleets([]) == []


def test_errors_name_unknown_settings():
    plain = Config(method=BetaVAE()).to_dict()
    with pytest.raises(UnknownNameError, check=about("setting of Config", "bacth")):
        Config.from_dict({**plain, "bacth": 3})
    with pytest.raises(UnknownNameError, check=about("method", "betavae")):
        Config.from_dict({**plain, "method": {"name": "betavae"}})
    with pytest.raises(UnknownNameError, check=about("setting of BetaVAE", "gamma")):
        Config.from_dict({**plain, "method": {"name": "beta_vae", "gamma": 3}})
    with pytest.raises(UnweaveError, check=about("precision", "fp8")):
        Config(method=BetaVAE(), precision="fp8")


def changed(**changes):
    return {**Config(method=BetaVAE()).to_dict(), **changes}


@pytest.mark.parametrize(
    ("plain", "location"),
    [
        (None, ""),
        ([], ""),
        ({}, ""),
        (changed(method="beta_vae"), "method"),
        (changed(method={"name": "beta_vae", "beta": "4"}), "method.beta"),
        (changed(method={"name": "beta_vae", "beta": None}), "method.beta"),
        (changed(method={"name": "beta_vae", "beta": [1, 4]}), "method.beta"),
        (changed(method={"name": "beta_vae", "beta": True}), "method.beta"),
        (changed(method={"name": "beta_vae", "beta": 10**400}), "method.beta"),
        (changed(method={"name": "beta_vae", "beta": float("inf")}), "method.beta"),
        (changed(method={"name": "beta_vae", "gamma": 3}), "method.gamma"),
        (changed(method={"name": "beta_tc_vae", "estimator": ["weighted"]}), "method.estimator"),
        (changed(method={"name": "beta_tc_vae", "estimator": {}}), "method.estimator"),
        (changed(method={"name": "vae_ensemble", "alignment": 1}), "method.alignment"),
        (changed(data=7), "data"),
        (changed(steps=float("nan")), "steps"),
        (changed(steps=3.0), "steps"),
        (changed(batch=True), "batch"),
        (changed(architecture=["conv"]), "architecture"),
        (changed(architecture=None), "architecture"),
        (changed(precision={}), "precision"),
        (changed(optimiser=3), "optimiser"),
        (changed(optimiser={"lr": "abc"}), "optimiser.lr"),
        (changed(optimiser={"variant": 7}), "optimiser.variant"),
        (changed(optimiser={"momentum": 0.9}), "optimiser.momentum"),
        (changed(first=3), "first"),
        (changed(first=changed(seed="7")), "first.seed"),
        (changed(first=changed(optimiser={"lr": []})), "first.optimiser.lr"),
        (changed(bacth=3), "bacth"),
        ({**changed(), 7: 3}, "7"),
    ],
)
def test_errors_in_a_config_state_the_position(plain, location):
    with pytest.raises(SchemaError) as caught:
        Config.from_dict(plain)
    assert caught.value.location == location
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("plain", "subject"),
    [
        (changed(method={"name": ["beta_vae"]}), "method"),
        (changed(method={"name": "vae_ensemble", "members": 10**12}), "members"),
        (changed(method={"name": "isa_vae", "layout": "(" * 60}), ANY),
        (changed(method={"name": "isa_vae", "layout": "1," * 10**6}), ANY),
        (changed(data=[[]]), "data"),
        (changed(data=[[7, 8]]), "data"),
        (changed(seed=-1), "seed"),
        (changed(seed=2**63), "seed"),
        (changed(steps=-1), "steps"),
        (changed(steps=10**12), "steps"),
        (changed(batch=10**12), "batch"),
        (changed(latents=10**12), "latents"),
        (changed(latents=0), "latents"),
        (changed(optimiser={"beta1": 1.0}), "beta1"),
        (changed(first=changed()), "first"),
    ],
)
def test_values_out_of_bounds_are_refused(plain, subject):
    with pytest.raises(UnweaveError, check=about(subject)) as caught:
        Config.from_dict(plain)
    assert len(str(caught.value)) < 1_000


def test_stages_end_somewhere():
    chain = Config(method=BetaVAE()).to_dict()
    second = {**chain, "method": {"name": "ms_vae"}, "architecture": "dcgan"}
    for _ in range(7):
        chain = {**second, "first": chain}
    assert len(Config.from_dict(chain).stages) == 8
    with pytest.raises(UnweaveError, check=about("stages")):
        Config.from_dict({**second, "first": chain})
    endless = {**second}
    endless["first"] = endless
    with pytest.raises(UnweaveError, check=about("stages")):
        Config.from_dict(endless)
