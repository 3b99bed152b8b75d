"""The commands `unweave study …`: plan, run, status, table and check.

Torch is imported only by commands that need it, so that `status` responds quickly.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unweave.cli.app import study_app
from unweave.cli.options import (
    Device,
    FleetSize,
    ScoresOption,
    StudyFile,
    StudyFolder,
    StudyOut,
    Track,
    Where,
    trackers_of,
)
from unweave.errors import UnweaveError
from unweave.progress import lines, print_output
from unweave.text import counted, printable

if TYPE_CHECKING:
    from unweave.study.ledger import Ledger

LEDGER = "ledger.sqlite"
TABLES = (".csv", ".parquet")
MAX_REASONS = 5
REFRESH_SECONDS = 2.0


@study_app.add("plan")
@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """Estimate the fleets, models, hours and disk space of a study, without training.

    Example: unweave study plan sprites.yaml
    """

    file: StudyFile
    out: StudyOut = None
    device: Device = None
    fleet_size: FleetSize = None

    def run(self) -> None:
        from unweave.study import plan, read

        study = read(self.file)
        print_output(plan(study, self.out or study.name, self.device, self.fleet_size))


@study_app.add("run")
@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """Train and score all remaining runs. Safe to interrupt: run it again to resume.

    Example: unweave study run sprites.yaml --out sprites
    """

    file: StudyFile
    out: StudyOut = None
    on: Where = "here"
    device: Device = None
    fleet_size: FleetSize = None
    scorers: int | None = None
    """Number of scoring processes (default: depends on the number of cores)."""
    track: Track = ()

    def run(self) -> None:
        from unweave.study import plan, read, run

        study = read(self.file)
        folder = self.out or study.name
        trackers = trackers_of(self.track)
        print_output(plan(study, folder, self.device, self.fleet_size))
        results = run(
            study,
            folder,
            on=self.on,
            device=self.device,
            fleet_size=self.fleet_size,
            scorers=self.scorers,
            callbacks=trackers,
        )
        print_output(_status(results.store.ledger))
        print_output(f"Table: {results.store.table_file}")
        print_output(f"To write a report: unweave report {folder}")
        sys.exit(1 if results.counts["failed"] or results.errors else 0)


@study_app.add("status")
@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """Show the progress of a study, its workers and its errors.

    Example: unweave study status sprites --watch
    """

    folder: StudyFolder
    watch: bool = False
    """Keep running and refresh every two seconds."""

    def run(self) -> None:
        ledger = _ledger(self.folder)
        if not self.watch:
            print_output(_status(ledger))
            return
        from rich.live import Live
        from rich.text import Text

        with Live(Text(_status(ledger)), auto_refresh=False) as live:
            while ledger.busy() and ledger.workers():
                time.sleep(REFRESH_SECONDS)
                live.update(Text(_status(ledger)), refresh=True)


@study_app.add("table")
@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """Write the table of a study, one row per model, and print its path.

    Example: unweave study table sprites -o sprites.csv
    """

    folder: StudyFolder
    out: ScoresOption = None
    overwrite: bool = False
    """Replace an existing file."""

    def run(self) -> None:
        from unweave.evaluation.files import check_out, write_table
        from unweave.study import load

        check_out(self.out, TABLES, self.overwrite)
        results = load(self.folder)
        path = results.write()
        if self.out is not None:
            write_table(results.table, self.out)
            path = self.out
        print_output(f"Table of {counted(len(results.table), 'row')}: {path}")


@study_app.add("check")
@dataclass(frozen=True, kw_only=True)
class StudyCheck:
    """Verify all runs and compare them with the ledger and the table.

    Example: unweave study check sprites --repair
    """

    folder: StudyFolder
    repair: bool = False
    """Move damaged files to damaged/ and rebuild the ledger and the table from the runs."""

    def run(self) -> None:
        from unweave.study.checking import check
        from unweave.study.remote import is_url
        from unweave.study.results import Results
        from unweave.study.store import DAMAGED, Store

        folder = self.folder
        if is_url(folder):
            raise UnweaveError(
                f"cannot check {folder}: only local folders are supported; copy it to one first",
                subject=folder,
            )
        store = Store(folder)
        store.demand()
        if self.repair and store.at_work():
            raise UnweaveError(
                "other processes are running this study; stop them before repairing it",
                subject=folder,
            )
        count = sum(1 for _ in store.runs.glob("[!.]*"))
        with lines({"verifying": count}) as advance:
            found = check(store, self.repair, lambda done: advance("verifying", done))
        print_output(found)
        if found.good:
            return
        if not self.repair:
            print_output(f"To repair it: unweave study check {folder} --repair")
            sys.exit(1)
        print_output(f"Repaired. {Results(store)}")
        if (store.folder / DAMAGED).exists():
            print_output(f"Damaged files were moved to {store.folder / DAMAGED}")


def _ledger(folder: str) -> "Ledger":
    from unweave.study.ledger import Ledger

    if "://" not in folder:
        return Ledger(Path(folder) / LEDGER, create=False)
    from unweave.study import load

    return load(folder).store.ledger


def _status(ledger: "Ledger") -> str:
    from unweave.study.ledger import summary

    text, now = [summary(ledger.counts())], time.time()
    text += [
        f"  {host}, process {process}, last seen {now - seen:.0f} s ago: {task or 'starting'}"
        for host, process, seen, task in ledger.workers()
    ]
    if ledger.busy() and not ledger.workers():
        text.append("  no process is working on it")
    reasons = ledger.reasons()
    for state, error, count, run in reasons[:MAX_REASONS]:
        text.append(f"  {count:,} {state}: {error} ({run}{', …' if count > 1 else ''})")
    if len(reasons) > MAX_REASONS:
        text.append(f"  and {len(reasons) - MAX_REASONS} more")
    return "\n".join(map(printable, text))
