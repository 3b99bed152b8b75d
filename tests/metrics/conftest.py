"""Golden codes, with the scores that disentanglement_lib gives them.

`dci_sklearn.json` has scikit-learn's trees on the rows of the fixed scores; the file names the
command that wrote it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("aligned", "rotated_pair", "nonlinear")


@dataclass(frozen=True)
class Golden:
    """Codes on the full factor grid, rows of the fixed scores, and scores of the reference."""

    codes: np.ndarray
    factors: np.ndarray
    train_index: np.ndarray
    test_index: np.ndarray
    fixed: dict
    sampled: list
    dci_sklearn: dict

    @property
    def train(self):
        return self.codes[self.train_index], self.factors[self.train_index]

    @property
    def test(self):
        return self.codes[self.test_index], self.factors[self.test_index]


def read_golden(name):
    scores = json.loads((GOLDEN / "scores.json").read_text())
    engines = json.loads((GOLDEN / "dci_sklearn.json").read_text())
    with np.load(GOLDEN / "codes.npz") as file:
        grid = np.arange(np.prod(file["sizes"]))
        return Golden(
            codes=file[name],
            factors=np.stack(np.unravel_index(grid, file["sizes"]), 1),
            train_index=file["train_index"],
            test_index=file["test_index"],
            fixed=scores["fixed"][name],
            sampled=[run["scores"] for run in scores["sampled"][name]],
            dci_sklearn=engines["scores"][name],
        )


@pytest.fixture(scope="session", params=NAMES)
def golden(request):
    """One of the golden code tables; tests with this fixture run on each."""
    return read_golden(request.param)
