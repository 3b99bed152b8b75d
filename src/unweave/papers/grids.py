"""Grids that several papers share: strengths of methods, and few sprites for a first try."""

__all__ = ["SLICE", "STRENGTHS"]

STRENGTHS: dict[str, dict[str, list[float]]] = {
    "beta_vae": {"beta": [1, 2, 4, 6, 8, 16]},
    "factor_vae": {"gamma": [10, 20, 30, 40, 50, 100]},
    "dip_vae_i": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "dip_vae_ii": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "beta_tc_vae": {"beta": [1, 2, 4, 6, 8, 10]},
    "annealed_vae": {"c_max": [5, 10, 25, 50, 75, 100]},
}
"""The six methods and the six strengths of each, in the order of the study."""

SLICE = {
    "shape": [0, 2],
    "scale": [1, 5],
    "orientation": [0, 10],
    "posX": list(range(0, 32, 4)),
    "posY": list(range(0, 32, 4)),
}
"""512 sprites, of which a network learns something within seconds."""
