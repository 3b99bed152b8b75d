"""The command `unweave report`: what it writes and prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.cli.loading import said
from unweave.progress import tell
from unweave.report import report

__all__ = ["write_report"]


def write_report(
    source: str, out: Path, data: str | None, options: Mapping[str, Any], **settings: Any
) -> None:
    """Write the report and say where it is."""
    written = report(source, out, data, options=said(options), **settings)
    tell(f"Report: {written} ({written.stat().st_size / 1e6:.1f} MB)")
