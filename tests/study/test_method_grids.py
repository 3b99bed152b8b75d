"""Entries of a study: their own settings, and second stages with first-stage models."""

import shutil

import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.study import Study, load, run
from unweave.study.local import LocalRunner
from unweave.study.method_grids import check_settings
from unweave.study.running import prepare
from unweave.study.training import RunOptions

SLICE = {"shape": 0, "scale": 5, "orientation": 0, "posX": [0, 10, 20, 31], "posY": [0, 15, 31]}
SPRITES = {"load": "dsprites", "slice": SLICE}
SMALL = {"architecture": "small_dcgan"}
SECOND = {"architecture": "small_dcgan", "latents": 2}


def study(methods, **keys):
    settings = {"batch": 4, **keys.pop("settings", {})}
    return Study(
        data=[SPRITES], methods=methods, steps=3, metrics=["mig"], settings=settings, **keys
    )


def go(of, folder, **options):
    return run(of, folder, progress=False, scorers=0, **options)


def test_an_entry_may_override_settings_and_steps():
    grids = [{"beta": [1, 4]}, {"beta": 4, "steps": 7, "settings": {"latents": [3, 5]}}]
    runs = study({"beta_vae": grids}, seeds=2).runs()
    found = [(r.method.beta, r.latents, r.steps, r.seed) for r in runs]
    assert found == [
        *((beta, 10, 3, seed) for beta in (1, 4) for seed in (0, 1)),
        *((4, latents, 7, seed) for latents in (3, 5) for seed in (0, 1)),
    ]
    assert {r.batch for r in runs} == {4}


def test_a_second_stage_has_one_run_per_base_model():
    grids = {
        "beta_tc_vae": [{"beta": [1, 4]}, {"beta": 4, "settings": {"latents": 12}}],
        "ms_vae": {"first": "beta-tc-vae", "beta": [1, 2], "settings": SECOND},
    }
    of = study(grids, seeds=2, settings={"architecture": "conv4x4", "latents": 6})
    second = [r for r in of.runs() if r.method.name == "ms_vae"]
    found = [(r.method.beta, r.first.method.beta, r.seed, r.first.seed) for r in second]
    assert found == [(z, c, s, s) for z in (1, 2) for c in (1, 4) for s in (0, 1)]
    assert {r.first.latents for r in second} == {6}
    assert {(r.architecture, r.first.architecture) for r in second} == {("small_dcgan", "conv4x4")}
    assert Study.from_dict(of.to_dict()).runs() == of.runs()


def test_base_models_of_a_second_stage_are_trained_once():
    first = {"beta_vae": {"beta": 4, "settings": {"latents": 5}}}
    grids = {
        "ms_vae": [
            {"first": first, "settings": SECOND},
            {"first": first, "condition": "code", "settings": SECOND},
            {"first": {"beta_vae": {"beta": 4, "steps": 0}}, "together": True, "settings": SECOND},
        ]
    }
    runs = study(grids).runs()
    assert [r.method.name for r in runs].count("beta_vae") == 2
    assert [r.method.name for r in runs].count("ms_vae") == 3
    assert len({r.hash for r in runs}) == 5


def test_stages_are_trained_in_order(tmp_path):
    grids = {
        "ms_vae": {"first": {"beta_tc_vae": {"beta": [1, 4]}}, "settings": SECOND},
    }
    table = go(study(grids, seeds=2), tmp_path).table
    assert table["state"].tolist() == ["scored"] * 8
    second = table[table["method"] == "ms_vae"]
    assert set(second["first"]) == set(table.loc[table["method"] == "beta_tc_vae", "run"])
    for row in second.itertuples():
        model, below = (uw.load(tmp_path / "runs" / name) for name in (row.run, row.first))
        assert torch.equal(model.parameters["first/encoder"], below.parameters["encoder"])


