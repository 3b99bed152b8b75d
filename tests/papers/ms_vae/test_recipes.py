"""The recipes of MS-VAE on planted tables, and on one small study of two stages."""

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.data.dataset import Dataset
from unweave.papers import find
from unweave.papers.ms_vae import conditioning, pictures, scores, variants
from unweave.papers.ms_vae.scores import arranged, measured, predicted
from unweave.papers.recipe import RecipeError
from unweave.study import Study, run
from unweave.study.store import Store

BETAS = (1.0, 4.0, 10.0)
DISTANCES = {"beta_tc_vae": 100, "large": 90, "big": 80, "vae": 60, "ms_vae": 50, "jacobian": 70}


def row(run, method, beta, seed, **more):
    usual = {"architecture": "conv", "latents": 10, "state": "scored", "data": "cars3d"}
    return {"run": run, "method": method, "strength": beta, "seed": seed, **usual, **more}


def planted(distances=None, mig=0.01, seeds=2, data="cars3d"):
    """A study in which FID is as said, falls with seeds, and the MIG of C rises with β."""
    fid, rows = {**DISTANCES, **(distances or {})}, []
    for seed in range(seeds):
        for beta in BETAS:
            name = f"{beta:g}-{seed}"
            of_c = {"mig": 0.1 + mig * beta, "data": data}
            first = row(f"tc-{name}", "beta_tc_vae", beta, seed, fid=fid["beta_tc_vae"], **of_c)
            large = {"mig": 0.05, "latents": 15, "data": data}
            big = {**large, "architecture": "big_conv"}
            second = {"first": f"tc-{name}", "mig": 0.9, "data": data, "latents": 5}
            rows += [
                first,
                row(f"l-{name}", "beta_tc_vae", beta, seed, fid=fid["large"], **large),
                row(f"b-{name}", "beta_tc_vae", beta, seed, fid=fid["big"], **big),
                row(f"ms-{name}", "ms_vae", 1.0, seed, fid=fid["ms_vae"] - seed, **second),
            ]
            if beta != 4:
                student = {**second, "mig": 0.12 + mig * beta}
                rows.append(
                    row(f"j-{name}", "jacobian", np.nan, seed, fid=fid["jacobian"], **student)
                )
        rows.append(row(f"v-{seed}", "vae", np.nan, seed, fid=fid["vae"], **big))
    table = pd.DataFrame(rows)
    return table.assign(
        **{"pixel_error.l1": table["fid"] / 1000 + 0.1, "pixel_error.l2": table["fid"] / 1e4 + 0.1}
    )


def obtain(slug, table):
    return find(f"ms-vae/{slug}").obtain(table)


def outcomes(frame, slug, claim):
    recipe = find(f"ms-vae/{slug}")
    text = (recipe.claims | recipe.controls)[claim]
    rows = frame[(frame["claim"] == text) & frame["obtained"].notna()]
    return (rows["obtained"] == "holds").tolist()


def test_models_have_their_kind_and_the_beta_of_their_first_stage():
    rows = arranged(planted()).set_index("run")
    assert rows.loc[["tc-4-0", "l-4-0", "b-4-0", "v-0", "ms-4-0", "j-10-1"], "kind"].tolist() == [
        "beta_tc_vae",
        "beta_tc_vae_l",
        "big_beta_tc_vae",
        "big_vae",
        "ms_vae",
        "jacobian",
    ]
    assert rows.loc["ms-4-0", "beta"] == 4
    assert rows.loc["ms-4-0", "c_mig"] == pytest.approx(0.14)
    assert rows.loc["v-0", "beta"] == 1
    lost = planted().assign(state="failed")
    with pytest.raises(RecipeError, check=about("state", ("ms_vae",))):
        arranged(lost)


def test_a_failed_first_stage_still_gives_its_beta():
    table = planted()
    table.loc[table["run"] == "tc-10-0", "state"] = "failed"
    rows = arranged(table).set_index("run")
    assert "tc-10-0" not in rows.index
    assert rows.loc["ms-10-0", "beta"] == 10
    assert rows.loc["ms-10-0", "c_mig"] == pytest.approx(0.2)
    assert rows.loc["j-10-0", "beta"] == 10


def test_replacements_of_data_sets_are_reported():
    recipe = find("ms-vae/figure-4")
    said = " ".join(recipe.verdict(recipe.obtain(planted())))
    assert "stands in" not in said
    other = " ".join(recipe.verdict(recipe.obtain(planted(data="rooms3d"))))
    assert "rooms3d stands in for Cars3D and SmallNORB." in other


