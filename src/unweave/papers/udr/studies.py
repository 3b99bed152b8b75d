"""What the recipe trains, at each scale: models with ground truth, to check a choice without."""

from typing import Any

from unweave.papers.grids import SLICE, STRENGTHS

__all__ = ["STUDIES"]


def _study(scale: str, **keys: Any) -> dict[str, Any]:
    return {"name": f"udr-{scale}", "metrics": ["classic"], **keys}


STUDIES: dict[str, dict[str, Any]] = {
    "smoke": _study(
        "smoke",
        data=[{"load": "dsprites", "slice": SLICE}],
        methods={"beta_vae": {"beta": [1, 4, 16]}},
        seeds=3,
        steps=300,
        settings={"batch": 16, "optimiser": {"lr": 1e-3}},
    ),
    # 120 models at 45 µs a step: 6 minutes of training, and cores for the scores meanwhile.
    "hour": _study(
        "hour",
        data=["dsprites"],
        methods={"beta_vae": STRENGTHS["beta_vae"]},
        seeds=20,
        steps=60_000,
        settings={"precision": "bf16"},
    ),
    "paper": _study(
        "paper",
        data=["dsprites"],
        methods={**STRENGTHS, "dip_vae_i": {**STRENGTHS["dip_vae_i"], "d_factor": 10}},
        seeds=50,
        steps=300_000,
        settings={"precision": "bf16"},
    ),
}
