"""Maps between members, on tables with known answers and on a small study."""

import itertools

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.papers.vae_ensemble.tables import ablated, held, run_of, whole
from tests.raising import about
from unweave.analysis.maps import random_distances
from unweave.io.checksums import write_sums
from unweave.papers import RecipeError, find
from unweave.papers.measurements import Trained
from unweave.papers.vae_ensemble import maps
from unweave.papers.vae_ensemble.scores import scored

NORMS = (("frobenius", 1), ("mean_l1", 10))


def distances(A):
    """Both distances, by brute force over all signed permutations."""
    d = len(A)
    every = [
        np.eye(d)[list(order)] * np.array(signs)[:, None]
        for order in itertools.permutations(range(d))
        for signs in itertools.product((-1, 1), repeat=d)
    ]
    near = min(every, key=lambda P: np.abs(A - P).sum())
    return np.sqrt(((A - near) ** 2).sum()), np.abs(A - near).mean()


def fitted(one, other):
    """The least-squares map, from normal equations."""
    return np.linalg.solve(one.T @ one, one.T @ other).T


def test_a_study_without_the_models_of_a_figure_is_rejected(study, tmp_path):
    """The study has ensembles, but none with the γ of Figure 2."""
    others = study[1][study[1]["gamma"] != 10]
    with pytest.raises(RecipeError, check=about("run")):
        maps.extend_2(others, tmp_path)


def test_figure_2_measures_learned_and_fitted_maps(study, images):
    folder, table = study
    found = maps.extend_2(table, folder)
    of_run = found[found["run"] == run_of(scored(table), members=3, kind="original")]
    model = uw.load(folder / "runs" / of_run["run"].iloc[0])
    codes = [model.encode(images, member=k)[0].astype(np.float64) for k in range(3)]
    assert len(of_run) == 2 * 6
    for row in of_run.to_dict("records"):
        i, j = row["from"], row["to"]
        A = model.maps[i, j] if row["maps"] == "learned" else fitted(codes[i], codes[j])
        frobenius, mean_l1 = distances(A)
        assert row["frobenius"] == pytest.approx(frobenius, rel=1e-3)
        assert row["mean_l1"] == pytest.approx(mean_l1, rel=1e-3)
        assert row["relative_frobenius"] == pytest.approx(
            frobenius / random_distances(3)["frobenius"], rel=1e-3
        )
        used = [int((codes[k].var(0) > 0.01).sum()) for k in (i, j)]
        assert row["latents_in_use"] == (used[0] if used[0] == used[1] > 0 else -1)


def test_figure_2_maps_models_of_a_method_to_each_other(study, images):
    folder, table = study
    found = maps.extend_2(table, folder)
    pair = found[found["method"] == "beta_vae"]
    runs = [run_of(table, seed, method="beta_vae", beta=4) for seed in (0, 1)]
    one, other = (uw.load(folder / "runs" / run).encode(images)[0] for run in runs)
    assert pair["frobenius"].tolist() == pytest.approx(
        [distances(fitted(*codes))[0] for codes in ((one, other), (other, one))], rel=1e-2
    )
    assert set(found["method"]) == {"vae", "beta_vae", "vae_ensemble"}
    assert maps.extend_2(table, folder).equals(found)  # from the file


def pairs(ensembles, apart):
    """Maps between two members, and between models of methods, with these distances."""
    rows = [
        {"method": "vae_ensemble", "members": n, "maps": maps, "frobenius": value}
        for n, value in ensembles.items()
        for maps in ("learned", "least squares")
    ]
    rows += [
        {"method": method, "members": np.nan, "maps": "least squares", "frobenius": value}
        for method, value in apart.items()
    ]
    table = pd.DataFrame(rows).assign(mean_l1=lambda t: t["frobenius"] / 10)
    for norm in ("frobenius", "mean_l1"):
        table[f"relative_{norm}"] = table[norm] / random_distances(10)[norm]
        table[f"used_relative_{norm}"] = 0.5 * table["frobenius"]
    return table


