"""What the recipes of this paper train, at each scale: first stages, second ones, and others.

All studies of a scale share a folder, and what two of them ask for is trained once.
"""

from typing import Any

__all__ = ["ABLATIONS", "CONTROLS", "FACES", "GANS", "HIGH", "SIZES", "STUDIES", "C", "Z"]

C, Z, CARS, NORB = 10, 5, "cars3d", "smallnorb"
"""Latents of both stages; the paper takes 10 for Z on SmallNORB."""
BETA = 4
"""Where sizes are compared, and parts left out."""
HIGH = 16
"""The penalty of C where it comes second, in the fifth ablation."""
MATERIALS = {"shape": [0, 1, 2], "scale": 5, "posX": [8, 16, 24], "posY": [8, 16, 24]}
FEW = {
    "load": "textured_dsprites",
    "slice": {**MATERIALS, "orientation": [0, 10], "material": [0, 3, 6, 9]},
}
"""216 images, for minutes on a CPU."""
MANY = {
    "name": "textured",
    "load": "textured_dsprites",
    "slice": {
        "scale": [2, 5],
        "orientation": list(range(0, 40, 4)),
        "posX": list(range(0, 32, 2)),
        "posY": list(range(0, 32, 2)),
    },
}
"""245,760 images."""
QUICK: dict[str, Any] = {"batch": 16, "optimiser": {"lr": 1e-3}}
FULL: dict[str, Any] = {"batch": 64, "precision": "bf16"}
SECOND: dict[str, dict[str, Any]] = {
    "smoke": {"architecture": "small_dcgan"},
    "hour": {"architecture": "dcgan", "batch": 32, "init": "normal"},
    "paper": {"architecture": "dcgan", "batch": 32, "init": "normal"},
}
BIG = {"smoke": "small_big_conv", "hour": "big_conv", "paper": "big_conv"}
STEPS = {"smoke": (300, 300), "hour": (12_000, 3_000), "paper": (300_000, 55_000)}
"""Of both stages; a hundred passes over Cars3D are 55,000 batches of 32."""
# What the `hour` took, with four other jobs on the same H200 and with all scores: the first study
# 1,534 s, FID of its 13 models among them, the ablations 995 s, the faces 216 s. Steps were the
# smaller part: three small first stages at once made 1,400 to 1,800 model-steps a second, a large
# VAE 166 and a large β-TCVAE 77, both stages together (M1) 129; second stages stood still for
# minutes while SSIM of other models was computed on a core, which a GPU does now. By the benchmark
# (`stages_h200.json`) a step of a second stage takes 1.5 to 2.3 ms per model in fleets of 4 and 1.
SIZE: dict[str, dict[str, Any]] = {
    "smoke": {"data": [FEW], "seeds": 1, "settings": QUICK},
    "hour": {"data": [MANY], "seeds": 1, "settings": FULL},
    "paper": {"data": [CARS, NORB], "seeds": 5, "settings": FULL},
}


