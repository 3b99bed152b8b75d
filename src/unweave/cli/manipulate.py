"""The command `unweave manipulate`: what it reads, writes and prints."""

from unweave.cli.commands.papers import Manipulate
from unweave.cli.options import given
from unweave.data import load
from unweave.data.catalog import DATASETS
from unweave.errors import DataError
from unweave.io.paths import check_out
from unweave.papers.inductive_biases.manipulation import (
    change_sizes,
    manipulate,
    show_changes,
    turn_directions,
)
from unweave.plots.saving import PICTURES

__all__ = ["manipulate_images"]

ENDING = ".safetensors"
SETTINGS = (
    *("out", "overwrite", "epsilon", "steps", "batch", "draws", "seed", "precision", "device"),
)
"""Options that `manipulate` and `turn_directions` take as they are."""


def manipulate_images(asked: Manipulate) -> None:
    """Learn the change, write its file, and print how large it is and how to train on it."""
    # A file that this same command wrote before is no mistake: it is found and used.
    check_out(asked.out, (ENDING,), overwrite=True)
    check_out(asked.picture, PICTURES, asked.overwrite)
    attack = bool(asked.disentangled)
    if attack != bool(asked.entangled) or (asked.draws is not None and not attack):
        raise DataError(
            "the published attack needs both --disentangled and --entangled; give neither of "
            "them, nor --draws, to learn from the images alone"
        )
    data = load(asked.source, **({} if asked.factors is None else {"factors": asked.factors}))
    settings = {name: value for name, value in given(asked).items() if name in SETTINGS}
    if attack:
        m = manipulate(data, asked.disentangled, asked.entangled, **settings)
    else:
        m = turn_directions(data, **settings)
    modified = m.modified(data)
    sizes = change_sizes(data, modified)
    print(f"{m.course[0].upper()}{m.course[1:]}")
    print(
        f"Pixels move by at most {sizes['linf']:.3g}, in the mean by {sizes['rms']:.3g} (rms); "
        f"{sizes['changed']:.0%} of them change"
    )
    if asked.picture is not None:
        show_changes(data, {"modified": modified}, scale=m.epsilon).save(asked.picture)
        print(f"Changes: {asked.picture}")
    name = f"{data.name}_modified"
    if name in DATASETS:
        use = f"for example, unweave train {name.replace('_', '-')} beta-vae --path {asked.out}"
    else:
        use = f"in Python, Manipulation.load({str(asked.out)!r}).modified(data)"
    print(f"Data set: {asked.out}; {use}")
