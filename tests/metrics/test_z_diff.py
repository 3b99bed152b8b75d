"""Z-diff is the BetaVAE score, number for number."""

from unweave.metrics import beta_vae, z_diff


def test_it_is_the_beta_vae_score(golden):
    options = {"seed": 3, "train": 500, "test": 300, "batch": 2}
    scores = z_diff(golden.codes, golden.factors, **options)
    plain = beta_vae(golden.codes, golden.factors, **options)
    assert scores["z_diff"] == plain["beta_vae"] < 1
    assert "beta_vae" not in scores
