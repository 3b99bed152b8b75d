"""Consensus on planted factors: models, latents and signs."""

import re

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from unweave.select import Latents, consensus, mcc
from unweave.select.consensus import Consensus, _assigned, _groups
from unweave.select.ranking import DIVERGED


@pytest.fixture
def planted():
    """Ten models of 6 latents. Models 0 to 6 encode factors 0 to 4, models 7 and 8 only 0 to 2.

    Each latent of model 9 holds 0.6 of one factor and 0.4 of each other. All else is noise. Also
    the latent of each factor, -1 for none, and its sign, `[10, 5]` each.
    """
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(1_500, 5))
    codes = rng.normal(size=(10, 1_500, 6))
    where, signs = np.full((10, 5), -1), np.zeros((10, 5), int)
    for m in range(9):
        known = 5 if m < 7 else 3
        places = rng.permutation(6)[:known]
        signs[m, :known] = rng.choice([-1, 1], known)
        noise = 0.2 * rng.normal(size=(1_500, known))
        codes[m][:, places] = np.sinh(factors[:, :known] + noise) * signs[m, :known]
        where[m, :known] = places
    codes[9, :, :5] = factors @ (np.eye(5) - 0.4)
    return codes, factors, where, signs


def truth_of(found, factors):
    """Return the planted factor of each shared factor, and its sign."""
    between = np.corrcoef(found.T, factors.T)[: found.shape[1], found.shape[1] :]
    best = np.abs(between).argmax(1)
    return best, np.sign(between[np.arange(len(best)), best]).astype(int)


