"""The commands `unweave study …`: what they read, do and print.

Torch is imported only by those that need it, so that the status of a study is there at once.
"""

import sys
import time
from pathlib import Path

from unweave.cli.commands.studies import (
    StudyCheck,
    StudyPlan,
    StudyRun,
    StudyStatus,
    StudyTable,
)
from unweave.errors import UnweaveError
from unweave.progress import lines, tell
from unweave.study.ledger import Ledger, summary
from unweave.text import readable

__all__ = ["check_study", "run_study", "show_plan", "show_status", "write_study_table"]

LEDGER = "ledger.sqlite"
TABLES = (".csv", ".parquet")
SHOWN = 5
REFRESH_SECONDS = 2.0


def show_plan(asked: StudyPlan) -> None:
    """Print what a study would take."""
    from unweave.study import plan, read

    study = read(asked.file)
    tell(plan(study, asked.out or study.name, asked.device, asked.fleet_size))


def run_study(asked: StudyRun) -> None:
    """Train and score; the exit code is 1 if a run failed."""
    from unweave.study import plan, read, run

    study = read(asked.file)
    folder = asked.out or study.name
    tell(plan(study, folder, asked.device, asked.fleet_size))
    results = run(
        study,
        folder,
        on=asked.on,
        device=asked.device,
        fleet_size=asked.fleet_size,
        scorers=asked.scorers,
    )
    tell(_status(results.store.ledger))
    tell(f"table: {results.store.table_file}")
    tell(f"look at it: unweave report {folder}")
    sys.exit(1 if results.counts["failed"] or results.errors else 0)


def show_status(asked: StudyStatus) -> None:
    """Print the progress of a study."""
    ledger = _ledger(asked.folder)
    if not asked.watch:
        tell(_status(ledger))
        return
    from rich.live import Live
    from rich.text import Text

    with Live(Text(_status(ledger)), auto_refresh=False) as live:
        while ledger.busy() and ledger.workers():
            time.sleep(REFRESH_SECONDS)
            live.update(Text(_status(ledger)), refresh=True)


def write_study_table(asked: StudyTable) -> None:
    """Update the table of a study, and write a copy if asked to."""
    from unweave.evaluation.files import check_out, write_table
    from unweave.study import load

    check_out(asked.out, TABLES, asked.overwrite)
    results = load(asked.folder)
    place = results.write()
    if asked.out is not None:
        write_table(results.table, asked.out)
        place = asked.out
    tell(f"{len(results.table):,} rows: {place}")


def check_study(asked: StudyCheck) -> None:
    """Verify a study's folder; the exit code is 1 where something is wrong and stays so."""
    from unweave.study.checking import at_work, check
    from unweave.study.remote import is_url
    from unweave.study.results import Results
    from unweave.study.store import DAMAGED, Store

    folder, repair = asked.folder, asked.repair
    if is_url(folder):
        raise UnweaveError(f"only folders can be checked; copy {folder} into one first")
    store = Store(folder)
    store.demand()
    if repair and at_work(store):
        raise UnweaveError("other processes are at work on this study; stop them, then repair it")
    count = sum(1 for _ in store.runs.glob("[!.]*"))
    with lines({"verifying": count}) as advance:
        found = check(store, repair, lambda done: advance("verifying", done))
    tell(found)
    if found.good:
        return
    if not repair:
        tell(f"repair it with: unweave study check {folder} --repair")
        sys.exit(1)
    tell(f"repaired; {Results(store)}")
    if (store.folder / DAMAGED).exists():
        tell(f"damaged files are kept in {store.folder / DAMAGED}")


def _ledger(folder: str) -> Ledger:
    if "://" not in folder:
        return Ledger(Path(folder) / LEDGER, create=False)
    from unweave.study import load

    return load(folder).store.ledger


def _status(ledger: Ledger) -> str:
    text, now = [summary(ledger.counts())], time.time()
    text += [
        f"  {host}, process {process}, seen {now - seen:.0f} s ago: {doing or 'starting'}"
        for host, process, seen, doing in ledger.workers()
    ]
    if ledger.busy() and not ledger.workers():
        text.append("  nobody is at work on it")
    reasons = ledger.reasons()
    for state, error, count, run in reasons[:SHOWN]:
        text.append(f"  {count:,} {state}: {error} ({run}{', …' if count > 1 else ''})")
    if len(reasons) > SHOWN:
        text.append(f"  and {len(reasons) - SHOWN} more reasons")
    return "\n".join(map(readable, text))
