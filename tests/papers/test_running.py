"""Running recipes: shared folders and saved files."""

import pandas as pd
import pytest

import unweave as uw
from tests.raising import about
from unweave.papers import RecipeError, find
from unweave.papers.running import compare, default_folder
from unweave.study.study import Study

FEW = {"load": "dsprites", "slice": {"shape": 0, "scale": 5, "orientation": 0}}


def run(folder, *metrics):
    study = Study(
        name="tiny",
        data=[FEW],
        methods={"beta_vae": {"beta": [1, 4]}},
        steps=2,
        metrics=metrics,
        settings={"batch": 8},
    )
    return uw.study.run(study, folder, progress=False).table


def test_a_second_recipe_trains_nothing_and_adds_its_metric(tmp_path):
    first = run(tmp_path, "mig")
    weights = sorted(tmp_path.glob("runs/*/weights.safetensors"))
    written = [file.stat().st_mtime_ns for file in weights]
    assert len(weights) == 2
    second = run(tmp_path, "mig", "sap")
    assert [file.stat().st_mtime_ns for file in weights] == written
    assert second["sap"].notna().all()
    pd.testing.assert_series_equal(first["mig"], second["mig"])
    third = run(tmp_path, "mig")
    pd.testing.assert_series_equal(first["mig"], third["mig"])


def test_the_comparison_and_the_plot_are_saved(made, tmp_path):
    recipe = find("common-assumptions/transfer")
    table = made(("dsprites", "cars3d"))
    for _ in range(2):  # the second call overwrites the first
        found = compare(recipe, table, tmp_path)
    assert [file.name for file in found.files] == ["transfer.csv", "transfer.svg"]
    saved = pd.read_csv(found.files[0])
    assert saved["published"].tolist() == [0.807, 0.593, 0.549]
    assert saved["obtained"].tolist() == pytest.approx(found.frame["obtained"].tolist())
    assert found.files[1].stat().st_size > 1000
    assert sorted(file.name for file in tmp_path.iterdir()) == ["transfer.csv", "transfer.svg"]


def test_recipes_for_reference_cannot_be_compared(tmp_path):
    with pytest.raises(RecipeError, check=about("vae-ensemble/tables-3-4")):
        compare(find("vae-ensemble/tables-3-4"), pd.DataFrame(), tmp_path)


def test_recipes_of_a_paper_share_a_folder():
    one = default_folder(find("common-assumptions/transfer"), "smoke")
    other = default_folder(find("common-assumptions/downstream-efficiency"), "smoke")
    assert str(one) == str(other) == "reproduce/common-assumptions-smoke"
