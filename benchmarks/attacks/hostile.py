"""Malicious files, made to harm whoever opens them.

Their checksums are correct, since an attacker can write both.
"""

import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .calling import Tally, call
from .victims import Victims

__all__ = ["forge", "hostile"]

PROOF = "PROOF"
"""File that appears if malicious code ran."""
CODE = f"open({PROOF!r}, 'w')"
Payload = Callable[[Path], None]

ORIGINS: tuple[list[Any], ...] = (
    [
        ["load", "pendulum", {}],
        ["__getattribute__", "images"],
        ["__getattribute__", "__globals__"],
        ["__getitem__", "__builtins__"],
        ["__getitem__", "exec"],
        ["__call__", CODE],
    ],
    [["load", "pendulum", {}], ["images", [0]], ["tofile", PROOF]],
    [["load", "pendulum", {}], ["__class__"]],
    [["load", "pendulum", {}], ["slice", {"self": 1}]],
    [["load", "pendulum", {}], ["slice", {"length": [[0] * 3] * 3}]],
    [["load", "pendulum", {}], ["slice"]],
    [["load", "pendulum", {}], ["correlate", "length"]],
    [["load", "pendulum", {}], ["correlate", "length", "mass", 1e308, {"x": 1}]],
    [["load", "pendulum", {"path": "factors.csv"}]],
    [["load", "../../factors.csv", {}]],
    [["load", "scream_dsprites", {"picture": "/dev/zero"}]],
    [["load", "dsprites_modified", {"path": "/dev/zero"}]],
    [["load", "os:system", {}]],
    [["own", "../../x", "0"]],
    [["own"]],
    [[]],
    [{"load": 1}],
    ["load"],
    [7],
)
VALUES: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e308, float("nan"), float("inf"), "", "x" * 10_000, "\0", [], [[]],
    {}, {"name": {"name": 1}}, [1, 2, 3], "{0.__class__.__init__.__globals__}", "%s%s%n",
    "\ud800", ["\udfff"],
)  # fmt: skip
OPEN = {
    "encode": ("encode", "RUN", "images", "-o", "codes.csv"),
    "evaluate": ("evaluate", "RUN", "--metrics", "mig", "-o", "scores.csv"),
    "report": ("report", "runs", "-o", "page.html"),
    "show": ("show", "RUN", "-o", "traversals.png"),
}


def hostile(victims: Victims, folder: Path) -> list[Tally]:
    """Open malicious runs, studies, fits and arrays with every command."""
    place = folder / "hostile"
    return [
        _configs(victims, place),
        _binaries(victims, place),
        _studies(victims, place),
        _notes(victims, place),
    ]


def _configs(victims: Victims, place: Path) -> Tally:
    """Replace every value of a `config.json`, and use forbidden origins of data."""
    tally = Tally("hostile: configs")
    run = sorted((victims.trained / "runs").glob("[!.]*"))[0].name
    plain = json.loads((victims.trained / "runs" / run / "config.json").read_text())

    def attempt(case: str, changed: Any, commands: Any) -> None:
        for command in commands:
            victims.copy(victims.trained, place)
            forge(place / "runs" / run, "config.json", json.dumps(changed).encode())
            _open(tally, f"{case}: {command}", OPEN[command], place, run)

    for number, origin in enumerate(ORIGINS):
        attempt(f"origin {number}", {**plain, "data": origin}, OPEN)
    for name in (*plain, "first"):
        for value in VALUES:
            attempt(f"{name} = {value!r:.30}", {**plain, name: value}, ["encode"])
    for part in ("method", "optimiser"):
        for name in plain[part]:
            for value in VALUES:
                changed = {**plain, part: {**plain[part], name: value}}
                attempt(f"{part}.{name} = {value!r:.30}", changed, ["encode"])
    deep = ("[" * 100_000).encode()
    victims.copy(victims.trained, place)
    forge(place / "runs" / run, "config.json", deep)
    _open(tally, "100,000 levels", OPEN["encode"], place, run)
    return tally


