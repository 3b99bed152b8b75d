"""Data and models shared with the tests of plots."""

from tests.plots.conftest import asleep, ensemble, grey, lost, model, shown, sprites, trained

__all__ = ["asleep", "ensemble", "grey", "lost", "model", "shown", "sprites", "trained"]