def test_figure_2_counts_in_how_many_comparisons_ensembles_are_closer():
    recipe = find("vae-ensemble/figure-2")
    frame = recipe.obtain(pairs({2: 0.2, 3: 0.4}, {"vae": 2.0, "beta_vae": 0.3, "dip_vae_i": 3}))
    vae, others = recipe.claims["smaller"], recipe.claims["smallest"]
    assert whole(frame, vae)[["measured", "against"]].values.tolist() == [
        pytest.approx([value, of]) for value, of in ((0.2, 2), (0.4, 2), (0.02, 0.2), (0.04, 0.2))
    ]
    assert whole(frame, others)["against"].tolist() == pytest.approx([0.3, 0.3, 0.03, 0.03])
    assert whole(frame, others)["obtained"].tolist() == ["holds", "does not hold"] * 2
    used = frame[frame["by"] == "used_relative_frobenius"]
    assert used["measured"].tolist() == pytest.approx([0.1, 0.2, 0.1, 0.2])
    assert used["published"].isna().all()
    counts = held(recipe, frame)
    assert (counts[vae], counts[others]) == (((4, 4), (16, 16)), ((2, 4), (6, 12)))
    of_all, of_used = (list(count.numbers.values()) for count in recipe.counts(frame)[2:])
    usual = random_distances(10)["frobenius"]
    assert of_all == pytest.approx([0.2 / usual, 0.4 / usual])
    assert of_used == pytest.approx([0.1, 0.2, 0.15])
    only_vae_near = recipe.obtain(pairs({2: 0.2}, {"vae": 0.1, "beta_vae": 3.0}))
    assert whole(only_vae_near, vae)["obtained"].eq("does not hold").all()
    assert whole(only_vae_near, others)["obtained"].eq("holds").all()
    far = recipe.obtain(pairs({2: 4.0}, {"vae": 2.0, "beta_vae": 0.3}))
    assert held(recipe, far)[vae] == ((0, 2), (0, 8))


def test_figure_6_reads_curves(study):
    folder, table = study
    found = maps.extend_6(table, folder)
    assert found.groupby("kind")["run"].nunique().to_dict() == {"original": 4, "trained apart": 2}
    assert set(found["latents"]) == {3}
    run = run_of(scored(table), members=2, kind="original")
    distances = maps.distances_of(scored(table).query("run == @run"), Trained(folder))
    means = distances.groupby("maps")[["frobenius", "mean_l1"]].mean()
    (point,) = found[found["run"] == run].to_dict("records")
    assert point["step"] == 2
    assert point["dto_frobenius"] == pytest.approx(means.loc["learned", "frobenius"], rel=1e-5)
    assert point["fit_dto_mean_l1"] == pytest.approx(
        means.loc["least squares", "mean_l1"], rel=1e-2
    )


def test_figure_6_rejects_curves_without_distances(study, tmp_path):
    folder, table = study
    run = run_of(scored(table), members=2, kind="original")
    trained = Trained(folder)
    trained.store.runs = tmp_path
    (tmp_path / run).mkdir()
    curve = pd.DataFrame({"run": [run], "step": [1], "kl": [2.0]})
    curve.to_parquet(tmp_path / run / "curve.parquet")
    write_sums(tmp_path / run, ["curve.parquet"])
    with pytest.raises(RecipeError, check=about(run)):
        maps.curves_of(scored(table).query("run == @run"), trained)


def curves(lines, steps=(50, 500, 1000), latents=10):
    """Curves with given Frobenius distances and a tenth of them as L1, learned and fitted."""
    rows = [
        {"run": f"{name}-{seed}", "seed": seed, "step": step, "latents": latents, **settings}
        | {f"{how}_{norm}": value / scale for how in ("dto", "fit_dto") for norm, scale in NORMS}
        for name, (settings, values) in lines.items()
        for seed in (0, 1)
        for step, value in zip(steps, values, strict=True)
    ]
    return pd.DataFrame(rows)


