"""Grids of runs: plan, run, status, table, check."""

from typing import Literal

from unweave.cli.apps import study_app
from unweave.cli.options import FleetSize, ScoresOption, StudyFile, StudyFolder, StudyOut


@study_app.command(name="plan")
def study_plan(
    file: StudyFile,
    out: StudyOut = None,
    device: Literal["cpu", "cuda"] | None = None,
    fleet_size: FleetSize = None,
) -> None:
    """Say what a study would take: fleets, models, hours and disk; nothing is trained.

    Example: unweave study plan sprites.yaml

    Args:
        device: By default a GPU where there is one.
    """
    from unweave.cli.study import show_plan

    show_plan(file, out, device, fleet_size)


@study_app.command(name="run")
def study_run(
    file: StudyFile,
    out: StudyOut = None,
    on: str = "here",
    device: Literal["cpu", "cuda"] | None = None,
    fleet_size: FleetSize = None,
    scorers: int | None = None,
) -> None:
    """Train and score what is not done yet; stopped or killed, the same command goes on.

    Example: unweave study run sprites.yaml --out sprites

    Args:
        on: here (this process); ray (its own); auto, host:port or ray://host:port (a cluster).
        device: By default a GPU where there is one.
        scorers: How many processes compute scores; by default by the number of cores.
    """
    from unweave.cli.study import run_study

    run_study(file, out, on, device=device, fleet_size=fleet_size, scorers=scorers)


@study_app.command(name="status")
def study_status(folder: StudyFolder, watch: bool = False) -> None:
    """Say how far a study is, who works on it, and what went wrong.

    Example: unweave study status sprites --watch

    Args:
        watch: Stay, and say it anew every two seconds.
    """
    from unweave.cli.study import show_status

    show_status(folder, watch)


@study_app.command(name="table")
def study_table(folder: StudyFolder, out: ScoresOption = None, overwrite: bool = False) -> None:
    """Write the table of a study, one row per model, and say where it is.

    Example: unweave study table sprites -o sprites.csv

    Args:
        overwrite: Replace the file if it is already there.
    """
    from unweave.cli.study import write_study_table

    write_study_table(folder, out, overwrite)


@study_app.command(name="check")
def study_check(folder: StudyFolder, repair: bool = False) -> None:
    """Verify all runs and compare them with the ledger and the table; --repair fixes problems.

    Example: unweave study check sprites --repair

    Args:
        repair: Move damaged files to damaged/, and rebuild the ledger and the table from the runs.
    """
    from unweave.cli.study import check_study

    check_study(folder, repair)
