"""Train part of the comparison of recent methods on a GPU, and score the codes elsewhere.

    python benchmarks/infomec.py train --out CODES --methods qlae bio_ae --minutes 8
    python benchmarks/infomec.py score CODES --out benchmarks/results/modern_hour

`train` trains runs of the recipe `modern/infomec` and writes codes of 10,000 random images, the
known factors, and settings to files of at most 15 MB; it needs no numba. At the deadline, models
are kept with the steps that they have. Fleets with different networks, batch sizes or numbers of
latents train one after another and share the time so that all get about as many steps. With
`--models FOLDER`, the same command continues.

`score` computes all scores and adds them to OUT/study.csv. Models with scores there are not scored
again, but UDR is computed among all models of a method in the given folders, so pass the codes of
all calls of `train`. OUT/infomec.csv compares the models with published numbers.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from unweave.analysis.activity import kl_in_use
from unweave.analysis.latents import Latents
from unweave.data.dataset import Dataset
from unweave.evaluation.files import write_table
from unweave.evaluation.score_cache import origin_text
from unweave.fleet.train import train_runs
from unweave.models.config import Config, group_into_fleets
from unweave.models.encoding import posteriors
from unweave.models.files import last_losses
from unweave.models.images import sample_rows
from unweave.models.model import Model
from unweave.papers import find
from unweave.papers.measurements import IMAGES
from unweave.papers.modern.comparison import scores, versions
from unweave.study.results import table_of

RECIPE = find("modern/infomec")
FILE_BYTES = 14_000_000
"""Largest size of the codes in a file."""
FIXED = 11
"""Additional models that take as long as the fixed part of a step on a GPU."""
DIGITS = 6


class Trained(NamedTuple):
    """A trained model in a file of codes."""

    config: Config
    data: str
    losses: dict[str, float]
    means: np.ndarray  # codes, float32 `[n, d]`
    kl: np.ndarray  # mean KL divergence of each latent, `[d]`
    factors: np.ndarray  # known factors of the images, `[n, K]`


def runs(args: argparse.Namespace) -> tuple[list[Config], Dataset, str]:
    """Return the chosen runs of the recipe's study, their data, and its name."""
    study = RECIPE.study(args.scale)
    assert study is not None
    source = next(one for one in study.sources if args.data in (None, one.name))
    configs = [
        config
        for config in study.runs_on(source)
        if config.method.name in (args.methods or [config.method.name])
        and config.seed in (args.seeds or [config.seed])
    ]
    return configs, source.open(), source.name


def train(args: argparse.Namespace) -> None:
    """Train the runs until the deadline, fleet by fleet, and save their codes."""
    configs, data, name = runs(args)
    end = time.monotonic() + 60 * args.minutes
    fleets = group_into_fleets(configs)
    costs = [(FIXED + len(fleet)) * fleet[0].batch for fleet in fleets]
    args.out.mkdir(parents=True, exist_ok=True)
    for place, fleet in enumerate(fleets):
        left = max(0.1, (end - time.monotonic()) / 60)
        share = left * costs[place] / sum(costs[place:])
        trained = train_runs(
            fleet, data, out=args.models, device=args.device, minutes=share, progress=False
        )
        for method in dict.fromkeys(config.method.name for config in trained.configs):
            models = [model for model in trained if model.config.method.name == method]
            save(models, data, name, args)
            steps = {model.config.steps for model in models}
            print(f"{len(models)} {method}, {share:.1f} minutes, steps {steps}", flush=True)


