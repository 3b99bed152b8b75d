"""Evaluation of claims: comparisons and findings defined as data, and sentences that report them.

A comparison defines which two numbers of a table a claim is about, and when the claim holds:

    claim: lower                   # an entry of the recipe's `claims` or `controls`
    value: factor_vae              # one or more columns
    each: [members, gamma]         # one comparison per combination of these columns
    measured: {kind: w.o. CR}      # row filter of one side, with optional `statistic`, `value`
    against: {kind: original}      #   and `across` (keys of `each` that this side ignores)
    holds: measured < against

A finding counts rows in a table of published and obtained numbers:

    text: Members differ by less than 0.02
    test: obtained < 0.02
    unit: cells
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pandas as pd

from unweave.data.catalog import DATASETS
from unweave.errors import DataError

__all__ = [
    "FAILS",
    "HOLDS",
    "STATISTICS",
    "VARIANTS",
    "Comparison",
    "Count",
    "Finding",
    "Statistic",
    "check_variants",
    "claim_counts",
    "compared",
    "comparison",
    "matching",
]

HOLDS, FAILS = "holds", "does not hold"
COLUMNS = ("claim", "of", "by", "published", "obtained", "measured", "against")
SYMBOLS = {
    "beta": "β",
    "gamma": "γ",
    "latents": "d",
    "member": "member",
    "members": "n",
    "neighbours": "neighbours",
    "num_latents": "d",
    "strength": "β",
}
"""Symbols that papers use for the columns in labels of comparisons."""
SIDE = ("statistic", "value", "across")
"""Keys of a side of a comparison that are not filters on columns."""
VARIANTS = tuple(name for name in DATASETS if name.startswith("mpi3d_"))
"""Variants of MPI3D, whose results are never compared with each other."""

Statistic = Callable[[pd.DataFrame, str], float]
STATISTICS: dict[str, Statistic] = {
    "mean": lambda rows, column: rows[column].mean(),
    "median": lambda rows, column: rows[column].median(),
    "min": lambda rows, column: rows[column].min(),
    "max": lambda rows, column: rows[column].max(),
    "quantile_90": lambda rows, column: rows[column].quantile(0.9),
}
"""Statistics of a column over some rows; recipes can add their own."""


def check_variants(names: Iterable[str]) -> None:
    """Raise `DataError` if data sets include different variants of MPI3D.

    They have the same factors but different images, and papers often do not distinguish them.
    """
    found = sorted(set(names).intersection(VARIANTS))
    if len(found) > 1:
        raise DataError(
            f"results on {' and '.join(found)} cannot be compared because their images differ; "
            "use a single variant of MPI3D",
            subject="data",
            value=found,
        )


def matching(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows whose columns have the given values, or one of a list of values.

    Example:
        >>> table = pd.DataFrame({"gamma": [1, 5, 10], "kind": ["a", "b", "b"]})
        >>> matching(table, {"gamma": [5, 10], "not": {"gamma": 5}})["gamma"].tolist()
        [10]
    """
    for column, wanted in where.items():
        if column == "not":
            table = table.drop(matching(table, wanted).index)
        else:
            table = table[table[column].isin(wanted if isinstance(wanted, list) else [wanted])]
    return table


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A pair of numbers from a table, and the condition under which a claim about them holds.

    Args:
        claim: Key of the claim in the recipe.
        holds: Criterion on `measured` and `against`, an expression for `pandas.eval`.
        value: Column or columns to compare.
        by: Description of the compared quantity; `{value}` is the column (default: the column).
        of: Description of the compared models, followed by the values of `each`.
        where: Filter applied to all rows.
        each: Columns; every combination of their values gives one comparison.
        measured: Row filter of one side, with optional `statistic` (default: mean; a list of a
            statistic and a column applies it to means by that column), `value` (default: that of
            the comparison) and `across`, the columns of `each` to ignore.
        against: Row filter of the other side, or a number.
        along: Column along which each value is compared with the previous one.
        ends: Column whose last value is compared with its first.
        control: Whether this is an additional control that the paper does not have.
        published_for: Values of columns for which the paper has the comparison.
    """

    claim: str = ""
    holds: str
    value: str | Sequence[str] = ""
    by: str = ""
    of: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    each: Sequence[str] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    against: Mapping[str, Any] | float = field(default_factory=dict)
    along: str = ""
    ends: str = ""
    control: bool = False
    published_for: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def rows(
        self, table: pd.DataFrame, text: str, statistics: Mapping[str, Statistic]
    ) -> Iterator[dict[str, Any]]:
        """Yield all comparisons that can be made from a table of models or their parts."""
        table = matching(table, self.where)
        for column in [self.value] if isinstance(self.value, str) else self.value:
            for group, label, measured, against in self._pairs(table, column, statistics):
                both: dict[str, Any] = {"measured": measured, "against": against}
                printed = all(group.get(key) in some for key, some in self.published_for.items())
                yield comparison(
                    text,
                    ", ".join(filter(None, (self.of, label))),
                    self.by.replace("{value}", column) or column,
                    measured,
                    against,
                    pd.eval(self.holds, engine="python", local_dict=both),
                    control=self.control or not printed,
                    **({"data": group["data"]} if "data" in group else {}),
                )

    def _pairs(
        self, table: pd.DataFrame, column: str, statistics: Mapping[str, Statistic]
    ) -> Iterator[tuple[dict[str, Any], str, float, float]]:
        along = self.along or self.ends
        leading = self.against if "across" in self.measured else self.measured
        assert isinstance(leading, Mapping)
        for group in _groups(matching(table, _filter(leading)), self.each):
            if "data" in table:
                sides = [_rows(side, table, group) for side in (self.measured, self.against)]
                check_variants(pd.concat(sides)["data"])
            # The data set is a separate column, so the label omits it.
            label = _named({key: value for key, value in group.items() if key != "data"})
            if not along:
                one = _number(self.measured, table, group, column, statistics)
                other = _number(self.against, table, group, column, statistics)
                if one is not None and other is not None:
                    yield group, label, one, other
                continue
            known = []
            for level in sorted(_only(table, group)[along].dropna().unique()):
                at_level = {**group, along: level}
                one = _number(self.measured, table, at_level, column, statistics)
                if one is not None and not math.isnan(one):
                    known.append((level, one))
            compared = known if self.along else [*known[:1], *known[1:][-1:]]
            for (low, before), (high, after) in pairwise(compared):
                step = f"{SYMBOLS.get(along, along)} = {high:g} against {low:g}"
                yield {**group, along: high}, ", ".join(filter(None, (label, step))), after, before


def _groups(table: pd.DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the sorted combinations of values that occur in some columns."""
    if not keys:
        return [{}]
    found = table[list(keys)].dropna().drop_duplicates().sort_values(list(keys))
    return [{str(key): value for key, value in row.items()} for row in found.to_dict("records")]


