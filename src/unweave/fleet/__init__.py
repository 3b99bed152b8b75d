"""The training engine: stacked state, the step of M models, the loop, checkpoints and capacity."""
