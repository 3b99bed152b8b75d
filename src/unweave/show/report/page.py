"""The page: what was found, put into the template, and made to fit."""

import base64
import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unweave
from unweave.data.cache import whole_file
from unweave.errors import UnweaveError
from unweave.progress import lines
from unweave.show.report.again import load_code, train_code
from unweave.show.report.board import Column, columns_of, record, shown
from unweave.show.report.charts import chart_data
from unweave.show.report.findings import Findings, Part, settings_of
from unweave.show.report.pictures import (
    Strips,
    data_sheet,
    fitted,
    reversed_strip,
    shown_and_rebuilt,
    traversed,
)
from unweave.show.report.sources import DIVERGED
from unweave.show.report.words import (
    SYMBOLS,
    Meaning,
    listed,
    meaning,
    method_name,
    models,
    value_text,
)

__all__ = ["summary", "write"]

MOST_SHOWN = 2_000
"""Models in the leader board and the charts."""
LEAST_SHOWN = 50
"""As many of them stay, however small the limit is."""
TABLES_SHARE = 0.6
"""Of the limit, what the page may take before the pictures of the models."""
LEAST_PICTURE = 1_500
"""Characters below which a picture shows nothing."""
HERO, FACTOR, SHEET = 0.04, 0.003, 0.012
"""Shares of the limit that single pictures may take."""
FIRST_LEVEL, HERO_LEVEL = 2, 0
DRAWING = "drawing models"
FEW_TROUBLES, FEW_VALUES = 100, 12


