"""What a trained chain knows of pendulums: does z follow the mass, do curves the simulator?"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from scipy.stats import pearsonr, spearmanr

from unweave.data.pendulum import GRID, STEP, TIMES, simulate
from unweave.papers.ms_vae.experiments.pendulum import (
    FLOOR,
    Known,
    ResidualVAE,
    Stage,
    draw,
    through,
)
from unweave.random import Stream

__all__ = ["codes", "evaluate", "followed", "traversals", "z_of_mass"]

MASSES = tuple(np.linspace(0.1, 2, 30).tolist())
"""More masses than the chain was trained on."""
CENTRE = {"length": 2.0, "damping": 1.0, "mass": 1.5}
"""The pendulum from which one thing at a time is changed."""
FACTORS = ("length", "damping", "mass")


def codes(chain: Sequence[Stage], num: int = 500, seed: int = 0) -> pd.DataFrame:
    """`length`, `damping`, `mass` and `z` of new pendulums."""
    known = _evaluated(chain, num, seed)
    return pd.DataFrame({name: known[name][:, 0].cpu().numpy() for name in (*FACTORS, "z")})


def evaluate(
    chain: Sequence[Stage], num: int = 500, seed: int = 0, masses: Sequence[float] = MASSES
) -> dict[str, float]:
    """Numbers about new pendulums.

    Args:
        chain: Trained stages.
        num: How many pendulums.
        seed: Of the draw.
        masses: Which masses there are: 30 from 0.1 to 2 unless given.

    Returns:
        `pearson`, `spearman`: of z and the mass, without their sign, which is arbitrary;
        `rmse_before`, `rmse_after`: of curves without and with z; `nll`, `kl`, `loss`: in nats per
        curve, with one z drawn; `floor`: the `nll` of curves that are met exactly.
    """
    known = _evaluated(chain, num, seed, masses)
    z, mass = (known[name][:, 0].cpu().numpy() for name in ("z", "mass"))
    last = _last(chain)
    noise = Stream(seed, "evaluation").normal(num, 1).to(known["z"].device)
    with torch.no_grad():
        nll, kl = (float(term.double().mean()) for term in last.terms(known, noise))
    before, after = (
        math.sqrt(float((known[name] - known["seen"]).double().square().mean()))
        for name in (last.plan.takes[-1], last.plan.gives)
    )
    return {
        "pearson": abs(float(pearsonr(z, mass)[0])),
        "spearman": abs(float(spearmanr(z, mass)[0])),
        "rmse_before": before,
        "rmse_after": after,
        "nll": nll,
        "kl": kl,
        "loss": nll + kl,
        "floor": FLOOR,
    }


def z_of_mass(chain: Sequence[Stage], masses: Iterable[float], num: int = 100) -> np.ndarray:
    """The mean z of pendulums of each mass, as the chain has it; its sign is arbitrary."""
    every = np.array(list(masses))
    drawn = draw(num, ("length", "damping"), purpose="z of mass")
    known = {name: drawn[name].repeat(len(every), 1) for name in ("length", "damping")}
    known["mass"] = _column(every.repeat(num))
    curves = simulate(*(known[name][:, 0].numpy() for name in FACTORS))
    found = through(chain, _near(chain, {**known, "seen": torch.as_tensor(curves)}))
    return found["z"].double().reshape(len(every), num).mean(1).cpu().numpy()


def traversals(chain: Sequence[Stage]) -> pd.DataFrame:
    """Curves where one thing changes and everything else, z too, stays.

    Returns:
        Rows `factor` (length, damping or z), `value` (of the length, the damping or the mass that
        z stands for), `time`, `angle` and `simulated`, what the pendulum would do.
    """
    axes = {axis.name: np.asarray(axis.values) for axis in GRID.axes}
    ways = {"length": axes["length"], "damping": axes["damping"], "z": np.array(MASSES)}
    parts = []
    for factor, values in ways.items():
        pendulums = {name: np.full(len(values), at) for name, at in CENTRE.items()}
        pendulums["mass" if factor == "z" else factor] = values
        latent = z_of_mass(chain, values if factor == "z" else [CENTRE["mass"]])
        latent = np.broadcast_to(latent, len(values)).copy()
        known = {name: _column(numbers) for name, numbers in pendulums.items()}
        made = through(chain, _near(chain, {**known, "z": _column(latent)}))
        parts.append(
            pd.DataFrame(
                {
                    "factor": factor,
                    "value": np.repeat(values, TIMES),
                    "time": np.tile(np.arange(TIMES) * STEP, len(values)),
                    "angle": made[chain[-1].plan.gives].cpu().numpy().ravel(),
                    "simulated": simulate(*pendulums.values()).ravel(),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def followed(curves: pd.DataFrame) -> dict[str, float]:
    """By factor, the share of the simulated curves' variance along a traversal that is met.

    1 - Σ (angle - simulated)² / Σ (simulated - its mean over the traversal)²
    """
    found = {}
    for factor, rows in curves.groupby("factor", sort=False):
        middle = rows.groupby("time")["simulated"].transform("mean")
        missed = ((rows["angle"] - rows["simulated"]) ** 2).sum()
        found[str(factor)] = float(1 - missed / ((rows["simulated"] - middle) ** 2).sum())
    return found


def _evaluated(
    chain: Sequence[Stage], num: int, seed: int, masses: Sequence[float] = MASSES
) -> Known:
    known = draw(num, FACTORS, seed, masses, purpose="evaluation")
    return through(chain, _near(chain, known))


def _last(chain: Sequence[Stage]) -> ResidualVAE:
    last = chain[-1]
    assert isinstance(last, ResidualVAE)
    return last


def _column(numbers: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(numbers).float()[:, None]


def _near(chain: Sequence[Stage], known: Known) -> Known:
    device = next(chain[0].parameters()).device
    return {name: numbers.to(device) for name, numbers in known.items()}
