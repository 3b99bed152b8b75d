"""The training engine: stacked state, the step, checkpoints, and what comes of it."""
