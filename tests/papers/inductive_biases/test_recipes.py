"""The recipes of inductive biases on planted tables, and on a very small run of everything."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unweave.papers import find
from unweave.papers.inductive_biases import figures
from unweave.papers.inductive_biases.manipulation import Manipulation
from unweave.papers.inductive_biases.polar import in_polar, separated
from unweave.papers.inductive_biases.studies import (
    DIRECTIONS,
    FILE,
    IMAGES,
    SCALES,
    STRENGTHS,
    Base,
    examples,
)
from unweave.papers.running import make

VARIATIONAL = ("beta_vae", "factor_vae", "beta_tc_vae", "slow_vae")


def planted(drop=0.2, by_noise=0.05, pcl=0.0, base="rooms3d", seeds=3):
    """A table in which the change costs variational methods so much, and PCL another amount."""
    rows = []
    for method in (*VARIATIONAL, "pcl", "ae"):
        lost = {"modified": pcl if method == "pcl" else drop, "noise": by_noise, "original": 0.0}
        for images in IMAGES:
            for seed in range(seeds):
                score = 0.5 - lost[images] + 0.01 * seed
                rows.append(
                    {
                        "run": f"{method}-{images}-{seed}",
                        "base": base,
                        "method": method,
                        "images": images,
                        "seed": seed,
                        "factor": 1.0,
                        "active": 6,
                        "over_pruned": False,
                        **dict.fromkeys(("mig", "dci", "factor_vae", "sap"), score),
                        "gap_0": score,
                        "gap_1": 0.2 if images == "original" else 0.3,
                    }
                )
    return pd.DataFrame(rows)


def test_rooms_are_compared_with_published_shapes3d_scores():
    frame = find("inductive-biases/table-2").obtain(planted())
    cells = frame[frame["data"] == "shapes3d"].set_index(["method", "images"])
    assert cells.loc[("beta_vae", "original"), ["published", "obtained"]].tolist() == [0.73, 0.51]
    assert cells.loc[("beta_vae", "modified"), "obtained"] == pytest.approx(0.31)
    assert cells.loc[("pcl", "noise"), "seeds"] == 3
    assert cells.loc[("pcl", "noise"), "deviation"] == pytest.approx(0.01)
    assert frame[frame["data"] == "dsprites"]["obtained"].isna().all()


def test_the_verdict_counts_methods_below_original_and_noise():
    recipe = find("inductive-biases/table-3")
    below, change = recipe.verdict(recipe.obtain(planted()))
    assert below.endswith(", shapes3d: holds for 4 of 4 variational methods.")
    assert "variational methods, modified -0.2; pcl, modified " in change
    assert change.endswith("pcl, noise -0.05.")
    weak = recipe.verdict(recipe.obtain(planted(drop=0.02)))
    assert weak[0].endswith(": holds for 0 of 4 variational methods.")
    hurt = recipe.verdict(recipe.obtain(planted(pcl=0.3)))
    assert "pcl, modified -0.3;" in hurt[1]
    assert recipe.verdict(recipe.obtain(planted()[:0])) == ["There is nothing to compare."]


def test_over_pruned_runs_count_in_tables_and_not_in_the_line_search():
    table = planted(seeds=2)
    names = ["beta_vae-modified-0", "pcl-modified-0", "slow_vae-original-1"]
    table["over_pruned"] = table["run"].isin(names)
    table.loc[table["run"] == "slow_vae-noise-1", "factor"] = 1.5
    assert set(table["run"]) - set(figures.at_published_strength(table)["run"]) == {
        "slow_vae-noise-1"
    }
    recipe = find("inductive-biases/table-2")
    frame = recipe.obtain(table)
    cells = frame[frame["seeds"] > 0].set_index(["method", "images"])
    assert cells.loc[("beta_vae", "modified"), ["seeds", "pruned"]].tolist() == [2, 1]
    assert cells["pruned"].sum() == 2  # PCL has no noise to prune by
    assert recipe.verdict(frame)[-1].endswith(": holds for 2 of 23 models.")
    lost = set(table["run"]) - set(figures.searched(table)["run"])
    assert "slow_vae-original-1" in lost
    assert "slow_vae-original-0" not in lost


def test_figures_report_ranges_of_scores():
    table = planted()
    histogram, gaps = find("inductive-biases/figure-2"), find("inductive-biases/figure-3")
    models = histogram.obtain(table)
    assert models.groupby("method").size().to_dict() == dict.fromkeys(VARIATIONAL, 3)
    assert sorted(models["obtained"])[::11] == pytest.approx([0.3, 0.32])
    said = histogram.verdict(models)
    assert len(said) == 4
    assert said[0].endswith("beta_vae: min obtained 0.3; max obtained 0.32.")
    means = gaps.obtain(table).set_index("factor")
    assert means.loc["gap_1", ["original", "obtained"]].tolist() == pytest.approx([0.2, 0.3])
    (falls,) = gaps.verdict(gaps.obtain(table))
    assert falls.endswith(": holds for 1 of 2 factors.")


def test_figures_4_to_6_find_the_best_strengths_and_where_modified_images_score_less():
    table, recipe = planted(), find("inductive-biases/figures-4-6")
    searched = pd.concat(
        [table.assign(factor=f, dci=table["dci"] - abs(f - 1.25)) for f in (1.0, 1.25)]
    )
    frame = recipe.obtain(searched)
    best = frame[frame["best"] & frame["metric"].eq("dci")].set_index("method")["factor"]
    assert best.to_dict() == dict.fromkeys(VARIATIONAL, 1.25)
    assert [said.split(": ")[1] for said in recipe.verdict(frame)[:3]] == [
        "holds for 8 of 8 strengths."
    ] * 3
    better = searched["factor"].eq(1.25) & searched["images"].eq("modified")
    searched.loc[better, "sap"] += 0.3
    assert recipe.verdict(recipe.obtain(searched))[2].endswith("sap: holds for 4 of 8 strengths.")


def test_figures_of_shapes3d_do_not_mix_it_with_sprites():
    rooms, sprites = planted(), planted(drop=-0.2, base="dsprites").assign(factor=1.5)
    both = pd.concat([rooms, sprites.assign(gap_0=0.9)])
    for obtain in (figures.obtain_2, figures.obtain_3, figures.obtain_4_6):
        assert obtain(both).equals(obtain(rooms))
    alone = figures.obtain_2(sprites.assign(factor=1.0))
    assert (alone["obtained"].min(), alone["obtained"].max()) == pytest.approx((0.7, 0.72))


def test_separate_and_polar_encodings_are_distinguished():
    turn, along = np.indices((12, 7)).reshape(2, -1)
    at = 2 * np.pi * (turn / 12) + 1.0
    polar = (2 + along)[:, None] * np.stack([np.cos(at), -np.sin(at)], 1)
    straight = np.stack([along, -turn], 1).astype(float)
    assert in_polar(polar, turn / 12, along) == pytest.approx((1.0, 1.0), abs=0.01)
    assert separated(straight, turn, along) == pytest.approx(1.0)
    assert separated(polar, turn, along) < 0.5
    angle, radius = in_polar(straight - straight.mean(0), turn / 12, along)
    assert angle < 0.9
    assert radius < 0.3
    rows = [
        {"base": "rooms3d", "kind": kind, "separated": separated(codes, turn, along), **shares}
        for kind, codes in (("disentangled", straight), ("entangled", polar))
        for shares in [
            dict(zip(("angle", "radius"), in_polar(codes, turn / 12, along), strict=True))
        ]
    ]
    assert (
        find("inductive-biases/figures-7-8").obtain(pd.DataFrame(rows))["obtained"] == "holds"
    ).all()
    turned = [
        {**row, "kind": "entangled" if row["kind"][0] == "d" else "disentangled"} for row in rows
    ]
    assert (
        find("inductive-biases/figures-7-8").obtain(pd.DataFrame(turned))["obtained"]
        == "does not hold"
    ).all()


def test_strengths_are_those_of_the_supplement():
    published = find("inductive-biases/table-1").published()
    cells = published.set_index(["method", "data"])["published"]
    for (word, data), value in cells.items():
        assert STRENGTHS[data][word.split()[0]] == value
    assert set(SCALES["paper"]["bases"]) == {"dsprites", "shapes3d"}
    assert SCALES["paper"]["seeds"] == SCALES["paper"]["restarts"] == 10


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All of it with three steps of everything, on 48 images."""
    folder = tmp_path_factory.mktemp("biases")
    recipe = find("inductive-biases/table-2")
    change = {**SCALES["smoke"]["change"], "steps": 2}
    corners = {**SCALES["smoke"]["bases"]["dsprites"], "posX": [0, 31], "posY": [0, 31]}
    quick = {**SCALES["smoke"], "steps": 3, "change": change, "bases": {"dsprites": corners}}
    tiny = type(recipe)(**{**vars(recipe), "settings": {"smoke": quick}})
    return make(tiny, "smoke", folder), folder, quick


