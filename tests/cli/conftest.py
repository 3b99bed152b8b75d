"""The data and models of the tests of pictures."""

from tests.plots.conftest import asleep, ensemble, grey, lost, model, shown, sprites, trained

__all__ = ["asleep", "ensemble", "grey", "lost", "model", "shown", "sprites", "trained"]
