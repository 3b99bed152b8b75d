"""Configs: equal runs have equal names, and nothing unknown gets in."""

import json

import pytest

from unweave.errors import UnknownNameError, UnweaveError
from unweave.fleet.config import Config
from unweave.methods import METHODS, BetaTCVAE, BetaVAE
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
