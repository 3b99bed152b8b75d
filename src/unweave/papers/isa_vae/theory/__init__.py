"""Biases of variational inference, in models small enough to solve exactly."""
