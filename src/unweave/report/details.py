"""The facts at the end of a report: settings, versions, data, trouble, and how to do it again."""

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import unweave
from unweave.report.agreement import Findings, Part, settings_of
from unweave.report.labels import listed, method_name, symbol, value_text
from unweave.report.reproduction import load_code, train_code
from unweave.report.saved_runs import DIVERGED
from unweave.text import size_text

__all__ = ["facts_of"]

FEW_TROUBLES, FEW_VALUES = 100, 12


def facts_of(found: Findings) -> Mapping[str, Any]:
    """What the last section lists."""
    given = found.given
    same, varied = settings_of(given)
    methods = list(dict.fromkeys(config["method"]["name"] for config in given.configs.values()))
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
        "same": [(_label(name, methods), _values_text([value])) for name, value in same.items()],
        "varied": [
            (_label(name, methods), _values_text(values)) for name, values in varied.items()
        ],
        "versions": _versions(),
        "trouble": trouble[:FEW_TROUBLES],
        "more_trouble": max(0, len(trouble) - FEW_TROUBLES),
        "waiting": listed(waiting),
        "again": train_code(given),
        "load": load_code(given, chosen) if chosen is not None else "",
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
        "size": size_text(data.shape),
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
