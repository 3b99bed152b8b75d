"""Projected cost of the large study of *Challenging Common Assumptions* on one GPU.

    python benchmarks/projection.py                          # from the committed results
    python benchmarks/projection.py --measure --out FILE     # from slices measured on this GPU
    python benchmarks/projection.py --slices FILE            # from slices measured before
    python benchmarks/projection.py --write                  # also update docs/performance.md

The study trains 12,600 models for 300,000 steps and computes all scores. The projection sums the
time of every method on every data set, in fleets of the size that the study would use, and prints
what was measured, what was extrapolated, and in which range each part lies.

`--measure` times a slice of every method on every data set that needs no download: training steps,
the training loop of one method, encoding, and the scores of a few models.
"""

import argparse
import json
import os
import re
import resource
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw
from unweave.data import DATASETS
from unweave.papers import find

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
COMMAND = "python benchmarks/projection.py --write"
SECTION = re.compile(rf"(<!-- {COMMAND} -->\n).*?(<!-- end -->)", re.DOTALL)
STUDY = find("common-assumptions/transfer").studies["paper"]
REFERENCES = {1: "dsprites", 3: "color_dsprites"}
"""Data sets on which every method was measured, by number of channels."""
USUAL, HALVED = "beta_vae", "factor_vae"
"""Method by which data sets are compared, and the one whose published steps count half."""
FILES = ("fleet_h200.json", "fleet_h200_colour.json", "fleet_h200_data.json")
OTHER_MACHINE = "fleet_h200_other_machine.json"
SLICE_STEPS = (200, 600)
"""Steps of the two short runs that separate the time per step from the start-up time."""
NO_DOWNLOAD = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites")


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Measurements on which a projection is based.

    Args:
        device: Name of the GPU.
        source: Description of the measurement.
        models: Models per fleet.
        rates: Microseconds per model-step, by method and data set.
        loop_ms: Additional milliseconds per step of a fleet, in the training loop.
        factor: Largest factor by which training loops were slower than the steps alone.
        start_seconds: Seconds to start a fleet and to save it.
        encode_seconds: GPU seconds per scored model.
        score_seconds: Core-seconds for all scores of a model.
        between_machines: Relative difference between two machines.
    """

    device: str
    source: str
    models: int
    rates: Mapping[str, Mapping[str, float]]
    loop_ms: float
    factor: float
    start_seconds: float
    encode_seconds: float
    score_seconds: float
    between_machines: float


@dataclass(frozen=True)
class Part:
    """Training of one method on one data set.

    Args:
        method: Name of the method.
        data: Name of the data set.
        microseconds: Time per model-step.
        basis: `"measured"`, `"scaled"` (another method was measured on this data set) or
            `"assumed"` (to be as fast as the reference with as many channels).
        hours: Hours for all models.
    """

    method: str
    data: str
    microseconds: float
    basis: str
    hours: float


@dataclass(frozen=True)
class Projection:
    """Projected hours; ranges are `(low, high)`."""

    slices: Slices
    parts: Sequence[Part]
    models: int
    loop: tuple[float, float]
    start: float
    encoding: float
    score_hours: float

    @property
    def training(self) -> float:
        return sum(part.hours for part in self.parts)

    @property
    def total(self) -> tuple[float, float]:
        low, high = self.loop
        fixed = self.training + self.start + self.encoding
        spread = self.training * self.slices.between_machines
        return fixed + low - spread, fixed + high + spread

    def hours_by(self, attribute: str, value: str) -> float:
        """Training hours of the parts with a value of an attribute."""
        return sum(part.hours for part in self.parts if getattr(part, attribute) == value)


def models_per_part() -> int:
    """Number of models of one method on one data set in the study."""
    counts = {
        sum(len(values) for values in grid.values() if isinstance(values, list))
        for grid in STUDY["methods"].values()
    }
    (strengths,) = counts
    return int(strengths * STUDY["seeds"])


def project(slices: Slices, updates_as_published: bool = False) -> Projection:
    """Project the cost of the whole study.

    Args:
        slices: Measurements.
        updates_as_published: Whether FactorVAE takes half as many steps, because its published
            steps alternate between two network groups that are updated together here.
    """
    each, parts = models_per_part(), []
    steps = dict.fromkeys(STUDY["methods"], STUDY["steps"])
    if updates_as_published:
        steps[HALVED] //= 2
    for data in STUDY["data"]:
        for method in STUDY["methods"]:
            rate, basis = rate_of(slices, method, data)
            hours = each * steps[method] * rate * 1e-6 / 3600
            parts.append(Part(method, data, rate, basis, hours))
    models, fleets = each * len(parts), -(-each // slices.models) * len(parts)
    training = sum(part.hours for part in parts)
    steps_of_fleets = sum(steps[part.method] for part in parts) * fleets / len(parts)
    per_step = steps_of_fleets * slices.loop_ms / 1000 / 3600
    low, high = sorted((per_step, training * (slices.factor - 1)))
    return Projection(
        slices,
        parts,
        models,
        loop=(low, high),
        start=fleets * slices.start_seconds / 3600,
        encoding=models * slices.encode_seconds / 3600,
        score_hours=models * slices.score_seconds / 3600,
    )


def rate_of(slices: Slices, method: str, data: str) -> tuple[float, str]:
    """Microseconds per model-step of a method on a data set, and their basis."""
    reference = REFERENCES[DATASETS[data].shape[2]]
    own, usual = slices.rates[method], slices.rates[USUAL]
    if data in own:
        return own[data], "measured"
    if data in usual:
        return own[reference] * usual[data] / usual[reference], "scaled"
    return own[reference], "assumed"


def committed(models: int | None = None) -> Slices:
    """Slices from the committed results, at a fleet size between measured ones."""
    models = models or models_per_part()
    rows = [row for file in FILES for row in read(file)["fleet"]]
    rates: dict[str, dict[str, float]] = {}
    for row in rows:
        of_method = rates.setdefault(row["method"], {})
        of_method[row["data"]] = interpolated(rows, row["method"], row["data"], models)
    loop_ms, factor = overhead_of_loops(rows)
    first, second = read("overlap_h200.json")["fleets"]
    usual = interpolated(rows, USUAL, "dsprites", second["models"]) * 1e-6
    steps = read("overlap_h200.json")["steps"]
    alone = usual * second["models"] * steps
    calls = read("common_assumptions_hour/run.json")["calls"]
    other = read(OTHER_MACHINE)["fleet"]
    ratios = [
        interpolated(other, method, "dsprites", models) / rates[method]["dsprites"]
        for method in STUDY["methods"]
    ]
    return Slices(
        device=read(FILES[0])["device"],
        source="committed results",
        models=models,
        rates=rates,
        loop_ms=loop_ms,
        factor=factor,
        start_seconds=max(0.0, first["seconds"] - alone - loop_ms / 1000 * steps),
        encode_seconds=(second["seconds"] - alone) / second["scored_meanwhile"],
        score_seconds=sum(call["scoring_core_seconds"] for call in calls)
        / sum(call["scored"] for call in calls),
        between_machines=max(abs(ratio - 1) for ratio in ratios),
    )


def overhead_of_loops(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Extra time in the 144-model study: milliseconds per step of a fleet, and as a factor."""
    alone = [
        row for row in read("common_assumptions_hour/run.json")["fleets"] if row.get("alone", True)
    ]
    extra, factors = [], []
    for row in alone:
        usual = interpolated(rows, row["method"], row["data"], row["models"])
        extra.append((row["us_per_model_step"] - usual) * row["models"] / 1000)
        factors.append(row["us_per_model_step"] / usual)
    return float(np.mean(extra)), float(np.mean(factors))


