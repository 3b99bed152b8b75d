"""Evaluation of trained models: a table with one row per model and one column per score."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import pandas as pd
import torch

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.origin import load_training_data, origin_of
from unweave.errors import DataError
from unweave.evaluation.choice import Choice, choose, needs_factors
from unweave.evaluation.codes import apply_metric, encode, models_per_batch
from unweave.evaluation.score_cache import (
    Key,
    Outcome,
    add_to_cache,
    origin_text,
    read_cache,
)
from unweave.io.arguments import check_seed, renamed_arguments
from unweave.metrics import Metric
from unweave.models.config import group_into_fleets
from unweave.models.finding import Models, Run, runs_of
from unweave.models.model import join
from unweave.nets.device import chosen_device
from unweave.progress import lines, say
from unweave.text import counted

__all__ = ["evaluate"]

ENCODING = "encoding"


@renamed_arguments(again="recompute")
def evaluate(
    models: Models,
    data: Dataset | str | None = None,
    metrics: Choice | Iterable[Choice] = "classic",
    seed: int = 0,
    sampled: bool = False,
    progress: bool = True,
    recompute: bool = False,
    device: str | torch.device | None = None,
) -> pd.DataFrame:
    """Compute metrics of models, encoding the data set only once per model.

    Scores of saved runs are cached in `scores.json` in their folders and reused.

    Args:
        models: A fleet, a model, the folder of a saved run, of several runs, of a fit or of a
            study, a glob pattern (`"runs/a*"`), the results of a study, or a list of these.
        data: A data set or its name (default: the training data of each model, if it can be
            loaded again). All images have the same weight.
        metrics: `"classic"`, `"all"` (except `fid`, which is slow), or metrics: names, `Metric`
            objects, their `package.module:NAME`, or functions `(codes, factors, seed)`. Scores
            of plain functions are not cached.
        seed: Random seed for the metrics, for sampled codes, and for images that are random given
            their factors.
        sampled: Whether to score codes sampled from the posteriors instead of their means.
        progress: Whether to show progress bars, one per metric.
        recompute: Whether to recompute cached scores.
        device: Device for encoding and decoding (default: a GPU if available).

    Returns:
        One row per model: `run`, `method`, the method's hyperparameters, `seed`, `steps`, then
        scores. The headline score of a metric has the metric's name (`dci`), its other numbers
        have the name and the part (`dci.completeness`). Scores are NaN for models that diverged
        or that a metric cannot score; a message on standard error gives the reason.

    Notes:
        Memory: the codes of as many models as fit into 1 GiB (at least one), and 5,000
        reconstructions of one model if a metric needs images. FID, PIPE and the pixel error use
        10,000 images sampled with the seed, or all images if there are fewer. Metrics that can use
        the posteriors receive them: RMIG and JEMMIG are computed from the posteriors, as in their
        paper, unless `sampled` is set. Images are decoded from means, or from sampled codes if
        `sampled` is set.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> fleet = uw.train(uw.methods.BetaVAE(), data, seeds=2, steps=2, batch=8, progress=False)
        >>> table = uw.evaluate(fleet, data, metrics=["mig", "sap"], progress=False)
        >>> table.columns.tolist()
        ['run', 'method', 'beta', 'seed', 'steps', 'mig', 'sap']
        >>> bool(table["mig"].between(0, 1).all())
        True
    """
    chosen, seed = choose(metrics), check_seed(seed)
    data = load_data(data) if isinstance(data, str) else data
    device = chosen_device(device)
    jobs = [_Job.of(run, data, chosen, seed, sampled, recompute) for run in runs_of(models)]
    batches = list(_batches([job for job in jobs if job.missing], data))
    chosen = _computable(chosen, [made for _, made in batches])
    totals = {metric.name: sum(metric in job.missing for job in jobs) for metric in chosen}
    work = {
        ENCODING: sum(len(batch) * len(made.support) for batch, made in batches),
        **{name: total for name, total in totals.items() if total},
    }
    with lines(work, progress and bool(batches)) as advance:
        for batch, made in batches:
            _score(batch, made, chosen, seed, sampled, device, advance)
    _report_problems(jobs, chosen)
    return _frame(jobs, chosen)


@dataclasses.dataclass(frozen=True, eq=False)
class _Job:
    """One run with its cached scores and the metrics still to be computed."""

    run: Run  # the model and its folder
    keys: dict[str, Key]  # the cache key of each metric whose scores can be cached
    missing: list[Metric]  # the metrics to compute
    outcomes: dict[str, Outcome]  # results of metrics, by name

    @classmethod
    def of(
        cls,
        run: Run,
        data: Dataset | None,
        metrics: Sequence[Metric],
        seed: int,
        sampled: bool,
        recompute: bool,
    ) -> "_Job":
        origin = origin_text(run.model.config.data if data is None else origin_of(data))
        # Metrics of posteriors are the same for mean and sampled codes.
        every = {
            metric.name: Key.of(metric, sampled and not metric.of_posteriors, seed, origin)
            for metric in metrics
        }
        keys = {name: key for name, key in every.items() if key is not None}
        old = {} if recompute else read_cache(run.folder)
        outcomes = {name: old[key] for name, key in keys.items() if key in old}
        diverged = run.model.diverged_at[0] >= 0
        missing = [] if diverged else [m for m in metrics if m.name not in outcomes]
        return cls(run, keys, missing, {} if diverged else outcomes)

    def record(self, metric: Metric, outcome: Outcome) -> None:
        """Add the result of a metric, and cache it if possible."""
        self.outcomes[metric.name] = outcome
        known = metric.name in self.keys
        folder = self.run.cache_folder
        if folder is not None and known and not outcome.transient:
            # The scores are returned even if the folder is read-only; see `_report_problems`.
            with suppress(DataError):
                add_to_cache(folder, {self.keys[metric.name]: outcome})

    @property
    def uncached(self) -> bool:
        """Whether some outcomes are missing from the cache although they can be cached."""
        stored = read_cache(self.run.folder)
        expected = {
            self.keys[name]
            for name, one in self.outcomes.items()
            if name in self.keys and not one.transient
        }
        return self.run.cache_folder is not None and not expected <= stored.keys()


def _batches(jobs: Sequence[_Job], data: Dataset | None) -> Iterable[tuple[list[_Job], Dataset]]:
    """Yield jobs whose models are encoded together, as many as memory allows, and their data."""
    for fleet in group_into_fleets(jobs, lambda job: job.run.model.config):
        config = fleet[0].run.model.config
        made = data if data is not None else load_training_data(config.data)
        size = models_per_batch(made, config.code_size)
        for start in range(0, len(fleet), size):
            yield fleet[start : start + size], made


def _computable(metrics: Sequence[Metric], datasets: Sequence[Dataset]) -> list[Metric]:
    """Return the metrics that can be computed: without factors, only those that need none."""
    unknown = [data.name for data in datasets if data.grid is None and data.labels is None]
    left_out = [metric.name for metric in metrics if needs_factors(metric)] if unknown else []
    if not left_out:
        return list(metrics)
    if len(left_out) == len(metrics):
        raise DataError(
            f"{', '.join(left_out)} need ground-truth factors, which {unknown[0]} does not have; "
            "pass a table of factors when loading it (--factors), or choose metrics without "
            "factors, such as active_units",
            subject=unknown[0],
            value=left_out,
        )
    say(f"{unknown[0]} has no ground-truth factors; skipping {', '.join(left_out)}")
    return [metric for metric in metrics if metric.name not in left_out]


def _score(
    jobs: Sequence[_Job],
    data: Dataset,
    metrics: Sequence[Metric],
    seed: int,
    sampled: bool,
    device: torch.device,
    advance: Callable[[str, int], None],
) -> None:
    """Encode the data once, then compute each metric for each model."""
    fleet = join([job.run.model for job in jobs]).to(device)
    codes = encode(fleet, data, seed, lambda count: advance(ENCODING, count))
    for metric in metrics:
        for index, job in enumerate(jobs):
            if metric in job.missing:
                job.record(metric, apply_metric(metric, codes, index, sampled))
                advance(metric.name, 1)


def _report_problems(jobs: Sequence[_Job], metrics: Sequence[Metric]) -> None:
    """Print a line on diverged models, on uncached scores, and per metric that failed."""
    diverged = sum(job.run.model.diverged_at[0] >= 0 for job in jobs)
    if diverged:
        say(f"{counted(diverged, 'model')} diverged: no scores")
    uncached = sum(job.uncached for job in jobs)
    if uncached:
        say(
            f"the scores of {counted(uncached, 'model')} were not cached because the run folder "
            "is not writable"
        )
    for metric in metrics:
        errors = [job.outcomes[metric.name].error for job in jobs if metric.name in job.outcomes]
        for error in dict.fromkeys(filter(None, errors)):
            say(f"no {metric.name} for {counted(errors.count(error), 'model')}: {error}")


def _frame(jobs: Sequence[_Job], metrics: Sequence[Metric]) -> pd.DataFrame:
    configs = [job.run.model.config for job in jobs]
    settings = [
        {f.name: getattr(c.method, f.name) for f in dataclasses.fields(c.method)} for c in configs
    ]
    names = dict.fromkeys(name for setting in settings for name in setting)
    about = pd.DataFrame(
        [
            {
                "run": config.hash,
                "method": config.method.name,
                **{name: setting.get(name) for name in names},
                "seed": config.seed,
                "steps": config.steps,
            }
            for config, setting in zip(configs, settings, strict=True)
        ]
    )
    scores: dict[str, list[float]] = {}
    for metric in metrics:
        found = [_scores(job, metric) for job in jobs]
        for part in dict.fromkeys([metric.name, *itertools.chain(*found)]):
            scores[column(metric, part)] = [one.get(part, math.nan) for one in found]
    return pd.concat([about, pd.DataFrame(scores)], axis=1)


def _scores(job: _Job, metric: Metric) -> Mapping[str, float]:
    outcome = job.outcomes.get(metric.name)
    return {} if outcome is None else outcome.scores


def column(metric: Metric, part: str) -> str:
    """Column name of a score: the metric's name for its headline score, else `metric.part`."""
    return part if part == metric.name else f"{metric.name}.{part}"
