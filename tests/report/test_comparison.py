"""Reports agree with the study, the runs and `uw.select`."""

import dataclasses
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.report import LIMIT
from unweave.report.comparison import (
    Findings,
    Part,
    _choose,
    _compare,
    explained,
    find,
    followed,
)
from unweave.report.page import summary, write
from unweave.report.pictures import Strips, _row_labels
from unweave.report.reproduction import train_code
from unweave.report.subject import opened
from unweave.study.store import Store


@pytest.fixture(scope="module")
def found(runs, data):
    return find(opened(runs, data), progress=False)


def test_the_table_is_that_of_the_study(study):
    given = opened(study)
    pd.testing.assert_frame_equal(given.table, uw.study.load(study).table)
    assert given.title == "<script>alert(1)</script>"
    found = find(given, progress=False)
    pd.testing.assert_frame_equal(found.table[given.table.columns], given.table)


def test_runs_have_their_losses_and_saved_scores(runs, data, fleet, tmp_path):
    copy = shutil.copytree(runs, tmp_path / "runs")
    scores = uw.evaluate(copy, data, metrics=["mig", "active_units"], progress=False)
    table = opened(copy).table.set_index("run")
    pd.testing.assert_series_equal(table["mig"], scores.set_index("run")["mig"][table.index])
    run = fleet.configs[2].hash
    last = fleet[2].curve.iloc[-1]
    assert table.loc[run, "reconstruction"] == pytest.approx(last["reconstruction"])
    assert table["state"].value_counts().to_dict() == {"trained": 5, "diverged": 1}
    assert table["strength"].tolist() == [1, 1, 1, 4, 4, 4]
    assert table["seed"].tolist() == [0, 1, 2, 0, 1, 2]
    assert not [name for name in table if name.startswith("kl_")]  # KL of single latents
    assert not [name for name in opened(fleet).table if name.startswith("kl_")]


def test_a_fleet_takes_scores_of_its_own_models_only(fleet, data):
    scores = uw.evaluate(fleet, data, metrics=["mig"], progress=False)
    table = opened(fleet, data, scores=scores).table
    np.testing.assert_array_equal(table["mig"], scores["mig"])
    with pytest.raises(UnweaveError, check=about("scores")):
        opened(fleet, data, scores=scores.assign(run="other"))


def test_agreement_is_that_of_select(found, fleet, data, runs):
    (part,) = found.parts
    assert part.num_images == len(data)
    order = [fleet.configs.index(c) for c in (uw.load(runs / r).config for r in part.compared)]
    ranking = uw.select.udr(fleet, data).set_index("model").loc[order]
    np.testing.assert_allclose(part.udr.models, ranking["score"], atol=1e-5)
    np.testing.assert_allclose(found.table["udr"], ranking["score"], atol=1e-5)
    kl = uw.select.latents.latents_of(fleet, data).kl[order]
    np.testing.assert_array_equal(found.table["clear"][:4], (kl > 0.3).sum(1)[:4])
    assert np.isnan(found.table["clear"][4])
    encoded = np.where((fleet.diverged_at < 0)[:, None, None], fleet.encode(data)[0], np.nan)[
        order
    ]
    latents = uw.select.Latents(encoded, fleet.encode(data)[1][order])
    np.testing.assert_allclose(part.mcc, uw.select.mcc_pairs(latents), atol=1e-4)
    np.testing.assert_allclose(part.udr.pairs, uw.select.udr_scores(latents).pairs, atol=1e-4)
    assert str(part.agreed) == str(uw.select.consensus(fleet, data))


def test_the_front_is_that_of_the_table(found):
    costs = found.table[["reconstruction", "kl"]].to_numpy().T
    np.testing.assert_array_equal(found.table["front"], uw.select.fronts(*costs))
    assert (found.table["front"] == 1).sum() < len(found.table)


def test_summary(found):
    (part,) = found.parts
    assert summary(found, part) == (
        "6 models (1 diverged) with 2 strengths on 96 images of sprites; "
        f"{part.agreed}; chosen without labels: {found.names[part.chosen]}."
    )


def test_the_model_with_the_best_udr_is_chosen(found):
    (part,) = found.parts
    udr = found.table.set_index("run")["udr"]
    assert part.chosen == udr.idxmax()
    assert "without labels" in part.why
    assert f"(UDR {udr.max():.2f})" in part.why


