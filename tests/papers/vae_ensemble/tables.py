"""Shared test tables with known answers, and helpers to read them."""

import pandas as pd


def run_of(table, seed=0, **settings):
    for name, value in settings.items():
        table = table[table[name] == value]
    (run,) = table[table["seed"] == seed]["run"].unique()
    return run


def whole(frame, claim, control=False):
    """The comparisons of a claim: published ones or controls."""
    return frame[(frame["claim"] == claim) & (frame["published"].isna() == control)]


def ablated(whole_scores, alone, free):
    """Ensembles of two by γ, with two seeds 0.02 apart; without alignment, γ is 0."""
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


def held(recipe, frame):
    """Counts by claim or finding: held and total, and the same for controls."""
    return {c.text: ((c.held, c.total), c.controls) for c in recipe.counts(frame)}
