"""Update the generated parts of documentation pages.

    .venv/bin/python -m tools.pages          # update the pages
    .venv/bin/python -m tools.pages --check  # only list the pages that are out of date

Pages of methods and metrics are written by hand except for the parts between `<!-- NAME: from the
code -->` and `<!-- end -->`. Equations, settings, notes and references come from docstrings,
defaults from dataclasses and signatures, and numbers from benchmarks/results.
"""

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import docstring_parser

from tools import measured
from tools.markdown import table
from unweave.methods import EVERY, Auxiliary, KnownFactors, Method, Pairs, SecondStage
from unweave.metrics import METRICS, Metric

DOCS = Path(__file__).parents[1] / "docs"
PART = re.compile(r"<!-- (\w+): from the code -->\n.*?<!-- end -->", re.DOTALL)
HEADINGS = ("Args:", "Returns:", "Notes:", "References:", "Example:", "Raises:")
BETTER = {True: "higher", False: "lower", None: "neither"}


def body(docstring: str) -> str:
    """Return the part of a docstring before its sections; equations are indented."""
    lines = inspect.cleandoc(docstring).splitlines()
    ends = [number for number, line in enumerate(lines) if line.strip() in HEADINGS]
    paragraphs = "\n".join(lines[: min(ends, default=len(lines))]).strip().split("\n\n")
    # An equation in the only paragraph of a docstring is not indented there.
    return "\n\n".join(re.sub(r"^(?=L = )", "    ", text) for text in paragraphs)


def section(docstring: str, heading: str) -> str:
    """Return the text under a heading of a docstring, or an empty string."""
    lines = inspect.cleandoc(docstring).splitlines()
    if heading not in lines:
        return ""
    rest = lines[lines.index(heading) + 1 :]
    end = next((n for n, line in enumerate(rest) if line and not line.startswith(" ")), len(rest))
    return inspect.cleandoc("\n".join(["", *rest[:end]])).strip()


def arguments(docstring: str) -> dict[str, str]:
    """Return the one-line descriptions of the arguments in a docstring."""
    parsed = docstring_parser.parse(docstring).params
    return {item.arg_name: " ".join((item.description or "").split()) for item in parsed}


def sources(thing: Any) -> str:
    """Return the notes and references of a docstring, and a link to the source file."""
    docstring = thing.__doc__ or ""
    cited = section(docstring, "References:")
    linked = re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", cited)
    file = f"src/{thing.__module__.replace('.', '/')}.py"
    parts = [section(docstring, "Notes:"), linked, f"Source code: [{file}](../../{file})."]
    return "\n\n".join(part for part in parts if part)


def as_code(default: object) -> str:
    """Format a default value as Python code."""
    return f"`{default!r}`".replace("'", '"')


def settings(method: type[Method]) -> str:
    """Return a table of the fields of a method with their defaults."""
    about = arguments(method.__doc__ or "")
    rows = [
        [f"`{field.name}`", as_code(field.default), about[field.name]]
        for field in dataclasses.fields(method)
    ]
    if not rows:
        return "This method has no settings of its own."
    return table(["Setting", "Default", "Description"], rows)


def facts(metric: Metric) -> str:
    """Return the properties of a metric in `METRICS` as a table."""
    low, high = (f"{end:.2f}".rstrip("0").rstrip(".").replace("inf", "∞") for end in metric.bounds)
    rows = [
        ["Better", BETTER[metric.higher_is_better]],
        ["Range", f"{low} … {high}"],
        ["Needs", metric.needs],
        ["Cost", f"{metric.cost} for 10,000 rows and ten codes"],
        ["Known failure", metric.failure],
    ]
    return table(["Property", "Value"], rows)


def options(metric: Metric) -> str:
    """Return the arguments of a metric with their defaults as a table."""
    about = arguments(metric.function.__doc__ or "")
    rows = []
    for name, given in inspect.signature(metric.function).parameters.items():
        required = given.default is inspect.Parameter.empty
        default = "" if required else as_code(given.default)
        rows.append([f"`{name}`", default, about.get(name, about.get(f"**{name}", ""))])
    return table(["Argument", "Default", "Description"], rows)


def list_of_methods(methods: Mapping[str, type[Method]]) -> str:
    """Return a table of methods: page, name, summary and kind of training data."""
    rows = []
    for name, method in methods.items():
        sentence = inspect.cleandoc(method.__doc__ or "").split("\n\n")[0]
        title = (DOCS / "methods" / f"{name}.md").read_text().partition("\n")[0].removeprefix("# ")
        about = " ".join(sentence.split()).removeprefix(f"{title}: ")
        rows.append(
            [
                f"[{title}]({name}.md)",
                f"`{name}`",
                about[0].upper() + about[1:],
                training_input(method),
            ]
        )
    return table(["Method", "Name", "Summary", "Trains on"], rows)


def training_input(method: type[Method]) -> str:
    """Return what a method is trained on."""
    if issubclass(method, KnownFactors):
        return "factors"
    if issubclass(method, Auxiliary):
        return "images and a factor"
    if issubclass(method, SecondStage):
        return "models"
    return "pairs" if issubclass(method, Pairs) else "images"


METHOD_PARTS: dict[str, Callable[[type[Method]], str]] = {
    "equation": lambda method: body(method.__doc__ or ""),
    "settings": settings,
    "cost": lambda method: measured.cost_of_method(method.name),
    "scores": lambda method: measured.scores_of_method(method.name),
    "sources": sources,
}
METRIC_PARTS: dict[str, Callable[[Metric], str]] = {
    "equation": lambda metric: body(metric.function.__doc__ or ""),
    "facts": facts,
    "options": options,
    "returns": lambda metric: section(metric.function.__doc__ or "", "Returns:"),
    "known": lambda metric: measured.known_codes(metric.name),
    "scores": lambda metric: measured.scores_by_metric(metric.name),
    "sources": lambda metric: sources(metric.function),
}


def updated_page(text: str, thing: Any, parts: dict[str, Callable[[Any], str]]) -> str:
    """Return the text of a page with all generated parts updated."""
    found = PART.findall(text)
    if sorted(found) != sorted(parts):
        raise SystemExit(f"a page must have the parts {', '.join(parts)}, got {', '.join(found)}")

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- {name}: from the code -->\n\n{parts[name](thing)}\n\n<!-- end -->"

    return PART.sub(part, text)


def pages() -> Iterable[tuple[Path, Any, dict[str, Callable[[Any], str]]]]:
    """Yield each page with generated parts, its subject, and the functions for its parts."""
    yield DOCS / "methods" / "index.md", EVERY, {"methods": list_of_methods}
    for name, method in EVERY.items():
        yield DOCS / "methods" / f"{name}.md", method, METHOD_PARTS
    for name, metric in METRICS.items():
        yield DOCS / "metrics" / f"{name}.md", metric, METRIC_PARTS
    yield DOCS / "security.md", "torture.json", {"attacks": measured.attacks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path, thing, parts in pages():
        text = path.read_text()
        fresh = updated_page(text, thing, parts)
        if fresh != text:
            stale.append(path)
            if not check:
                path.write_text(fresh)
    verb = "out of date" if check else "updated"
    print("\n".join(f"{path.relative_to(DOCS)}: {verb}" for path in stale) or "all up to date")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
