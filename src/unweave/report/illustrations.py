"""The pictures of a report: which ones there are, of which models, and how much each may take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unweave.errors import UnweaveError
from unweave.progress import lines
from unweave.report.agreement import Findings, Part
from unweave.report.comparison import followed
from unweave.report.pictures import (
    Strips,
    data_sheet,
    fitted,
    reversed_strip,
    shown_and_rebuilt,
    traversed,
)
from unweave.report.saved_runs import DIVERGED

__all__ = ["StillPictures", "still_pictures", "strips_of"]

LEAST_PICTURE = 1_500
"""Characters below which a picture shows nothing."""
HERO, FACTOR, SHEET = 0.04, 0.003, 0.012
"""Shares of the limit that single pictures may take."""
NAMED = 0.5
"""The share of a code's variance that a known factor tells from which the code has its name."""
FIRST_LEVEL, HERO_LEVEL = 2, 0
DRAWING = "drawing models"


@dataclass(frozen=True, eq=False)
class StillPictures:
    """The pictures that do not depend on how many models there are, by part."""

    heroes: Sequence[Mapping[str, Any] | None]
    factors: Sequence[Sequence[Mapping[str, Any]]]
    sheets: Sequence[Mapping[str, Any] | None]


def still_pictures(found: Findings, limit: int) -> StillPictures:
    """Draw them; each may take its share of the limit."""
    share = limit / max(1, len(found.parts))
    return StillPictures(
        [_hero(found, part, int(HERO * share)) for part in found.parts],
        [_factors(found, part, int(FACTOR * share)) for part in found.parts],
        [_sheet(part, int(SHEET * share)) for part in found.parts],
    )


def _hero(found: Findings, part: Part, most: int) -> Mapping[str, Any] | None:
    if part.chosen is None:
        return None
    try:
        model = found.open(part.chosen)
    except UnweaveError:
        return None
    strips = traversed(model, part, part.chosen)
    picture, _ = fitted(strips.images, most, HERO_LEVEL)
    if not picture:
        return None
    pair = ""
    if part.data is not None:
        pair, _ = fitted(shown_and_rebuilt(model, part.data), most // 4, HERO_LEVEL)
    return {
        "picture": picture,
        "pair": pair,
        "rows": _row_labels(part, part.chosen, strips),
        "name": found.names[part.chosen],
        "ratio": _ratio(strips.images),
        "members": model.config.method.num_members,
    }


def _factors(found: Findings, part: Part, most: int) -> list[Mapping[str, Any]]:
    """The shared factors, each with a strip of the model that has it most clearly."""
    if part.agreed is None:
        return []
    rows: list[Mapping[str, Any]] = []
    for factor in part.agreed.factors.itertuples():
        members = part.agreed.members
        members = members[members["factor"] == factor.factor]
        best = members.loc[members["correlation"].idxmax()]
        run = part.compared[int(best["model"])]
        model = found.open(run)
        strips = traversed(model, part, run)
        picture = ""
        if best["latent"] in strips.latents:
            row = strips.latents.index(int(best["latent"]))
            images = reversed_strip(strips.images[row : row + 1], int(best["sign"]))
            picture, _ = fitted(images, most, FIRST_LEVEL)
        follows = part.follows[factor.factor] if part.follows else None
        rows.append(
            {
                "number": factor.factor + 1,
                "found_by": int(factor.found_by),
                "of": int(factor.of),
                "correlation": f"{factor.correlation:.2f}",
                "best": found.names[run],
                "latent": int(best["latent"]),
                "picture": picture,
                "follows": follows,
            }
        )
    return rows


def _sheet(part: Part, most: int) -> Mapping[str, Any] | None:
    if part.data is None or hasattr(part.data, "curves"):
        return None
    strips = data_sheet(part.data)
    picture, _ = fitted(strips.images, most, FIRST_LEVEL)
    return {"picture": picture, "rows": strips.notes} if picture else None


def _row_labels(part: Part, run: str, strips: Strips) -> list[Mapping[str, Any]]:
    """Of each latent its number, its KL, and the shared factor that it is."""
    factors: dict[int, int] = {}
    if part.agreed is not None and run in part.compared:
        members = part.agreed.members
        own = members[members["run"] == run]
        factors = dict(zip(own["latent"], own["factor"], strict=True))
    rows: list[Mapping[str, Any]] = []
    for latent, note in zip(strips.latents, strips.notes, strict=True):
        factor = factors.get(latent)
        follows = "" if factor is None else _name(part, run, latent, factor)
        number = None if factor is None else int(factor) + 1
        rows.append({"latent": latent, "note": note, "factor": number, "follows": follows})
    return rows


def _name(part: Part, run: str, latent: int, factor: int) -> str:
    """The known factor that both a shared one and this model's latent of it follow, if any."""
    if not part.follows or part.latents is None:
        return ""
    own = part.latents.means[part.compared.index(run)][:, latent]
    (name, share), (own_name, own_share) = part.follows[factor], followed(part, own)
    return name if name == own_name and min(share, own_share) >= NAMED else ""


def _ratio(images: np.ndarray) -> str:
    rows, columns, height, width, _ = images.shape
    return f"{columns * width} {rows * height}"


def strips_of(
    found: Findings, board: pd.DataFrame, room: int, progress: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The traversals of as many models as there is room for, chosen and best ones first.

    Returns:
        By run, the traversals, and for models that cannot be opened the reason.
    """
    chosen = [part.chosen for part in found.parts]
    order = board.assign(first=~board["run"].isin(chosen)).sort_values(
        ["first", "udr"], ascending=[True, False], na_position="last", kind="stable"
    )
    runs = order.loc[order["state"] != DIVERGED, "run"].tolist()
    overhead = 400
    runs = runs[: max(0, room // (LEAST_PICTURE + overhead))]
    strips: dict[str, dict[str, Any]] = {}
    unopened: dict[str, str] = {}
    level = FIRST_LEVEL
    with lines({DRAWING: len(runs)} if runs else {}, progress) as advance:
        for done, run in enumerate(runs):
            part = found.part_of(run)
            try:
                model = found.open(run)
            except UnweaveError as error:
                unopened[run] = str(error)
                room -= overhead
                continue
            drawn = traversed(model, part, run)
            share = room // (len(runs) - done) - overhead
            # What others did not need is there for the next: quality may rise again by a level.
            picture, level = fitted(drawn.images, share, max(FIRST_LEVEL, level - 1))
            labels = [
                [row["latent"], row["note"], row["factor"]]
                for row in _row_labels(part, run, drawn)
            ]
            if picture or not labels:
                strips[run] = {"picture": picture, "rows": labels}
            room -= len(picture) + overhead
            advance(DRAWING, 1)
    return strips, unopened
