"""The command `unweave report`."""

from unweave.cli.commands.pictures import Report
from unweave.cli.options import given
from unweave.progress import tell
from unweave.report import report

__all__ = ["write_report"]


def write_report(asked: Report) -> None:
    """Write the report and print where it is."""
    written = report(
        asked.source,
        asked.out,
        asked.data,
        options=given(asked.images),
        title=asked.title,
        rows=asked.rows,
        seed=asked.seed,
        overwrite=asked.overwrite,
        device=asked.device,
    )
    tell(f"Report: {written} ({written.stat().st_size / 1e6:.1f} MB)")
