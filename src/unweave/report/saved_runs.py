"""Settings, final losses and scores of saved runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.analysis.study_table import SAMPLED
from unweave.errors import UnknownNameError, UnweaveError
from unweave.evaluation.evaluate import column
from unweave.evaluation.score_cache import Key, Outcome, origin_text, protocol_of, read_cache
from unweave.io.extensions import ExtensionError
from unweave.io.plain_data import is_number
from unweave.methods import known_method
from unweave.metrics import find_metric
from unweave.models.config import Config
from unweave.text import shown

DIVERGED, TRAINED = "diverged", "trained"
"""States of models in the table."""
MOST_SETTINGS = 100
"""Maximum number of settings of an unknown method."""


def whole_config(plain: Any) -> dict[str, Any]:
    """Check and complete the settings of a run, read from an untrusted file.

    Settings of unknown methods cannot be checked, so they are reduced to numbers and text.
    """
    method = plain.get("method") if isinstance(plain, dict) else None
    name = method.get("name") if isinstance(method, dict) else None
    if method is None or not isinstance(name, str) or known_method(name) is not None:
        return Config.from_dict(plain).to_dict()
    whole = Config.from_dict({**plain, "method": {"name": "vae"}}).to_dict()
    settings = {n: v for n, v in method.items() if n != "name"}
    if len(settings) > MOST_SETTINGS:
        raise UnweaveError(
            f"{shown(name)} must have at most {MOST_SETTINGS} settings, got {len(settings):,}",
            subject=name,
            value=len(settings),
        )
    plain_settings = {n: v if _is_plain(v) else json.dumps(v) for n, v in settings.items()}
    return {**whole, "method": {"name": name, **plain_settings}}


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | str) or (is_number(value) and abs(value) < 2**63)


def order(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a sort key: data, method, settings and seed."""
    numbers = [v if isinstance(v, int | float) else 0 for v in config["method"].values()]
    return origin_text(config["data"]), config["method"]["name"], numbers, config["seed"]


def state_of(diverged_at: int) -> str:
    """Return the state of a model that diverged at a step, or did not (-1)."""
    return DIVERGED if diverged_at >= 0 else TRAINED


def scores_of(folder: Path | None, origin: str) -> tuple[dict[str, float], list[str]]:
    """Return the saved scores of a run on its own data, by column, and error messages."""
    scores: dict[str, float] = {}
    errors = []
    of_smallest_seed: dict[tuple[str, str], tuple[Key, Outcome]] = {}
    for key, outcome in read_cache(folder).items():
        try:
            current = key.protocol == protocol_of(find_metric(key.metric))
        except ExtensionError as error:
            errors.append(str(error))
            continue
        except UnknownNameError:
            continue
        if current and key.data == origin:
            before = of_smallest_seed.get((key.metric, key.codes))
            if before is None or key.seed < before[0].seed:
                of_smallest_seed[key.metric, key.codes] = (key, outcome)
    for key, outcome in of_smallest_seed.values():
        start = SAMPLED if key.codes == "sampled" else ""
        for part, score in outcome.scores.items():
            scores[start + column(find_metric(key.metric), part)] = score
        if outcome.error:
            errors.append(f"no {start}{find_metric(key.metric).name}: {outcome.error}")
    return scores, errors
