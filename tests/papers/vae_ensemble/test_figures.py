"""Figures of the VAE ensemble: read off tables whose answers are known, and off a tiny study."""

import itertools

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from unweave.analysis.maps import random_distances
from unweave.io.checksums import write_sums
from unweave.metrics.polarised_regime import polarised_regime
from unweave.papers import RecipeError, find
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.vae_ensemble import ablations, alignment, curves, models, pictures, traversals
from unweave.papers.vae_ensemble import polarised_regime as polarised
from unweave.select import Latents
from unweave.study.study import Source, Study

FEW = {
    "load": "dsprites",
    "slice": {"scale": 5, "orientation": [0, 10], "posX": [0, 9, 18], "posY": [0, 9, 18]},
}
APART = {"cross_reconstruction": False, "alignment": False}
STUDY = Study(
    name="tiny",
    data=[FEW],
    methods={
        "vae": {},
        "beta_vae": {"beta": [4, 0.5]},
        "vae_ensemble": [
            {"members": [2, 3], "gamma": 10},
            {"members": 2, "gamma": 10, "cross_reconstruction": False},
            {"members": 2, "gamma": 0, "alignment": False},
            {"members": 3, "gamma": 0, **APART},
        ],
    },
    seeds=2,
    steps=2,
    metrics=[],
    settings={"batch": 4, "latents": 3, "optimiser": {"lr": 3e-3}},
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder and the table of a study with an ensemble of each kind."""
    folder = tmp_path_factory.mktemp("study")
    return folder, uw.study.run(STUDY, folder, scorers=0, progress=False).table


@pytest.fixture(scope="module")
def images():
    return Source.of(FEW).open()


def run_of(table, seed=0, **settings):
    for name, value in settings.items():
        table = table[table[name] == value]
    (run,) = table[table["seed"] == seed]["run"].unique()
    return run


def whole(frame, claim, control=False):
    """The comparisons of a claim, as published or by controls."""
    return frame[(frame["claim"] == claim) & (frame["published"].isna() == control)]


def distances(A):
    """Both distances, by going through all signed permutations."""
    d = len(A)
    every = [
        np.eye(d)[list(order)] * np.array(signs)[:, None]
        for order in itertools.permutations(range(d))
        for signs in itertools.product((-1, 1), repeat=d)
    ]
    near = min(every, key=lambda P: np.abs(A - P).sum())
    return np.sqrt(((A - near) ** 2).sum()), np.abs(A - near).mean()


def fitted(one, other):
    """The map of least squares, by normal equations."""
    return np.linalg.solve(one.T @ one, one.T @ other).T


def test_kinds_of_ensembles(study):
    rows = models.scored(study[1])
    found = rows.groupby(["method", "members", "gamma"], dropna=False)["kind"].agg(set)
    assert found["vae_ensemble", 2, 10] == {"original", "w.o. CR"}
    assert found["vae_ensemble", 2, 0] == {"w.o. LT"}
    assert found["vae_ensemble", 3, 0] == {"trained apart"}
    assert rows[rows["method"] == "vae"]["kind"].isna().all()
    settings = {"method": "vae_ensemble", "neighbours": [-1, 2], "stop_grad_target": [True, False]}
    assert models.kinds(pd.DataFrame(settings)).tolist() == ["stop_grad_target", "neighbours"]


def test_what_is_computed_is_kept_run_by_run(tmp_path):
    asked = []

    def compute(run):
        if run == "c":
            raise KeyboardInterrupt
        asked.append(run)
        return pd.DataFrame({"value": [len(asked), 0]})

    file = tmp_path / "some.parquet"
    with pytest.raises(KeyboardInterrupt):
        computed_once(file, ["a", "b", "c"], compute, "computing")
    found = computed_once(file, ["b", "d"], compute, "computing")
    assert asked == ["a", "b", "d"]
    assert found.values.tolist() == [[2, "b"], [0, "b"], [3, "d"], [0, "d"]]
    assert computed_once(file, [], compute, "computing").empty


def test_a_study_without_the_models_of_a_figure_is_refused(study, tmp_path):
    """Ensembles, but none with the γ of Figure 2."""
    others = study[1][study[1]["gamma"] != 10]
    with pytest.raises(RecipeError, match="no model that this recipe needs is scored yet"):
        alignment.extend(others, tmp_path)


def test_figure_2_measures_learned_and_fitted_maps(study, images):
    folder, table = study
    found = alignment.extend(table, folder)
    of_run = found[found["run"] == run_of(models.scored(table), members=3, kind="original")]
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
    found = alignment.extend(table, folder)
    pair = found[found["method"] == "beta_vae"]
    runs = [run_of(table, seed, method="beta_vae", beta=4) for seed in (0, 1)]
    one, other = (uw.load(folder / "runs" / run).encode(images)[0] for run in runs)
    assert pair["frobenius"].tolist() == pytest.approx(
        [distances(fitted(*codes))[0] for codes in ((one, other), (other, one))], rel=1e-2
    )
    assert set(found["method"]) == {"vae", "beta_vae", "vae_ensemble"}
    assert alignment.extend(table, folder).equals(found)  # from the file


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


def test_figure_2_counts_in_how_many_comparisons_ensembles_are_nearer():
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
    said = recipe.verdict(frame)
    assert said[0].startswith(vae)
    assert said[0].endswith(
        ": holds in 4 of 4 comparisons, by controls of our own in 16 of 16 comparisons."
    )
    assert said[1].endswith(
        "holds in 2 of 4 comparisons, by controls of our own in 6 of 12 comparisons."
    )
    assert said[2].endswith(": min measured 0.0702; max measured 0.14.")
    assert said[3].endswith(": min measured 0.1; max measured 0.2; min against 0.15.")
    only_vae_near = recipe.obtain(pairs({2: 0.2}, {"vae": 0.1, "beta_vae": 3.0}))
    assert whole(only_vae_near, vae)["obtained"].eq("does not hold").all()
    assert whole(only_vae_near, others)["obtained"].eq("holds").all()
    far = recipe.obtain(pairs({2: 4.0}, {"vae": 2.0, "beta_vae": 0.3}))
    assert (
        ": holds in 0 of 2 comparisons, by controls of our own in 0 of 8"
        in (recipe.verdict(far)[0])
    )


def test_figure_6_reads_curves(study):
    folder, table = study
    found = curves.extend_6(table, folder)
    assert found.groupby("kind")["run"].nunique().to_dict() == {"original": 4, "trained apart": 2}
    assert set(found["latents"]) == {3}
    run = run_of(models.scored(table), members=2, kind="original")
    maps = (
        alignment.distances_of(models.scored(table).query("run == @run"), folder, Trained(folder))
        .groupby("maps")[["frobenius", "mean_l1"]]
        .mean()
    )
    (glance,) = found[found["run"] == run].to_dict("records")
    assert glance["step"] == 2
    assert glance["dto_frobenius"] == pytest.approx(maps.loc["learned", "frobenius"], rel=1e-5)
    assert glance["fit_dto_mean_l1"] == pytest.approx(
        maps.loc["least squares", "mean_l1"], rel=1e-2
    )


def test_figure_6_refuses_curves_without_distances(study, tmp_path):
    folder, table = study
    run = run_of(models.scored(table), members=2, kind="original")
    trained = Trained(folder)
    trained.store.runs = tmp_path
    (tmp_path / run).mkdir()
    curve = pd.DataFrame({"run": [run], "step": [1], "kl": [2.0]})
    curve.to_parquet(tmp_path / run / "curve.parquet")
    write_sums(tmp_path / run, ["curve.parquet"])
    with pytest.raises(RecipeError, match=f"the curve of run {run} has no distances of maps"):
        curves.curves_of(models.scored(table).query("run == @run"), trained)


def glances(lines, steps=(50, 500, 1000), latents=10):
    """Curves with these distances, Frobenius and a tenth of it, both learned and fitted."""
    rows = [
        {"run": f"{name}-{seed}", "seed": seed, "step": step, "latents": latents, **settings}
        | {f"{how}_{norm}": value / scale for how in ("dto", "fit_dto") for norm, scale in NORMS}
        for name, (settings, values) in lines.items()
        for seed in (0, 1)
        for step, value in zip(steps, values, strict=True)
    ]
    return pd.DataFrame(rows)


NORMS = (("frobenius", 1), ("mean_l1", 10))


def ensemble(members, kind="original", gamma=10):
    return {"members": members, "kind": kind, "gamma": gamma, "data": "rooms3d"}


def test_figure_6_compares_ensembles_with_vaes_apart_at_the_end_and_throughout():
    recipe = find("vae-ensemble/figure-6")
    lines = {
        "two": (ensemble(2), (9, 1.0, 0.4)),
        "three": (ensemble(3), (9, 3.0, 1.7)),
        "apart": (ensemble(10, "trained apart", 0), (8, 2.5, 2.0)),
    }
    frame = recipe.obtain(glances(lines))
    reach = whole(frame, recipe.claims["reach"])
    assert reach["measured"].tolist() == pytest.approx([0.4, 1.7, 0.04, 0.17])
    assert reach["against"].tolist() == pytest.approx([np.sqrt(10)] * 2 + [0.1] * 2)
    assert reach["obtained"].tolist() == ["holds", "does not hold"] * 2
    throughout = whole(
        frame, recipe.claims["throughout"]
    )  # the first of three glances is the start
    assert throughout["measured"].tolist() == [1, 0.5] * 2
    assert throughout["obtained"].tolist() == ["holds", "does not hold"] * 2
    apart = whole(frame, recipe.claims["do_not"])
    assert apart["measured"].tolist() == pytest.approx([2, 0.2])
    assert apart["obtained"].tolist() == ["holds", "holds"]
    assert recipe.verdict(frame)[1] == f"{recipe.claims['do_not']}: holds in 2 of 2 comparisons."
    near = glances({**lines, "apart": (lines["apart"][0], (1, 1, 0.3))})
    assert recipe.verdict(recipe.obtain(near))[1].endswith("holds in 0 of 2 comparisons.")


def faces(values, **more):
    """Curves by latents, members and γ, with controls."""
    lines = {
        f"{d}-{n}-{gamma}": ({**ensemble(n, gamma=gamma), "latents": d}, (2 * value, value))
        for (d, n, gamma), value in values.items()
    }
    table = glances(lines, steps=(100, 1000))
    shift = table["seed"] * more.get("spread", 0.0)
    for how in ("dto", "fit_dto"):
        for norm, scale in NORMS:
            table[f"{how}_{norm}"] += shift / scale
    for norm, _ in NORMS:
        usual = table["latents"].map(lambda d, norm=norm: random_distances(d)[norm])
        table[f"relative_{norm}"] = table[f"dto_{norm}"] / usual
        table[f"used_relative_{norm}"] = table[f"relative_{norm}"] / 2
    return table


def test_figure_7_tells_what_training_latents_members_and_gamma_do():
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
    said = recipe.verdict(frame)
    assert said[0] == "rooms3d stands in for celeba."
    assert said[1] == f"{recipe.claims['falls']}: holds in 4 of 4 comparisons."
    assert said[4] == f"{recipe.claims['gamma']}: holds in 4 of 4 comparisons."
    apart = recipe.obtain(faces({**values, (10, 2, 10): 9.0}, spread=0.2).assign(data="celeba"))
    said = recipe.verdict(apart)
    assert said[0].startswith(recipe.claims["falls"])
    assert said[-1] == f"{recipe.claims['gamma']}: holds in 2 of 4 comparisons."


def test_figure_7_says_nothing_of_training_seen_once():
    table = faces({(10, 2, 1): 1.0})
    recipe = find("vae-ensemble/figure-7")
    frame = recipe.obtain(table[table["step"] == 1000])
    assert whole(frame, recipe.claims["falls"])["obtained"].isna().all()


def test_figure_7_adds_controls_of_the_last_maps(study):
    folder, table = study
    found = curves.extend_7(table, folder)
    assert set(found["kind"]) == {"original"}
    expected = found["dto_frobenius"] / random_distances(3)["frobenius"]
    assert found["relative_frobenius"].tolist() == pytest.approx(expected.tolist())
    maps = alignment.extend(table, folder).query("maps == 'learned'")
    used = maps.groupby("run")["used_relative_mean_l1"].mean()
    np.testing.assert_allclose(found["used_relative_mean_l1"], found["run"].map(used))


def test_figure_3_looks_at_every_latent_of_every_member(study, images):
    folder, table = study
    found = polarised.extend(table, folder)
    assert len(found) == (2 * 1 + 2 * 2 + 2 * 3) * 3  # β-VAEs, and ensembles of two and of three
    for run, latents in found.groupby("run"):
        model = uw.load(folder / "runs" / run)
        for member, rows in latents.groupby("member"):
            means, logvars = model.encode(images, member=member)
            scores = polarised_regime(means, logvars=logvars)
            for row in rows.itertuples():
                assert row.log_delta == pytest.approx(scores[f"log_delta_{row.latent}"], rel=1e-3)
                signal = scores[f"mean_variance_{row.latent}"]
                assert row.signal == pytest.approx(signal, rel=1e-3)
                noise = np.exp(logvars[:, row.latent]).mean()
                assert row.noise == pytest.approx(noise, rel=1e-3)
                assert row.used == (signal > 0.01)
                assert row.looks_active == (row.log_delta < 0)
    assert polarised.extend(table, folder).equals(found)


def latent_rows(profiles, used, *, method="vae_ensemble", gamma=np.nan, noise=0.5):
    """A row per latent: for each run, the log Δ of each member; all members use the same."""
    return pd.DataFrame(
        [
            {"run": run, "member": member, "latent": latent, "num_latents": len(log_delta)}
            | {"method": method, "members": len(members), "gamma": gamma, "data": "dsprites"}
            | {"log_delta": value, "noise": noise, "signal": float(on), "used": on}
            | {"looks_active": value < 0}
            for run, members in profiles.items()
            for member, log_delta in enumerate(members)
            for latent, (value, on) in enumerate(zip(log_delta, used, strict=True))
        ]
    )


def test_figure_3_counts_active_latents_by_noise_alone_and_by_use():
    recipe = find("vae-ensemble/figure-3")
    two = {"a": [[-5, -4, -1, 2], [2, -4, -1, -5.2]], "b": [[-3, -4, 1, 2], [-3, -4, 1, 2]]}
    three = {"c": [[-1, -1, -1, 2]] * 3}
    beta = {"d": [[-1, -1, 4, 4]]}
    table = pd.concat(
        [
            latent_rows(two, [True, True, False, False], gamma=10, noise=1 / 21),
            latent_rows(three, [True, False, False, False], gamma=10, noise=0.1),
            latent_rows(beta, [True, True, False, False], method="beta_vae"),
        ]
    )
    frame = recipe.obtain(table)
    alike = whole(frame, recipe.claims["alike"])
    assert alike["measured"].tolist() == pytest.approx([(0.2 / 4 + 0) / 2, 0])
    assert alike["against"].iloc[0] == pytest.approx((1 + 1 + 2 + 0) / 4)
    assert alike["obtained"].tolist()[0] == "holds"
    assert np.isnan(alike["against"].iloc[1])  # one run has no other
    assert pd.isna(alike["obtained"].iloc[1])
    more = frame[frame["claim"] == recipe.claims["more_than_beta"]]
    assert more[["measured", "against"]].values.tolist() == [[2.5, 2], [1.75, 2]]
    assert more["obtained"].tolist() == ["holds", "does not hold"]
    three_more = frame[frame["claim"] == recipe.claims["more_in_three"]]
    assert three_more[["measured", "against"]].values.tolist() == [[3, 2.5], [1, 1.75]]
    assert three_more["obtained"].tolist() == ["holds", "does not hold"]
    eight = frame[frame["claim"] == recipe.claims["eight"]]
    assert eight["measured"].tolist() == [3, 2]
    assert eight["obtained"].eq("does not hold").all()
    looks = frame[frame["claim"] == recipe.claims["looks"]]
    assert looks["against"].tolist() == [2.5, 2.5, 3, 3, 3]
    assert looks["obtained"].eq("does not hold").all()
    settles = frame[frame["claim"] == recipe.claims["settles"]]
    assert settles["against"].tolist() == pytest.approx([1 / 21, 1 / 41])
    assert settles["obtained"].tolist() == ["holds", "does not hold"]
    said = recipe.verdict(frame)
    assert said[1] == (
        f"{recipe.claims['more_than_beta']}: holds in 1 of 1 comparisons, by controls of our own "
        "in 0 of 1 comparisons."
    )


def test_figures_9_10_compare_gaps_of_log_delta_between_gammas():
    recipe = find("vae-ensemble/figures-9-10")
    one = latent_rows({"a": [[-1, 0, 2], [-1, 1, 2]]}, [True] * 3, gamma=1)
    ten = latent_rows({"b": [[-4, -4, 3], [-4, 3, 3]]}, [True] * 3, gamma=10)
    frame = recipe.obtain(pd.concat([one, ten]))
    gaps = whole(frame, recipe.claims["separates"])
    assert gaps[["measured", "against"]].values.tolist() == [[7, 2]]
    assert recipe.verdict(frame)[0] == "dsprites stands in for celeba."
    assert f"{recipe.claims['separates']}: holds in 1 of 1 comparisons." in recipe.verdict(frame)
    swapped = pd.concat([one.assign(gamma=10), ten.assign(gamma=1, data="celeba")])
    said = recipe.verdict(recipe.obtain(swapped.assign(data="celeba")))
    assert f"{recipe.claims['separates']}: holds in 0 of 1 comparisons." in said
    assert not any("stands in" in sentence for sentence in said)


def ablated(whole_scores, alone, free):
    """Ensembles of two by γ, two seeds 0.02 apart; without alignment there is no γ."""
    rows = []
    for kind, scores in (("whole", whole_scores), ("alone", alone), ("free", {0: free})):
        settings = {
            "cross_reconstruction": kind != "alone",
            "alignment": kind != "free",
            "method": "vae_ensemble",
            "members": 2.0,
            "state": "scored",
        }
        rows += [
            {**settings, "gamma": float(gamma), "factor_vae": score + shift, "dci": score + shift}
            for gamma, score in scores.items()
            for shift in (-0.01, 0.01)
        ]
    return pd.DataFrame(rows)


def test_figure_4_compares_ablated_ensembles_with_whole_ones():
    recipe = find("vae-ensemble/figure-4")
    frame = recipe.obtain(ablated({1: 0.8, 10: 0.7}, {1: 0.6, 10: 0.72}, 0.75))
    lower, lower_too, much, narrows = recipe.published()["claim"]
    assert whole(frame, lower)["measured"].tolist() == pytest.approx([0.6, 0.72])
    assert whole(frame, lower)["obtained"].tolist() == ["holds", "does not hold"]
    assert whole(frame, lower_too)["against"].tolist() == pytest.approx([0.8, 0.7])
    assert whole(frame, lower_too)["obtained"].tolist() == ["holds", "does not hold"]
    spread = np.std([0.79, 0.81, 0.69, 0.71])
    assert whole(frame, much)["against"].tolist() == pytest.approx([0.75 - spread])
    assert whole(frame, much)["obtained"].tolist() == ["does not hold"]
    assert whole(frame, narrows)["measured"].tolist() == pytest.approx([-0.02])
    assert whole(frame, narrows)["against"].tolist() == pytest.approx([0.2])
    assert recipe.verdict(frame)[0] == f"{lower}: holds in 1 of 2 comparisons."
    worse = recipe.obtain(ablated({1: 0.8, 10: 0.7}, {1: 0.6, 10: 0.4}, 0.2))
    assert [sentence.split(": ")[-1] for sentence in recipe.verdict(worse)] == [
        "holds in 2 of 2 comparisons.",
        "holds in 2 of 2 comparisons.",
        "holds in 1 of 1 comparisons.",
        "holds in 0 of 1 comparisons.",
    ]


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
    said = recipe.verdict(frame)
    assert said[0] == f"{dci}: holds in 2 of 2 comparisons."
    assert said[1] == f"{much}: holds in 1 of 1 comparisons."
    assert said[3].endswith(
        "holds in 2 of 4 comparisons, by controls of our own in 0 of 4 comparisons."
    )
    assert len(frame) == 2 + 1 + 4 + 8


def test_figure_8_adds_the_distances_of_learned_maps(study):
    folder, table = study
    found = ablations.extend_8(table, folder)
    assert found["kind"].value_counts().to_dict() == {"original": 4, "w.o. CR": 2, "w.o. LT": 2}
    for row in found.itertuples():
        maps = uw.load(folder / "runs" / row.run).maps
        pairs = itertools.permutations(range(len(maps)), 2)
        expected = np.mean([distances(maps[i, j]) for i, j in pairs], axis=0)
        assert (row.frobenius, row.mean_l1) == pytest.approx(tuple(expected), rel=1e-4)
        assert row.num_latents == 3


@pytest.mark.parametrize(
    ("slug", "column"),
    [
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
def test_a_table_that_was_not_extended_is_refused(study, slug, column):
    with pytest.raises(RecipeError, match=f"the table has no column '{column}'; `extend` adds it"):
        find(f"vae-ensemble/{slug}").obtain(study[1])


def test_figure_11_measures_what_changes_along_each_latent_for_each_shape(study, images):
    folder, table = study
    found = pictures.extend_11(table, folder)
    assert len(found) == (2 * 1 + 2 * 2) * 3 * 3  # VAEs and members, latents, shapes
    run = run_of(models.scored(table), members=2, kind="original")
    model, rng = uw.load(folder / "runs" / run), np.random.default_rng(0)
    factors = rng.integers(0, images.grid.sizes, (8, 5))
    factors[:, 0] = 2
    code = model.encode(images.images(images.index(factors)), member=1)[0]
    changes = []
    for one in code:
        walk = np.tile(one, (7, 1))
        walk[:, 1] = [-3, -2, -1, 0, 1, 2, 3]
        changes.append(model.decode(walk, member=1).var(0).mean())
    (row,) = found[
        (found["run"] == run)
        & (found["member"] == 1)
        & (found["latent"] == 1)
        & (found["input"] == "heart")
    ].to_dict("records")
    assert row["change"] == pytest.approx(np.mean(changes), rel=1e-3)
    shown = found[found["picture"].notna()]
    assert set(shown["seed"]) == {0}
    assert len(shown["picture"].iloc[0]) == 7 * 64 * 64
    most = found.groupby(["run", "member"])["change"].transform("max")
    assert (found["active"] == (found["change"] >= 0.05 * most)).all()


def active(lists, **more):
    """A row per latent and input: for each method, which latents are active for which input."""
    return pd.DataFrame(
        [
            {"method": method, "run": method, "member": 0, "latent": latent, "input": name}
            | {"change": float(on), "active": on, "data": "rooms3d", **more}
            for method, inputs in lists.items()
            for name, latents in inputs.items()
            for latent, on in enumerate(map(bool, latents))
        ]
    )


def test_figure_11_counts_latents_that_some_shapes_leave_alone():
    recipe = find("vae-ensemble/figure-11")
    same = {"ellipse": [1, 1, 0], "heart": [1, 1, 0], "square": [1, 1, 0]}
    some = {"ellipse": [1, 0, 0], "heart": [1, 1, 1], "square": [1, 1, 0]}
    frame = recipe.obtain(active({"vae_ensemble": some, "vae": same}))
    assert whole(frame, recipe.claims["some_passive"])["measured"].tolist() == [2]
    assert whole(frame, recipe.claims["then_active"])["measured"].tolist() == [1]
    assert whole(frame, recipe.claims["same"])[["measured", "against"]].values.tolist() == [[0, 2]]
    assert all("holds in 1 of 1 comparisons" in sentence for sentence in recipe.verdict(frame))
    frame = recipe.obtain(active({"vae_ensemble": same, "vae": some}))
    assert all("holds in 0 of 1 comparisons" in sentence for sentence in recipe.verdict(frame))


def test_figures_12_13_compare_sharpness_with_a_vae_that_is_regularised_as_little(study):
    recipe = find("vae-ensemble/figures-12-13")
    same, some = {"one": [1, 0], "two": [1, 0]}, {"one": [1, 0], "two": [1, 1]}
    table = active({"vae_ensemble": some, "vae": same, "beta_vae": same})
    table["sharpness"] = table["method"].map({"vae_ensemble": 0.5, "vae": 0.3, "beta_vae": 0.6})
    frame = recipe.obtain(table)
    assert whole(frame, recipe.claims["depends"])["measured"].tolist() == [1]
    assert recipe.verdict(frame) == [
        "rooms3d stands in for celeba.",
        f"{recipe.claims['depends']}: holds in 1 of 1 comparisons.",
        f"{recipe.claims['same']}: holds in 1 of 1 comparisons.",
        f"{recipe.claims['sharper']}: holds in 1 of 1 comparisons, by controls of our own in 0 "
        "of 1 comparisons.",
    ]
    found = pictures.extend_12_13(study[1], study[0])
    assert found.groupby("method")["run"].nunique().to_dict() == {
        "beta_vae": 4,
        "vae": 2,
        "vae_ensemble": 2,
    }
    assert found["input"].nunique() == 2


def test_sharpness_is_that_of_neighbouring_pixels():
    flat = np.full((1, 8, 8, 1), 0.3)
    edge = flat.copy()
    edge[:, :, 4:] = 0.8
    assert traversals.sharpness(flat) == 0
    assert traversals.sharpness(edge) == pytest.approx(0.25 / 7)
    assert traversals.sharpness(edge.swapaxes(1, 2)) == pytest.approx(0.25 / 7)


@pytest.mark.parametrize(
    ("slug", "word"),
    [
        ("figure-2", "beta_vae"),
        ("figure-3", "3 members, 3 latents"),
        ("figure-6", "VAEs apart"),
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


def test_beyond_the_paper_scores_are_compared_by_size_and_by_neighbours():
    recipe = find("vae-ensemble/beyond")
    scores = {2: 0.5, 3: 0.7, 5: 0.8, 8: 0.7, 16: 0.9}
    rows = [
        {"members": n, "neighbours": k, "factor_vae": score, "dci": score / 2}
        for n, k, score in (
            *((n, -1, s + e) for n, s in scores.items() for e in (-0.1, 0.1)),
            (8, 1, 0.65),
            (8, 2, 0.2),
        )
    ]
    table = pd.DataFrame(rows).assign(method="vae_ensemble", gamma=1.0)
    frame = recipe.obtain(table)
    rises, slower = recipe.published()["claim"]
    assert whole(frame, rises)["of"].tolist() == ["n = 3 against 2", "n = 5 against 3"] * 2
    assert whole(frame, rises)["obtained"].eq("holds").all()
    beyond = whole(frame, rises, control=True)
    assert beyond["obtained"].tolist() == ["does not hold", "holds"] * 2
    gains = whole(frame, slower)
    assert gains[["measured", "against"]].values.tolist() == [
        pytest.approx([0.05, 0.2]),
        pytest.approx([0.025, 0.1]),
    ]
    few = frame[frame["claim"].str.startswith("members that are mapped to some")]
    assert few["against"].tolist() == pytest.approx([0.6, 0.6, 0.3, 0.3])
    assert few["obtained"].tolist() == ["holds", "does not hold"] * 2
    assert recipe.verdict(frame)[0] == (
        f"{rises}: holds in 4 of 4 comparisons, by controls of our own in 2 of 4 comparisons."
    )


def test_use_is_told_by_the_variance_of_means_not_by_the_noise():
    rng = np.random.default_rng(0)
    means = np.stack([rng.normal(size=(500, 2)) * [1, 0.01]])
    rows = polarised.latents_of_members(Latents(means, np.full_like(means, np.log(1 / 21))))
    assert (rows["log_delta"] < -2).all()
    assert rows["used"].tolist() == [True, False]
