"""Judging claims: comparisons and findings written down as data, and the one way they are told.

A comparison says which two numbers of a table a claim is about, and when it holds:

    claim: lower                   # an entry of the recipe's `claims` or `controls`
    value: factor_vae              # a column, or several
    each: [members, gamma]         # a comparison for every combination of these columns
    measured: {kind: w.o. CR}      # the rows of one side: a filter, and optionally `statistic`,
    against: {kind: original}      #   `value` and `across` (keys of `each` that do not matter)
    holds: measured < against

A finding counts rows of a comparison of published and obtained numbers:

    text: Members differ by less than 0.02
    test: obtained < 0.02
    unit: cells
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pandas as pd

__all__ = [
    "FAILS",
    "HOLDS",
    "STATISTICS",
    "Comparison",
    "Count",
    "Finding",
    "Statistic",
    "compared",
    "compared_rows",
    "comparison",
    "held_claims",
    "holds",
    "matching",
    "stand_ins",
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
"""How papers write the columns that comparisons are told apart by."""
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
}
SIDE = ("statistic", "value", "across")
"""Keys of a side of a comparison that are not columns to filter by."""

Statistic = Callable[[pd.DataFrame, str], float]
STATISTICS: dict[str, Statistic] = {
    "mean": lambda rows, column: rows[column].mean(),
    "median": lambda rows, column: rows[column].median(),
    "min": lambda rows, column: rows[column].min(),
    "max": lambda rows, column: rows[column].max(),
    "quantile_90": lambda rows, column: rows[column].quantile(0.9),
}
"""What may be said of a column of some rows; recipes add their own."""


def holds(criterion: str, values: Mapping[str, Any]) -> Any:
    """Whether a criterion holds for some numbers, or for each row of a table.

    Args:
        criterion: `NAME < NAME`, where a side may be a number, a word or `0.5 * NAME`, or
            `NAME within 0.1 of NAME` or `NAME within 20% of NAME`; several are joined by `and`.
        values: What the names stand for.

    Example:
        >>> holds("measured <= 0.5 * against", {"measured": 1.0, "against": 3.0})
        True
        >>> holds("x within 20% of y and x < y", {"x": 1.0, "y": 3.0})
        False
    """
    found: Any = True
    for part in criterion.split(" and "):
        within = re.fullmatch(r"(\w+) within ([\d.]+)(%?) of (\w+)", part)
        if within:
            one, other = values[within[1]], values[within[4]]
            limit = float(within[2]) * (abs(other) / 100 if within[3] else 1)
            found = found & (abs(one - other) <= limit)
        else:
            left, sign, right = re.split(r" (<=|>=|==|<|>) ", part)
            found = found & OPERATORS[sign](_operand(left, values), _operand(right, values))
    return found


def _operand(text: str, values: Mapping[str, Any]) -> Any:
    if text in values:
        return values[text]
    factor, _, name = text.partition(" * ")
    if name in values:
        return float(factor) * values[name]
    name, _, more = text.partition(" + ")
    if more and name in values:
        return values[name] + float(more)
    try:
        return float(text)
    except ValueError:
        return text


def matching(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """The rows whose columns have these values, or one of those in a list.

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
    """Two numbers of a table, and when a claim about them holds.

    Args:
        claim: Which claim of the recipe.
        holds: A criterion of `measured` and `against`.
        value: The column, or columns, that are compared.
        by: What is compared, in words, with `{value}` for the column (default: the column).
        of: Which models are compared, before what `each` says.
        where: Rows that count at all.
        each: Columns for every combination of which there is a comparison.
        measured: Filter of the rows of one side; `statistic` (default: mean), `value` (default:
            that of the comparison) and `across`, columns of `each` that this side has no say in.
        against: The same of the other side, or a number.
        along: A column along which neighbours are compared, each with the one before.
        ends: A column of which the last value is compared with the first.
        control: Whether the paper has no such comparison.
        published_for: Values of columns for which the paper has it.
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
        """All comparisons that a table allows for.

        Args:
            table: One row per model or part of it.
            text: The claim.
            statistics: By name.
        """
        table = matching(table, self.where)
        for column in [self.value] if isinstance(self.value, str) else self.value:
            for group, label, measured, against in self._pairs(table, column, statistics):
                known = all(group.get(key) in kept for key, kept in self.published_for.items())
                yield comparison(
                    text,
                    ", ".join(filter(None, (self.of, label))),
                    self.by.replace("{value}", column) or column,
                    measured,
                    against,
                    holds(self.holds, {"measured": measured, "against": against}),
                    control=self.control or not known,
                    **({"data": group["data"]} if "data" in group else {}),
                )

    def _pairs(
        self, table: pd.DataFrame, column: str, statistics: Mapping[str, Statistic]
    ) -> Iterator[tuple[dict[str, Any], str, float, float]]:
        along = self.along or self.ends
        leading = self.against if "across" in self.measured else self.measured
        assert isinstance(leading, Mapping)
        for group in _groups(matching(table, _filter(leading)), self.each):
            # The data set has a column of its own.
            label = _named({key: value for key, value in group.items() if key != "data"})
            if not along:
                one = _number(self.measured, table, group, column, statistics)
                other = _number(self.against, table, group, column, statistics)
                if one is not None and other is not None:
                    yield group, label, one, other
                continue
            levels = sorted(_only(table, group)[along].dropna().unique())
            numbers = {
                level: _number(self.measured, table, {**group, along: level}, column, statistics)
                for level in levels
            }
            known = [(level, one) for level, one in numbers.items() if not _lacks(one)]
            steps = pairwise(known) if self.along else [(known[0], known[-1])][: len(known) - 1]
            for (low, before), (high, after) in steps:
                said = f"{SYMBOLS.get(along, along)} = {high:g} against {low:g}"
                assert before is not None
                assert after is not None
                yield (
                    {**group, along: high},
                    ", ".join(filter(None, (label, said))),
                    after,
                    before,
                )


def _groups(table: pd.DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The values of some columns that go together, in order."""
    if not keys:
        return [{}]
    found = table[list(keys)].dropna().drop_duplicates().sort_values(list(keys))
    return [{str(key): value for key, value in row.items()} for row in found.to_dict("records")]


