"""Commands and code that train the same models again and load the chosen one."""

import itertools
import json
import shlex
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

import yaml

from unweave.data.catalog import is_named
from unweave.data.origin import check_origin
from unweave.errors import UnweaveError
from unweave.io.extensions import is_reference, module_of, references_in
from unweave.methods import PARTS, VAE, find_method, known_method, saved_name
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.report.subject import Given

__all__ = ["load_code", "train_code"]

DEFAULT = Config(method=VAE())
OTHERS = ("batch", "latents", "architecture", "likelihood", "init", "precision")


def train_code(given: Given) -> list[tuple[str, str]]:
    """Return the steps to reproduce the models: explanations with a file, command or code."""
    if given.command is not None:
        return [("On the command line:", given.command)]
    if given.study is not None:
        text = yaml.safe_dump(dict(given.study), sort_keys=False, allow_unicode=True)
        command = shlex.join(["unweave", "study", "run", "study.yaml", "--out", given.place])
        return [
            ("Save the study as study.yaml:", text),
            ("Then run it; finished runs are not repeated:", command),
        ]
    configs = [given.configs[run] for run in given.table["run"]]
    names = {config["method"]["name"] for config in configs}
    if any(name in PARTS or known_method(name) is None for name in names):
        return [("One of the methods is a custom method; use your own training code.", "")]
    if any("first" in config for config in configs):
        return [("Some models have a first stage: train it first, then pass it as first=….", "")]
    out = given.place or "runs"
    commands = [_command(group, out) for group in _groups(configs)]
    if all(commands):
        return [("On the command line:", "\n".join(commands))]
    code = "\n".join(_python(group, out) for group in _groups(configs))
    return [("In Python:", f"import unweave as uw\n\n{code}")]


def load_code(given: Given, run: str) -> str:
    """Return Python code that loads a model and encodes images with it."""
    if given.folders:
        opened = f"model = uw.load({str(given.folders[run])!r})"
    else:
        place = list(given.configs).index(run)
        opened = f"model = fleet[{place}]"
    return (
        f"import unweave as uw\n\n{opened}\n"
        "mean, logvar = model.encode(images)  # [n, H, W, C], bytes or floats in [0, 1]\n"
        "reconstructions = model.decode(mean)"
    )