def test_everything_is_trained_on_three_kinds_of_images(everything):
    table, folder, _ = everything
    assert sorted(table["images"].unique()) == sorted(IMAGES)
    assert table.groupby("images")["method"].nunique().tolist() == [6, 6, 6]
    assert table["factor"].eq(1).all()
    assert table["run"].is_unique
    assert (folder / "modified-dsprites.safetensors").exists()
    assert table[["mig", "dci", "factor_vae", "sap", "active"]].notna().all(axis=None)
    gaps = table[[name for name in table if name.startswith("gap_")]]
    assert gaps.shape[1] == 5
    assert gaps[table["method"] == "beta_vae"].notna().all(axis=None)
    assert gaps[table["method"] != "beta_vae"].isna().all(axis=None)
    for slug in ("table-2", "figure-2", "figure-3", "figures-4-6"):
        recipe = find(f"inductive-biases/{slug}")
        recipe.plot(table, folder / f"{slug}.svg")
        assert "<svg" in (folder / f"{slug}.svg").read_text()
        assert recipe.verdict(recipe.obtain(table))


def base(name, folder=Path("nowhere")):
    return Base(name=name, classes={}, folder=folder, steps=3, settings={})


def test_strengths_are_searched_on_original_and_modified_images(tmp_path):
    searched, noisy = base("rooms3d", tmp_path).studies(2, [0.5, 1.0, 1.5])
    assert [source["name"] for source in searched.data] == ["original", "modified"]
    assert [source["name"] for source in noisy.data] == ["noise"]
    assert searched.methods["beta_vae"] == {"beta": [3, 6, 9]}
    assert searched.methods["factor_vae"] == {"gamma": [3.5, 7, 10.5]}
    assert noisy.methods["beta_vae"] == {"beta": [6]}
    for study in (searched, noisy):
        assert set(study.methods) == {*VARIATIONAL, "pcl", "ae"}
        assert study.methods["pcl"] == study.methods["ae"] == {}


