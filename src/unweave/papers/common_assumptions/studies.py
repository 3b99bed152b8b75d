"""What the recipes of this paper train, at each scale: one study that all of them share."""

from typing import Any

from unweave.papers.grids import SLICE, STRENGTHS

__all__ = ["STUDIES", "THRESHOLD"]

THRESHOLD = 100_000
"""Steps over which AnnealedVAE's capacity grows, of 300,000; shorter runs keep the proportion."""

DATA = [
    "dsprites",
    "color_dsprites",
    "noisy_dsprites",
    "scream_dsprites",
    "smallnorb",
    "cars3d",
    "shapes3d",
]
METRICS = [
    "classic",
    "gaussian_total_correlation",
    "gaussian_wasserstein_correlation",
    "mutual_info_score",
    "active_units",
    "elbo",
]
SAMPLED = ["gaussian_total_correlation"]


def _methods(steps: int, strengths: slice) -> dict[str, dict[str, Any]]:
    """The grid, some of the strengths of each method, AnnealedVAE's growth in proportion."""
    chosen: dict[str, dict[str, Any]] = {
        method: {field: values[strengths] for field, values in grid.items()}
        for method, grid in STRENGTHS.items()
    }
    chosen["dip_vae_i"]["d_factor"] = 10
    chosen["dip_vae_ii"]["d_factor"] = 1
    chosen["annealed_vae"] |= {"gamma": 1000, "threshold": THRESHOLD * steps // 300_000}
    return chosen


def _study(
    scale: str, data: list[Any], seeds: int, steps: int, settings: dict[str, Any], strengths: slice
) -> dict[str, Any]:
    return {
        "name": f"common-assumptions-{scale}",
        "data": data,
        "methods": _methods(steps, strengths),
        "seeds": seeds,
        "steps": steps,
        "metrics": METRICS,
        "sampled": SAMPLED,
        "settings": settings,
    }


STUDIES: dict[str, dict[str, Any]] = {
    # Weak and strong of every method; a larger learning rate, so that 150 steps get somewhere.
    "smoke": _study(
        "smoke",
        [{"load": name, "slice": SLICE} for name in ("dsprites", "color_dsprites")],
        seeds=2,
        steps=150,
        settings={"batch": 16, "optimiser": {"lr": 1e-3, "variant": "tensorflow"}},
        strengths=slice(0, None, 5),
    ),
    # 144 models in twelve fleets of 12, a step of which takes 0.9 to 2.1 ms on an H200: 12 minutes
    # of training, and with scores and two fifths more to be sure 22. Both data sets are rendered.
    "hour": _study(
        "hour",
        ["dsprites", "color_dsprites"],
        seeds=2,
        steps=50_000,
        settings={"batch": 64, "precision": "bf16", "optimiser": {"variant": "tensorflow"}},
        strengths=slice(None),
    ),
    # 6 methods × 6 strengths × 50 seeds × 7 data sets: the 12,600 models.
    "paper": _study(
        "paper",
        DATA,
        seeds=50,
        steps=300_000,
        settings={"batch": 64, "precision": "bf16", "optimiser": {"variant": "tensorflow"}},
        strengths=slice(None),
    ),
}