def _binaries(victims: Victims, place: Path) -> Tally:
    """Use weights, curves and arrays with false headers."""
    tally = Tally("hostile: binaries")
    run = sorted((victims.trained / "runs").glob("[!.]*"))[0].name
    for case, content in _safetensors():
        for command in ("encode", "show"):
            victims.copy(victims.trained, place)
            forge(place / "runs" / run, "weights.safetensors", content)
            _open(tally, f"{case}: {command}", OPEN[command], place, run)
    for case, name, write in _arrays():
        victims.copy(victims.trained, place)
        write(place / name)
        for args in (
            ("encode", "RUN", name, "-o", "codes.csv"),
            ("score", name, name, "--metrics", "mig"),
            ("fit", name, "--steps", "1", "--seeds", "1"),
        ):
            _open(tally, f"{case}: {args[0]}", args, place, run)
    return tally


def _safetensors() -> Iterator[tuple[str, bytes]]:
    def file(header: Any, body: bytes = b"") -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + body

    tensor = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    yield "a tensor of terabytes", file({"encoder/0.weight": tensor})
    yield "a header of exabytes", struct.pack("<Q", 2**60)
    yield "a header of deep lists", file(b'{"a":' + b"[" * 50_000)
    yield "no metadata", file({})
    yield "metadata of other types", file({"__metadata__": {"shape": "[1e999]"}})
    for shape in ("[0, 0, 0]", "[1000000, 1000000, 3]", "[-1, 2, 3]", '"x"', "[" * 2_000, "null"):
        metadata = {"__metadata__": {"shape": shape, "diverged_at": "-1"}}
        yield f"images of {shape:.20}", file(metadata)


def _arrays() -> Iterator[tuple[str, str, Payload]]:
    def header(shape: tuple[int, ...], kind: str) -> Payload:
        def write(path: Path) -> None:
            fields = {"descr": kind, "fortran_order": False, "shape": shape}
            with path.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, fields)
                file.write(b"\0" * 64)

        return write

    def archive(*names: str) -> Payload:
        def write(path: Path) -> None:
            with zipfile.ZipFile(path, "w") as file:
                for name in names:
                    file.writestr(name, "no array at all")

        return write

    def bomb(path: Path) -> None:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
            file.open("images.npy", "w", force_zip64=True) as member,
        ):
            fields = {"descr": "|u1", "fortran_order": False, "shape": (10**6, 64, 64, 1)}
            np.lib.format.write_array_header_1_0(member, fields)
            for _ in range(4096):
                member.write(bytes(1 << 20))

    def holes(path: Path) -> None:
        header((2_000_000, 64, 64, 1), "|u1")(path)
        os.truncate(path, path.stat().st_size + 2_000_000 * 64 * 64)

    yield "a header of terabytes", "x.npy", header((10**9, 64, 64, 1), "|u1")
    yield "more elements than integers", "x.npy", header((10**12, 10**12), "<f8")
    yield "shapes beyond integers", "x.npy", header((2**63 - 1, 2**63 - 1), "|S0")
    yield "elements of no bytes", "x.npy", header((10**18, 32), "|S0")
    yield "nothing but holes", "x.npy", holes
    yield "negative shape", "x.npy", header((-5, 64, 64), "|u1")
    yield "objects", "x.npy", header((1,), "|O")
    yield "complex numbers", "x.npy", lambda path: np.save(path, np.ones((8, 4), complex))
    yield "dates", "x.npy", lambda path: np.save(path, np.zeros((8, 4), "datetime64[s]"))
    yield "nothing", "x.npz", archive()
    yield "text", "x.npz", archive("images.npy")
    yield "names that escape", "x.npz", archive("../../images.npy", "/images.npy")
    yield "a zip bomb", "x.npz", bomb


