"""UDR compared with a slow textbook version and closed forms, and its invariances."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

import unweave as uw
from tests.raising import about
from tests.select.planted import rotation, whitened
from unweave.errors import UnknownNameError
from unweave.select import Latents, SelectionError, udr, udr_scores
from unweave.select.ranking import DIVERGED
from unweave.select.udr import lasso_weights, relevance_rows

KINDS = [(r, p) for r in ("lasso", "spearman") for p in ("paper", "library")]


def textbook(models, kl, relevance, pooling):
    """UDR_ij `[M, M]`, one regression and one latent at a time."""
    count = len(models)
    pairs = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            x, y = models[i][:, kl[i] > 0.01], models[j][:, kl[j] > 0.01]
            R = np.zeros((x.shape[1], y.shape[1]))
            for b in range(y.shape[1]):
                if relevance == "lasso":
                    scaled = StandardScaler().fit_transform(x), StandardScaler().fit_transform(y)
                    model = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000)
                    R[:, b] = abs(model.fit(scaled[0], scaled[1][:, b]).coef_)
                else:
                    R[:, b] = [abs(spearmanr(a, y[:, b]).statistic) for a in x.T]
            told = [
                R[:, b].max() ** 2 / R[:, b].sum() if R[:, b].any() else 0
                for b in range(y.shape[1])
            ]
            telling = [
                R[a].max() ** 2 / R[a].sum() if R[a].any() else 0 for a in range(x.shape[1])
            ]
            if pooling == "paper":
                pairs[i, j] = (sum(told) + sum(telling)) / (len(told) + len(telling))
            else:
                pairs[i, j] = (np.mean(told) + np.mean(telling)) / 2
    return pairs


@pytest.mark.parametrize(("relevance", "pooling"), KINDS)
def test_pairs_and_medians_equal_textbook(models, kl, relevance, pooling):
    scores = udr_scores(Latents(models, kl=kl), relevance=relevance, pooling=pooling)
    expected = textbook(models, kl, relevance, pooling)
    apart = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(scores.pairs[apart], expected[apart], atol=1e-6)
    medians = [np.median(np.delete(expected[:, j], j)) for j in range(5)]
    np.testing.assert_allclose(scores.models, medians, atol=1e-6)


def test_poolings_differ_only_for_different_numbers_of_latents(models, kl):
    paper = udr_scores(Latents(models, kl=kl)).pairs
    library = udr_scores(Latents(models, kl=kl), pooling="library").pairs
    same = (kl > 0.01).sum(1)[:, None] == (kl > 0.01).sum(1)
    np.testing.assert_allclose(paper[same], library[same], atol=1e-12)
    assert (abs(paper - library)[~same] > 1e-4).all()


def test_signed_scaled_permutations_of_uncorrelated_codes_have_the_closed_form():
    """The Lasso shrinks a weight of 1 by its penalty of 0.1."""
    z = whitened(1_000, 5)
    copies = np.stack([z, z, -z[:, ::-1], z[:, [3, 1, 0, 4, 2]] * [1, -2, 0.1, 30, 1]])
    scores = udr_scores(Latents(copies))
    np.testing.assert_allclose(scores.pairs, 0.9, atol=1e-9)
    np.testing.assert_allclose(scores.latents, 0.9, atol=1e-9)
    # Rank correlations of cyclic shifts are known exactly; here they are 0.
    steps = np.indices((7, 7)).reshape(2, -1).T
    grids = np.stack([steps, -steps[:, ::-1]]).astype(float)
    assert udr_scores(Latents(grids), relevance="spearman").models == pytest.approx([1, 1])


def test_independent_codes_score_near_zero():
    codes = np.random.default_rng(0).normal(size=(4, 5_000, 6))
    assert (udr_scores(Latents(codes)).models == 0).all()  # each weight is below the penalty
    spearman = udr_scores(Latents(codes), relevance="spearman").models
    assert (spearman > 0).all()
    assert (spearman < 0.02).all()


def test_a_rotation_by_45_degrees_has_the_closed_form():
    """Each weight is 1/√2 - 0.1, shared by two: (w² / 2w) = w / 2."""
    z = whitened(500, 2)
    turned = z @ np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    pairs = udr_scores(Latents(np.stack([z, turned]))).pairs
    assert pairs[0, 1] == pytest.approx((np.sqrt(0.5) - 0.1) / 2)


@pytest.mark.parametrize("relevance", ["lasso", "spearman"])
def test_rotated_models_rank_below_aligned_ones(relevance):
    z = whitened(1_000, 6)
    codes = np.stack([*(z @ rotation(6, k) for k in range(3)), *(z * (-1) ** k for k in range(5))])
    ranking = udr(codes, relevance=relevance)
    assert sorted(ranking["model"][-3:]) == [0, 1, 2]
    assert ranking["score"][4] > ranking["score"][5] + 0.3


def test_passive_latents_do_not_matter(models, kl):
    before = udr_scores(Latents(models, kl=kl))
    models[1, :, 2] = np.exp(models[0, :, 0]) * 100
    models[3, :, 0] = 7
    after = udr_scores(Latents(models, kl=kl))
    np.testing.assert_array_equal(before.pairs, after.pairs)
    assert np.isnan(after.latents[[1, 3], [2, 0]]).all()
    assert np.isfinite(after.latents).sum() == 18


@pytest.mark.parametrize(("relevance", "pooling"), KINDS)
def test_invariant_to_order_sign_and_permutation(models, kl, relevance, pooling):
    kind = {"relevance": relevance, "pooling": pooling}
    scores = udr_scores(Latents(models, kl=kl), **kind)
    order, places = np.array([4, 2, 0, 1, 3]), np.array([2, 0, 3, 1])
    changed = models[order][:, ::-1, places] * [1, -1, 5, -0.2] + 3
    moved = udr_scores(Latents(changed, kl=kl[order][:, places]), **kind)
    np.testing.assert_allclose(moved.models, scores.models[order], atol=1e-8)
    np.testing.assert_allclose(moved.latents, scores.latents[order][:, places], atol=1e-8)


def test_compare_same_uses_only_equal_settings(models):
    latents = Latents(models, settings=["a", "b", "a", "b", "c"])
    scores = udr_scores(latents, compare="same")
    assert scores.models[0] == scores.pairs[2, 0]
    assert scores.models[3] == scores.pairs[1, 3]
    assert np.isnan(scores.models[4])
    last = udr(latents, compare="same").iloc[-1]
    assert last["run"] == "4"
    assert "no other model" in last["reason"]
    with pytest.raises(SelectionError, check=about("settings", None)):
        udr(models, compare="same")


def test_diverged_models_come_last_and_are_not_compared(models):
    with_lost = np.concatenate([models, np.full((1, 400, 4), np.nan)])
    with_lost[5, 0, 0] = np.inf
    ranking = udr(with_lost)
    assert ranking["run"].iloc[-1] == "5"
    assert ranking["reason"].iloc[-1] == DIVERGED
    np.testing.assert_array_equal(ranking["score"][:5], udr(models)["score"])


def test_model_without_informative_latents_scores_zero(models, kl):
    kl[2] = 0
    last = udr(Latents(models, kl=kl)).iloc[-1]
    assert (last["model"], last["score"]) == (2, 0)
    assert "informative" in last["reason"]


def test_ranking_has_reasons(models, kl):
    ranking = udr(Latents(models, kl=kl, runs=list("abcde")))
    assert ranking.columns[:4].tolist() == ["run", "score", "reason", "model"]
    assert ranking["score"].is_monotonic_decreasing
    row = ranking[ranking["run"] == "b"].iloc[0]
    for datum in ("4 other models", f"{row['score']:.2f}"):
        assert datum in row["reason"]
    scores = udr_scores(Latents(models, kl=kl))
    assert row["best_latent_score"] == np.nanmax(scores.latents[1])
    assert row["best_latent"] == np.nanargmax(scores.latents[1])


@pytest.mark.parametrize("choice", ["relevance", "compare", "pooling"])
def test_unknown_choices_are_rejected(models, choice):
    with pytest.raises(UnknownNameError, check=about(value="nothing")):
        udr(models, **{choice: "nothing"})


def test_a_trained_fleet_is_encoded_and_ranked():
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
    method = uw.methods.BetaVAE(beta=[1.0, 4.0])
    fleet = uw.train(method, data, seeds=2, steps=3, batch=8, progress=False)
    ranking = uw.select.udr(fleet, data, rows=200, compare="same")
    assert set(ranking["run"]) == {config.hash for config in fleet.configs}
    assert (ranking["compared"] == 1).all()
    rows = np.random.default_rng(0).permutation(1024)[:200]
    means, logvars = fleet.encode(data.images(rows))
    expected = udr_scores(Latents(means, logvars)).pairs
    pairs = {
        frozenset((a, b))
        for a in range(4)
        for b in range(4)
        if a != b and fleet.configs[a].method == fleet.configs[b].method
    }
    assert len(pairs) == 2
    for a, b in pairs:
        score = ranking.set_index("model")["score"]
        assert score[a] == pytest.approx(expected[b, a], abs=1e-6)


def test_lasso_entries_equal_scikit_learn(models):
    rows = list(relevance_rows(Latents(models)))
    scaled = [StandardScaler().fit_transform(z) for z in models]
    for i, source in enumerate(scaled):
        for j, target in enumerate(scaled):
            fitted = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(source, target)
            np.testing.assert_allclose(rows[i][:, j], np.abs(fitted.coef_.T), atol=1e-7)


def test_spearman_entries_equal_scipy(models):
    models[2] = models[2].round(1)  # ties
    rows = list(relevance_rows(Latents(models), "spearman"))
    for i in range(5):
        for j in range(5):
            slow = [[abs(spearmanr(a, b).statistic) for b in models[j].T] for a in models[i].T]
            np.testing.assert_allclose(rows[i][:, j], slow, atol=1e-12)


def test_nearly_equal_predictors_converge_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    x[:, 1] = x[:, 0] + 0.05 * rng.normal(size=300)
    x = StandardScaler().fit_transform(x)
    y = StandardScaler().fit_transform(x @ rng.normal(size=(6, 3)) + rng.normal(size=(300, 3)))
    ours = lasso_weights(x.T @ x / 300, x.T @ y / 300, alpha=0.01)
    fitted = Lasso(alpha=0.01, tol=1e-13, max_iter=1_000_000).fit(x, y)
    np.testing.assert_allclose(ours, fitted.coef_.T, atol=1e-6)


def test_uninformative_latents_have_zero_relevance(models, kl):
    for relevance in ("lasso", "spearman"):
        rows = np.stack(list(relevance_rows(Latents(models, kl=kl), relevance)))
        assert not rows[1, 2].any()
        assert not rows[:, :, 1, 2].any()
        assert rows[1, 1].any()