def ensemble(members, kind="original", gamma=10):
    return {"members": members, "kind": kind, "gamma": gamma, "data": "rooms3d"}


def test_figure_6_compares_ensembles_with_vaes_apart_at_the_end_and_throughout():
    recipe = find("vae-ensemble/figure-6")
    lines = {
        "two": (ensemble(2), (9, 1.0, 0.4)),
        "three": (ensemble(3), (9, 3.0, 1.7)),
        "apart": (ensemble(10, "trained apart", 0), (8, 2.5, 2.0)),
    }
    frame = recipe.obtain(curves(lines))
    reach = whole(frame, recipe.claims["reach"])
    assert reach["measured"].tolist() == pytest.approx([0.4, 1.7, 0.04, 0.17])
    assert reach["against"].tolist() == pytest.approx([np.sqrt(10)] * 2 + [0.1] * 2)
    assert reach["obtained"].tolist() == ["holds", "does not hold"] * 2
    throughout = whole(
        frame, recipe.claims["throughout"]
    )  # the first of three points is the start
    assert throughout["measured"].tolist() == [1, 0.5] * 2
    assert throughout["obtained"].tolist() == ["holds", "does not hold"] * 2
    apart = whole(frame, recipe.claims["do_not"])
    assert apart["measured"].tolist() == pytest.approx([2, 0.2])
    assert apart["obtained"].tolist() == ["holds", "holds"]
    assert held(recipe, frame)[recipe.claims["do_not"]] == ((2, 2), (0, 0))
    near = curves({**lines, "apart": (lines["apart"][0], (1, 1, 0.3))})
    assert held(recipe, recipe.obtain(near))[recipe.claims["do_not"]] == ((0, 2), (0, 0))


def faces(values, **more):
    """Curves by latents, members and γ, with controls."""
    lines = {
        f"{d}-{n}-{gamma}": ({**ensemble(n, gamma=gamma), "latents": d}, (2 * value, value))
        for (d, n, gamma), value in values.items()
    }
    table = curves(lines, steps=(100, 1000))
    shift = table["seed"] * more.get("spread", 0.0)
    for how in ("dto", "fit_dto"):
        for norm, scale in NORMS:
            table[f"{how}_{norm}"] += shift / scale
    for norm, _ in NORMS:
        usual = table["latents"].map(lambda d, norm=norm: random_distances(d)[norm])
        table[f"relative_{norm}"] = table[f"dto_{norm}"] / usual
        table[f"used_relative_{norm}"] = table[f"relative_{norm}"] / 2
    return table


def test_figure_7_effects_of_training_latents_members_and_gamma():
    recipe = find("vae-ensemble/figure-7")
    values = {(10, 2, 1): 1.0, (10, 2, 10): 1.2, (16, 2, 1): 1.05, (16, 2, 10): 0.95}
    frame = recipe.obtain(faces({**values, (10, 3, 1): 1.4, (16, 3, 1): 0.9}, spread=0.2))
    falls = whole(frame, recipe.claims["falls"])
    assert falls["measured"].tolist() == pytest.approx([1.2, 1.1, 0.12, 0.11])
    assert falls["against"].tolist() == pytest.approx([2.3, 2.1, 0.23, 0.21])
    latents = whole(frame, recipe.claims["latents"])
    assert latents["obtained"].tolist() == ["holds", "holds"]
    controls = whole(frame, recipe.claims["latents"], control=True)
    assert controls["by"].tolist()[:2] == ["relative_frobenius", "used_relative_frobenius"]
    assert controls["measured"].iloc[0] == pytest.approx(1.1 / random_distances(16)["frobenius"])
    members = whole(frame, recipe.claims["members"])
    assert members["obtained"].tolist() == ["holds", "does not hold"] * 2
    gamma = whole(frame, recipe.claims["gamma"])
    assert gamma["measured"].tolist() == pytest.approx([0.2, 0.1, 0.02, 0.01])
    assert gamma["against"].tolist() == pytest.approx(
        [2 * np.sqrt(0.02)] * 2 + [0.2 * np.sqrt(0.02)] * 2
    )
    assert "rooms3d" in recipe.verdict(frame)[0]  # which stands in for faces
    counts = held(recipe, frame)
    assert counts[recipe.claims["falls"]] == counts[recipe.claims["gamma"]] == ((4, 4), (0, 0))
    apart = recipe.obtain(faces({**values, (10, 2, 10): 9.0}, spread=0.2).assign(data="celeba"))
    assert recipe.verdict(apart)[0].startswith(recipe.claims["falls"])
    assert held(recipe, apart)[recipe.claims["gamma"]] == ((2, 4), (0, 0))


