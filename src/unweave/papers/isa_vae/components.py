"""Figure 1: components that variational inference finds in sparse data, and which it prunes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.papers.catalog import data_file
from unweave.papers.isa_vae.biases import checked

if TYPE_CHECKING:
    from unweave.papers.theory import Ascent

__all__ = ["obtain", "obtained_components", "plot"]

_SAID = data_file(__package__, "recipes.yaml")["figure-1"]["claims"]
SEEDS = (0, 1, 2, 3)
COLUMNS = ["claim", "published", "obtained", "measured", "pruned_from", "pruned_to"]
BEYOND = 2500
"""Steps that Figure 1 goes on for, to see what becomes of β = 1 after its budget."""
STRAIGHT = 85
"""Degrees from which two components count as orthogonal."""


def obtained_components(learned: Mapping[float, Sequence["Ascent"]], budget: int) -> pd.DataFrame:
    """What Figure 1 shows, checked at a step, for the runs of each β that are there.

    Args:
        learned: By β, what `components` returned for one or several seeds.
        budget: The step.

    Returns:
        Of the claims about these β: `claim`, `published`, `obtained` (which holds if it does in
        all runs), `measured`, and `pruned_from` and `pruned_to`, the steps between which the runs
        lost a component; empty where one never did.
    """
    checks = {1.0: _three, 5.0: _two}
    parts = []
    for beta, runs in learned.items():
        if beta in checks:
            after = [run.pruned_after(2) for run in runs]
            lost = [step for step in after if step is not None]
            ends = (min(lost), max(lost)) if len(lost) == len(runs) else (None, None)
            frame = checked(checks[beta]([_at(run, budget) for run in runs]))
            parts.append(frame.assign(pruned_from=ends[0], pruned_to=ends[1]))
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(parts, ignore_index=True)


def obtain(_: pd.DataFrame) -> pd.DataFrame:
    """Figure 1 for several seeds."""
    from unweave.papers.isa_vae.theory import vi_bias

    steps = {1.0: BEYOND, 5.0: vi_bias.BUDGET}
    learned = {
        beta: [vi_bias.components(beta, steps[beta], seed) for seed in SEEDS] for beta in steps
    }
    return obtained_components(learned, vi_bias.BUDGET)


def _three(runs: Sequence[dict[str, float]]) -> list[tuple[str, bool, str]]:
    holds = all(run["kept"] == 3 and run["orthogonality"] < run["true"] for run in runs)
    text = (
        f"the shortest is {_range(runs, 'share', '.3f')} of the longest, orthogonality is "
        f"{_range(runs, 'orthogonality', '.3f')}, the truth's is {_range(runs, 'true', '.3f')}"
    )
    return [(_SAID["three"], holds, text)]


def _two(runs: Sequence[dict[str, float]]) -> list[tuple[str, bool, str]]:
    return [
        (
            _SAID["one_pruned"],
            all(run["kept"] == 2 for run in runs),
            f"the shortest is {_range(runs, 'share', '.3f')} of the longest",
        ),
        (
            _SAID["orthogonal"],
            all(run["angle"] >= STRAIGHT for run in runs),
            f"{_range(runs, 'angle', '.1f')} degrees apart",
        ),
    ]


def _at(run: "Ascent", budget: int) -> dict[str, float]:
    step = min(budget, len(run.weights) - 1)
    return {
        "kept": run.kept[step],
        "share": run.shares[step].min(),
        "angle": run.angle[step],
        "orthogonality": run.orthogonality[step],
        "true": run.orthogonality[0],
    }


def _range(runs: Sequence[dict[str, float]], name: str, style: str) -> str:
    ends = [f"{end(run[name] for run in runs):{style}}" for end in (min, max)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def plot(_: pd.DataFrame, path: Path) -> None:
    """True and learned components of the first seed, and the way there and on."""
    from unweave.papers.isa_vae.theory import ica, vi_bias
    from unweave.papers.isa_vae.theory.vi_bias_figures import draw_components

    learned = {beta: vi_bias.components(beta, BEYOND, SEEDS[0]) for beta in (1.0, 5.0)}
    draw_components(ica.draw(SEEDS[0]), learned).save(path)
