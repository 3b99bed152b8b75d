"""The command line: thin, each command a few lines over the library.

`commands` has a dataclass of options for each command, quick to import; the other files carry the
commands out and take these dataclasses whole.
"""

import io
import os
import sys

import unweave
from unweave.cli.app import app, data_app, study_app, theory_app
from unweave.cli.commands import (  # noqa: F401 - each joins `app`
    data,
    models,
    papers,
    pictures,
    shell,
    studies,
)
from unweave.cli.plugins import use_plugins
from unweave.errors import DataError, InterruptedTrainingError, UnweaveError
from unweave.progress import say

__all__ = ["main"]

app.command(data_app, name="data", help="The data sets: list, prepare, show, export.")
app.command(study_app, name="study", help="Grids of runs: plan, run, status, table, check.")
app.command(
    theory_app,
    name="theory",
    help="Small exact experiments: vi-bias, d-separation, impossibility, pca-alignment.",
)

DESCRIPTION = """Fleets of disentangling generative models: train, score, select, show.

Start with: unweave fit ./images, or unweave data list. Which version: unweave --version

Every command takes --plugin PACKAGE: a package of yours with methods, metrics, architectures or
data sets, which commands and saved runs may then name as package.module:Name."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; errors that a user can put right are one sentence and exit code 2."""
    words = sys.argv[1:] if args is None else args
    _print_anything()
    try:
        if "" in words:
            # Most likely of a variable that is not set; as a path it would mean this folder.
            raise DataError("one of the arguments is empty; fill it in or leave it out")
        if any("\0" in word for word in words):
            raise DataError("one of the arguments has a null byte in it; leave that out")
        words = use_plugins(words)
        # The flags of `train` depend on the method, so once that is named they are read elsewhere.
        if words[:1] == ["train"] and len(words) > 2:
            if words[1].startswith("-") or words[2].startswith("-"):
                raise DataError(
                    "say first what to train on and how: unweave train SOURCE METHOD …"
                )
            from unweave.cli.train import train_method

            train_method(words[1:])
        elif words == ["--version"]:
            print(f"unweave {unweave.__version__}")
        else:
            app.run(words, prog="unweave", description=DESCRIPTION)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read, as `head` does, has read enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnweaveError as error:
        say(str(error))
        sys.exit(130 if isinstance(error, InterruptedTrainingError) else 2)
    except OSError as error:
        # A file or folder that the library did not expect trouble with, such as a name too long.
        say(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"[:500])
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        say("there is not enough memory for this; ask for fewer or smaller things at once")
        sys.exit(2)
    except KeyboardInterrupt:
        say("stopped; nothing is half-written")
        sys.exit(130)


def _print_anything() -> None:
    """Let no character stop a command that the terminal's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _out_of_memory(error: Exception) -> bool:
    """Whether that is what happened; torch has no error of its own for it on a CPU."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error)
