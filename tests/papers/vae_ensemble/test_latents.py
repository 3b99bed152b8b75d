"""Latents of members, on tables with known answers and on a small study."""

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.papers.vae_ensemble.tables import held, run_of, whole
from unweave.metrics.polarised_regime import polarised_regime
from unweave.papers import find
from unweave.papers.vae_ensemble import latents
from unweave.papers.vae_ensemble.scores import scored
from unweave.select import Latents


def test_figure_3_measures_every_latent_of_every_member(study, images):
    folder, table = study
    found = latents.extend_polarised(table, folder)
    assert len(found) == (2 * 1 + 2 * 2 + 2 * 3) * 3  # β-VAEs, and ensembles of two and of three
    for run, of_run in found.groupby("run"):
        model = uw.load(folder / "runs" / run)
        for member, rows in of_run.groupby("member"):
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
    assert latents.extend_polarised(table, folder).equals(found)


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
    looks = frame[frame["claim"] == recipe.controls["looks"]]
    assert looks["against"].tolist() == [2.5, 2.5, 3, 3, 3]
    assert looks["obtained"].eq("does not hold").all()
    settles = frame[frame["claim"] == recipe.controls["settles"]]
    assert settles["against"].tolist() == pytest.approx([1 / 21, 1 / 41])
    assert settles["obtained"].tolist() == ["holds", "does not hold"]
    assert held(recipe, frame)[recipe.claims["more_than_beta"]] == ((1, 1), (0, 1))


def test_figures_9_10_compare_gaps_of_log_delta_between_gammas():
    recipe = find("vae-ensemble/figures-9-10")
    one = latent_rows({"a": [[-1, 0, 2], [-1, 1, 2]]}, [True] * 3, gamma=1)
    ten = latent_rows({"b": [[-4, -4, 3], [-4, 3, 3]]}, [True] * 3, gamma=10)
    frame = recipe.obtain(pd.concat([one, ten]))
    gaps = whole(frame, recipe.claims["separates"])
    assert gaps[["measured", "against"]].values.tolist() == [[7, 2]]
    assert "dsprites" in recipe.verdict(frame)[0]  # which stands in for faces
    assert held(recipe, frame)[recipe.claims["separates"]] == ((1, 1), (0, 0))
    swapped = pd.concat([one.assign(gamma=10), ten.assign(gamma=1, data="celeba")])
    frame = recipe.obtain(swapped.assign(data="celeba"))
    assert held(recipe, frame)[recipe.claims["separates"]] == ((0, 1), (0, 0))
    assert recipe.verdict(frame)[0].startswith(recipe.claims["alike"])


def test_use_depends_on_the_variance_of_means_not_on_noise():
    rng = np.random.default_rng(0)
    means = np.stack([rng.normal(size=(500, 2)) * [1, 0.01]])
    rows = latents.latents_of_members(Latents(means, np.full_like(means, np.log(1 / 21))))
    assert (rows["log_delta"] < -2).all()
    assert rows["used"].tolist() == [True, False]


def test_figure_11_measures_the_change_along_each_latent_for_each_shape(study, images):
    folder, table = study
    found = latents.extend_11(table, folder)
    assert len(found) == (2 * 1 + 2 * 2) * 3 * 3  # VAEs and members, latents, shapes
    run = run_of(scored(table), members=2, kind="original")
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


def test_figure_11_counts_latents_that_are_passive_for_some_shapes():
    recipe = find("vae-ensemble/figure-11")
    same = {"ellipse": [1, 1, 0], "heart": [1, 1, 0], "square": [1, 1, 0]}
    some = {"ellipse": [1, 0, 0], "heart": [1, 1, 1], "square": [1, 1, 0]}
    frame = recipe.obtain(active({"vae_ensemble": some, "vae": same}))
    assert whole(frame, recipe.claims["some_passive"])["measured"].tolist() == [2]
    assert whole(frame, recipe.claims["then_active"])["measured"].tolist() == [1]
    assert whole(frame, recipe.claims["same"])[["measured", "against"]].values.tolist() == [[0, 2]]
    assert {counts[0] for counts in held(recipe, frame).values()} == {(1, 1)}
    frame = recipe.obtain(active({"vae_ensemble": same, "vae": some}))
    assert {counts[0] for counts in held(recipe, frame).values()} == {(0, 1)}


def test_figures_12_13_compare_sharpness_with_an_equally_regularised_vae(study):
    recipe = find("vae-ensemble/figures-12-13")
    same, some = {"one": [1, 0], "two": [1, 0]}, {"one": [1, 0], "two": [1, 1]}
    table = active({"vae_ensemble": some, "vae": same, "beta_vae": same})
    table["sharpness"] = table["method"].map({"vae_ensemble": 0.5, "vae": 0.3, "beta_vae": 0.6})
    frame = recipe.obtain(table)
    assert whole(frame, recipe.claims["depends"])["measured"].tolist() == [1]
    assert held(recipe, frame) == {
        recipe.claims["depends"]: ((1, 1), (0, 0)),
        recipe.claims["same"]: ((1, 1), (0, 0)),
        recipe.claims["sharper"]: ((1, 1), (0, 1)),
    }
    found = latents.extend_12_13(study[1], study[0])
    assert found.groupby("method")["run"].nunique().to_dict() == {
        "beta_vae": 4,
        "vae": 2,
        "vae_ensemble": 2,
    }
    assert found["input"].nunique() == 2


def test_sharpness_compares_neighbouring_pixels():
    flat = np.full((1, 8, 8, 1), 0.3)
    edge = flat.copy()
    edge[:, :, 4:] = 0.8
    assert latents.sharpness(flat) == 0
    assert latents.sharpness(edge) == pytest.approx(0.25 / 7)
    assert latents.sharpness(edge.swapaxes(1, 2)) == pytest.approx(0.25 / 7)