def interpolated(rows: Iterable[Mapping[str, Any]], method: str, data: str, models: int) -> float:
    """Microseconds per model-step, from a linear interpolation of the time of a whole fleet.

    Beyond the measured fleet sizes, it is that of the nearest one.
    """
    found = sorted(
        (row["models"], row["us_per_model_step"])
        for row in rows
        if row["method"] == method and row["data"] == data
    )
    sizes = [size for size, _ in found]
    size = min(max(models, sizes[0]), sizes[-1])
    return float(np.interp(size, sizes, [size * each for size, each in found]) / size)


def read(file: str) -> Any:
    return json.loads((RESULTS / file).read_text())


def measure(
    sources: Mapping[str, uw.data.Dataset],
    methods: Sequence[str],
    models: int,
    metrics: Sequence[str],
    scored: int,
    slice_steps: Sequence[int] = SLICE_STEPS,
) -> Slices:
    """Measure slices of the study on this device.

    Args:
        sources: Data sets by name.
        methods: Names of the methods; the first is also trained with the whole training loop.
        models: Models per fleet.
        metrics: Metrics of the study.
        scored: Number of models to encode and score; 0 for the committed times.
        slice_steps: Steps of the two runs with the whole training loop.
    """
    from unweave.fleet.diagnostics import diagnose
    from unweave.fleet.engine import Engine
    from unweave.fleet.loop import MAX_DIAGNOSES, WINDOW
    from unweave.fleet.train import all_runs, train_runs
    from unweave.models.model import join
    from unweave.nets.device import chosen_device

    def runs(method: str, data: uw.data.Dataset, steps: int, count: int) -> list[Any]:
        kind = uw.methods.METHODS[method]
        grid = kind(**STUDY["methods"][method])
        seeds = -(-count // len(grid.grid()))
        adam = uw.Adam(variant="tensorflow")
        found = all_runs(grid, data, seeds, steps, precision="bf16", optimiser=adam)
        return found[:count]

    device = chosen_device(None)
    diagnoses = []
    rates: dict[str, dict[str, float]] = {method: {} for method in methods}
    for name, data in sources.items():
        for method in methods:
            engine = Engine(runs(method, data, STUDY["steps"], models), data, device)
            rates[method][name] = 1e6 * seconds_per_step(engine) / models
            print(f"{method} on {name}: {rates[method][name]:.1f} µs", flush=True)
            start = time.perf_counter()
            diagnose(engine)
            diagnoses.append(time.perf_counter() - start)
            del engine
    (name, data), *_ = sources.items()
    took = []
    for steps in slice_steps:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            fleet = train_runs(
                runs(methods[0], data, steps, models), data, out=folder, progress=False
            )
            took.append(time.perf_counter() - start)
    # Short runs compute diagnostics in every window, whole runs up to 30 times.
    slope = (took[1] - took[0]) / (slice_steps[1] - slice_steps[0]) - diagnoses[0] / WINDOW
    slope += diagnoses[0] * MAX_DIAGNOSES / STUDY["steps"]
    steps_alone = models * rates[methods[0]][name] * 1e-6
    known = committed(models)
    encode_seconds, score_seconds = known.encode_seconds, known.score_seconds
    if scored:
        chosen = join(list(fleet)[:scored])
        start, before = time.perf_counter(), core_seconds()
        chosen.encode(data)
        encode_seconds = (time.perf_counter() - start) / scored
        uw.evaluate(chosen, data, metrics, progress=False)
        score_seconds = (core_seconds() - before) / scored
    return Slices(
        device=device_name(device),
        source=f"slices of {slice_steps[1]} steps",
        models=models,
        rates=rates,
        loop_ms=max(0.0, 1000 * (slope - steps_alone)),
        factor=max(1.0, slope / steps_alone),
        start_seconds=max(0.0, took[0] - slope * slice_steps[0]),
        encode_seconds=encode_seconds,
        score_seconds=score_seconds,
        between_machines=known.between_machines,
    )


def seconds_per_step(engine: Any) -> float:
    """Seconds per step of a fleet after a warm-up, measured for a second on a GPU."""
    cuda = engine.device.type == "cuda"
    steps, at_least = (10, 1.0) if cuda else (1, 0.0)
    engine.advance(engine.STEPS_TO_FULL_MEMORY if cuda else 1)
    wait(engine)
    count, start = 0, time.perf_counter()
    while count == 0 or time.perf_counter() - start < at_least:
        engine.advance(steps)
        count += steps
        wait(engine)
    return (time.perf_counter() - start) / count


def wait(engine: Any) -> None:
    if engine.device.type == "cuda":
        import torch

        torch.cuda.synchronize()


def core_seconds() -> float:
    """CPU seconds of this process and of its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def device_name(device: Any) -> str:
    import torch

    return torch.cuda.get_device_name() if device.type == "cuda" else f"{os.cpu_count()} cores"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n{body}"


def text(slices: Slices) -> str:
    """The projection in Markdown."""
    found, fewer = project(slices), project(slices, updates_as_published=True)
    low, high = found.total
    pairs = len(found.parts)
    bases = {
        basis: f"{found.hours_by('basis', basis):.1f} h {basis}"
        for basis in ("measured", "scaled", "assumed")
    }
    spread = found.training * slices.between_machines
    loops = " … ".join(f"{hours:.1f}" for hours in found.loop)
    rows = [
        ["training steps", f"{found.training:.1f}", ", ".join(bases.values())],
        [
            "training loop",
            loops,
            f"{slices.loop_ms:.2f} ms per step of a fleet, or {slices.factor - 1:.0%} of the time",
        ],
        [
            "starting and saving fleets",
            f"{found.start:.1f}",
            f"{slices.start_seconds:.1f} s per fleet",
        ],
        [
            "encoding for scores",
            f"{found.encoding:.1f}",
            f"{slices.encode_seconds:.2f} s per model",
        ],
        [
            "difference between machines",
            f"± {spread:.1f}",
            f"up to {slices.between_machines:.1%} of the training steps",
        ],
        ["**sum**", f"**{low:.0f} … {high:.0f}**", ""],
        [
            "sum with FactorVAE counted as in the study",
            " … ".join(f"{hours:.0f}" for hours in fewer.total),
            "half as many steps of FactorVAE",
        ],
    ]
    return "\n\n".join([
        f"The study trains {found.models:,} models for {STUDY['steps']:,} steps: "
        f"{len(STUDY['methods'])} methods on {len(STUDY['data'])} data sets, "
        f"{models_per_part()} models each. Projected for fleets of {slices.models} on one "
        f"{slices.device}, from {slices.source}:",
        table(["Part", "Hours", "Basis"], rows),
        f"All scores take {slices.score_seconds:.0f} core-seconds per model, or "
        f"{found.score_hours:.0f} core-hours; {found.score_hours / low:.1f} cores keep up with "
        "the GPU.",
        "Training hours by method (µs per model-step averaged over data sets):",
        table(
            ["Method", "One channel, µs", "Hours", "Three channels, µs", "Hours", "Share"],
            by_method(found),
        ),
        f"Of the {pairs} combinations of method and data set, "
        + ", ".join(
            f"{sum(part.basis == basis for part in found.parts)} are {basis}" for basis in bases
        )
        + ".",
    ])  # fmt: skip


def by_method(found: Projection) -> list[list[str]]:
    """Time per model-step and hours of each method, by number of channels."""
    rows = []
    for method in STUDY["methods"]:
        cells = [uw.methods.METHODS[method].label]
        for channels in REFERENCES:
            own = [
                part
                for part in found.parts
                if part.method == method and DATASETS[part.data].shape[2] == channels
            ]
            mean = np.mean([part.microseconds for part in own])
            cells += [f"{mean:.1f}", f"{sum(part.hours for part in own):.1f}"]
        rows.append([*cells, f"{found.hours_by('method', method) / found.training:.0%}"])
    return rows


def with_section(page: str, section: str) -> str:
    """The page with this projection."""
    return SECTION.sub(lambda match: f"{match[1]}\n{section}\n\n{match[2]}", page)


def main() -> None:
    from fleet import load_data
    from large_study import whole_study

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="Measure slices on this GPU.")
    parser.add_argument("--data", nargs="+", default=NO_DOWNLOAD, help="Data sets to measure.")
    parser.add_argument("--models", type=int, help="Models per fleet (default: one fleet of all).")
    parser.add_argument("--scored", type=int, default=2, help="Models to score; 0: none.")
    parser.add_argument("--slices", type=Path, help="Slices that were measured before.")
    parser.add_argument("--out", type=Path, help="Output file of the slices (JSON).")
    parser.add_argument("--write", action="store_true", help="Update docs/performance.md.")
    args = parser.parse_args()
    if args.measure:
        sources = {name: load_data(name) for name in args.data}
        metrics = whole_study("common-assumptions", "paper").metrics
        count = args.models or models_per_part()
        slices = measure(sources, list(STUDY["methods"]), count, metrics, args.scored)
    elif args.slices:
        slices = Slices(**json.loads(args.slices.read_text()))
    else:
        slices = committed(args.models)
    if args.out:
        args.out.write_text(json.dumps(asdict(slices), indent=1) + "\n")
    section = text(slices)
    print(section)
    if args.write:
        PAGE.write_text(with_section(PAGE.read_text(), section))


if __name__ == "__main__":
    main()
