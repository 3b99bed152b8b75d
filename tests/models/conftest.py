"""The small data set that fleets are tested on."""

from tests.fleet.conftest import sprites

__all__ = ["sprites"]
