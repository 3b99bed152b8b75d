"""The page: what was found, put into the template, and made to fit."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.errors import UnweaveError
from unweave.io.writing import whole_file
from unweave.report.agreement import Findings, Part
from unweave.report.board import Column, columns_of, record, shown
from unweave.report.charts import chart_data
from unweave.report.details import facts_of
from unweave.report.illustrations import StillPictures, still_pictures, strips_of
from unweave.report.meanings import Meaning, meaning
from unweave.report.saved_runs import DIVERGED
from unweave.text import counted

__all__ = ["summary", "write"]

MOST_SHOWN = 2_000
"""Models in the leader board and the charts."""
LEAST_SHOWN = 50
"""As many of them stay, however small the limit is."""
TABLES_SHARE = 0.6
"""Of the limit, what the page may take before the pictures of the models."""


def write(found: Findings, out: Path, limit: int, progress: bool = True) -> Path:
    """Write the report, within its limit; pictures of models take what the rest leaves."""
    still = still_pictures(found, limit)
    most = MOST_SHOWN
    while True:
        board = shown(found, most)
        page = _render(found, board, still, {}, {})
        if len(page.encode()) <= TABLES_SHARE * limit or most <= LEAST_SHOWN:
            break
        most = max(LEAST_SHOWN, min(most, len(board)) // 2)
    strips, unopened = strips_of(found, board, limit - len(page.encode()), progress)
    while True:
        page = _render(found, board, still, strips, unopened)
        size = len(page.encode())
        if size <= limit:
            break
        if not strips:
            raise UnweaveError(
                f"a report of these models takes {size:,} bytes without any picture, but the limit"
                f" is {limit:,}; raise it"
            )
        kept = int(len(strips) * min(0.95, limit / size))
        strips = dict(list(strips.items())[:kept])
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out


def summary(found: Findings, part: Part) -> str:
    """A part of the report in one sentence."""
    table = found.table.set_index("run").loc[part.runs]
    strengths = len(table[["method", "strength"]].drop_duplicates())
    methods = table["method"].nunique()
    lost = int((table["state"] == DIVERGED).sum())
    kinds = [f"{methods} methods"] if methods > 1 else []
    kinds += [f"{strengths} strengths"] if strengths > methods else []
    subject = counted(len(part.runs), "model")
    subject += f" ({lost} diverged)" if lost else ""
    subject += f" of {' and '.join(kinds)}" if kinds else ""
    count = "" if part.data is None else f"{len(part.data.support):,} images"
    called = "" if count and part.name == "images" else part.name  # as most folders are
    words = [f"{subject} on {' of '.join(filter(None, (count, called)))}"]
    if part.agreed is not None:
        words.append(str(part.agreed))
    if part.chosen is not None and len(part.runs) > 1:
        how = "chosen" if "without labels" not in part.why else "chosen without labels"
        words.append(f"{how}: {found.names[part.chosen]}")
    return "; ".join(words) + "."


def sentence(text: str) -> str:
    """A message as a sentence: a capital letter first, a full stop last.

    Example:
        >>> sentence("there is no file 'A.npy'; check the path")
        "There is no file 'A.npy'; check the path."
    """
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _render(
    found: Findings,
    board: pd.DataFrame,
    still: StillPictures,
    strips: Mapping[str, Any],
    unopened: Mapping[str, str],
) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unweave.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = sentence
    style, script = _asset("report.css"), _asset("report.js")
    columns = columns_of(found)
    data = chart_data(found, board, columns, strips)
    heats = data["heats"]
    chosen = [part.chosen for part in found.parts if part.chosen is not None]
    template = environment.get_template("report.html.j2")
    page = template.render(
        title=found.given.title,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        summaries=[summary(found, part) for part in found.parts],
        parts=found.parts,
        heroes=still.heroes,
        factors=still.factors,
        sheets=still.sheets,
        heats=heats,
        columns=columns,
        records=[record(row, columns, found) for row in board.to_dict("records")],
        num_models=len(found.table),
        ensembles=any(_is_ensemble(config) for config in found.given.configs.values()),
        num_shown=len(board),
        num_pictures=len(strips),
        unopened=unopened,
        num_alive=int((board["state"] != DIVERGED).sum()),
        meanings=_meanings(columns),
        data=data,
        facts=facts_of(found),
        agreement=any(heats),
        any_data=any(part.data is not None for part in found.parts),
        chosen_names=[found.names[run] for run in chosen],
        written=datetime.now(UTC).strftime("%d %B %Y").lstrip("0"),
        counted=counted,
    )
    # Names of folders may hold bytes that are no text.
    return page.encode("utf-8", "replace").decode()


def _is_ensemble(config: Mapping[str, Any]) -> bool:
    method = config["method"]
    return method["name"] == "vae_ensemble" and method["members"] > 1


def _meanings(columns: Sequence[Column]) -> list[Meaning]:
    """The meaning of every headline number, each once."""
    known: dict[str, Meaning] = {}
    for column in columns:
        said = meaning(column.key)
        if said is not None:
            known.setdefault(said.name, said)
    return list(known.values())


def _asset(name: str) -> str:
    return files("unweave.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
