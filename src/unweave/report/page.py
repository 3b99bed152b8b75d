"""Rendering of the report from its template, within the size limit."""

import base64
import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

import unweave
from unweave.errors import UnweaveError
from unweave.io.writing import whole_file
from unweave.report.board import chart_data, columns_of, record, shown
from unweave.report.comparison import Findings, Part, settings_of
from unweave.report.labels import listed, meaning, method_name, symbol, value_text
from unweave.report.pictures import StillPictures, still_pictures, strips_of
from unweave.report.reproduction import load_code, train_code
from unweave.report.saved_runs import DIVERGED
from unweave.text import counted, size_text

MOST_SHOWN = 2_000
"""Maximum number of models in the leaderboard and the charts."""
LEAST_SHOWN = 50
"""Minimum number of models to show, even with a small size limit."""
TABLES_SHARE = 0.6
"""Share of the size limit available to the page without pictures of the models."""
FEW_TROUBLES, FEW_VALUES = 100, 12


def write(found: Findings, out: Path, limit: int, progress: bool = True) -> Path:
    """Write the report within the size limit; pictures of models fill the remaining space."""
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
            raise UnweaveError.must(
                "limit",
                f"be at least {size:,} bytes for a report without pictures of these models",
                limit,
            )
        count = int(len(strips) * min(0.95, limit / size))
        strips = dict(list(strips.items())[:count])
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out


def summary(found: Findings, part: Part) -> str:
    """Summarise a part of the report in one sentence."""
    table = found.table.set_index("run").loc[part.runs]
    strengths = len(table[["method", "strength"]].drop_duplicates())
    methods = table["method"].nunique()
    diverged = int((table["state"] == DIVERGED).sum())
    kinds = [f"{methods} methods"] if methods > 1 else []
    kinds += [f"{strengths} strengths"] if strengths > methods else []
    subject = counted(len(part.runs), "model")
    subject += f" ({diverged} diverged)" if diverged else ""
    subject += f" with {' and '.join(kinds)}" if kinds else ""
    count = "" if part.data is None else f"{len(part.data.support):,} images"
    name = "" if count and part.name == "images" else part.name  # avoid "images of images"
    clauses = [f"{subject} on {' of '.join(filter(None, (count, name)))}"]
    if part.agreed is not None and not has_failed(found):  # else they mean nothing
        clauses.append(str(part.agreed))
    if part.chosen is not None and len(part.runs) > 1 and found.given.verdict is None:
        how = "chosen" if "without labels" not in part.why else "chosen without labels"
        clauses.append(f"{how}: {found.names[part.chosen]}")
    return "; ".join(clauses) + "."


def has_failed(found: Findings) -> bool:
    """Whether the report is about a fit that has failed."""
    return found.given.verdict is not None and found.given.verdict.level == "failed"


def sentence(text: str) -> str:
    """Turn a message into a sentence with a capital letter and a full stop.

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
    meanings = [meaning(column.key) for column in columns]
    data = chart_data(found, board, columns, strips)
    heats = data["heats"]
    template = environment.get_template("report.html.j2")
    page = template.render(
        title=found.given.title,
        verdict=found.given.verdict,
        failed=has_failed(found),
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
        meanings=list({one.name: one for one in meanings if one is not None}.values()),
        data=data,
        facts=facts_of(found),
        agreement=any(heats),
        any_data=any(part.data is not None for part in found.parts),
        chosen_names=[found.names[run] for run in found.chosen],
        written=datetime.now(UTC).strftime("%d %B %Y").lstrip("0"),
        counted=counted,
    )
    # Folder names may contain bytes that are not valid UTF-8.
    return page.encode("utf-8", "replace").decode()


def _is_ensemble(config: Mapping[str, Any]) -> bool:
    method = config["method"]
    return method["name"] == "vae_ensemble" and method["members"] > 1


def _asset(name: str) -> str:
    return files("unweave.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def facts_of(found: Findings) -> Mapping[str, Any]:
    """Collect the contents of the section on settings and data."""
    given = found.given
    same, varied = settings_of(given)
    methods = list(dict.fromkeys(config["method"]["name"] for config in given.configs.values()))
    trouble = [
        {"name": found.names.get(run, run), "run": run, "state": state, "error": error}
        for run, state, error in found.trouble
    ]
    diverged = given.table.loc[given.table["state"] == DIVERGED, "run"]
    reported = {run for run, _, _ in found.trouble}
    trouble += [
        {"name": found.names[run], "run": run, "state": DIVERGED, "error": ""}
        for run in diverged
        if run not in reported
    ]
    waiting = [f"{count:,} {state}" for state, count in given.waiting.items()]
    return {
        "same": [(_label(name, methods), _values_text([value])) for name, value in same.items()],
        "varied": [
            (_label(name, methods), _values_text(values)) for name, values in varied.items()
        ],
        "versions": _versions(),
        "trouble": trouble[:FEW_TROUBLES],
        "more_trouble": max(0, len(trouble) - FEW_TROUBLES),
        "waiting": listed(waiting),
        "reproduce": train_code(given),
        "load": load_code(given, found.chosen[0]) if found.chosen else "",
        "data": [_data_facts(part) for part in found.parts],
    }


def _label(name: str, methods: Sequence[str]) -> str:
    if name == "method.name":
        return "method"
    owner, _, short = name.rpartition(".")
    text = symbol(short, methods if owner.endswith("method") else [])
    return f"{text} of Adam" if owner == "optimiser" else text


def _values_text(values: Sequence[Any]) -> str:
    numeric = all(isinstance(value, int | float) for value in values)
    values = sorted(values) if numeric else values
    texts = [method_name(v) if isinstance(v, str) else value_text(v) for v in values]
    if len(texts) <= FEW_VALUES:
        return ", ".join(texts)
    return f"{texts[0]} … {texts[-1]} ({len(texts)} values)"


def _data_facts(part: Part) -> Mapping[str, Any]:
    data = part.data
    if data is None:
        empty = dict.fromkeys(("count", "size", "factors"), "")
        return {"name": part.name, **empty, "notes": (), "missing": part.missing}
    known = data.grid or data.labels
    factors = [f"{axis.name} ({len(axis)})" for axis in known.axes] if known else []
    return {
        "name": part.name,
        "count": f"{len(data.support):,}",
        "size": size_text(data.shape),
        "factors": listed(factors) or "unknown",
        "notes": data.notes,
        "missing": "",
    }


def _versions() -> list[tuple[str, str]]:
    packages = ("torch", "numpy", "pandas", "scikit-learn")
    return [
        ("unweave", unweave.__version__),
        *((name, importlib.metadata.version(name)) for name in packages),
        ("Python", platform.python_version()),
        ("platform", platform.platform(terse=True)),
    ]
