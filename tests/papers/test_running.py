"""Running recipes: one folder of runs for all of a paper, and what is saved."""

import pandas as pd
import pytest

from unweave.papers import RecipeError, find
from unweave.papers.running import compare, default_folder, train
from unweave.study.study import Study

FEW = {"load": "dsprites", "slice": {"shape": 0, "scale": 5, "orientation": 0}}


def tiny(*metrics):
    return Study(
        name="tiny",
        data=[FEW],
        methods={"beta_vae": {"beta": [1, 4]}},
        steps=2,
        metrics=metrics,
        settings={"batch": 8},
    )


def test_a_second_recipe_trains_nothing_and_adds_its_metric(tmp_path):
    first = train(tiny("mig"), tmp_path, progress=False)
    weights = sorted(tmp_path.glob("runs/*/weights.safetensors"))
    written = [file.stat().st_mtime_ns for file in weights]
    assert len(weights) == 2
    second = train(tiny("mig", "sap"), tmp_path, progress=False)
    assert [file.stat().st_mtime_ns for file in weights] == written
    assert second["sap"].notna().all()
    pd.testing.assert_series_equal(first["mig"], second["mig"])
    third = train(tiny("mig"), tmp_path, progress=False)
    pd.testing.assert_series_equal(first["mig"], third["mig"])


def test_the_comparison_and_the_plot_are_saved(made, tmp_path):
    recipe = find("common-assumptions/transfer")
    table = made(("dsprites", "cars3d"))
    for _ in range(2):  # the second time in place of the first
        found = compare(recipe, table, tmp_path)
    assert [file.name for file in found.files] == ["transfer.csv", "transfer.svg"]
    saved = pd.read_csv(found.files[0])
    assert saved["published"].tolist() == [0.807, 0.593, 0.549]
    assert saved["obtained"].tolist() == pytest.approx(found.frame["obtained"].tolist())
    assert found.files[1].stat().st_size > 1000
    assert sorted(file.name for file in tmp_path.iterdir()) == ["transfer.csv", "transfer.svg"]


def test_what_is_for_reference_has_nothing_to_compare(tmp_path):
    with pytest.raises(RecipeError, match="there is nothing to obtain"):
        compare(find("vae-ensemble/tables-3-4"), pd.DataFrame(), tmp_path)


def test_recipes_of_a_paper_share_a_folder():
    one = default_folder(find("common-assumptions/transfer"), "smoke")
    other = default_folder(find("common-assumptions/downstream-efficiency"), "smoke")
    assert str(one) == str(other) == "reproduce/common-assumptions-smoke"
