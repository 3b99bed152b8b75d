"""How to do it again: the commands that train the same models, and open the chosen one."""

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
from unweave.methods import PARTS, VAE, Method, find_method, known_method, saved_name
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.report.subject import Given

__all__ = ["load_code", "train_code"]

DEFAULT = Config(method=VAE())
OTHERS = ("batch", "latents", "architecture", "likelihood", "init", "precision")


def train_code(given: Given) -> list[tuple[str, str]]:
    """What to do, step by step: in words, and the text of a file, a command or code."""
    if given.command is not None:
        return [("On the command line:", given.command)]
    if given.study is not None:
        text = yaml.safe_dump(dict(given.study), sort_keys=False, allow_unicode=True)
        command = shlex.join(["unweave", "study", "run", "study.yaml", "--out", given.place])
        return [
            ("Save the study as study.yaml:", text),
            ("Then run it; what is done is not done again:", command),
        ]
    configs = [given.configs[run] for run in given.table["run"]]
    names = {config["method"]["name"] for config in configs}
    if any(name in PARTS or known_method(name) is None for name in names):
        return [("One of the methods is your own, so train it with your own code.", "")]
    if any("first" in config for config in configs):
        return [("Some models build on others: train these first, then those with first=….", "")]
    out = given.place or "runs"
    commands = [_command(group, out) for group in _groups(configs)]
    if all(commands):
        return [("On the command line:", "\n".join(commands))]
    code = "\n".join(_python(group, out) for group in _groups(configs))
    return [("In Python:", f"import unweave as uw\n\n{code}")]


def load_code(given: Given, run: str) -> str:
    """Python that opens a model and encodes images with it."""
    if given.folders:
        opened = f"model = uw.load({str(given.folders[run])!r})"
    else:
        place = list(given.configs).index(run)
        opened = f"model = fleet[{place}]"
    return (
        f"import unweave as uw\n\n{opened}\n"
        "mean, logvar = model.encode(images)  # [n, H, W, C], bytes, or floats in [0, 1]\n"
        "images_again = model.decode(mean)"
    )


def _groups(configs: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Runs that one call trains: a full grid of the method's values, each with every seed."""
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
    """The values of every setting of the method."""
    names = [name for name in configs[0]["method"] if name != "name"]
    return {name: sorted({c["method"][name] for c in configs}) for name in names}


def _seeds(configs: Sequence[Mapping[str, Any]]) -> list[int]:
    return sorted({config["seed"] for config in configs})


def _command(configs: Sequence[Mapping[str, Any]], out: str) -> str:
    """`unweave train …`, or nothing where the command line cannot say it."""
    first, seeds = configs[0], _seeds(configs)
    data = _plainly_loaded(first["data"])
    if data is None or seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        return ""
    optimiser = {**first["optimiser"]}
    flags = {n: v for n, v in _values(configs).items() if v != [_default(first, n)]}
    flags |= {"seeds": [len(seeds)]}
    flags |= {"first_seed": [seeds[0]]} if seeds[0] else {}
    flags |= {"steps": [first["steps"]]}
    flags |= {n: [first[n]] for n in OTHERS if first[n] != getattr(DEFAULT, n)}
    flags |= {"learning_rate": [optimiser.pop("lr")], "adam": [optimiser.pop("variant")]}
    plain = Adam()
    if any(value != getattr(plain, name) for name, value in optimiser.items()):
        return ""
    usual = {"learning_rate": [plain.lr], "adam": [plain.variant]}
    flags = {n: v for n, v in flags.items() if v != usual.get(n)}
    words = ["unweave", "train", _dashed(data), _dashed(first["method"]["name"])]
    for name, values in flags.items():
        words += [f"--{name.replace('_', '-')}", *(_word(v) for v in values)]
    return shlex.join([*words, "--out", out])


def _python(configs: Sequence[Mapping[str, Any]], out: str) -> str:
    first, seeds = configs[0], _seeds(configs)
    kind = _kind(first)
    values = {n: v for n, v in _values(configs).items() if v != [_default(first, n)]}
    said = ", ".join(f"{n}={(v[0] if len(v) == 1 else v)!r}" for n, v in values.items())
    settings = {n: first[n] for n in OTHERS if first[n] != getattr(DEFAULT, n)}
    plain = Adam()
    adam = {n: v for n, v in first["optimiser"].items() if v != getattr(plain, n)}
    if set(adam) == {"lr"}:
        settings["learning_rate"] = adam.pop("lr")
    words = [f"{n}={v!r}" for n, v in settings.items()]
    if adam:
        words.append(f"optimiser=uw.Adam({', '.join(f'{n}={v!r}' for n, v in adam.items())})")
    plainly = seeds == list(range(len(seeds)))
    arguments = [f"seeds={len(seeds) if plainly else seeds!r}", f"steps={first['steps']!r}"]
    call = ", ".join([*arguments, *words, f"out={out!r}"])
    references = references_in([first["method"]["name"], first["architecture"], first["data"]])
    imports = [f"import {module_of(one)}\n" for one in references]
    home = kind.__module__ if is_reference(saved_name(kind)) else "uw.methods"
    made = f"{home}.{kind.__name__}({said})"
    return (
        f"{''.join(dict.fromkeys(imports))}{_data_code(first['data'])}\n"
        f"uw.train({made}, data, {call})"
    )


def _plainly_loaded(origin: Sequence[Any]) -> str | None:
    """The name of a data set that was loaded with no options and then not changed."""
    match origin:
        case [["load", str(name), options]] if not options and is_named(name):
            return name
    return None


def _dashed(name: str) -> str:
    return name if is_reference(name) else name.replace("_", "-")


def _kind(config: Mapping[str, Any]) -> type[Method]:
    return find_method(config["method"]["name"])


def _data_code(origin: Sequence[Any]) -> str:
    try:
        check_origin(origin)
    except UnweaveError:  # nobody should paste what a stranger's file says
        return "data = …  # the data set that you trained on"
    first, *rest = origin
    if first[0] == "load":
        options = "".join(f", {n}={v!r}" for n, v in first[2].items())
        code = f"data = uw.data.load({first[1]!r}{options})"
    else:
        code = "data = uw.data.load(…)"
    for step, *arguments in rest:
        choice = arguments.pop() if isinstance(arguments[-1], Mapping) else {}
        words = [repr(argument) for argument in arguments]
        plain = all(name.isidentifier() and not iskeyword(name) for name in choice)
        named = [f"{n}={v!r}" for n, v in choice.items()] if plain else [f"**{choice!r}"]
        code += f".{step}({', '.join([*words, *named])})"
    note = "" if first[0] == "load" else f"  # your own images, {first[1]!r}"
    return code + note


def _default(config: Mapping[str, Any], name: str) -> Any:
    return getattr(_kind(config)(), name)


def _word(value: Any) -> str:
    """A value on the command line: `4`, not `4.0`, and every digit."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