def _study(kind: str, scale: str, methods: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {
        "name": f"{kind}-{scale}",
        "methods": methods,
        "metrics": ["mig", "pixel_error"],
        "steps": STEPS[scale][0],
        **SIZE[scale],
        **keys,
    }


def _second(scale: str, first: Any, latents: Any = Z, **fields: Any) -> dict[str, Any]:
    """A second stage over some first."""
    settings = {**SECOND[scale], "latents": latents}
    return {"first": first, "steps": STEPS[scale][1], "settings": settings, **fields}


def _student(scale: str, first: Any) -> dict[str, Any]:
    """Jacobian supervision, which has a learning rate of its own."""
    second = _second(scale, first)
    rate = {} if scale == "smoke" else {"optimiser": {"lr": 3e-4}}
    return {**second, "settings": {**second["settings"], **rate}}


def _scores(
    scale: str,
    betas: list[float],
    extremes: list[float],
    of_big: list[float] | None = None,
) -> dict[str, Any]:
    """Two stages; and single ones with as many latents, and with as many parameters besides.

    Args:
        scale: Of the recipe.
        betas: Of first stages.
        extremes: Of those that have students.
        of_big: Of the models with as many parameters as two stages; None for all.
    """
    large = {"latents": C + Z}
    big: dict[str, Any] = {"settings": {**large, "architecture": BIG[scale]}}
    return {
        "beta_tc_vae": [
            {"beta": betas},
            {"beta": betas, "settings": large},
            {"beta": of_big or betas, **big},
        ],
        "vae": big,
        "ms_vae": _second(scale, "beta_tc_vae"),
        "jacobian": _student(scale, {"beta_tc_vae": {"beta": extremes}}),
    }


STUDIES: dict[str, dict[str, Any]] = {
    "smoke": _study("ms-vae", "smoke", _scores("smoke", [1, 8], [1, 8])),
    # Of the large models the recipes compare these: the VAE, and the β-TCVAE with the largest β.
    "hour": _study("ms-vae", "hour", _scores("hour", [1, BETA, 10], [1, 10], [10])),
    "paper": _study("ms-vae", "paper", _scores("paper", [1, 2, 4, 6, 8, 10], [1, 10])),
}
"""Two stages and all that they are compared with, by β."""


def _sizes(scale: str, of_c: list[int], of_z: list[int]) -> dict[str, Any]:
    """C of several sizes with the usual Z, and the usual C with Z of several sizes."""
    first = {"beta_tc_vae": {"beta": BETA, "settings": {"latents": of_c}}}
    usual = {"beta_tc_vae": {"beta": BETA, "settings": {"latents": C}}}
    return {"ms_vae": [_second(scale, first), _second(scale, usual, of_z)]}


SIZES: dict[str, dict[str, Any]] = {
    "smoke": _study("ms-vae-sizes", "smoke", _sizes("smoke", [2, C], [2, Z])),
    # Ten latents of C and five of Z are in the study above, too: they are trained once.
    "hour": _study("ms-vae-sizes", "hour", _sizes("hour", [2, C, 20], [Z, 50])),
    "paper": _study(
        "ms-vae-sizes", "paper", _sizes("paper", [*range(1, 11), 20, 50], [Z, 10, 50, 90])
    ),
}
"""How many latents both stages should have."""


def _ablations(scale: str) -> dict[str, Any]:
    """MS-VAE, M4, and four others that lack something; all with five latents of each kind."""
    five = {"settings": {"latents": Z}}
    first = {"beta_vae": {"beta": BETA, **five}}
    untrained = {"beta_vae": {"beta": BETA, "steps": 0, **five}}
    concatenated = {"condition": "code", "mixing": "concat"}
    # Networks without normalisation hardly begin from weights as small as the others have.
    glorot = {**SECOND[scale], "latents": Z, "init": "glorot"}
    return {
        "ms_vae": [
            _second(scale, first),
            _second(scale, first, condition="code"),
            {**_second(scale, first, **concatenated), "settings": glorot},
            {
                **_second(scale, untrained, together=True),
                "steps": sum(STEPS[scale]),
            },
            {**_second(scale, {"vae": five}, beta=HIGH, **concatenated), "settings": glorot},
        ]
    }


ABLATIONS: dict[str, dict[str, Any]] = {
    scale: _study("ms-vae-ablations", scale, _ablations(scale))
    for scale in ("smoke", "hour", "paper")
}
"""What each choice is good for."""


def _faces(scale: str, **keys: Any) -> dict[str, Any]:
    """15 latents, β = 15, ten draws of C for every image."""
    fifteen = {"beta_tc_vae": {"beta": 15, "settings": {"latents": 15}}}
    methods = {"ms_vae": _second(scale, fifteen, draws=10)}
    return _study("ms-vae-faces", scale, methods, metrics=["pixel_error"], **keys)


FACES: dict[str, dict[str, Any]] = {
    "smoke": _faces("smoke"),
    "hour": _faces("hour"),
    "paper": _faces("paper", data=["celeba"], seeds=1),
}
"""What the paper shows of CelebA; where nothing is downloaded, of textured sprites."""


CONTROLS = 6
"""Latents of a first stage that a generator refines: the paper has 6 for faces, 2 for others."""


def _gans(scale: str, noise: int, steps: int, **keys: Any) -> dict[str, Any]:
    """Generators over a narrow first stage, and one without."""
    narrow = {"beta_vae": {"beta": BETA, "settings": {"latents": CONTROLS}}}
    adam = {"optimiser": {"lr": 1e-4, "beta1": 0.5}}
    settings = {**SECOND[scale], "latents": noise, **adam}
    over = {"first": narrow, "steps": steps, "settings": settings}
    alone = {"codes": CONTROLS, "steps": steps}
    methods = {
        "ms_gan": over,
        "cgan": over,
        "infogan": {**alone, "settings": {**settings, "latents": CONTROLS + noise}},
    }
    return _study("ms-gan", scale, methods, metrics=["mig"], **keys)


GANS: dict[str, dict[str, Any]] = {
    "smoke": _gans("smoke", 10, 200),
    "hour": _gans("hour", 100, 3_000),
    # 15 passes over 100,000 images in batches of 32.
    "paper": _gans("paper", 100, 47_000, data=[MANY], seeds=3),
}
"""Adversarial second stages. The paper's renderings are not passed on: sprites stand in for them
at every scale."""
