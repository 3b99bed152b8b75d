"""β-VAE on dSprites with unweave."""

from turns import Turns, arguments

from unweave.fleet.engine import Engine

told = arguments()
turns = Turns(told.turn)
take_step = Engine._step


def step_and_hand_over(engine: Engine) -> None:
    """Takes a step and ends a turn; not counted as a user's lines."""
    take_step(engine)
    turns.step()


setattr(Engine, "_step", step_and_hand_over)  # noqa: B010 # mypy lets no method be assigned

# user: begin
import numpy as np

import unweave as uw

data = uw.data.load("dsprites")
method = uw.methods.BetaVAE(beta=4)
fleet = uw.train(method, data, seeds=told.models, steps=told.steps, device="cpu")
mean, _ = fleet.encode(data.images(np.load(told.encode)))
np.save(told.out, mean[0])
# user: end