def test_table_1_compares_at_the_largest_beta_by_the_mig_of_c():
    frame = scores.obtain_table_1(planted())
    cars = frame[(frame["data"] == "cars3d")].set_index(["metric", "method"])
    assert cars.loc[("fid", "ms_vae"), "obtained"] == pytest.approx(49.5)
    assert cars.loc[("fid", "big_beta_tc_vae"), "obtained"] == 80
    assert cars.loc[("mig", "ms_vae"), "obtained"] == pytest.approx(0.2)
    assert cars.loc[("fid", "ms_vae"), "published"] == 22.72
    recipe = find("ms-vae/table-1")
    said = recipe.verdict(frame)
    assert [sentence.rpartition(", ")[2] for sentence in said] == [
        "cars3d: holds for 1 of 1 data sets."
    ] * 2
    worse = recipe.verdict(scores.obtain_table_1(planted({"big": 10})))
    assert worse[0].endswith("cars3d: holds for 0 of 1 data sets.")
    other = scores.obtain_table_1(planted(data="rooms3d"))
    assert other[other["data"] == "rooms3d"]["published"].isna().all()
    assert other[other["data"] == "cars3d"]["obtained"].isna().all()


def test_figure_4_judges_every_beta_and_kind():
    frame = obtain("figure-4", planted())
    assert outcomes(frame, "figure-4", "below_first") == [True] * 6
    assert outcomes(frame, "figure-4", "below_student") == [True] * 2
    assert outcomes(frame, "figure-4", "below_big") == [True]
    assert outcomes(frame, "figure-4", "rises") == [True]
    assert outcomes(frame, "figure-4", "falls") == []
    assert outcomes(frame, "figure-4", "above_large") == [True] * 3
    assert outcomes(frame, "figure-4", "like_teacher") == [True] * 2
    worse = obtain("figure-4", planted({"large": 40, "jacobian": 45, "vae": 30}, mig=-0.009))
    assert outcomes(worse, "figure-4", "below_first") == [True] * 3 + [False] * 3
    assert outcomes(worse, "figure-4", "below_student") == [False] * 2
    assert outcomes(worse, "figure-4", "below_big") == [False]
    assert outcomes(worse, "figure-4", "rises") == [False]
    norb = obtain("figure-4", planted(mig=-0.009, data="smallnorb"))
    assert outcomes(norb, "figure-4", "falls") == [True]
    assert outcomes(norb, "figure-4", "rises") == []


def test_errors_are_compared_with_what_the_fid_gains():
    frame = obtain("figures-34-35", planted())
    assert outcomes(frame, "figures-34-35", "slightly") == [True] * 6
    assert outcomes(frame, "figures-34-35", "less_than_fid") == [True] * 6
    assert frame[frame["obtained"].notna()]["published"].isna().all()
    worse = obtain("figures-34-35", planted({"ms_vae": 120}, data="smallnorb"))
    assert outcomes(worse, "figures-34-35", "slightly") == [False] * 6
    assert (worse[worse["published"].notna()]["by"].tolist()) == ["L1"] * 3 + ["L2"] * 3


def test_figure_5_checks_the_order_of_the_four_terms():
    terms = {"m1": [0.6, 0.5, 0.4], "m2": 0.7, "m3": [0.5, 0.4, 0.3], "m4": 0.1}
    table = pd.DataFrame({"data": "cars3d", "beta": BETAS, **terms})
    frame = obtain("figure-5", table)
    assert (frame["obtained"] == "holds").all()
    assert len(frame) == 10
    wrong = obtain("figure-5", table.assign(m4=0.2, m2=[0.5, 0.6, 0.3]))
    assert outcomes(wrong, "figure-5", "x_above_y") == [False, True, False]
    assert outcomes(wrong, "figure-5", "random_z_above_random_y") == [True, False, False]
    dropping = obtain("figure-5", table.assign(m3=[0.5, 0.4, 0.15]))
    assert outcomes(dropping, "figure-5", "follows") == [False]


def test_figure_6_compares_accuracies_of_each_factor():
    rows = [
        {"data": "cars3d", "factor": factor, "beta": beta, "c": c, "z": z, "both": both}
        for factor, both in (("azimuth", 0.9), ("car", 0.5))
        for beta, c, z in ((1.0, 0.8, 0.3), (10.0, 0.6, 0.6))
    ]
    frame = obtain("figure-6", pd.DataFrame(rows))
    assert outcomes(frame, "figure-6", "both_best") == [True, True, False, False]
    assert outcomes(frame, "figure-6", "c_falls") == [True]
    assert outcomes(frame, "figure-6", "z_rises") == [True]


