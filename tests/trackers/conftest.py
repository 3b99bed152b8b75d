"""Tables of two fleets, as training passes them to callbacks."""

import math

import numpy as np
import pytest
import torch

from tests.trackers.fleets import BETAS, FIRST, PLAIN, SECOND
from unweave.fleet.callbacks import Callbacks


@pytest.fixture
def track():
    """Passes two windows and diagnostics of a fleet of four, and a window of another fleet.

    Returns all values that are numbers, by series and name, as `(step, value)`.
    """

    def run(tracker, result="trained"):
        expected = {}
        calls = Callbacks(tracker)

        def report(hook, configs, series, step, names, values):
            calls.report(hook, configs, step, names, torch.from_numpy(values))
            for name, row in zip(names, values.tolist(), strict=True):
                for one, value in zip(series, row, strict=True):
                    if not math.isnan(value):
                        expected.setdefault(one, {}).setdefault(name, []).append((step, value))

        rng = np.random.default_rng(0)
        for step in (100, 200):
            values = rng.normal(size=(2, 4)).astype(np.float32)
            if step == 200:
                values[:, 1] = np.nan  # diverged
            report("on_window", BETAS, FIRST, step, ["loss", "extra loss"], values)
        values = rng.normal(size=(2, 4)).astype(np.float32)
        report("on_diagnostics", BETAS, FIRST, 200, ["kl_0", "kl_1"], values)
        values = rng.normal(size=(1, 1)).astype(np.float32)
        report("on_window", PLAIN, SECOND, 100, ["loss"], values)
        calls.call("on_end", result)
        assert not calls.stopping
        return expected

    return run