def test_strengths_are_multiples_of_the_usual_ones():
    methods = pd.Series(["beta_vae", "factor_vae", "pcl"])
    found = base("rooms3d").factors(methods, pd.Series([9.0, 3.5, np.nan]))
    assert found.tolist() == [1.5, 0.5, 1.0]


def test_examples_are_drawn_without_training_again(everything):
    _, folder, quick = everything
    recipe = find("inductive-biases/figures-7-8")
    again = type(recipe)(**{**vars(recipe), "settings": {"smoke": quick}})
    before = {path.name for path in (folder / "runs").iterdir()}
    table = make(again, "smoke", folder)
    assert {path.name for path in (folder / "runs").iterdir()} == before
    assert table["kind"].tolist() == ["disentangled", "entangled"]
    assert table[["separated", "angle", "radius"]].apply(lambda c: c.between(0, 1)).all(axis=None)
    recipe.plot(table, folder / "seven.svg")
    assert (folder / "seven.svg").read_text().count("<image") == 2


def test_the_change_is_learned_from_models_or_from_images_alone(everything, tmp_path):
    _, folder, quick = everything
    name = FILE.format(base="dsprites")
    assert list(Manipulation.load(folder / name).curve)[-1] == "difference"
    shutil.copytree(folder, tmp_path / "copy")
    change = {**quick["change"], "by": DIRECTIONS}
    examples(tmp_path / "copy", **{**quick, "change": change})
    curve = Manipulation.load(tmp_path / "copy" / name).curve
    assert list(curve) == ["step", "excess"]
    assert len(curve) == 3


def test_latents_are_as_many_as_varying_factors():
    found = [
        replace(base(name), classes=classes).latents
        for scale in ("smoke", "hour", "paper")
        for name, classes in SCALES[scale]["bases"].items()
    ]
    assert found == [5, 4, 5, 6]
