"""D-separation against joint tables and against its definition by paths."""

from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest

from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.papers.ms_vae.theory.graphs import causes_first, d_separated, read_graph
from unweave.papers.theory import TheoryError

NAMES = "abcde"
PARTS = 10007
"""A large prime, so that fractions that should differ do."""


def graphs(size):
    """All directed graphs in which arrows lead from earlier to later letters."""
    pairs = list(combinations(NAMES[:size], 2))
    for chosen in product((False, True), repeat=len(pairs)):
        arrows = [pair for pair, there in zip(pairs, chosen, strict=True) if there]
        yield {name: tuple(a for a, b in arrows if b == name) for name in NAMES[:size]}


def questions(names):
    """All pairs of variables with all sets of others that may be given."""
    for first, second in combinations(names, 2):
        others = [name for name in names if name not in (first, second)]
        for count in range(len(others) + 1):
            for given in combinations(others, count):
                yield first, second, given


def counts(graph, rng):
    """A joint table of binary variables `[2, …, 2]` with random parts, as whole numbers."""
    names = list(graph)
    table = np.ones((2,) * len(names), dtype=object)
    for place, name in enumerate(names):
        law = rng.integers(1, PARTS, size=(2,) * len(graph[name])).astype(object)
        for state in product((0, 1), repeat=len(names)):
            one = law[tuple(state[names.index(parent)] for parent in graph[name])]
            table[state] *= one if state[place] else PARTS - one
    return table


def independent(table, first, second, given):
    """P(a, b, s) P(s) = P(a, s) P(b, s) in the joint table, by summing it up."""
    kept = {NAMES.index(name) for name in (first, second, *given)}
    rest = tuple(k for k in range(table.ndim) if k not in kept)
    axes = NAMES.index(first), NAMES.index(second)
    both = table.sum(axis=rest, keepdims=True)
    one, other = (both.sum(axis=k, keepdims=True) for k in axes)
    return (both * one.sum(axis=axes[1], keepdims=True) == one * other).all()


def test_four_variables_are_independent_where_the_graph_separates_them_and_only_there():
    """All graphs of four variables; random tables have no independence but that of the graph."""
    rng = np.random.default_rng(0)
    separated = []
    for graph in graphs(4):
        table = counts(graph, rng)
        for question in questions(NAMES[:4]):
            found = d_separated(graph, *question)
            assert found == independent(table, *question), (graph, question)
            separated.append(found)
    assert len(separated) == 64 * 24
    assert 0.2 < np.mean(separated) < 0.8


def is_open(graph, path, given):
    """Whether colliders on a path are given or have a given descendant, and nothing else is."""

    def below(name):
        return {name}.union(*(below(child) for child in graph if name in graph[child]))

    return all(a in graph[b] or b in graph[a] for a, b in pairwise(path)) and all(
        bool(below(m) & set(given)) if {a, b} <= set(graph[m]) else m not in given
        for (a, m), (_, b) in pairwise(pairwise(path))
    )


def paths(graph, first, second):
    """All sequences of different variables from the first to the second."""
    others = [name for name in graph if name not in (first, second)]
    for count in range(len(others) + 1):
        for between in permutations(others, count):
            yield first, *between, second


def test_five_variables_are_separated_where_no_path_is_open():
    rng = np.random.default_rng(1)
    everything = list(graphs(5))
    for k in rng.choice(len(everything), 40, replace=False):
        graph = everything[k]
        for question in questions(NAMES):
            first, second, given = question
            some = any(is_open(graph, path, given) for path in paths(graph, first, second))
            assert d_separated(graph, *question) != some, (graph, question)


@pytest.mark.parametrize(
    ("text", "given", "separated"),
    [
        ("a -> m -> b", "", False),
        ("a -> m -> b", "m", True),
        ("a <- m -> b", "", False),
        ("a <- m -> b", "m", True),
        ("a -> m <- b", "", True),
        ("a -> m <- b", "m", False),
        ("a -> m <- b, m -> d", "d", False),
        ("a -> m <- b, m <- d", "d", True),
        ("a -> b", "", False),
    ],
)
def test_chains_forks_and_colliders(text, given, separated):
    assert d_separated(read_graph(text), "a", "b", given) == separated


def test_a_graph_is_read_with_either_kind_of_arrow():
    graph = read_graph("C->Y → X <- Z,C → X, alone, C -> Y")
    assert graph == {"C": (), "Y": ("C",), "X": ("Y", "Z", "C"), "Z": (), "alone": ()}
    order = causes_first(graph)
    assert all(order.index(p) < order.index(name) for name in graph for p in graph[name])


@pytest.mark.parametrize("text", ["", "C ->", "C -> -> X", "C X", "C - X", "C -> X,"])
def test_invalid_graphs_are_rejected(text):
    with pytest.raises(TheoryError, check=about("text", text)):
        read_graph(text)


def test_a_cycle_is_rejected_and_named():
    with pytest.raises(TheoryError, check=about("graph")) as raised:
        read_graph("a -> b -> c -> a")
    assert sorted(set(raised.value.value)) == ["a", "b", "c"]


def test_invalid_queries_are_rejected():
    graph = read_graph("a -> b -> c")
    with pytest.raises(UnknownNameError, check=about("variable", "d")):
        d_separated(graph, "a", "c", ["d"])
    with pytest.raises(TheoryError, check=about("given", set())):
        d_separated(graph, "a", "a")
    with pytest.raises(TheoryError, check=about("given", {"b", "c"})):
        d_separated(graph, "a", "c", ["c", "b"])
