"""What the recipes of this paper train, at each scale: single models and ensembles.

All studies of a scale share a folder, and what two of them ask for is trained once.
"""

from typing import Any

from unweave.papers.grids import SLICE

__all__ = ["ABLATIONS", "APART", "BEYOND", "COLOUR", "STUDIES"]

SINGLE: dict[str, dict[str, Any]] = {
    "vae": {},
    "beta_vae": {"beta": 4},
    "factor_vae": {"gamma": 40},
    "dip_vae_i": {"lambda_od": 5, "d_factor": 10},
    "dip_vae_ii": {"lambda_od": 5, "d_factor": 1},
    "beta_tc_vae": {"beta": 4},
}
"""The methods of Table 1 beside ensembles."""
MEMBERS, GAMMAS, LATENTS = [2, 3, 4, 5], [1, 5, 10], [10, 16, 32]
LARGEST_GAMMA = 10
"""That of the ensembles whose maps the paper shows."""
SPRITES = {"load": "dsprites", "slice": {**SLICE, "shape": [0, 1, 2]}}
ROOMS = {
    "load": "rooms3d",
    "slice": {
        "floor_hue": [0, 5],
        "wall_hue": [0, 5],
        "object_hue": [0, 3, 6],
        "scale": [0, 7],
        "orientation": [0, 7, 14],
    },
}
"""288 rooms, for minutes on a CPU."""
QUICK: dict[str, Any] = {"batch": 16, "architecture": "conv4x4", "optimiser": {"lr": 1e-3}}
FULL: dict[str, Any] = {"architecture": "conv4x4", "precision": "bf16"}


def _scores(members: list[int], gammas: list[int], controls: list[int]) -> dict[str, Any]:
    """Single models and ensembles, and two controls.

    A code that n members decode pays for one KL divergence, hence single models with β = 1 / n;
    and ensembles whose targets do not follow, so that unused latents keep the prior's variance.
    """
    return {
        **SINGLE,
        "beta_vae": {"beta": [4, *(1 / n for n in members)]},
        "vae_ensemble": [
            {"members": members, "gamma": gammas},
            {"members": controls, "gamma": 1, "stop_grad_target": True},
        ],
    }


def _ablations(members: list[int], gammas: list[int]) -> dict[str, Any]:
    """Ensembles, without cross reconstruction, and without alignment, where γ has no say."""
    return {
        "vae_ensemble": [
            {"members": members, "gamma": gammas},
            {"members": members, "gamma": gammas, "cross_reconstruction": False},
            {"members": members, "gamma": 0, "alignment": False},
        ]
    }


def _apart(members: list[int]) -> dict[str, Any]:
    """Ensembles, and ten VAEs side by side that do not know of each other."""
    nothing = {"cross_reconstruction": False, "alignment": False}
    return {
        "vae_ensemble": [
            {"members": members, "gamma": LARGEST_GAMMA},
            {"members": 10, "gamma": 0, **nothing},
        ]
    }


def _beyond(members: list[int], partly: list[int], neighbours: list[int]) -> dict[str, Any]:
    """Ensembles with all maps, as published and larger ones, and large ones with fewer maps."""
    return {
        "vae_ensemble": [
            {"members": members, "gamma": 1},
            {"members": partly, "gamma": 1, "neighbours": neighbours},
        ]
    }


def _study(kind: str, scale: str, methods: dict[str, Any], **keys: Any) -> dict[str, Any]:
    sizes: dict[str, dict[str, Any]] = {
        "smoke": {"data": [SPRITES], "seeds": 2, "steps": 100, "settings": QUICK},
        "hour": {"data": ["dsprites"], "seeds": 2, "steps": 15_000, "settings": FULL},
        "paper": {"data": ["dsprites"], "seeds": 10, "steps": 300_000, "settings": FULL},
    }
    return {
        "name": f"{kind}-{scale}",
        "methods": methods,
        "metrics": ["factor_vae", "dci"],
        **sizes[scale],
        **keys,
    }


# A step of an ensemble takes 0.13, 0.26, 0.44 and 0.65 ms for n = 2 to 5 on an H200, 1.5 for
# n = 8, 5.9 for n = 16 (benchmarks/results/ensemble_h200.json), in large fleets; six ensembles in
# a fleet take 1.4 times as long. Minutes below are by the former.
STUDIES: dict[str, dict[str, Any]] = {
    "smoke": _study("vae-ensemble", "smoke", _scores([2, 3], [1, 10], controls=[2])),
    # 48 models, 28 of them ensembles with γ = 1, 5 and 10: 3 minutes.
    "hour": _study("vae-ensemble", "hour", _scores(MEMBERS, GAMMAS, controls=[2, 3])),
    "paper": _study("vae-ensemble", "paper", _scores(MEMBERS, GAMMAS, controls=MEMBERS)),
}
"""Single models and ensembles, which most recipes share."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "smoke": _study("vae-ensemble-ablations", "smoke", _ablations([2, 3], [1, 10])),
    # 1.5 minutes beyond the ensembles above.
    "hour": _study("vae-ensemble-ablations", "hour", _ablations(MEMBERS, [1, 10])),
    "paper": _study("vae-ensemble-ablations", "paper", _ablations(MEMBERS, GAMMAS)),
}
APART: dict[str, dict[str, Any]] = {
    "smoke": _study("vae-ensemble-apart", "smoke", _apart([2, 3])),
    # Half a minute beyond the ensembles above.
    "hour": _study("vae-ensemble-apart", "hour", _apart(MEMBERS)),
    "paper": _study("vae-ensemble-apart", "paper", _apart(MEMBERS)),
}


def _colour(
    scale: str, gammas: list[int], latents: list[int], settings: dict[str, Any], **keys: Any
) -> dict[str, Any]:
    single = {"vae": {}, "beta_vae": {"beta": 1 / 2}}
    methods = {**single, "vae_ensemble": {"members": [2, 3], "gamma": gammas}}
    more = {"metrics": ["polarised_regime"], "settings": {**settings, "latents": latents}}
    return _study("vae-ensemble-colour", scale, methods, **more, **keys)


COLOUR: dict[str, dict[str, Any]] = {
    # Curves look at maps every 100 steps, so that 200 is the least that shows a change.
    "smoke": _colour("smoke", [1, 10], [10, 16], {**QUICK, "batch": 4}, data=[ROOMS], steps=200),
    # 0.27 and 0.43 ms a step: 1 minute.
    "hour": _colour("hour", [1, 10], LATENTS, FULL, data=["rooms3d"], seeds=1, steps=8_000),
    "paper": _colour("paper", GAMMAS, LATENTS, FULL, data=["celeba"], seeds=5),
}
"""What the paper shows of CelebA, where nothing is downloaded on coloured rooms."""
BEYOND: dict[str, dict[str, Any]] = {
    "smoke": _study("vae-ensemble-beyond", "smoke", _beyond([2, 8], [8], [1]), seeds=1),
    # 1.5 minutes for 8 members and for 8 and 16 with fewer maps, and as much for 16 with all.
    "hour": _study(
        "vae-ensemble-beyond", "hour", _beyond([*MEMBERS, 8, 16], [8, 16], [1, 2]), seeds=1
    ),
    "paper": _study("vae-ensemble-beyond", "paper", _beyond([*MEMBERS, 8, 16], [8, 16], [1, 2])),
}
"""Larger ensembles than the paper's, and partly coupled ones."""
