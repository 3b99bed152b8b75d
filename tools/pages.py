"""Bring the parts of documentation pages up to date that say what the code says.

    .venv/bin/python -m tools.pages          # rewrite them
    .venv/bin/python -m tools.pages --check  # only say which are out of date

Pages of methods and metrics are written by hand but for the parts between `<!-- NAME: from the
code -->` and `<!-- end -->`: equations, settings, notes and references are those of docstrings,
defaults those of dataclasses and signatures, numbers those of benchmarks/results.
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
from unweave.methods import EVERY, KnownFactors, Method, Pairs, SecondStage
from unweave.metrics import METRICS, Metric

DOCS = Path(__file__).parents[1] / "docs"
PART = re.compile(r"<!-- (\w+): from the code -->\n.*?<!-- end -->", re.DOTALL)
HEADINGS = ("Args:", "Returns:", "Notes:", "References:", "Example:", "Raises:")
BETTER = {True: "higher", False: "lower", None: "neither"}


def body(docstring: str) -> str:
    """What a docstring says before its arguments; equations are indented."""
    lines = inspect.cleandoc(docstring).splitlines()
    ends = [number for number, line in enumerate(lines) if line.strip() in HEADINGS]
    paragraphs = "\n".join(lines[: min(ends, default=len(lines))]).strip().split("\n\n")
    # An equation in the only paragraph of a docstring is not indented there.
    return "\n\n".join(re.sub(r"^(?=L = )", "    ", text) for text in paragraphs)


def section(docstring: str, heading: str) -> str:
    """The text under a heading of a docstring, or nothing."""
    lines = inspect.cleandoc(docstring).splitlines()
    if heading not in lines:
        return ""
    rest = lines[lines.index(heading) + 1 :]
    end = next((n for n, line in enumerate(rest) if line and not line.startswith(" ")), len(rest))
    return inspect.cleandoc("\n".join(["", *rest[:end]])).strip()


def arguments(docstring: str) -> dict[str, str]:
    """What a docstring says of each argument, on one line."""
    parsed = docstring_parser.parse(docstring).params
    return {item.arg_name: " ".join((item.description or "").split()) for item in parsed}


def sources(thing: Any) -> str:
    """Where it differs from what was published, where that was, and the file that does it."""
    docstring = thing.__doc__ or ""
    cited = section(docstring, "References:")
    linked = re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", cited)
    file = f"src/{thing.__module__.replace('.', '/')}.py"
    parts = [section(docstring, "Notes:"), linked, f"The code: [{file}](../../{file})."]
    return "\n\n".join(part for part in parts if part)


def said(default: object) -> str:
    """A default, as one would type it."""
    return f"`{default!r}`".replace("'", '"')


def settings(method: type[Method]) -> str:
    """The fields of a method, with their defaults."""
    about = arguments(method.__doc__ or "")
    rows = [
        [f"`{field.name}`", said(field.default), about[field.name]]
        for field in dataclasses.fields(method)
    ]
    return table(["setting", "default", "what it is"], rows) if rows else "It has none of its own."


def facts(metric: Metric) -> str:
    """What `METRICS` says of a metric."""
    low, high = (f"{end:.2f}".rstrip("0").rstrip(".").replace("inf", "∞") for end in metric.bounds)
    rows = [
        ["better is", BETTER[metric.higher_is_better]],
        ["range", f"{low} … {high}"],
        ["needs", metric.needs],
        ["takes", f"{metric.cost}, for 10,000 rows and ten codes"],
        ["known failure", metric.failure],
    ]
    return table(["of the score", ""], rows)


def options(metric: Metric) -> str:
    """The arguments of a metric, with their defaults."""
    about = arguments(metric.function.__doc__ or "")
    rows = []
    for name, given in inspect.signature(metric.function).parameters.items():
        required = given.default is inspect.Parameter.empty
        default = "" if required else said(given.default)
        rows.append([f"`{name}`", default, about.get(name, about.get(f"**{name}", ""))])
    return table(["argument", "default", "what it is"], rows)


def list_of_methods(methods: Mapping[str, type[Method]]) -> str:
    """A row for each method: its page, its sentence, what it trains on."""
    rows = []
    for name, method in methods.items():
        sentence = inspect.cleandoc(method.__doc__ or "").split("\n\n")[0]
        title = (DOCS / "methods" / f"{name}.md").read_text().partition("\n")[0].removeprefix("# ")
        about = " ".join(sentence.split()).removeprefix(f"{title}: ")
        rows.append(
            [f"[{title}]({name}.md)", f"`{name}`", about[0].upper() + about[1:], taught(method)]
        )
    return table(["method", "name", "in a sentence", "trains on"], rows)


def taught(method: type[Method]) -> str:
    """What a method learns from."""
    if issubclass(method, KnownFactors):
        return "factors"
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


def brought_up_to_date(text: str, thing: Any, parts: dict[str, Callable[[Any], str]]) -> str:
    """A page with all its parts as the code has them now."""
    found = PART.findall(text)
    if sorted(found) != sorted(parts):
        raise SystemExit(f"a page has the parts {', '.join(found)}, not {', '.join(parts)}")

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- {name}: from the code -->\n\n{parts[name](thing)}\n\n<!-- end -->"

    return PART.sub(part, text)


def pages() -> Iterable[tuple[Path, Any, dict[str, Callable[[Any], str]]]]:
    """Every page that has such parts, what it is about, and its parts."""
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
        fresh = brought_up_to_date(text, thing, parts)
        if fresh != text:
            stale.append(path)
            if not check:
                path.write_text(fresh)
    verb = "out of date" if check else "brought up to date"
    print("\n".join(f"{path.relative_to(DOCS)}: {verb}" for path in stale) or "all up to date")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
