"""Z-min variance is the FactorVAE score, number for number."""

from unweave.metrics import factor_vae, z_min_var


def test_it_is_the_factor_vae_score(golden):
    scores = z_min_var(golden.codes, golden.factors, seed=3, batch=5)
    plain = factor_vae(golden.codes, golden.factors, seed=3, batch=5)
    assert scores["z_min_var"] == plain["factor_vae"]
    assert scores["active"] == plain["active"]
    assert "factor_vae" not in scores