def test_sizes_are_ranked_among_all():
    table = pd.DataFrame({"data": "cars3d", "size": [2, 5, 10, 20], "mig": [0.0, 0.1, 0.2, 0.1]})
    good = obtain("figure-7", table.assign(elbo=[-9, -7, -5, -4]))
    assert outcomes(good, "figure-7", "cars3d") == [True]
    assert good["measured"].dropna().tolist() == pytest.approx([(1 + 2 / 3) / 2])
    bad = obtain("figure-7", table.assign(mig=[0.3, 0.2, 0.0, 0.1], elbo=[-4, -5, -9, -7]))
    assert outcomes(bad, "figure-7", "cars3d") == [False]
    z = pd.DataFrame({"data": "cars3d", "size": [5, 10, 50], "fid": [1, 2, 3]})
    assert outcomes(
        obtain("figure-8", z.assign(m2=0.5, m3=[0.3, 0.2, 0.1])), "figure-8", "cars3d"
    ) == [True]
    norb = z.assign(data="smallnorb", fid=[3, 1, 2], m2=0.5, m3=[0.1, 0.3, 0.2])
    assert outcomes(obtain("figure-8", norb), "figure-8", "smallnorb") == [True]
    of_c = {"size": [2, 10], "l2_y": [0.03, 0.02], "l2_x": [0.01, 0.01], "c_mig": [0.1, 0.2]}
    frame = obtain("figures-9-12", pd.DataFrame({"data": "cars3d", **of_c}))
    assert (frame["obtained"] == "holds").all()


def test_each_ablation_is_compared_with_the_full_model():
    names = ["M1", "M2", "M3", "M4", "M5"]
    table = pd.DataFrame(
        {
            "data": "cars3d",
            "version": names,
            "mig_first": [0.05, 0.2, 0.2, 0.2, 0.1],
            "m3": [0.2, 0.1, 0.4, 0.5, 0.5],
            "l2_x": [0.02, 0.02, 0.03, 0.01, 0.005],
            "nats_first": [5.0, 5, 5, 5, 20],
            "nats_second": [5.0, 5, 5, 5, 0.1],
            "mig_second": 0.0,
        }
    )
    frame = obtain("figures-37-40", table)
    assert len(frame) == 7
    assert (frame["obtained"] == "holds").all()
    wrong = table.assign(m3=0.5, l2_x=0.01, nats_second=9.0, mig_first=0.3)
    frame = obtain("figures-37-40", wrong)
    assert frame["obtained"].eq("holds").sum() == 1  # M4 is as good as any


def test_samples_of_y_must_vary_more_than_x():
    table = pd.DataFrame({"data": "faces", "beta": [15.0], "std_y": [0.1], "std_x": [0.05]})
    assert (obtain("figures-32-33", table)["obtained"] == "holds").all()
    close = obtain("figures-32-33", table.assign(std_x=0.09))
    assert outcomes(close, "figures-32-33", "vary") == [True]
    assert outcomes(close, "figures-32-33", "hardly") == [False]


def test_generators_are_compared_by_control_noise_and_codes():
    table = pd.DataFrame(
        {
            "data": "textured",
            "method": ["ms_gan", "cgan", "infogan", "beta_vae"],
            "follows": [0.9, 0.5, np.nan, np.nan],
            "by_noise": [0.4, 0.1, np.nan, np.nan],
            "mig": [np.nan, np.nan, 0.01, 0.2],
        }
    )
    assert (obtain("figures-21-31", table)["obtained"] == "holds").all()
    turned = table.assign(follows=[0.5, 0.9, np.nan, np.nan], by_noise=[0.1, 0.4, np.nan, np.nan])
    frame = obtain("figures-21-31", turned.assign(mig=[0, 0, 0.2, 0.01]))
    assert (frame["obtained"] == "does not hold").all()


