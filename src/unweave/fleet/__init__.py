"""The training engine: stacked state, one step of M models, the loop, checkpoints, capacity."""
