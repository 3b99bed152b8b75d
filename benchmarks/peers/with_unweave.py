"""β-VAE on dSprites with unweave."""

from turns import Turns, arguments

from unweave.fleet.engine import Engine

args = arguments()
turns = Turns(args.turn)
take_step = Engine._step


def step_and_hand_over(engine: Engine) -> None:
    """Take a step and end a turn; not counted as user code."""
    take_step(engine)
    turns.step()


setattr(Engine, "_step", step_and_hand_over)  # noqa: B010 # mypy forbids assigning methods

# user: begin
import numpy as np

import unweave as uw

data = uw.data.load("dsprites")
method = uw.methods.BetaVAE(beta=4)
fleet = uw.train(method, data, seeds=args.models, steps=args.steps, device="cpu")
mean, _ = fleet.encode(data.images(np.load(args.encode)))
np.save(args.out, mean[0])
# user: end
