"""The command line interface. Each command is a dataclass of options with a `run` method.

Each file holds a group of commands. Slow imports such as torch happen inside `run`, so that
`--help` stays fast.
"""

import io
import os
import sys

import unweave
from unweave.cli.app import app, data_app, study_app, theory_app
from unweave.cli.plugins import import_plugins
from unweave.cli.renamed_flags import RENAMED, with_new_flags
from unweave.errors import DataError, InterruptedTrainingError, UnweaveError
from unweave.progress import say

# Each import registers its commands; `--help` lists them in this order, most common first.
# isort: off
from unweave.cli import fit, train, score, encode, reproduce, manipulate  # noqa: F401
from unweave.cli import theory, pictures, zoo, rotate, name, completion, data, study  # noqa: F401
# isort: on

__all__ = ["main"]

app.add_group("data", data_app, "Data sets: list, prepare, check, show, export.")
app.add_group("study", study_app, "Studies (grids of runs): plan, run, status, table, check.")
app.add_group(
    "theory",
    theory_app,
    "Small exact experiments: vi-bias, d-separation, impossibility, pca-alignment.",
)

DESCRIPTION = """Train fleets of disentangling generative models, score them, choose one without
labels, and see what each latent controls.

Get started: unweave fit ./images, or unweave data list

To print the version: unweave --version

Use your own methods, metrics, architectures or data sets: every command accepts
--plugin PACKAGE, which imports a package. Refer to its objects as package.module:Name."""


def main(args: list[str] | None = None) -> None:
    """Run a command; errors the user can fix are printed as one sentence, with exit code 2."""
    args = sys.argv[1:] if args is None else args
    _escape_unprintable()
    try:
        if "" in args:
            # Most likely an unset shell variable; as a path it would mean the current folder.
            raise DataError("an argument is empty; set it or leave it out")
        if any("\0" in arg for arg in args):
            raise DataError("an argument contains a null byte; remove it")
        args = import_plugins(args)
        args = with_new_flags(args, RENAMED.get(args[0], {})) if args else args
        _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe; discard the remaining output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnweaveError as error:
        say(str(error))
        sys.exit(130 if type(error) is InterruptedTrainingError else 2)
    except OSError as error:
        # A file error that the library does not handle itself, such as a name that is too long.
        say(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"[:500])
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        say("out of memory; use a smaller batch, fewer models at once, or less data")
        sys.exit(2)
    except KeyboardInterrupt:
        say("interrupted; no partially written files are left")
        sys.exit(130)


def _run(args: list[str]) -> None:
    """Run a command; the flags of `train` depend on the method, so they are parsed separately."""
    if args == ["--version"]:
        print(f"unweave {unweave.__version__}")
    elif args[:1] != ["train"] or len(args) < 3 or {"-h", "--help"} & set(args[1:3]):
        app.run(args or ["--help"], prog="unweave", description=DESCRIPTION)
    elif args[1].startswith("-") or args[2].startswith("-"):
        raise DataError(
            "SOURCE and METHOD must come before the flags: unweave train SOURCE METHOD …"
        )
    else:
        train.train_method(args[1:])


def _escape_unprintable() -> None:
    """Print characters outside the terminal's encoding as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; on a CPU, torch raises only a RuntimeError for it."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error)
