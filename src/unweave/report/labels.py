"""The words of a report: names of methods, models, data sets and columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from unweave.evaluation.score_cache import origin_text
from unweave.methods import Method, known_method
from unweave.metrics import known_metric

__all__ = [
    "data_names",
    "flat",
    "label",
    "listed",
    "method_name",
    "model_names",
    "setting",
    "symbol",
    "value_text",
]

FEW = 3
LONGEST_NAME = 200
LABELS = {
    "udr": "UDR",
    "kl": "KL",
    "active": "active latents",
    "found": "factors found",
    "front": "Pareto front",
    "total_correlation": "total correlation (training)",
}
"""Headings of columns that are no metric's."""


def method_name(name: str) -> str:
    """A method as papers write it; one that is not known here without its module.

    Example:
        >>> method_name("beta_vae"), method_name("shop.methods:MyOwn")
        ('β-VAE', 'MyOwn')
    """
    kind = known_method(name)
    return name.rpartition(":")[2] if kind is None else kind.label


def symbol(name: str, methods: Iterable[str]) -> str:
    """How a setting is written that some of these methods have: `β`, or its name."""
    for method in methods:
        kind = known_method(method)
        if kind is not None and name in {f.name for f in fields(kind)}:
            return kind.symbol(name)
    return Method.symbol(name)


def setting(name: str, value: Any, method: str = "") -> str:
    """A setting and its value: `β=4`, `steps=900`.

    Args:
        name: As in `flat`.
        value: Its value.
        method: The method whose setting it is, if it is one's.
    """
    if name.startswith("first."):
        return f"first {setting(name.removeprefix('first.'), value, method)}"
    short = name.removeprefix("method.").removeprefix("optimiser.")
    text = symbol(short, [method] if method and name.startswith("method.") else [])
    return f"{text}={value_text(value)}"


def value_text(value: Any) -> str:
    """A value as people write it: `4`, not `4.0`."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, all but its data, in one dictionary: `method.beta`, `optimiser.lr`.

    Example:
        >>> flat({"method": {"name": "vae", "beta": 4.0}, "data": [], "seed": 0})
        {'method.name': 'vae', 'method.beta': 4.0, 'seed': 0}
        >>> flat({"first": {"method": {"name": "vae"}, "seed": 0}, "seed": 0})
        {'first.method.name': 'vae', 'first.seed': 0, 'seed': 0}
    """
    settings: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            inside = flat(value) if name == "first" else value
            settings |= {f"{name}.{inner}": one for inner, one in inside.items()}
        elif name != "data":
            settings[name] = value
    return settings


def model_names(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A name for each run that tells it from the others on the same data.

    Example:
        >>> vae = {"method": {"name": "beta_vae", "beta": 4.0}, "seed": 3}
        >>> model_names({"a": vae, "b": {**vae, "seed": 7}})["b"]
        'β-VAE β=4, seed 7'
    """
    plain = {run: flat(config) for run, config in configs.items()}
    by_method: dict[str, list[dict[str, Any]]] = {}
    for settings in plain.values():
        by_method.setdefault(settings["method.name"], []).append(settings)
    varied = {method: _varied(members) for method, members in by_method.items()}
    return {
        run: _name(settings, varied[settings["method.name"]]) for run, settings in plain.items()
    }


def _varied(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which models of one method differ; at least its first one."""
    method = known_method(members[0]["method.name"])
    known = [f"method.{name}" for name in method.strengths()] if method else []
    own = [name for name in members[0] if name.startswith("method.") and name != "method.name"]
    own.sort(key=lambda name: known.index(name) if name in known else len(known))
    names = [name for name in members[0] if name not in ("seed", "method.name")]
    differ = [n for n in names if len({json.dumps(m.get(n)) for m in members}) > 1]
    return differ if any(name in own for name in differ) else own[:1] + differ


def _name(settings: Mapping[str, Any], varied: Sequence[str]) -> str:
    words = [
        setting(name, settings[name], settings[_owner(name)])
        for name in varied
        if name in settings
    ]
    return " ".join([method_name(settings["method.name"]), *words]) + f", seed {settings['seed']}"


def _owner(name: str) -> str:
    """The setting that says whose setting it is: `first.method.name` for `first.method.beta`."""
    return f"{'first.' * name.count('first.')}method.name"


def data_names(origins: Sequence[Sequence[Any]]) -> dict[str, str]:
    """A name for every data set, by its origin as text; no two have the same.

    Example:
        >>> sliced = [["load", "dsprites", {}], ["slice", {"scale": 5, "posX": [0, 8]}]]
        >>> list(data_names([sliced, [["load", "dsprites", {}]]]).values())
        ['dsprites (scale 5, posX 0 8)', 'dsprites']
    """
    names: dict[str, str] = {}
    for origin in origins:
        text = origin_text(origin)
        if text not in names:
            name = _data_name(origin)
            same = sum(other.split(" no. ")[0] == name for other in names.values())
            names[text] = f"{name} no. {same + 1}" if same else name
    return names


def _data_name(origin: Sequence[Any]) -> str:
    if not origin:
        return "unknown data"
    words = []
    for step, *arguments in origin[1:]:
        choice = arguments.pop() if arguments and isinstance(arguments[-1], Mapping) else {}
        said = [f"{n} {_values(v)}" for n, v in choice.items()] or [" ".join(map(str, arguments))]
        words.append(("" if step == "slice" else f"{step.replace('_', ' ')} ") + ", ".join(said))
    name = str(origin[0][1] if len(origin[0]) > 1 else "") or "your own images"
    return _short(f"{name} ({'; '.join(words)})" if words else name)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _values(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    return " ".join(map(str, value)) if len(value) <= FEW else f"{len(value)} values"


def label(column: str) -> str:
    """The heading of a column.

    Example:
        >>> label("dci.completeness"), label("sampled.mig")
        ('DCI: completeness', 'MIG (sampled)')
    """
    if column.startswith("sampled."):
        return f"{label(column.removeprefix('sampled.'))} (sampled)"
    name, _, part = column.partition(".")
    metric = known_metric(name)
    heading = metric.label if metric else LABELS.get(name, name.replace("_", " "))
    return f"{heading}: {part.removeprefix(f'{name}_').replace('_', ' ')}" if part else heading


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