def _only(table: pd.DataFrame, group: Mapping[str, Any]) -> pd.DataFrame:
    return matching(table, {key: [value] for key, value in group.items()})


def _named(group: Mapping[str, Any]) -> str:
    """Return a label that identifies a group."""
    return ", ".join(
        f"{SYMBOLS[key]} = {value:g}" if key in SYMBOLS else str(value)
        for key, value in group.items()
    )


def _filter(side: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in side.items() if key not in SIDE}


def _rows(
    side: Mapping[str, Any] | float, table: pd.DataFrame, group: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the rows of one side of a comparison; a number has none."""
    if not isinstance(side, Mapping):
        return table.iloc[:0]
    own = {key: value for key, value in group.items() if key not in side.get("across", ())}
    return matching(_only(table, own), _filter(side))


def _number(
    side: Mapping[str, Any] | float,
    table: pd.DataFrame,
    group: Mapping[str, Any],
    column: str,
    statistics: Mapping[str, Statistic],
) -> float | None:
    """Return one side of a comparison, or None if the table has no such row or column."""
    if not isinstance(side, Mapping):
        return float(side)
    rows = _rows(side, table, group)
    chosen = side.get("value", column)
    if rows.empty or chosen not in rows:
        return None
    name = side.get("statistic", "mean")
    if not isinstance(name, str):
        name, key = name
        rows = rows.groupby(key)[[chosen]].mean()
    return float(statistics[name](rows, chosen))


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
    """Return a row that compares `of` some models, `by` some quantity, two numbers for a claim.

    It does not hold or fail if one of them is missing. `more` are additional columns.
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
    """Return all comparisons in the order of the paper, with a row for claims without any."""
    found = pd.DataFrame(list(rows))
    found = found if len(found) else pd.DataFrame(columns=list(COLUMNS))
    places = {claim: place for place, claim in enumerate(published["claim"])}
    missing = published[~published["claim"].isin(found["claim"])]
    frame = pd.concat([found, missing.assign(obtained=None)]) if len(missing) else found
    order = frame["claim"].map(places).fillna(len(places)).argsort(kind="stable")
    return frame.iloc[order].reset_index(drop=True)


@dataclass(frozen=True)
class Count:
    """A count of how often a claim or finding holds.

    Args:
        text: The claim or finding.
        held: Number of cases in which it holds.
        total: Number of cases.
        unit: Plural noun for the cases.
        numbers: Further numbers to report, by name.
        controls: Number of additional controls in which it holds, and their total.
    """

    text: str
    held: int
    total: int
    unit: str = "rows"
    numbers: Mapping[str, float] = field(default_factory=dict)
    controls: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        """Format the count as a sentence.

        Example:
            >>> print(Count("Seeds matter", 3, 4, "data sets", {"mean rank": 0.5}))
            Seeds matter: holds for 3 of 4 data sets; mean rank 0.5.
            >>> print(Count("Seeds matter", 3, 4, "comparisons", controls=(1, 2)))
            Seeds matter: holds for 3 of 4 comparisons and 1 of 2 additional controls.
            >>> print(Count("Seeds matter", 0, 0))
            Seeds matter: there is nothing to compare.
        """
        counted = [f"{self.held} of {self.total} {self.unit}"] if self.total else []
        if self.controls[1]:
            counted.append("{} of {} additional controls".format(*self.controls))
        parts = [f"holds for {' and '.join(counted)}"] if counted else []
        parts += [f"{name} {value:.3g}" for name, value in self.numbers.items()]
        return f"{self.text}: {'; '.join(parts) or 'there is nothing to compare'}."


def claim_counts(frame: pd.DataFrame) -> list[Count]:
    """Count for each claim how many comparisons and additional controls it holds in."""
    counts = []
    for claim, every in frame.groupby("claim", sort=False):
        rows = every.dropna(subset="obtained")
        held, printed = rows["obtained"] == HOLDS, rows["published"].notna()
        controls = int(held[~printed].sum()), int((~printed).sum())
        comparisons = int(held[printed].sum()), int(printed.sum())
        counts.append(Count(str(claim), *comparisons, "comparisons", controls=controls))
    return counts


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A statement to count in a table of published and obtained values.

    Args:
        text: The statement.
        where: Filter of the rows to count.
        known: Columns that must not be missing, in addition to `obtained`.
        each: Columns; every combination of their values gives one sentence.
        test: Criterion on columns, an expression for `DataFrame.eval`, counted row by row.
        order: Column to rank by; pairs ordered as in `published` are counted.
        levels: Numbers for published words, so that they can be ordered.
        compare: Comparison without its claim, counted group by group.
        numbers: Further numbers to report, as `STATISTIC COLUMN`.
        unit: Plural noun for what is counted.
    """

    text: str
    where: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[str] = ()
    each: Sequence[str] = ()
    test: str = ""
    order: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)
    compare: Mapping[str, Any] = field(default_factory=dict)
    numbers: Sequence[str] = ()
    unit: str = "rows"

    def counts(self, frame: pd.DataFrame) -> list[Count]:
        """Return one count for each group of rows."""
        rows = matching(frame.dropna(subset=["obtained", *self.known]), self.where)
        if not self.each:
            return [self._count(rows, self.text)]
        return [
            self._count(_only(rows, group), f"{self.text}, {_named(group)}")
            for group in rows[list(self.each)].drop_duplicates().to_dict("records")
        ]

    def _count(self, rows: pd.DataFrame, text: str) -> Count:
        numbers = {}
        for name in self.numbers if len(rows) else ():
            statistic, column = name.split(" ")
            number = STATISTICS[statistic](rows, column)
            if not pd.isna(number):
                numbers[name.replace("_", " ")] = number
        return Count(text, *self._held(rows), self.unit, numbers)

    def _held(self, rows: pd.DataFrame) -> tuple[int, int]:
        if self.test:
            return int(rows.eval(self.test, engine="python").sum()), len(rows)
        if self.order:
            from unweave.analysis import order

            levels = rows["published"].map(self.levels) if self.levels else rows["published"]
            found = order(levels.tolist(), rows[self.order].tolist())
            return found.agreeing, found.pairs
        if self.compare:
            judged = list(Comparison(**self.compare).rows(rows, "", STATISTICS))
            known = [row["obtained"] == HOLDS for row in judged if row["obtained"] is not None]
            return sum(known), len(known)
        return 0, 0
