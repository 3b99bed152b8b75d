"""The paper's own experiments: a flow over a mixture, a pendulum in stages, what codes hold."""