def test_a_model_without_a_udr_is_not_chosen(fleet, data):
    given = opened(fleet, data)
    runs = given.table["run"].tolist()[:4]
    z = np.random.default_rng(0).normal(size=(300, 3))
    latents = uw.select.Latents(np.stack([z, -z, 2 * z, z]), kl=np.ones((4, 3)))
    part = Part("planted", [], runs, compared=runs, latents=latents)
    _compare(part)
    part.udr = dataclasses.replace(part.udr, models=np.array([np.nan, 0.1, 0.3, 0.2]))
    _choose(Findings(given, given.table, {}, [part], [], torch.device("cpu")), part)
    assert part.chosen == runs[2]
    assert "UDR 0.30" in part.why


def test_diverged_models_are_never_chosen(fleet, data):
    for alive in range(2):
        fate = np.where(np.arange(6) == alive, -1, 3)
        given = opened(dataclasses.replace(fleet, diverged_at=fate), data)
        (part,) = find(given, progress=False).parts
        assert part.chosen == fleet.configs[alive].hash
        assert part.agreed is None
    diverged = dataclasses.replace(fleet, diverged_at=np.full(6, 3))
    assert find(opened(diverged, data), progress=False).parts[0].chosen is None


def test_one_model_is_enough(fleet, data):
    (part,) = find(opened(fleet[3], data), progress=False).parts
    assert part.chosen == fleet.configs[3].hash
    assert part.agreed is None
    assert part.num_compared == 1


def test_without_images_the_table_is_still_there(runs, fleet):
    found = find(opened(runs), progress=False)
    (part,) = found.parts
    assert part.data is None
    assert "sprites" in part.missing
    assert part.chosen is None
    assert found.table["udr"].isna().all()
    assert len(found.table) == 6


def test_a_folder_with_runs_and_best_in_it(runs, data, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    worst = find(opened(runs, data), progress=False).table.sort_values("udr")["run"].iloc[0]
    shutil.copytree(runs / worst, tmp_path / "best")
    given = opened(tmp_path, data)
    assert len(given.table) == 6
    assert given.best == worst
    (part,) = find(given, progress=False).parts
    assert part.chosen == worst
    assert "best" in part.why


def test_damaged_runs_are_reported_and_the_others_compared(runs, data, tmp_path):
    copy = shutil.copytree(runs, tmp_path / "runs")
    first, second, *_ = sorted(copy.iterdir())
    (first / "config.json").write_text("{")
    (second / "weights.safetensors").write_bytes(b"broken")
    found = find(opened(copy, data), progress=False)
    assert len(found.table) == 4
    assert {run for run, state, _ in found.trouble if state == "damaged"} == {
        first.name,
        second.name,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"method": "beta_vae"},
        {"method": {"beta": 1.0}},
        {"data": [[]]},
        {"data": None},
        {"seed": "one"},
        {"latents": 5},
    ],
)
def test_invalid_settings_exclude_only_their_own_run(runs, data, tmp_path, resettled, change):
    copy = shutil.copytree(runs, tmp_path / "runs")
    folder = min(copy.iterdir())
    plain = json.loads((folder / "config.json").read_text())
    odd = resettled(folder, plain | change)
    found = find(opened(copy, data), progress=False)
    (problem,) = [error for run, _, error in found.trouble if run == odd.name]
    assert next(iter(change)) in problem or "settings" in problem
    write(found, tmp_path / "report.html", LIMIT, progress=False)


def test_settings_missing_from_older_files_have_defaults(runs, data, tmp_path, resettled):
    copy = shutil.copytree(runs, tmp_path / "runs")
    folders = sorted(copy.iterdir())
    shutil.copytree(folders[0], tmp_path / "best")
    older = []
    for folder in folders:
        plain = json.loads((folder / "config.json").read_text())
        assert plain.pop("precision") == "float32"
        older.append(resettled(folder, plain))
    given = opened(tmp_path, data)
    assert {config["precision"] for config in given.configs.values()} == {"float32"}
    assert given.best == older[0].name
    assert "precision" not in train_code(given)[0][1]


