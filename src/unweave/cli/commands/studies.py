"""Grids of runs: plan, run, status, table, check."""

from dataclasses import dataclass

from unweave.cli.app import study_app
from unweave.cli.options import (
    Device,
    FleetSize,
    ScoresOption,
    StudyFile,
    StudyFolder,
    StudyOut,
)


@study_app.add("plan")
@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """Estimate what a study takes: fleets, models, hours and disk space. Nothing is trained.

    Example: unweave study plan sprites.yaml
    """

    file: StudyFile
    out: StudyOut = None
    device: Device = None
    fleet_size: FleetSize = None

    def run(self) -> None:
        from unweave.cli.study import show_plan

        show_plan(self)


@study_app.add("run")
@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """Train and score what is not done yet. Safe to interrupt: run it again to resume.

    Example: unweave study run sprites.yaml --out sprites
    """

    file: StudyFile
    out: StudyOut = None
    on: str = "here"
    """here (this process); ray (a new local cluster); auto, host:port or ray://host:port."""
    device: Device = None
    fleet_size: FleetSize = None
    scorers: int | None = None
    """Number of scoring processes (default: by the number of cores)."""

    def run(self) -> None:
        from unweave.cli.study import run_study

        run_study(self)


@study_app.add("status")
@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """Show the progress of a study, its workers, and what went wrong.

    Example: unweave study status sprites --watch
    """

    folder: StudyFolder
    watch: bool = False
    """Keep running, and refresh every two seconds."""

    def run(self) -> None:
        from unweave.cli.study import show_status

        show_status(self)


@study_app.add("table")
@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """Write the table of a study, one row per model, and print where it is.

    Example: unweave study table sprites -o sprites.csv
    """

    folder: StudyFolder
    out: ScoresOption = None
    overwrite: bool = False
    """Replace an existing file."""

    def run(self) -> None:
        from unweave.cli.study import write_study_table

        write_study_table(self)


@study_app.add("check")
@dataclass(frozen=True, kw_only=True)
class StudyCheck:
    """Verify all runs and compare them with the ledger and the table; --repair fixes problems.

    Example: unweave study check sprites --repair
    """

    folder: StudyFolder
    repair: bool = False
    """Move damaged files to damaged/, and rebuild the ledger and the table from the runs."""

    def run(self) -> None:
        from unweave.cli.study import check_study

        check_study(self)
