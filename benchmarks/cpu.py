"""Training on a CPU: fleets in float32 and bf16 against plain loops, and two processes at once.

    python benchmarks/cpu.py [--rounds 8] [--out FILE]

The network, batch and plain loop are those of `benchmarks/fleet.py`, all with the allocator
settings of the fleet. Variants take turns, and each reports its fastest round, because other
programs may be running. Two numbers are reported: CPU time per model-step on one thread, which
other programs hardly affect, and wall-clock time on all cores.

The second part runs programs alone, then two copies at once. With perfect sharing, each would run
at half the speed. It reports how much CPU time a model-step or an image takes in both cases; time
above that on one thread is spent waiting for work.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fleet import machine, plain_step
from many_models import BATCH, BETA, PlainVAE
from torch.nn import functional as F

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.models.config import Config
from unweave.nets.device import bf16_speed_up, keep_memory

MODELS = 8
"""Size of the fleet, so that all cores have work."""
ENCODED = 4_096
"""Images per call of the program `encode`."""
PROGRAMS = ("plain loop", "fleet", "encode")
WARM_UP, SECONDS = 2, 15.0
SINGLE_STEPS = 10
"""Steps of a round that are timed on one thread."""

Step = Callable[[], object]


def autocast_step() -> Step:
    """Plain loop in bf16 with channels-last convolutions, as PyTorch recommends for CPUs."""
    data = uw.data.load("dsprites").to("cpu")
    model = PlainVAE(data.shape[2])
    for weight in model.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        x = data.images(torch.randint(len(data), (BATCH,))).permute(0, 3, 1, 2).float() / 255
        with torch.autocast("cpu", torch.bfloat16):
            logits, mu, logvar = model(x.contiguous(memory_format=torch.channels_last))
        logits, mu, logvar = logits.float(), mu.float(), logvar.float()
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
        kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(1)
        loss = reconstruction.sum((1, 2, 3)).mean() + BETA * kl.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def engine(models: int, precision: str) -> Engine:
    method = uw.methods.BetaVAE(beta=BETA)
    configs = [Config(method=method, seed=seed, precision=precision) for seed in range(models)]
    return Engine(configs, uw.data.load("dsprites"), "cpu")


def on_one_thread(step: Step) -> float:
    """CPU time of one call on one thread, in seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        start = time.thread_time()
        step()
        return time.thread_time() - start
    finally:
        torch.set_num_threads(threads)


def on_all_cores(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def speeds(rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds per model-step of every variant, in its fastest round."""
    loops = {
        "plain loop, float32": plain_step(torch.device("cpu")),
        "plain loop, bf16 autocast, channels last": autocast_step(),
    }
    fleets = {
        f"fleet, {precision}": (engine(1, precision), engine(MODELS, precision))
        for precision in ("float32", "bf16")
    }
    variants: dict[str, tuple[Step, Step, int]] = {
        **{name: (step, step, 1) for name, step in loops.items()},
        **{
            name: (partial(one.advance, 1), partial(many.advance, 1), MODELS)
            for name, (one, many) in fleets.items()
        },
    }
    fastest = {name: {"cpu_ms": float("inf"), "wall_ms": float("inf")} for name in variants}
    for turn in range(WARM_UP + rounds):
        for name, (single, full, models) in variants.items():
            alone = min(on_one_thread(single) for _ in range(SINGLE_STEPS))
            whole = on_all_cores(full) / models
            if turn >= WARM_UP:
                best = fastest[name]
                best["cpu_ms"] = min(best["cpu_ms"], 1e3 * alone)
                best["wall_ms"] = min(best["wall_ms"], 1e3 * whole)
    return fastest


def program(name: str) -> tuple[Step, int]:
    """Return a function that calls a program, and how many model-steps or images it processes."""
    if name == "plain loop":
        return plain_step(torch.device("cpu")), 1
    fleet = engine(MODELS, "float32")
    if name == "fleet":
        return lambda: fleet.advance(1), MODELS
    data = uw.data.load("dsprites")
    trained = uw.train(uw.methods.VAE(), data, seeds=1, steps=1, progress=False)
    images = data[:ENCODED]
    return lambda: trained.encode(images), ENCODED


def run_program(name: str) -> None:
    """Run a program until standard input ends; print CPU and wall-clock time per unit."""
    step, units = program(name)
    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    done, start, before = 0, time.perf_counter(), os.times()
    while time.perf_counter() - start < SECONDS:
        step()
        done += units
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.user + after.system - before.user - before.system
    print(json.dumps({"wall_ms": 1e3 * wall / done, "cpu_ms": 1e3 * cpu / done}))


def at_once(name: str, copies: int) -> dict[str, float]:
    """Run copies of a program at the same time; return their mean times per unit."""
    command = [sys.executable, __file__, "--program", name]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(copies)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("start\n")
        process.stdin.flush()
    found = [json.loads(process.communicate()[0]) for process in running]
    return {key: sum(one[key] for one in found) / copies for key in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="Rounds (default: 8).")
    parser.add_argument("--program", choices=PROGRAMS, help="Run only this program.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    keep_memory()
    if args.program:
        run_program(args.program)
        return
    fastest = speeds(args.rounds)
    plain = fastest["plain loop, float32"]
    result: dict[str, Any] = {
        "device": machine(),
        "torch": torch.__version__,
        "bf16_speed_up_of_convolutions": bf16_speed_up(),
        "speed": {
            name: {**times, **{f"times_plain_{k[:-3]}": plain[k] / times[k] for k in times}}
            for name, times in fastest.items()
        },
        "two_processes": {},
    }
    for name, row in result["speed"].items():
        print(
            f"{name:<42}{row['cpu_ms']:7.1f} ms CPU ({row['times_plain_cpu']:.2f} × plain)"
            f"{row['wall_ms']:8.1f} ms wall ({row['times_plain_wall']:.2f} × plain)"
        )
    for name in PROGRAMS:
        step, units = program(name)
        step()
        needed = min(on_one_thread(step) for _ in range(3)) * 1e3 / units
        row = {"one_thread_cpu_ms": needed}
        for label, copies in (("alone", 1), ("two", 2)):
            times = at_once(name, copies)
            row[f"{label}_wall_ms"] = times["wall_ms"]
            row[f"{label}_cpu_per_needed"] = times["cpu_ms"] / needed
        row["speed_of_each_of_two"] = row["alone_wall_ms"] / row["two_wall_ms"]
        result["two_processes"][name] = row
        print(name, {key: round(value, 3) for key, value in row.items()}, flush=True)
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
