"""Names of models and explanations of columns."""

import pytest

from unweave.methods import EVERY, BetaVAE
from unweave.metrics import METRICS
from unweave.report import labels


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_explained(name):
    found = labels.meaning(name)
    assert found.says.endswith(("?", "."))
    assert len(found.says) > 30
    assert found.fails == METRICS[name].failure
    assert (
        found.better == {True: "higher", False: "lower", None: ""}[METRICS[name].higher_is_better]
    )


def test_every_method_has_a_label_of_its_own():
    methods = {name: kind.label for name, kind in EVERY.items()}
    assert len(set(methods.values())) == len(methods)
    assert not [name for name, label in methods.items() if "_" in label]


def test_a_method_without_a_label_goes_by_its_name():
    class Heavier(BetaVAE):
        name = "heavier"

    assert Heavier.label == "heavier"
    assert Heavier.symbol("beta") == "β"


def test_symbols_are_those_of_the_method():
    assert labels.setting("method.rate", 6.0, "slow_vae") == "λ=6"
    assert labels.setting("method.lambda_od", 5.0, "dip_vae_i") == "λ_od=5"
    assert labels.setting("first.method.c_max", 25.0, "annealed_vae") == "first C=25"
    assert labels.symbol("c_max", ["vae", "annealed_vae"]) == "C"
    assert labels.symbol("gamma", ["nobody.knows:It"]) == "γ"


def test_names_say_what_differs_and_nothing_else():
    def config(beta, seed, lr=1e-4, alpha=1.0):
        method = {"name": "beta_tc_vae", "alpha": alpha, "beta": beta, "gamma": 1.0}
        return {"method": method, "data": [], "seed": seed, "optimiser": {"lr": lr}}

    names = labels.model_names({"a": config(4.0, 0), "b": config(4.0, 1)})
    assert list(names.values()) == ["β-TCVAE β=4, seed 0", "β-TCVAE β=4, seed 1"]
    names = labels.model_names({"a": config(4.0, 0), "b": config(16.0, 0, lr=1e-3)})
    assert list(names.values()) == [
        "β-TCVAE β=4 lr=0.0001, seed 0",
        "β-TCVAE β=16 lr=0.001, seed 0",
    ]
    names = labels.model_names({"a": config(4.0, 0), "b": config(4.0, 0, alpha=2.0)})
    assert list(names.values()) == ["β-TCVAE α=1, seed 0", "β-TCVAE α=2, seed 0"]


def test_an_unknown_column_has_no_meaning():
    assert labels.meaning("nobody_knows") is None
    assert labels.meaning("dci.completeness") is None
    assert labels.meaning("sampled.mig").name == "MIG"