@pytest.mark.parametrize("scale", ["smoke", "hour", "paper"])
def test_studies_compare_what_the_paper_compares(scale):
    """On data that need no download at the smaller scales."""
    if scale == "paper":
        names = {source.load for source in find("ms-vae/table-1").study("paper").sources}
        assert names == {"cars3d", "smallnorb"}
        return
    runs = find("ms-vae/table-1").study(scale).runs()
    kinds = {(r.method.name, r.architecture, r.latents) for r in runs}
    assert len(kinds) == 6
    assert {r.first.method.beta for r in runs if r.method.name == "ms_vae"} == {
        r.method.beta for r in runs if r.method.name == "beta_tc_vae"
    }
    sizes_of = {run.hash for run in find("ms-vae/figure-8").study(scale).runs()}
    # Where sizes are compared at a β of the first study, what both ask for is trained once.
    assert len(sizes_of & {run.hash for run in runs}) == (2 if scale == "hour" else 0)
    versions = find("ms-vae/figures-37-40").study(scale).runs()
    assert len({r.method for r in versions if r.method.name == "ms_vae"}) == 5


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Factors are predicted by networks that have hardly learned."""
    monkeypatch.setattr(conditioning, "FEWEST_STEPS", 50)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A study of two stages on 48 sprites, hardly trained."""
    few = {"shape": [0, 1, 2], "scale": 5, "orientation": 0, "posX": [0, 10, 20, 31]}
    first = {"beta_tc_vae": {"beta": [1, 4]}}
    second = {"first": first, "settings": {"latents": 3, "architecture": "small_dcgan"}}
    study = Study(
        data=[{"load": "dsprites", "slice": {**few, "posY": [0, 10, 20, 31]}}],
        methods={"ms_vae": second},
        steps=4,
        metrics=["mig", "pixel_error"],
        settings={"batch": 8},
    )
    folder = tmp_path_factory.mktemp("stages")
    return run(study, folder, progress=False, scorers=0).table, folder


def test_measurements_are_cached(trained):
    table, folder = trained
    found = measured(table, folder)
    assert len(found) == 2
    assert found[["m1", "m2", "m3", "m4"]].ge(0).all(axis=None)
    assert found["beta"].tolist() == [1, 4]
    kept = folder / "terms.parquet"
    before = kept.stat().st_mtime_ns
    pd.testing.assert_frame_equal(measured(table, folder), found)
    assert kept.stat().st_mtime_ns == before
    tasks = predicted(table, folder)
    assert set(tasks["factor"]) == {"shape", "posX", "posY"}
    assert tasks[["c", "z", "both"]].apply(lambda column: column.between(0, 1)).all(axis=None)


def test_factors_are_those_in_host_memory(trained, monkeypatch):
    """Also where data and models are on a GPU."""
    table, folder = trained
    rows = measured(table, folder)
    data_of, factors = Store.data_of, Dataset.factors

    def on_device(store, config, device=None):
        data = data_of(store, config)
        return data if device is None else data.to("cpu")

    def in_host_memory(data, indices):
        assert data.device is None
        return factors(data, indices)

    monkeypatch.setattr(Store, "data_of", on_device)
    monkeypatch.setattr(Dataset, "factors", in_host_memory)
    for name in (scores.TASKS_FILE, variants.NATS_FILE):
        (folder / name).unlink(missing_ok=True)
    assert set(predicted(table, folder)["run"]) == set(rows["run"])
    whole = table.assign(condition="image", mixing="adain", together=False)
    assert set(variants.extend_37_40(whole, folder)["run"]) == set(rows["run"])


def test_pictures_are_drawn_of_one_model(trained):
    table, folder = trained
    frame = pictures.obtain_13_14(pictures.extend_13_14(table, folder))
    assert frame["obtained"].tolist() == [
        "pictures-of-stages/dsprites-stage-traversals.png",
        "pictures-of-stages/dsprites-stages.png",
    ]
    assert all((folder / name).stat().st_size > 1000 for name in frame["obtained"])


@pytest.mark.parametrize(
    "slug", ["figures-1-and-3", "figure-5", "figure-6", "figures-13-14", "figures-32-33"]
)
def test_figures_are_drawn_of_the_extended_table(slug, trained, tmp_path):
    table, folder = trained
    recipe = find(f"ms-vae/{slug}")
    found = recipe.extend(table, folder)
    recipe.plot(found, folder / f"{slug}.svg")
    drawn = (folder / f"{slug}.svg").read_text()
    assert drawn.count("<image") == (3 if "13" in slug or "1-and" in slug else 0)
    assert "<svg" in drawn


def test_lines_show_every_kind_and_measure(tmp_path):
    scores.plot_4(planted(), tmp_path / "four.svg")
    drawn = (tmp_path / "four.svg").read_text()
    for word in ("FID", "MIG of C", "big_beta_tc_vae", "jacobian", "ms_vae", "cars3d"):
        assert word in drawn