def _only(table: pd.DataFrame, group: Mapping[str, Any]) -> pd.DataFrame:
    return matching(table, {key: [value] for key, value in group.items()})


def _named(group: Mapping[str, Any]) -> str:
    """What tells a group from others."""
    return ", ".join(
        f"{SYMBOLS[key]} = {value:g}" if key in SYMBOLS else str(value)
        for key, value in group.items()
    )


def _filter(side: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in side.items() if key not in SIDE}


def _number(
    side: Mapping[str, Any] | float,
    table: pd.DataFrame,
    group: Mapping[str, Any],
    column: str,
    statistics: Mapping[str, Statistic],
) -> float | None:
    """One side of a comparison; None where the table has no such row or column."""
    if not isinstance(side, Mapping):
        return float(side)
    own = {key: value for key, value in group.items() if key not in side.get("across", ())}
    rows = matching(_only(table, own), _filter(side))
    chosen = side.get("value", column)
    if rows.empty or chosen not in rows:
        return None
    return float(statistics[side.get("statistic", "mean")](rows, chosen))


def _lacks(number: float | None) -> bool:
    return number is None or pd.isna(number)


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
    """One comparison of two numbers, as a row.

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


def compared_rows(
    table: pd.DataFrame,
    entries: Iterable[Comparison],
    texts: Mapping[str, str],
    statistics: Mapping[str, Statistic],
) -> Iterator[dict[str, Any]]:
    """The rows of several comparisons, claims by their texts."""
    for entry in entries:
        yield from entry.rows(table, texts[entry.claim], {**STATISTICS, **statistics})


def held_claims(frame: pd.DataFrame) -> list[str]:
    """For each claim, in how many comparisons it holds, controls apart, or that there are none."""
    said = []
    for claim, every in frame.groupby("claim", sort=False):
        rows = every.dropna(subset="obtained")
        if rows.empty:
            said.append(f"{claim}: there is nothing to compare.")
            continue
        held, printed = rows["obtained"] == HOLDS, rows["published"].notna()
        parts = [f"holds in {_share(held[printed])}"] if printed.any() else []
        if not printed.all():
            start = "by" if parts else "holds by"
            parts.append(f"{start} controls of our own in {_share(held[~printed])}")
        said.append(f"{claim}: {', '.join(parts)}.")
    return said


def _share(held: "pd.Series[bool]") -> str:
    return f"{int(held.sum())} of {len(held)} comparisons"


def stand_ins(frame: pd.DataFrame, meant: str, known: Iterable[str] = ()) -> list[str]:
    """A sentence for each data set that stands in for those of the paper.

    Args:
        frame: With the column `data`.
        meant: The data of the paper, in words.
        known: What these are called in the table, where that is another name.
    """
    names = [str(name) for name in frame["data"].dropna().unique()]
    return [f"{name} stands in for {meant}." for name in names if name not in (meant, *known)]


@dataclass(frozen=True)
class Count:
    """How often something holds.

    Args:
        text: What.
        held: So often.
        total: Of so many.
        unit: What is counted.
        numbers: Numbers to tell beside, by their names.
    """

    text: str
    held: int
    total: int
    unit: str = "rows"
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The one template of findings.

        Example:
            >>> print(Count("Seeds matter", 3, 4, "data sets", {"mean rank": 0.5}))
            Seeds matter: holds for 3 of 4 data sets; mean rank 0.5.
            >>> print(Count("Seeds matter", 0, 0))
            Seeds matter: there is nothing to compare.
        """
        if not (self.total or self.numbers):
            return f"{self.text}: there is nothing to compare."
        parts = [f"holds for {self.held} of {self.total} {self.unit}"] if self.total else []
        parts += [f"{name} {value:.3g}" for name, value in self.numbers.items()]
        return f"{self.text}: {'; '.join(parts)}."


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is counted in a table of published and obtained values.

    Args:
        text: What is found.
        where: Rows that count.
        known: Columns which they have, beside `obtained`.
        each: Columns; there is one sentence for every combination of their values.
        test: A criterion of columns, counted row by row.
        order: A column of which pairs are counted that are ordered as `published`.
        levels: Numbers for published words, so that they can be ordered.
        compare: A comparison, counted group by group, without its claim.
        numbers: `STATISTIC COLUMN` to tell beside.
        unit: What is counted.
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
        """One count for every group of rows that have something to count."""
        rows = matching(frame.dropna(subset=["obtained", *self.known]), self.where)
        if not self.each:
            return [self._count(rows, self.text)]
        return [
            self._count(_only(rows, group), f"{self.text}, {_named(group)}")
            for group in rows[list(self.each)].drop_duplicates().to_dict("records")
        ]

    def _count(self, rows: pd.DataFrame, text: str) -> Count:
        numbers = {}
        for said in self.numbers if len(rows) else ():
            statistic, column = said.split(" ")
            number = STATISTICS[statistic](rows, column)
            if not pd.isna(number):
                numbers[said.replace("_", " ")] = number
        return Count(text, *self._held(rows), self.unit, numbers)

    def _held(self, rows: pd.DataFrame) -> tuple[int, int]:
        if self.test:
            columns = {str(name): rows[name] for name in rows}
            return (int(holds(self.test, columns).sum()) if len(rows) else 0), len(rows)
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