def save(models: list[Model], data: Dataset, name: str, args: argparse.Namespace) -> None:
    """Write codes of random images by models of one method."""
    kept = [model for model in models if model.diverged_at[0] < 0]
    rows = sample_rows(data, IMAGES)
    latents = models[0].config.code_size
    most = max(1, FILE_BYTES // (2 * len(rows) * latents))
    for start in range(0, len(kept), most):
        part = kept[start : start + most]
        placed = [model.to(args.device) for model in part]
        means, logvars = posteriors(placed, data, rows)
        configs = [model.config for model in part]
        noise = [config.method.standard_noise for config in configs]
        about = {
            "data": name,
            "configs": [config.to_dict() for config in configs],
            "losses": [last_losses(model.curve) for model in part],
            "device": str(args.device),
            "torch": torch.__version__,
        }
        np.savez_compressed(
            args.out / f"{configs[0].method.name}-{configs[0].hash}.npz",
            about=json.dumps(about),
            means=means.astype(np.float16),
            kl=kl_in_use(means.astype(float), logvars.astype(float), noise),
            factors=np.asarray(data.factors(rows)).astype(np.uint8),
        )


def read(folders: list[Path]) -> Iterator[Trained]:
    """Yield the models of all files of codes."""
    for file in sorted(path for folder in folders for path in folder.glob("*.npz")):
        with np.load(file) as saved:
            about, factors = json.loads(str(saved["about"])), saved["factors"].astype(np.int64)
            configs = [Config.from_dict(plain) for plain in about["configs"]]
            means, kl = saved["means"].astype(np.float32), saved["kl"]
        for place, config in enumerate(configs):
            losses = about["losses"][place]
            yield Trained(config, about["data"], losses, means[place], kl[place], factors)


def score(args: argparse.Namespace) -> None:
    """Score codes, add them to the table, and compare with published numbers."""
    file = args.out / "study.csv"
    before = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["run", "codes"])
    every = list(read(args.codes))
    names = {origin_text(one.config.data): one.data for one in every}
    rows = [(one.config.hash, "scored", one.config.to_dict(), one.losses) for one in every]
    # The longest training of each run, if it was continued.
    table = table_of(rows, names).drop_duplicates("run")
    by_run = {one.config.hash: one for one in every}
    parts = []
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        for _, group in table.groupby(["data", "method"], sort=False):
            models = [by_run[run] for run in group["run"]]
            means = np.stack([one.means for one in models])
            latents = Latents(means, kl=np.stack([one.kl for one in models]))
            for version, codes in versions(group, latents, [one.config for one in models]):
                parts.append(_scored(version, codes, models, before, pool))
    found = pd.concat(parts, ignore_index=True)
    keys = pd.MultiIndex.from_frame(found[["run", "codes"]])
    kept = before[~pd.MultiIndex.from_frame(before[["run", "codes"]]).isin(keys)]
    table = pd.concat([kept, found], ignore_index=True) if len(kept) else found
    longest = table.sort_values("steps").drop_duplicates(["setting", "seed", "codes"], keep="last")
    table = longest.sort_index().round(DIGITS)
    args.out.mkdir(parents=True, exist_ok=True)
    write_table(table, file)
    frame = RECIPE.obtain(table)
    write_table(frame, args.out / f"{RECIPE.slug}.csv")
    print(*RECIPE.verdict(frame), sep="\n")
    if args.picture and RECIPE.plot is not None:
        RECIPE.plot(table, args.picture)


def _scored(
    rows: pd.DataFrame,
    codes: np.ndarray,
    models: list[Trained],
    before: pd.DataFrame,
    pool: ProcessPoolExecutor,
) -> pd.DataFrame:
    """Return rows with the scores of the codes `[M, n, d]`, known or computed now."""
    known = before[before["codes"] == rows["codes"].iloc[0]].set_index("run")
    jobs = {
        one.config.hash: pool.submit(scores, means, one.factors, one.config.method)
        for one, means in zip(models, codes, strict=True)
        if one.config.hash not in known.index
    }
    found = pd.DataFrame({run: job.result() for run, job in jobs.items()}).T
    measured = [
        name for name in known if name.partition(".")[0] in RECIPE.studies["hour"]["metrics"]
    ]
    found = pd.concat([known[measured], found])
    print(rows["method"].iloc[0], rows["codes"].iloc[0], len(jobs), "scored", flush=True)
    return rows.join(found, on="run")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(required=True)
    default = "(default: %(default)s)."
    one = parts.add_parser("train", help="Train models and write their codes.")
    one.add_argument("--scale", default="hour", help=f"Scale of the recipe {default}")
    one.add_argument("--data", help="Data set of the study (default: the first).")
    one.add_argument("--methods", nargs="+", help="Methods to train (default: all).")
    one.add_argument("--seeds", nargs="+", type=int, help="Seeds to train (default: all).")
    one.add_argument("--minutes", type=float, default=8, help=f"Time for training {default}")
    one.add_argument("--models", type=Path, help="Folder of models, to continue later.")
    one.add_argument("--device", type=torch.device, default="cuda", help=f"Device {default}")
    one.add_argument("--out", type=Path, required=True, help="Folder for codes.")
    one.set_defaults(run=train)
    two = parts.add_parser("score", help="Score codes and compare with published numbers.")
    two.add_argument("codes", type=Path, nargs="+", help="Folders of codes.")
    two.add_argument("--processes", type=int, default=os.cpu_count(), help=f"Processes {default}")
    two.add_argument("--picture", type=Path, help="File of the plot (SVG or PNG).")
    two.add_argument("--out", type=Path, required=True, help="Folder of the tables.")
    two.set_defaults(run=score)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