def test_figure_7_needs_two_recorded_steps():
    table = faces({(10, 2, 1): 1.0})
    recipe = find("vae-ensemble/figure-7")
    frame = recipe.obtain(table[table["step"] == 1000])
    assert whole(frame, recipe.claims["falls"])["obtained"].isna().all()


def test_figure_7_adds_controls_of_the_last_maps(study):
    folder, table = study
    found = maps.extend_7(table, folder)
    assert set(found["kind"]) == {"original"}
    expected = found["dto_frobenius"] / random_distances(3)["frobenius"]
    assert found["relative_frobenius"].tolist() == pytest.approx(expected.tolist())
    learned = maps.extend_2(table, folder).query("maps == 'learned'")
    used = learned.groupby("run")["used_relative_mean_l1"].mean()
    np.testing.assert_allclose(found["used_relative_mean_l1"], found["run"].map(used))


def test_figure_8_compares_distances_too():
    recipe = find("vae-ensemble/figure-8")
    table = ablated({1: 0.8, 10: 0.7}, {1: 0.6, 10: 0.5}, 0.1).assign(num_latents=10)
    whole_one = table["cross_reconstruction"] & (table["gamma"] == 1)
    table["frobenius"] = 1.0 + table["gamma"].eq(10) - 0.5 * whole_one
    table["mean_l1"] = table["frobenius"] / 25
    for norm in ("frobenius", "mean_l1"):
        table[f"used_relative_{norm}"] = 2 - table[norm]
    frame = recipe.obtain(table)
    dci, much, small, further = recipe.published()["claim"]
    assert whole(frame, small)["against"].tolist() == pytest.approx([np.sqrt(10)] * 2 + [0.1] * 2)
    assert whole(frame, small)["measured"].tolist() == pytest.approx([1, 2, 0.04, 0.08])
    assert whole(frame, small)["obtained"].tolist() == ["holds", "does not hold"] * 2
    assert whole(frame, further)[["measured", "against"]].values.tolist() == [
        pytest.approx(pair) for pair in ([0.5, 1], [2, 2], [0.02, 0.04], [0.08, 0.08])
    ]
    counts = held(recipe, frame)
    assert counts[dci] == ((2, 2), (0, 0))
    assert counts[much] == ((1, 1), (0, 0))
    assert counts[further] == ((2, 4), (0, 4))
    assert len(frame) == 2 + 1 + 4 + 8


def test_figure_8_adds_the_distances_of_learned_maps(study):
    folder, table = study
    found = maps.extend_8(table, folder)
    assert found["kind"].value_counts().to_dict() == {"original": 4, "w.o. CR": 2, "w.o. LT": 2}
    for row in found.itertuples():
        learned = uw.load(folder / "runs" / row.run).maps
        pairs = itertools.permutations(range(len(learned)), 2)
        expected = np.mean([distances(learned[i, j]) for i, j in pairs], axis=0)
        assert (row.frobenius, row.mean_l1) == pytest.approx(tuple(expected), rel=1e-4)
        assert row.num_latents == 3
