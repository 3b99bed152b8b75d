"""Small changes of images that keep every factor and yet make variational methods entangle."""

from unweave.manipulate.images import with_noise
from unweave.manipulate.manipulation import Manipulation
from unweave.manipulate.training import exemplars, manipulate

__all__ = ["Manipulation", "exemplars", "manipulate", "with_noise"]
