"""The command line: thin, each command a few lines over the library.

`commands` holds what a user types, quick to read in; the other files do what it says.
"""

import os
import sys

import unweave
from unweave.cli.apps import add_groups, app
from unweave.cli.commands import (  # noqa: F401 - each joins `app`
    data,
    models,
    papers,
    pictures,
    shell,
    studies,
)
from unweave.errors import DataError, InterruptedTrainingError, UnweaveError

__all__ = ["main"]

add_groups()

DESCRIPTION = """Fleets of disentangling generative models: train, score, select, show.

Start with: unweave fit ./images, or unweave data list. Which version: unweave --version"""


def main(args: list[str] | None = None) -> None:
    """Run the command line; errors that a user can put right are one sentence and exit code 2."""
    words = sys.argv[1:] if args is None else args
    try:
        # The flags of `train` depend on the method, so once that is named they are read elsewhere.
        if words[:1] == ["train"] and len(words) > 2:
            if words[1].startswith("-") or words[2].startswith("-"):
                raise DataError(
                    "say first what to train on and how: unweave train SOURCE METHOD …"
                )
            from unweave.cli.train import run

            run(words[1:])
        elif words == ["--version"]:
            print(f"unweave {unweave.__version__}")
        else:
            app.cli(prog="unweave", description=DESCRIPTION, args=words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read, as `head` does, has read enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnweaveError as error:
        print(f"unweave: {error}", file=sys.stderr)
        sys.exit(130 if isinstance(error, InterruptedTrainingError) else 2)
    except KeyboardInterrupt:
        print("unweave: stopped; nothing is half-written", file=sys.stderr)
        sys.exit(130)
