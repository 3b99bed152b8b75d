"""Directed graphs of random variables, and the independences that they imply."""

import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from unweave.errors import UnknownNameError
from unweave.papers.theory import TheoryError

__all__ = ["Graph", "causes_first", "d_separated", "read_graph"]

Graph = Mapping[str, tuple[str, ...]]
"""Parents of every variable."""


def read_graph(text: str) -> Graph:
    """Parse a directed acyclic graph.

    Args:
        text: Comma-separated chains of arrows: `C -> Y -> X <- Z, C -> X`. The arrows → and ← are
            also accepted.

    Returns:
        The parents of every variable, in the order of the arrows.

    Example:
        >>> read_graph("C → Y → X ← Z")
        {'C': (), 'Y': ('C',), 'X': ('Y', 'Z'), 'Z': ()}
    """
    parents: dict[str, list[str]] = {}
    for chain in text.split(","):
        tokens = re.split(r"\s*(->|<-|→|←)\s*", chain.strip())
        names, arrows = tokens[::2], tokens[1::2]
        for name in names:
            if not re.fullmatch(r"\w+", name):
                raise TheoryError(
                    f"graph must be of the form 'C -> Y -> X <- Z, C -> X', got {text!r}",
                    subject="text",
                    value=text,
                )
            parents.setdefault(name, [])
        for left, arrow, right in zip(names, arrows, names[1:], strict=False):
            cause, effect = (left, right) if arrow in ("->", "→") else (right, left)
            if cause not in parents[effect]:
                parents[effect].append(cause)
    graph = {name: tuple(found) for name, found in parents.items()}
    causes_first(graph)
    return graph


def causes_first(graph: Graph) -> list[str]:
    """Sort variables topologically, parents first; raise an error if there is a cycle."""
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise TheoryError(
            f"graph must be acyclic, got the cycle {cycle}; remove one of its arrows",
            subject="graph",
            value=error.args[1],
        ) from error


def d_separated(graph: Graph, first: str, second: str, given: Iterable[str] = ()) -> bool:
    """Return whether a graph d-separates two variables, given others.

    If so, they are conditionally independent in every distribution that factorises along the
    graph. If not, they are dependent in nearly all such distributions, but not in all.

    Variables are d-separated if no path connects them in the moral graph: the graph of these
    variables and their ancestors, with parents of a common child linked, arrows made undirected,
    and the given variables removed.

    References:
        Lauritzen et al., Independence properties of directed Markov fields, Networks 20, 1990.

    Example:
        >>> graph = read_graph("C -> Y -> X <- Z")
        >>> d_separated(graph, "C", "Z"), d_separated(graph, "C", "Z", ["X"])
        (True, False)
        >>> d_separated(graph, "C", "Z", ["X", "Y"])
        True
    """
    known = set(given)
    for name in (first, second, *sorted(known)):
        if name not in graph:
            raise UnknownNameError("variable", name, graph)
    if first == second or known & {first, second}:
        raise TheoryError(
            f"first and second must differ and not be given, got {first}, {second} given "
            f"{', '.join(sorted(known)) or 'nothing'}",
            subject="given",
            value=known,
        )
    links = _moral(graph, {first, second, *known})
    reached, new = {first}, [first]
    while new:
        further = links[new.pop()] - known - reached
        reached |= further
        new += further
    return second not in reached


def _moral(graph: Graph, wanted: set[str]) -> dict[str, set[str]]:
    """Neighbours of each variable in the moral graph of some variables and their ancestors."""
    ancestral = set(wanted)
    for name in reversed(causes_first(graph)):
        if name in ancestral:
            ancestral |= set(graph[name])
    links: dict[str, set[str]] = {name: set() for name in ancestral}
    for name in ancestral:
        for one, other in combinations((name, *graph[name]), 2):
            links[one].add(other)
            links[other].add(one)
    return links