@pytest.mark.parametrize(
    "step", [["correlate", "posX"], ["explode", {}], ["slice", {"nobody": [0]}]]
)
def test_invalid_origins_are_reported(runs, tmp_path, resettled, step):
    copy = shutil.copytree(runs, tmp_path / "runs")
    for folder in sorted(copy.iterdir()):
        plain = json.loads((folder / "config.json").read_text())
        plain["data"] = [["load", "dsprites", {}], step]
        resettled(folder, plain)
    (part,) = find(opened(copy), progress=False).parts
    assert part.data is None
    assert part.missing


def test_images_of_another_size_are_not_used(runs, data, tmp_path):
    large = uw.data.load(np.zeros((4, 64, 64, 1), np.uint8), name="large")
    with pytest.raises(UnweaveError, check=about("data")):
        find(opened(runs, large), progress=False)
    both = shutil.copytree(runs, tmp_path / "runs")
    quick = {"steps": 1, "batch": 4, "latents": 4, "progress": False}
    uw.train(uw.methods.VAE(), large, seeds=2, out=both, **quick)
    found = find(opened(both, data), progress=False)
    parts = {part.name: part for part in found.parts}
    assert parts["sprites"].data is not None
    assert parts["sprites"].num_compared == 5
    for shape in ("32 × 32 × 1", "64 × 64 × 1"):
        assert shape in parts["large"].missing
    write(found, tmp_path / "report.html", LIMIT, progress=False)


def test_models_of_different_data_are_compared_separately(study, sprites):
    images, factors = sprites
    found = find(opened(study, uw.data.load(str(images), factors=factors)), progress=False)
    assert [part.name for part in found.parts] == ["sprites & <b>co</b>", "sprites"]
    assert [len(part.data) for part in found.parts] == [96, 48]
    assert [len(part.runs) for part in found.parts] == [4, 4]


def test_image_files_named_by_a_study_are_not_opened(study):
    found = find(opened(study), progress=False)
    assert [part.data for part in found.parts] == [None, None]


def test_other_data_than_for_training_is_noted(runs, data):
    images = uw.data.load(np.asarray(data[:])[:50], name="half")
    (part,) = find(opened(runs, images), progress=False).parts
    assert "half" in part.note
    assert find(opened(runs, data), progress=False).parts[0].note == ""


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_models_is_rejected(name, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnweaveError, match=name):
        uw.show.report(tmp_path / name, tmp_path / "r.html")


def test_a_study_without_a_trained_model_is_rejected(study, tmp_path):
    copy = shutil.copytree(study, tmp_path / "empty")
    (copy / "ledger.sqlite").unlink()
    Store(copy).plan(Store(copy).study)
    with pytest.raises(UnweaveError, check=about(str(copy))):
        find(opened(copy), progress=False)


def test_variance_explained_is_none_by_chance_and_all_for_a_copy():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 40, 400)
    assert explained(rng.normal(size=400), classes) < 0.05
    assert explained((classes % 7).astype(float), classes) == pytest.approx(1)
    assert explained(np.zeros(400), classes) == 0


def test_a_latent_is_named_only_if_it_follows_the_shared_factor(data):
    rng = np.random.default_rng(0)
    images = np.arange(len(data))
    x, y = data.factors(images)[:, 2:].T.astype(float)
    clear = [x + 0.1 * rng.normal(size=len(x)) for _ in range(3)]
    unclear = x + 1.3 * y  # correlates with the others, and follows y more
    means = np.stack([*clear, unclear])[..., None]
    runs = ["a", "b", "c", "d"]
    latents = uw.select.Latents(means, kl=np.ones((4, 1)), runs=runs)
    part = Part("planted", [], runs, data, compared=runs, latents=latents, images_of=images)
    part.agreed = uw.select.consensus(latents, min_correlation=0.5)
    part.follows = [followed(part, codes) for codes in part.agreed.codes.T]
    assert part.agreed.factors["found_by"].tolist() == [4]
    assert part.follows[0][0] == "x"
    strips = Strips(np.empty((1, 0)), [0], ["1.00 nats"])
    rows = [_row_labels(part, run, strips)[0] for run in runs]
    assert [(row["factor"], row["follows"]) for row in rows] == [(1, "x")] * 3 + [(1, "")]
