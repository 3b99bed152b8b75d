"""Joint distributions of a few discrete variables, in exact fractions."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from unweave.errors import UnknownNameError
from unweave.papers.ms_vae.theory.graphs import Graph, causes_first
from unweave.papers.theory import TheoryError

__all__ = ["Distribution", "State", "joint"]

State = tuple[int, ...]
"""A value for each variable."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """Joint distribution of discrete variables.

    Args:
        values: Possible values of each variable; states list values in this order.
        positive: Probability of each state with positive probability.
    """

    values: Mapping[str, tuple[int, ...]]
    positive: Mapping[State, Fraction]

    def __getitem__(self, state: State) -> Fraction:
        return self.positive.get(state, Fraction(0))

    def __iter__(self) -> Iterator[State]:
        """All states, including those of probability 0."""
        return product(*self.values.values())

    def of(self, *names: str) -> "Distribution":
        """Marginal distribution of some variables, in this order."""
        if len(set(names)) < len(names):
            raise TheoryError(
                f"names must be distinct, got {', '.join(names)}", subject="names", value=names
            )
        for name in names:
            if name not in self.values:
                raise UnknownNameError("variable", name, self.values)
        sums: dict[State, Fraction] = {}
        for state, share in self.positive.items():
            known = dict(zip(self.values, state, strict=True))
            part = tuple(known[name] for name in names)
            sums[part] = sums.get(part, Fraction(0)) + share
        return Distribution({name: self.values[name] for name in names}, sums)

    def given(self, **known: int) -> "Distribution":
        """Conditional distribution of the other variables, given some.

        Example:
            >>> law = joint({"C": ()}, {"C": lambda: {1: Fraction(1, 3), 2: Fraction(2, 3)}})
            >>> law.given(C=1).positive
            {(): Fraction(1, 1)}
        """
        total = self.of(*known)[tuple(known.values())]
        if total == 0:
            event = ", ".join(f"{name} = {value}" for name, value in known.items())
            raise TheoryError(
                f"cannot condition on {event}, which has probability 0",
                subject="known",
                value=known,
            )
        rest = [name for name in self.values if name not in known]
        sorted_law, place, values = self.of(*known, *rest), len(known), tuple(known.values())
        return Distribution(
            {name: self.values[name] for name in rest},
            {
                state[place:]: share / total
                for state, share in sorted_law.positive.items()
                if state[:place] == values
            },
        )

    def independent(self, first: str, second: str, given: Sequence[str] = ()) -> bool:
        """Return whether P(a, b, s) P(s) = P(a, s) P(b, s) for all values, exactly."""
        return all(one == other for _, one, other in self._products(first, second, given))

    def information(self, first: str, second: str, given: Sequence[str] = ()) -> float:
        """Conditional mutual information of two variables given others, in nats.

        I = Σ P(a, b, s) log [P(a, b, s) P(s) / (P(a, s) P(b, s))]
        """
        return math.fsum(
            float(share) * math.log(one / other)
            for share, one, other in self._products(first, second, given)
            if share
        )

    def _products(
        self, first: str, second: str, given: Sequence[str]
    ) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
        """P(a, b, s), P(a, b, s) P(s), and P(a, s) P(b, s) for all values."""
        both, known = self.of(first, second, *given), self.of(*given)
        one, other = self.of(first, *given), self.of(second, *given)
        for a, b, *s in both:
            share = both[a, b, *s]
            yield share, share * known[tuple(s)], one[a, *s] * other[b, *s]


def joint(
    graph: Graph, tables: Mapping[str, Callable[..., Mapping[int, Fraction]]]
) -> Distribution:
    """Joint distribution of all variables of a graph: the product of their conditionals.

    The table of a variable is a function that maps values of its parents, in the order of the
    graph, to the probability of each value.
    """
    names = causes_first(graph)
    states: dict[State, Fraction] = {(): Fraction(1)}
    for name in names:
        places = [names.index(parent) for parent in graph[name]]
        grown: dict[State, Fraction] = {}
        for state, share in states.items():
            table = tables[name](*(state[place] for place in places))
            if sum(table.values()) != 1 or min(table.values()) < 0:
                raise TheoryError(
                    f"probabilities of {name} must be at least 0 and sum to 1, got {table}",
                    subject=name,
                    value=table,
                )
            grown |= {(*state, v): share * part for v, part in table.items() if part}
        states = grown
    columns = zip(*states, strict=True)
    return Distribution(
        dict(zip(names, (tuple(sorted(set(c))) for c in columns), strict=True)), states
    )
