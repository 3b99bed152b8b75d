"""Laws of a few variables with a few values each, in exact fractions."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from unweave.errors import UnknownNameError
from unweave.papers.ms_vae.theory.graphs import Graph, causes_first
from unweave.papers.theory import TheoryError

__all__ = ["Law", "State", "joint"]

State = tuple[int, ...]
"""A value for each variable."""


@dataclass(frozen=True, eq=False)
class Law:
    """How probable values of some variables are together.

    Args:
        values: By variable, what it may be. States have values in this order.
        positive: The probability of each state that has one above 0.
    """

    values: Mapping[str, tuple[int, ...]]
    positive: Mapping[State, Fraction]

    def __getitem__(self, state: State) -> Fraction:
        return self.positive.get(state, Fraction(0))

    def __iter__(self) -> Iterator[State]:
        """All states, those of probability 0 too."""
        return product(*self.values.values())

    def of(self, *names: str) -> "Law":
        """The law of some variables alone, in this order."""
        if len(set(names)) < len(names):
            raise TheoryError(f"name every variable once, but got {', '.join(names)}")
        places = [self._place(name) for name in names]
        sums: dict[State, Fraction] = {}
        for state, share in self.positive.items():
            part = tuple(state[place] for place in places)
            sums[part] = sums.get(part, Fraction(0)) + share
        return Law({name: self.values[name] for name in names}, sums)

    def given(self, **known: int) -> "Law":
        """The law of the other variables where some are known.

        Example:
            >>> law = joint({"C": ()}, {"C": lambda: {1: Fraction(1, 3), 2: Fraction(2, 3)}})
            >>> law.given(C=1).positive
            {(): Fraction(1, 1)}
        """
        total = self.of(*known)[tuple(known.values())]
        if total == 0:
            words = ", ".join(f"{name} = {value}" for name, value in known.items())
            raise TheoryError(f"{words} has probability 0; condition on what can happen")
        places = {self._place(name): value for name, value in known.items()}
        left = {name: values for name, values in self.values.items() if name not in known}
        return Law(
            left,
            {
                tuple(value for k, value in enumerate(state) if k not in places): share / total
                for state, share in self.positive.items()
                if all(state[k] == value for k, value in places.items())
            },
        )

    def independent(self, first: str, second: str, given: Sequence[str] = ()) -> bool:
        """Whether P(a, b, s) P(s) = P(a, s) P(b, s) for all values, exactly."""
        return all(
            both * known == one * other
            for both, known, one, other in self._four(first, second, given)
        )

    def information(self, first: str, second: str, given: Sequence[str] = ()) -> float:
        """What two variables tell of each other given others, in nats.

        I = Σ P(a, b, s) log [P(a, b, s) P(s) / (P(a, s) P(b, s))]
        """
        return math.fsum(
            float(both) * math.log(both * known / (one * other))
            for both, known, one, other in self._four(first, second, given)
            if both
        )

    def _four(
        self, first: str, second: str, given: Sequence[str]
    ) -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
        """P(a, b, s), P(s), P(a, s) and P(b, s) for all values."""
        both, known = self.of(first, second, *given), self.of(*given)
        one, other = self.of(first, *given), self.of(second, *given)
        for a, b, *s in both:
            yield both[a, b, *s], known[tuple(s)], one[a, *s], other[b, *s]

    def _place(self, name: str) -> int:
        if name not in self.values:
            raise UnknownNameError("variable", name, self.values)
        return list(self.values).index(name)


def joint(graph: Graph, tables: Mapping[str, Callable[..., Mapping[int, Fraction]]]) -> Law:
    """The law of all variables of a graph: the product of what each does given its parents.

    Args:
        graph: The parents of every variable.
        tables: By variable, from values of its parents, in the order of the graph, to the
            probability of each value.
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
                    f"the probabilities of {name} must be at least 0 and sum to 1, but got {table}"
                )
            grown |= {(*state, v): share * part for v, part in table.items() if part}
        states = grown
    columns = zip(*states, strict=True)
    return Law(dict(zip(names, (tuple(sorted(set(c))) for c in columns), strict=True)), states)
