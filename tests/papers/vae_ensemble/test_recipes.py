"""Recipes of the VAE ensemble: studies, required columns and plots."""

from functools import cache

import pytest

from tests.raising import about
from unweave.data import DATASETS
from unweave.papers import RecipeError, find
from unweave.papers.recipe import data_file
from unweave.study.study import Study

EVERY = data_file("unweave.papers.vae_ensemble", "studies.yaml")["studies"]


@pytest.mark.parametrize(
    ("slug", "column"),
    [
        ("table-2", "within_factor_vae"),
        ("figure-2", "maps"),
        ("figure-3", "log_delta"),
        ("figure-6", "step"),
        ("figure-7", "step"),
        ("figure-8", "frobenius"),
        ("figures-9-10", "log_delta"),
        ("figure-11", "change"),
        ("figures-12-13", "change"),
    ],
)
def test_tables_without_extended_columns_are_rejected(study, slug, column):
    with pytest.raises(RecipeError, check=about(column)):
        find(f"vae-ensemble/{slug}").obtain(study[1])


@pytest.mark.parametrize(
    ("slug", "word"),
    [
        ("figure-2", "beta_vae"),
        ("figure-3", "3 members, 3 latents"),
        ("figure-6", "separate VAEs"),
        ("figure-7", "3 latents"),
        ("figure-8", "w.o. LT"),
        ("figure-11", "vae_ensemble, member 1: heart"),
    ],
)
def test_plots_are_drawn_from_the_study(study, slug, word, tmp_path):
    recipe = find(f"vae-ensemble/{slug}")
    table = recipe.extend(study[1].assign(dci=0.5), study[0])
    recipe.plot(table, tmp_path / "plot.svg")
    assert word in (tmp_path / "plot.svg").read_text()


@cache
def runs_of(scale):
    """All runs of every study at a scale, without faces, which need a download."""
    return {
        name: Study(**keys[scale]).runs()
        for name, keys in EVERY.items()
        if (scale, name) != ("paper", "colour")
    }


def names(runs):
    return {run.hash for run in runs}


def test_the_papers_study_is_18_settings_and_8_controls_of_10_seeds():
    runs = runs_of("paper")["scores"]
    assert len(names(runs)) == len(runs) == 26 * 10
    assert {run.architecture for run in runs} == {"conv4x4"}
    assert {run.steps for run in runs} == {300_000}
    ensembles = [run.method for run in runs if run.method.name == "vae_ensemble"]
    published = [m for m in ensembles if not m.stop_grad_target]
    assert {(m.members, m.gamma) for m in published} == {
        (n, g) for n in (2, 3, 4, 5) for g in (1, 5, 10)
    }
    betas = {run.method.beta for run in runs if run.method.name == "beta_vae"}
    assert betas == {4, 1 / 2, 1 / 3, 1 / 4, 1 / 5}


def kind_of(method):
    return "whole" if method.cross_reconstruction and method.alignment else "lacking"


@pytest.mark.parametrize("scale", ["smoke", "hour", "paper"])
def test_studies_of_a_scale_share_their_ensembles(scale):
    runs = runs_of(scale)
    whole = {
        run.hash
        for run in runs["scores"]
        if run.method.name == "vae_ensemble" and not run.method.stop_grad_target
    }
    ablations = [run for run in runs["ablations"] if kind_of(run.method) == "whole"]
    assert names(ablations) <= whole
    assert {run.method.gamma for run in ablations} >= {1, 10}
    beside = [run.method for run in runs["apart"] if run.hash not in whole]
    assert {m.members for m in beside} == {10}
    assert not any(m.cross_reconstruction or m.alignment or m.gamma for m in beside)
    assert len(names(runs["beyond"]) & whole) >= 1


def microseconds(run):
    """Time per step on an H200: β-VAEs take 45 µs (58 in colour), half of it to encode."""
    method = run.method
    if method.name == "factor_vae":
        return 102.4
    whole = 58.1 if "rooms3d" in str(run.data) else 45.3
    decoded = method.num_members
    if method.name == "vae_ensemble" and method.cross_reconstruction:
        decoded *= 1 + method.mapped
    return whole / 2 * (method.num_members + decoded)


def test_the_hour_trains_in_minutes_without_downloads():
    known, minutes = set(), {}
    for name, runs in runs_of("hour").items():
        new = [run for run in runs if run.hash not in known]
        minutes[name] = sum(microseconds(run) * run.steps for run in new) / 60e6
        known |= names(new)
    assert 7 < sum(minutes.values()) < 9  # of benchmarks; small fleets take half as long again
    sources = {source for keys in EVERY.values() for source in keys["hour"]["data"]}
    assert all("rendered locally" in DATASETS[name].source for name in sources)


def test_each_study_of_the_smoke_is_small():
    """Assuming 22 ms per step of a model on two cores, and 53 ms per 64 images."""
    for runs in runs_of("smoke").values():
        seconds = sum(
            (0.022 + 0.053 * run.batch / 64 * microseconds(run) / 45.3) * run.steps for run in runs
        )
        assert seconds < 250
