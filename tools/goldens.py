"""Record what must not change while the code is moved: weights, scores, images, tables, flags.

    python -m tools.goldens record FILE    # before
    python -m tools.goldens check FILE     # after: says what differs, and exits with 1

Run it with OMP_NUM_THREADS=1. It uses public names and the command line only, but for the tables
of recipes, so that it runs before and after a move.
"""

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw

ROOT = Path(__file__).parents[1]
STEPS = 50
RENDERED = (
    *("dsprites", "color_dsprites", "noisy_dsprites", "textured_dsprites"),
    *("rooms3d", "pendulum"),
)
COMMANDS = (
    *("fit", "evaluate", "score", "encode", "export", "reproduce", "manipulate", "show"),
    *("report", "explore", "completion", "data list", "data prepare", "data check"),
    *("data show", "data export", "study plan", "study run", "study status", "study table"),
    *("study check", "theory d-separation", "theory impossibility", "theory pca-alignment"),
    *("theory vi-bias", "train dsprites beta-vae", "train dsprites vae-ensemble"),
    *("train dsprites isa-vae", "train dsprites ms-vae", "train dsprites factor-vae"),
)
ROOMS = ("data", "methods", "metrics", "quality", "select", "show", "study")


def digest(*arrays: Any) -> str:
    """A checksum of values, types and shapes."""
    sums = hashlib.sha256()
    for array in map(np.asarray, arrays):
        sums.update(f"{array.dtype}{array.shape}".encode())
        sums.update(np.ascontiguousarray(array).tobytes())
    return sums.hexdigest()[:16]


def weights() -> Iterator[tuple[str, str]]:
    """Weights of every method after some steps, and the hashes of their configs."""
    from safetensors.numpy import load_file

    whole = uw.data.load("dsprites").slice(scale=5, orientation=0)
    small = whole[:].reshape(len(whole), 32, 2, 32, 2).mean((2, 4)) / 255
    factors = whole.factors(np.arange(len(whole)))
    assert whole.grid is not None
    table = {name: factors[:, k] for k, name in enumerate(whole.grid.names)}
    data = uw.data.load(small, factors=table, name="sprites")
    methods = uw.methods
    settings: dict[str, Any] = {"steps": STEPS, "batch": 4, "latents": 4, "progress": False}
    own = {"infogan": {"latents": 8}}
    values = {"from_factors": {"told": "shape,scale,posX,posY"}}
    with tempfile.TemporaryDirectory() as folder:
        every = {**methods.METHODS, **methods.GENERATORS, **methods.SECOND_STAGES}
        for name, kind in every.items():
            print(name, flush=True)
            first = Path(folder) / "beta_vae" if name in methods.SECOND_STAGES else None
            out = Path(folder) / name
            try:
                chosen = {**settings, **own.get(name, {})}
                method = kind(**values.get(name, {}))
                uw.train(method, data, out=out, device="cpu", first=first, **chosen)
            except Exception as error:
                yield f"weights {name}", f"refused: {error}"
            for run in sorted(path.parent for path in out.glob("*/weights.safetensors")):
                tensors = load_file(run / "weights.safetensors")
                seed = json.loads((run / "config.json").read_text())["seed"]
                yield (
                    f"weights {name} {seed} {run.name}",
                    digest(*(tensors[key] for key in sorted(tensors))),
                )


def scores() -> Iterator[tuple[str, Any]]:
    """Scores of every metric of codes and factors alone, on codes that are half entangled."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, (3_000, 4))
    codes = factors + 0.3 * rng.normal(size=factors.shape)
    codes[:, 1] += codes[:, 0]
    codes = np.column_stack([codes, rng.normal(size=len(codes)) * 0.01])
    for name, metric in uw.metrics.METRICS.items():
        try:
            found = getattr(uw.metrics, name)(codes, factors, seed=0)
        except Exception as error:
            found = {"refused": type(error).__name__}
        del metric
        for key, value in found.items():
            yield f"score {name} {key}", value if isinstance(value, str) else float(value)


def images() -> Iterator[tuple[str, str]]:
    """Images and factors of every data set that is rendered here."""
    for name in RENDERED:
        data: Any = uw.data.load(name)
        some = np.linspace(0, len(data) - 1, 64).astype(int)
        shown = data.curves if name == "pendulum" else data.images
        yield f"images {name}", digest(shown(some))
        yield f"factors {name}", digest(np.asarray(data.factors(some)).astype(np.int64))


def flags() -> Iterator[tuple[str, list[str]]]:
    """The flags of every command."""
    for command in COMMANDS:
        said = subprocess.run(
            [sys.executable, "-m", "unweave", *command.split(), "--help"],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
            check=False,
        )
        found = re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", said.stdout)
        yield f"flags {command}", sorted(set(found)) if said.returncode == 0 else [said.stderr]


def names() -> Iterator[tuple[str, list[str]]]:
    """The public names."""
    yield "names uw", sorted(uw.__all__)
    for room in ROOMS:
        yield f"names uw.{room}", sorted(getattr(uw, room).__all__)


def recipes() -> Iterator[tuple[str, str]]:
    """What every recipe publishes and trains."""
    try:
        recipes = importlib.import_module("unweave.papers").RECIPES
    except ImportError:
        recipes = importlib.import_module("unweave.recipes").RECIPES
    for name, recipe in recipes.items():
        published = recipe.published()
        text = published.to_csv(index=False, float_format="%.10g")
        yield f"published {name}", hashlib.sha256(text.encode()).hexdigest()[:16]
        plain = json.dumps(recipe.studies, sort_keys=True, default=str)
        yield f"studies {name}", hashlib.sha256(plain.encode()).hexdigest()[:16]


def pages() -> Iterator[tuple[str, str]]:
    """The pages that are made of committed tables by recipes."""
    for path in sorted((ROOT / "docs/results").rglob("*.md")):
        yield f"page {path.name}", hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    for tool in ("tools.results", "tools.pages"):
        done = subprocess.run([sys.executable, "-m", tool, "--check"], cwd=ROOT, check=False)
        yield f"{tool} --check", str(done.returncode)


def everything() -> dict[str, Any]:
    parts = (names, flags, images, scores, recipes, pages, weights)
    return {key: value for part in parts for key, value in part()}


def main() -> None:
    task, file = sys.argv[1:]
    found = everything()
    if task == "record":
        Path(file).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return
    known = json.loads(Path(file).read_text())
    wrong = [key for key in sorted({*known, *found}) if known.get(key) != found.get(key)]
    for key in wrong:
        print(f"{key}: {known.get(key)} -> {found.get(key)}")
    print(f"{len(known)} recorded, {len(wrong)} differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