def test_a_second_stage_waits_for_its_base_model(tmp_path):
    grids = {"ms_vae": {"first": {"beta_tc_vae": {"beta": [1, 4]}}, "settings": SECOND}}
    prepare(store := load_store(tmp_path), study(grids))
    work = LocalRunner(store, RunOptions(scorers=0))
    claimed = work.claims.next_fleet()
    assert [config.method.name for config in claimed] == ["beta_tc_vae"] * 2
    assert work.claims.next_fleet() == []
    work._train(claimed)
    assert [config.method.name for config in work.claims.next_fleet()] == ["ms_vae"] * 2


def test_a_base_model_without_a_folder_is_trained_again(tmp_path):
    grids = {"ms_vae": {"first": {"beta_tc_vae": {"beta": 1}}, "settings": SECOND}}
    prepare(store := load_store(tmp_path), study(grids))
    work = LocalRunner(store, RunOptions(scorers=0))
    (first,) = claimed = work.claims.next_fleet()
    work._train(claimed)
    shutil.rmtree(tmp_path / "runs" / first.hash)
    again = LocalRunner(store, RunOptions(scorers=0))
    assert again.claims.next_fleet() == []
    assert [config.hash for config in again.claims.next_fleet()] == [first.hash]


def test_a_base_model_that_cannot_be_scored_can_be_used(tmp_path):
    told = {"from_factors": {"told": "posX", "settings": {"latents": 1, **SMALL}}}
    grids = {"ms_gan": {"first": told, "settings": SECOND}}
    results = go(study(grids), tmp_path)
    assert sorted(results.store.ledger.states().values()) == ["failed", "failed"]
    assert len(list((tmp_path / "runs").glob("[!.]*"))) == 2


def load_store(folder):
    from unweave.study.store import Store

    return Store(folder)


def test_a_diverged_base_model_fails_only_its_own_second_stage(tmp_path):
    worse = {"settings": {"optimiser": {"lr": 1e30}}}
    grids = {
        "ms_vae": [
            {"first": {"beta_vae": {"beta": 4, **worse}}, "settings": SECOND},
            {"first": {"beta_vae": {"beta": 1}}, "settings": SECOND},
        ]
    }
    results = go(study(grids), tmp_path)
    assert results.counts["failed"] == 1
    found = results.table.set_index(["method", "state"]).index.tolist()
    assert sorted(found) == [
        ("beta_vae", "diverged"),
        ("beta_vae", "scored"),
        ("ms_vae", "scored"),
    ]


@pytest.mark.parametrize(
    ("methods", "subject", "value"),
    [
        ({"ms_vae": {}}, "methods.ms_vae.first", None),
        ({"ms_vae": {"first": "vae"}}, "methods.ms_vae.first", "vae"),
        ({"ms_vae": {"first": 3}}, "methods.ms_vae.first", 3),
        ({"vae": {"settings": {"steps": 3}}}, "setting", "steps"),
        ({"vae": {"beta": 3}}, "setting of vae", "beta"),
        ({"vae": {"settings": {"latents": []}}}, "methods.vae.settings.latents", None),
    ],
)
def test_invalid_grids_are_rejected(methods, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        study(methods)


def test_only_second_stages_have_base_models():
    with pytest.raises(UnweaveError, match="beta_vae"):
        study({"vae": {}, "beta_vae": {"first": "vae"}})


def test_another_worker_sees_the_same_order(tmp_path):
    """While the first-stage model trains, a second worker finds no runs but does not stop."""
    grids = {"ms_vae": {"first": {"beta_tc_vae": {"beta": 1}}, "settings": SECOND}}
    prepare(store := load_store(tmp_path), study(grids))
    LocalRunner(store, RunOptions(scorers=0)).claims.next_fleet()
    other = LocalRunner(load_store(tmp_path), RunOptions(scorers=0))
    assert other.claims.next_fleet() == []
    assert other.ledger.busy()
    assert load(tmp_path).counts["planned"] >= 1


def test_learning_rate_sets_the_optimiser():
    short = check_settings({"learning_rate": [1e-3, 1e-4]})
    assert short == check_settings({"optimiser": [{"lr": 1e-3}, {"lr": 1e-4}]})
    both = check_settings({"learning_rate": 1e-3, "optimiser": {"beta1": 0.5}})
    assert both == {"optimiser": [uw.Adam(lr=1e-3, beta1=0.5)]}