def write(found: Findings, out: Path, limit: int, progress: bool = True) -> Path:
    """Write the report, within its limit; pictures of models take what the rest leaves."""
    still = _still_pictures(found, limit)
    most = MOST_SHOWN
    while True:
        board = shown(found, most)
        page = _render(found, board, still, {})
        if len(page.encode()) <= TABLES_SHARE * limit or most <= LEAST_SHOWN:
            break
        most = max(LEAST_SHOWN, min(most, len(board)) // 2)
    strips = _strips(found, board, limit - len(page.encode()), progress)
    while True:
        page = _render(found, board, still, strips)
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
    subject = models(len(part.runs))
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


@dataclass(frozen=True, eq=False)
class _Still:
    """The pictures that do not depend on how many models there are, by part."""

    heroes: Sequence[Mapping[str, Any] | None]
    factors: Sequence[Sequence[Mapping[str, Any]]]
    sheets: Sequence[Mapping[str, Any] | None]


def _still_pictures(found: Findings, limit: int) -> _Still:
    share = limit / max(1, len(found.parts))
    return _Still(
        [_hero(found, part, int(HERO * share)) for part in found.parts],
        [_factors(found, part, int(FACTOR * share)) for part in found.parts],
        [_sheet(part, int(SHEET * share)) for part in found.parts],
    )


def _hero(found: Findings, part: Part, most: int) -> Mapping[str, Any] | None:
    if part.chosen is None:
        return None
    try:
        model = found.open(part.chosen)
    except UnweaveError:
        return None
    strips = traversed(model, part, part.chosen)
    picture, _ = fitted(strips.images, most, HERO_LEVEL)
    if not picture:
        return None
    pair = ""
    if part.data is not None:
        pair, _ = fitted(shown_and_rebuilt(model, part.data), most // 4, HERO_LEVEL)
    return {
        "picture": picture,
        "pair": pair,
        "rows": _row_labels(part, part.chosen, strips),
        "name": found.names[part.chosen],
        "ratio": _ratio(strips.images),
        "members": model.config.method.copies,
    }


def _factors(found: Findings, part: Part, most: int) -> list[Mapping[str, Any]]:
    """The shared factors, each with a strip of the model that has it most clearly."""
    if part.agreed is None:
        return []
    rows: list[Mapping[str, Any]] = []
    for factor in part.agreed.factors.itertuples():
        members = part.agreed.members
        members = members[members["factor"] == factor.factor]
        best = members.loc[members["correlation"].idxmax()]
        run = part.compared[int(best["model"])]
        model = found.open(run)
        strips = traversed(model, part, run)
        picture = ""
        if best["latent"] in strips.latents:
            row = strips.latents.index(int(best["latent"]))
            images = reversed_strip(strips.images[row : row + 1], int(best["sign"]))
            picture, _ = fitted(images, most, FIRST_LEVEL)
        follows = part.follows[factor.factor] if part.follows else None
        rows.append(
            {
                "number": factor.factor + 1,
                "found_by": int(factor.found_by),
                "of": int(factor.of),
                "correlation": f"{factor.correlation:.2f}",
                "best": found.names[run],
                "latent": int(best["latent"]),
                "picture": picture,
                "follows": follows,
            }
        )
    return rows


def _sheet(part: Part, most: int) -> Mapping[str, Any] | None:
    if part.data is None or hasattr(part.data, "curves"):
        return None
    strips = data_sheet(part.data)
    picture, _ = fitted(strips.images, most, FIRST_LEVEL)
    return {"picture": picture, "rows": strips.notes} if picture else None


def _row_labels(part: Part, run: str, strips: Strips) -> list[Mapping[str, Any]]:
    """Of each latent its number, its KL, and the shared factor that it is."""
    factors: dict[int, int] = {}
    if part.agreed is not None and run in part.compared:
        members = part.agreed.members
        own = members[members["run"] == run]
        factors = dict(zip(own["latent"], own["factor"], strict=True))
    rows: list[Mapping[str, Any]] = []
    for latent, note in zip(strips.latents, strips.notes, strict=True):
        factor = factors.get(latent)
        follows = ""
        if factor is not None and part.follows and part.follows[factor][1] >= 0.5:
            follows = part.follows[factor][0]
        number = None if factor is None else int(factor) + 1
        rows.append({"latent": latent, "note": note, "factor": number, "follows": follows})
    return rows


def _ratio(images: np.ndarray) -> str:
    rows, columns, height, width, _ = images.shape
    return f"{columns * width} {rows * height}"


def _strips(
    found: Findings, board: pd.DataFrame, room: int, progress: bool
) -> dict[str, dict[str, Any]]:
    """The traversals of as many models as there is room for, chosen and best ones first."""
    chosen = [part.chosen for part in found.parts]
    order = board.assign(first=~board["run"].isin(chosen)).sort_values(
        ["first", "udr"], ascending=[True, False], na_position="last", kind="stable"
    )
    runs = order.loc[order["state"] != DIVERGED, "run"].tolist()
    overhead = 400
    runs = runs[: max(0, room // (LEAST_PICTURE + overhead))]
    strips: dict[str, dict[str, Any]] = {}
    level = FIRST_LEVEL
    with lines({DRAWING: len(runs)} if runs else {}, progress) as advance:
        for done, run in enumerate(runs):
            part = found.part_of(run)
            try:
                model = found.open(run)
            except UnweaveError:
                room -= overhead
                continue
            drawn = traversed(model, part, run)
            share = room // (len(runs) - done) - overhead
            # What others did not need is there for the next: quality may rise again by a level.
            picture, level = fitted(drawn.images, share, max(FIRST_LEVEL, level - 1))
            labels = [
                [row["latent"], row["note"], row["factor"]]
                for row in _row_labels(part, run, drawn)
            ]
            if picture or not labels:
                strips[run] = {"picture": picture, "rows": labels}
            room -= len(picture) + overhead
            advance(DRAWING, 1)
    return strips


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
    still: _Still,
    strips: Mapping[str, Any],
) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unweave.show.report", "."),
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
        ensembles=any(c["method"].get("members", 1) > 1 for c in found.given.configs.values()),
        num_shown=len(board),
        num_pictures=len(strips),
        num_alive=int((board["state"] != DIVERGED).sum()),
        meanings=_meanings(columns),
        data=data,
        facts=_facts(found),
        agreement=any(heats),
        any_data=any(part.data is not None for part in found.parts),
        chosen_names=[found.names[run] for run in chosen],
        written=datetime.now(UTC).strftime("%d %B %Y").lstrip("0"),
        models=models,
    )
    # Names of folders may hold bytes that are no text.
    return page.encode("utf-8", "replace").decode()


def _meanings(columns: Sequence[Column]) -> list[Meaning]:
    """The meaning of every headline number, each once."""
    known: dict[str, Meaning] = {}
    for column in columns:
        said = meaning(column.key)
        if said is not None:
            known.setdefault(said.name, said)
    return list(known.values())


def _facts(found: Findings) -> Mapping[str, Any]:
    """What the last section lists."""
    given = found.given
    same, varied = settings_of(given)
    trouble = [
        {"name": found.names.get(run, run), "run": run, "state": state, "error": error}
        for run, state, error in found.trouble
    ]
    lost = given.table.loc[given.table["state"] == DIVERGED, "run"]
    said = {run for run, _, _ in found.trouble}
    trouble += [
        {"name": found.names[run], "run": run, "state": DIVERGED, "error": ""}
        for run in lost
        if run not in said
    ]
    waiting = [f"{count:,} {state}" for state, count in given.waiting.items()]
    chosen = next((part.chosen for part in found.parts if part.chosen is not None), None)
    return {
        "same": [(_setting_label(name), _values_text([value])) for name, value in same.items()],
        "varied": [
            (_setting_label(name), _values_text(values)) for name, values in varied.items()
        ],
        "versions": _versions(),
        "trouble": trouble[:FEW_TROUBLES],
        "more_trouble": max(0, len(trouble) - FEW_TROUBLES),
        "waiting": listed(waiting),
        "again": train_code(given),
        "load": load_code(given, chosen) if chosen is not None else "",
        "data": [_data_facts(part) for part in found.parts],
    }


def _setting_label(name: str) -> str:
    if name == "method.name":
        return "method"
    owner, _, short = name.rpartition(".")
    text = SYMBOLS.get(short, short.replace("_", " "))
    return f"{text} of Adam" if owner == "optimiser" else text


def _values_text(values: Sequence[Any]) -> str:
    numeric = all(isinstance(value, int | float) for value in values)
    values = sorted(values) if numeric else values
    words = [method_name(v) if isinstance(v, str) else value_text(v) for v in values]
    if len(words) <= FEW_VALUES:
        return ", ".join(words)
    return f"{words[0]} … {words[-1]} ({len(words)} values)"


def _data_facts(part: Part) -> Mapping[str, Any]:
    data = part.data
    if data is None:
        return {"name": part.name, "count": "", "size": "", "factors": "", "missing": part.missing}
    known = data.grid or data.labels
    factors = [f"{axis.name} ({len(axis)})" for axis in known.axes] if known else []
    return {
        "name": part.name,
        "count": f"{len(data.support):,}",
        "size": " × ".join(map(str, data.shape)),
        "factors": listed(factors) or "not known",
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


def _asset(name: str) -> str:
    return files("unweave.show.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