def _groups(configs: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group runs that one call can train: a full grid of method settings and seeds."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for config in configs:
        key = {**config, "method": config["method"]["name"], "seed": None}
        kinds.setdefault(json.dumps(key, sort_keys=True), []).append(config)
    groups: list[list[Mapping[str, Any]]] = []
    for kind in kinds.values():
        if _is_grid(kind):
            groups.append(kind)
            continue
        single: dict[str, list[Mapping[str, Any]]] = {}
        for config in kind:
            single.setdefault(json.dumps(config["method"], sort_keys=True), []).append(config)
        groups += single.values()
    return groups


def _is_grid(configs: Sequence[Mapping[str, Any]]) -> bool:
    values = [*_values(configs).values(), _seeds(configs)]
    wanted = {json.dumps(one) for one in itertools.product(*values)}
    there = {
        json.dumps([*(c["method"][name] for name in _values(configs)), c["seed"]]) for c in configs
    }
    return wanted == there


def _values(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of every setting of the method."""
    names = [name for name in configs[0]["method"] if name != "name"]
    return {name: sorted({c["method"][name] for c in configs}) for name in names}


def _seeds(configs: Sequence[Mapping[str, Any]]) -> list[int]:
    return sorted({config["seed"] for config in configs})


def _unusual(
    configs: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, list[Any]], dict[str, Any], dict[str, Any]]:
    """Return settings that differ from the defaults: of the method, the run and Adam."""
    first = configs[0]
    usual = find_method(first["method"]["name"])()
    settings_of_method = usual.with_new_names(_values(configs))
    values = {n: v for n, v in settings_of_method.items() if v != [getattr(usual, n)]}
    settings = {n: first[n] for n in OTHERS if first[n] != getattr(DEFAULT, n)}
    adam = {n: v for n, v in first["optimiser"].items() if v != getattr(Adam(), n)}
    return values, settings, adam


def _command(configs: Sequence[Mapping[str, Any]], out: str) -> str:
    """Return an `unweave train …` command, or an empty text if the options do not suffice."""
    first, seeds = configs[0], _seeds(configs)
    data = _plainly_loaded(first["data"])
    values, settings, adam = _unusual(configs)
    consecutive = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    if data is None or not consecutive or set(adam) - {"lr", "variant"}:
        return ""
    flags = values | {"seeds": [len(seeds)]}
    flags |= {"first_seed": [seeds[0]]} if seeds[0] else {}
    flags |= {"steps": [first["steps"]]} | {n: [v] for n, v in settings.items()}
    named = {"learning_rate": "lr", "adam": "variant"}
    flags |= {flag: [adam[name]] for flag, name in named.items() if name in adam}
    args = ["unweave", "train", _dashed(data), _dashed(first["method"]["name"])]
    for name, several in flags.items():
        args += [f"--{name.replace('_', '-')}", *map(_argument, several)]
    return shlex.join([*args, "--out", out])


def _python(configs: Sequence[Mapping[str, Any]], out: str) -> str:
    first, seeds = configs[0], _seeds(configs)
    kind = find_method(first["method"]["name"])
    values, settings, adam = _unusual(configs)
    method_args = ", ".join(f"{n}={(v[0] if len(v) == 1 else v)!r}" for n, v in values.items())
    if set(adam) == {"lr"}:
        settings["learning_rate"] = adam.pop("lr")
    keywords = [f"{n}={v!r}" for n, v in settings.items()]
    if adam:
        keywords.append(f"optimiser=uw.Adam({', '.join(f'{n}={v!r}' for n, v in adam.items())})")
    plainly = seeds == list(range(len(seeds)))
    arguments = [f"seeds={len(seeds) if plainly else seeds!r}", f"steps={first['steps']!r}"]
    call = ", ".join([*arguments, *keywords, f"out={out!r}"])
    references = references_in([first["method"]["name"], first["architecture"], first["data"]])
    imports = [f"import {module_of(one)}\n" for one in references]
    home = kind.__module__ if is_reference(saved_name(kind)) else "uw.methods"
    method = f"{home}.{kind.__name__}({method_args})"
    return (
        f"{''.join(dict.fromkeys(imports))}{_data_code(first['data'])}\n"
        f"uw.train({method}, data, {call})"
    )


def _plainly_loaded(origin: Sequence[Any]) -> str | None:
    """Return the name of a data set that was loaded without options and not modified."""
    match origin:
        case [["load", str(name), options]] if not options and is_named(name):
            return name
    return None


def _dashed(name: str) -> str:
    return name if is_reference(name) else name.replace("_", "-")


def _data_code(origin: Sequence[Any]) -> str:
    try:
        check_origin(origin)
    except UnweaveError:  # never suggest running unchecked text from a file
        return "data = …  # the data set that the models were trained on"
    first, *rest = origin
    if first[0] == "load":
        options = "".join(f", {n}={v!r}" for n, v in first[2].items())
        code = f"data = uw.data.load({first[1]!r}{options})"
    else:
        code = "data = uw.data.load(…)"
    for step, *arguments in rest:
        choice = arguments.pop() if isinstance(arguments[-1], Mapping) else {}
        positional = [repr(argument) for argument in arguments]
        plain = all(name.isidentifier() and not iskeyword(name) for name in choice)
        named = [f"{n}={v!r}" for n, v in choice.items()] if plain else [f"**{choice!r}"]
        code += f".{step}({', '.join([*positional, *named])})"
    note = "" if first[0] == "load" else f"  # custom images, {first[1]!r}"
    return code + note


def _argument(value: Any) -> str:
    """Format a value for the command line: `4`, not `4.0`, with all digits."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