def _studies(victims: Victims, place: Path) -> Tally:
    """Use study files with path escapes, alias bombs, deep nesting or excessive sizes."""
    tally = Tally("hostile: study files")
    usual = "{methods: {beta_vae: {beta: 1}}, data: pendulum, steps: 1, %s}"
    nine = [f"a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]" for k in range(12)]
    bomb = "\n".join(["a0: &a0 [x, x]", *nine])
    ten = [f"a{k + 1}: &a{k + 1} {{<<: [{', '.join([f'*a{k}'] * 10)}]}}" for k in range(9)]
    merges = "\n".join(["a0: &a0 {x: 1}", *ten])
    files = {
        **{f"{entry:.40}": usual % entry for entry in (
            "name: 7", "name: ../../x", "name: /tmp/x", 'name: "a\\0b"', 'name: ""', "name: ..",
            "metrics: 5", "metrics: [7]", "metrics: {mig: 1}", "seeds: 1000000000", "seeds: -1",
            "seeds: [a]", "seeds: 1e400", "steps: -1", "steps: .nan", "settings: 7",
            "settings: {batch: 1e30}", "settings: {latents: [[1]]}",
            "settings: {optimiser: {lr: abc}}", "settings: {optimiser: 7}",
            "sampled: {1: 2}", "x" * 100_000 + ": 1",
        )},
        "methods 1: 2": "{methods: {1: 2}, data: pendulum}",
        "methods deep": "{methods: {beta_vae: {beta: [[[1]]]}}, data: pendulum}",
        "methods of nobody": "{methods: {'os:system': {}}, data: pendulum}",
        "correlate one": "{methods: {vae: {}}, data: {load: dsprites, correlate: [posX]}}",
        "slice self": "{methods: {vae: {}}, data: {load: dsprites, slice: {self: 0}}}",
        "slice nested": "{methods: {vae: {}}, data: {load: dsprites, slice: {shape: {a: b}}}}",
        "load a pipe": "{methods: {vae: {}}, data: {load: /dev/zero}}",
        "recursive": "&a {methods: *a, data: *a}",
        "alias bomb": bomb,
        "merge bomb": merges,
        "half a character": '{name: "\\ud800", methods: {vae: {}}, data: pendulum}',
        "deep": "[" * 3_000 + "]" * 3_000,
        "python objects": f"!!python/object/apply:builtins.exec [\"{CODE}\"]",
        "binary": "\udcff\udcfe",
        "empty": "",
        "a list": "[1, 2]",
    }  # fmt: skip
    for case, text in files.items():
        for command in ("plan", "run"):
            victims.copy(victims.start, place)
            (place / "x.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
            _open(tally, f"{case}: {command}", ("study", command, "x.yaml"), place, "")
    return tally


def _notes(victims: Victims, place: Path) -> Tally:
    """Replace the metadata files next to runs: sources of images, fits, scores, studies."""
    tally = Tally("hostile: notes")
    run = sorted((victims.trained / "runs").glob("[!.]*"))[0].name
    for name, commands in {
        "fit/source.json": (("show", "fit/best", "-o", "x.png"), ("encode", "fit", "images")),
        "runs/source.json": (OPEN["show"], OPEN["report"]),
        "fit/names.json": (("encode", "fit", "images"), ("report", "fit", "-o", "x.html")),
        "fit/fit.json": (("report", "fit", "-o", "x.html"),),
        f"runs/{run}/scores.json": (OPEN["evaluate"], OPEN["report"]),
        "small/study.json": (
            ("study", "table", "small", "-o", "x.csv"),
            ("study", "status", "small"),
            ("study", "check", "small"),
            ("report", "small", "-o", "x.html"),
        ),
    }.items():
        for value in (
            *VALUES, "[" * 100_000, {"source": "..", "options": {}},
            {"source": "/dev/zero", "options": {"factors": {"file": "/dev/zero"}}},
            {"source": "\ud800", "options": {}}, [{"metric": "\ud800", "scores": {"\ud800": 1}}],
            {"source": "images", "options": {"exec": 1}}, {"steps": 1e400, "runs": ["../x"]},
            {"study": {}, "sources": {}}, {"study": 1, "sources": 2},
        ):  # fmt: skip
            text = value if isinstance(value, str) and value[:1] == "[" else json.dumps(value)
            for args in commands:
                victims.copy(victims.trained, place)
                (place / name).write_text(text)
                _open(tally, f"{name} = {text:.30}: {args[0]}", args, place, run)
    return tally


def forge(run: Path, name: str, content: bytes) -> None:
    """Write a file into a run, with a matching checksum."""
    (run / name).write_bytes(content)
    sums = run / "SHA256SUMS"
    if sums.exists():
        others = [line for line in sums.read_text().splitlines() if not line.endswith(f" {name}")]
        line = f"{hashlib.sha256(content).hexdigest()}  {name}"
        sums.write_text("\n".join([*others, line]) + "\n")


def _open(tally: Tally, case: str, args: tuple[str, ...], place: Path, run: str) -> None:
    before = set(place.parent.iterdir())
    outcome = call([f"runs/{run}" if word == "RUN" else word for word in args], place)
    # A file from an attacker may be harmless and open; this is not a silent failure.
    tally.add(case, outcome, unharmed=True)
    escaped = [path for path in place.parent.iterdir() if path not in before]
    if (place / PROOF).exists() or escaped:
        tally.breach(f"{case} {escaped}")