def counts_in(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def test_planted_factors_are_found_with_their_latents_and_signs(planted):
    codes, factors, where, signs = planted
    agreed = consensus(codes)
    assert counts_in(str(agreed)) == [5, 7, 10]
    assert agreed.factors["found_by"].tolist() == [9, 9, 9, 7, 7]
    truth, way = truth_of(agreed.codes, factors)
    assert set(truth[:3]) == {0, 1, 2}
    assert set(truth[3:]) == {3, 4}
    assert len(agreed.members) == 41
    for row in agreed.members.itertuples():
        assert row.latent == where[row.model, truth[row.factor]]
        assert row.sign == signs[row.model, truth[row.factor]] * way[row.factor]


def test_shared_code_is_closer_to_the_factor_than_any_member(planted):
    codes, factors, where, _ = planted
    agreed = consensus(codes)
    truth, _ = truth_of(agreed.codes, factors)
    for f, k in enumerate(truth):
        together = uw.metrics.mcc(agreed.codes[:, [f]], factors[:, [k]])["mcc"]
        alone = [
            uw.metrics.mcc(codes[m][:, [where[m, k]]], factors[:, [k]])["mcc"]
            for m in range(9)
            if where[m, k] >= 0
        ]
        assert together > max(alone)


def test_correlations_of_members_are_those_with_the_others(planted):
    codes = planted[0]
    members = consensus(codes).members
    group = members[members["factor"] == 3]
    first, others = group.iloc[2], group.drop(group.index[2])
    from scipy.stats import spearmanr

    mine = codes[first["model"], :, first["latent"]]
    each = [
        abs(spearmanr(mine, codes[m, :, a]).statistic)
        for m, a in zip(others["model"], others["latent"], strict=True)
    ]
    assert first["correlation"] == pytest.approx(np.mean(each), abs=1e-12)


def test_models_are_ranked_by_what_they_share(planted):
    ranking = consensus(planted[0]).ranking
    assert set(ranking["model"][:7]) == set(range(7))
    assert set(ranking["model"][7:9]) == {7, 8}
    assert (ranking["model"][9], ranking["score"][9], ranking["found"][9]) == (9, 0, 0)
    assert counts_in(ranking["reason"][8]) == [3, 5, 3]


def test_the_quorum_decides_what_is_shared(planted):
    codes = planted[0]
    assert counts_in(str(consensus(codes, quorum=0.9))) == [3, 9, 10]
    nothing = consensus(codes, quorum=1.0)
    assert counts_in(str(nothing)) == [10]
    assert nothing.codes.shape == (1_500, 0)
    assert nothing.factors.empty


def test_invariant_to_order_sign_and_permutation(planted):
    codes = planted[0]
    order, places = np.random.default_rng(1).permutation(10), [3, 0, 5, 1, 4, 2]
    moved = consensus(codes[order][:, :, places] * [1, -1, 2, -5, 1, 1])
    agreed = consensus(codes)

    def groups(result, models, latents):
        return {
            frozenset((models[m], latents[a]) for m, a in group[["model", "latent"]].to_numpy())
            for _, group in result.members.groupby("factor")
        }

    assert groups(moved, order, places) == groups(agreed, range(10), range(6))
    expected = agreed.ranking.set_index("model")["score"]
    for model, score in zip(moved.ranking["model"], moved.ranking["score"], strict=True):
        assert score == pytest.approx(expected[order[model]], abs=1e-12)


def test_passive_and_diverged_latents_are_unassigned(planted):
    codes, _, where, _ = planted
    kl = np.ones((10, 6))
    kl[0, where[0, 0]] = 0.002
    codes[9] = np.nan
    agreed = consensus(Latents(codes, kl=kl))
    assert counts_in(str(agreed)) == [5, 6, 9]  # of the models that have not diverged
    mine = agreed.members[agreed.members["model"] == 0]
    assert where[0, 0] not in set(mine["latent"])
    assert agreed.ranking["reason"].iloc[-1] == DIVERGED


def test_latents_of_one_model_are_never_the_same_factor():
    z = np.random.default_rng(0).normal(size=(500, 1))
    agreed = consensus(np.stack([np.hstack([z, z]), np.hstack([z, -z]), np.hstack([-z, z])]))
    assert agreed.factors["found_by"].tolist() == [3, 3]
    assert not agreed.members.duplicated(["factor", "model"]).any()


def test_a_trained_fleet_is_encoded():
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
    fleet = uw.train(uw.methods.VAE(), data, seeds=2, steps=3, batch=8, progress=False)
    agreed = uw.select.consensus(fleet, data, rows=100)
    assert len(agreed.ranking) == 2
    assert len(agreed.codes) == 100


def test_matches_below_the_threshold_do_not_displace_one_above_it():
    """Two weak pairs have the larger sum, but only the strong pair is above the threshold."""
    strength = np.zeros((2, 2, 2))
    strength[:, 0] = [[0.8, 0.69], [0.69, 0.0]]
    factor_of = np.array([[0, 1], [-1, -1]])
    informative = np.array([True, True])
    assert _assigned(strength, factor_of, informative, 0.7).tolist() == [0, 2]


def test_early_models_move_to_better_groups():
    """Model 1 first joins model 0, then moves to the more similar models 2 and 3."""
    strength = np.array(
        [[1, 0.72, 0.1, 0.1], [0.72, 1, 0.95, 0.95], [0.1, 0.95, 1, 0.95], [0.1, 0.95, 0.95, 1]]
    )
    informative = np.ones((4, 1), bool)
    groups = _groups(strength[:, None, :, None], informative, np.arange(4), 0.7)[:, 0]
    assert groups[1] == groups[2] == groups[3] != groups[0]


def test_signs_follow_the_most_agreeing_model(planted):
    codes = planted[0]
    members = consensus(codes).members
    first = members.groupby("factor").first()
    assert (first["model"] == mcc(codes)["model"][0]).all()
    assert (first["sign"] == 1).all()


def test_a_consensus_that_no_model_found_completely_does_not_count_zero_models():
    factors = pd.DataFrame({"factor": [0, 1], "of": 3})
    ranking = pd.DataFrame({"found": [1, 1, 0]})
    agreed = Consensus(factors, pd.DataFrame(), ranking, np.empty((0, 2)))
    assert counts_in(str(agreed)) == [2, 3]
