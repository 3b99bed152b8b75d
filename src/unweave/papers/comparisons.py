"""Claims whose numbers a paper does not print, judged one comparison at a time."""

from collections.abc import Collection, Iterable
from typing import Any

import pandas as pd

__all__ = ["FAILS", "HOLDS", "compared", "comparison", "sentences"]

HOLDS, FAILS = "holds", "does not hold"
COLUMNS = ("claim", "of", "by", "published", "obtained", "measured", "against")


def comparison(
    claim: str,
    of: str,
    by: str,
    measured: float,
    against: float,
    holds: Any,
    *,
    control: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """One comparison of two numbers.

    Args:
        claim: What it is to bear out.
        of: Which models are compared, in words.
        by: Which number.
        measured: That of these models.
        against: That of the others.
        holds: Whether the claim does, if both numbers are known.
        control: Whether the paper has no such comparison.
        more: Further columns.
    """
    known = not (pd.isna(measured) or pd.isna(against))
    return {
        "claim": claim,
        "of": of,
        "by": by,
        "published": None if control else HOLDS,
        "obtained": (HOLDS if holds else FAILS) if known else None,
        "measured": measured,
        "against": against,
        **more,
    }


def compared(published: pd.DataFrame, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """All comparisons, claim by claim in the order of the paper, and claims without any."""
    found = pd.DataFrame(list(rows))
    found = found if len(found) else pd.DataFrame(columns=list(COLUMNS))
    places = {claim: place for place, claim in enumerate(published["claim"])}
    lost = published[~published["claim"].isin(found["claim"])]
    frame = pd.concat([found, lost.assign(obtained=None)]) if len(lost) else found
    order = frame["claim"].map(places).fillna(len(places)).argsort(kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def sentences(frame: pd.DataFrame, meant: str = "", known: Collection[str] = ()) -> list[str]:
    """For each claim, in how many comparisons it holds, controls apart, or that there are none.

    Args:
        frame: Comparisons.
        meant: The data of the paper, in words, where others may stand in for them in the column
            `data`.
        known: What these are called there, where that is another name.
    """
    others = [str(name) for name in frame["data"].dropna().unique()] if meant else []
    said = [f"{name} stands in for {meant}." for name in others if name not in (meant, *known)]
    for claim, every in frame.groupby("claim", sort=False):
        rows = every.dropna(subset="obtained")
        if rows.empty:
            said.append(f"{claim}: there is nothing to compare.")
            continue
        holds, printed = rows["obtained"] == HOLDS, rows["published"].notna()
        parts = [f"holds in {_share(holds[printed])}"] if printed.any() else []
        if not printed.all():
            parts.append(
                f"{'by' if parts else 'holds by'} controls of our own in {_share(holds[~printed])}"
            )
        said.append(f"{claim}: {', '.join(parts)}.")
    return said


def _share(holds: "pd.Series[bool]") -> str:
    return f"{int(holds.sum())} of {len(holds)} comparisons"
