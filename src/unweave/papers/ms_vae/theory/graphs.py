"""Directed graphs of random variables, and what they say of independence."""

import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from unweave.errors import UnknownNameError
from unweave.papers.theory import TheoryError

__all__ = ["Graph", "causes_first", "d_separated", "read_graph"]

Graph = Mapping[str, tuple[str, ...]]
"""The parents of every variable."""


def read_graph(text: str) -> Graph:
    """Read a directed graph without cycles.

    Args:
        text: Chains of arrows, with commas between them: `C -> Y -> X <- Z, C -> X`. → and ← do,
            too.

    Returns:
        The parents of every variable, in the order in which arrows name them.

    Example:
        >>> read_graph("C → Y → X ← Z")
        {'C': (), 'Y': ('C',), 'X': ('Y', 'Z'), 'Z': ()}
    """
    parents: dict[str, list[str]] = {}
    for chain in text.split(","):
        words = re.split(r"\s*(->|<-|→|←)\s*", chain.strip())
        names, arrows = words[::2], words[1::2]
        for name in names:
            if not re.fullmatch(r"\w+", name):
                raise TheoryError(
                    f"a graph is written as 'C -> Y -> X <- Z, C -> X', but got {text!r}"
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
    """All variables, each after its parents; a cycle is refused."""
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        way = " -> ".join(error.args[1])
        raise TheoryError(f"the graph has a cycle, {way}; leave out one of its arrows") from error


def d_separated(graph: Graph, first: str, second: str, given: Iterable[str] = ()) -> bool:
    """Whether a graph separates two variables, given others.

    If so, they are independent given the others in every law that follows the graph. If not, they
    depend on each other in nearly all such laws, but not in all.

    Separated are those between which every way is blocked in the moral graph: of the variables
    in question and their ancestors, where parents of one child are linked, arrows lose their
    heads, and what is given is taken out.

    Args:
        graph: The parents of every variable; see `read_graph`.
        first: One variable.
        second: Another. Sets are separated where all pairs are.
        given: Others whose values are known.

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
            f"ask about two variables that are not given, but got {first}, {second} given "
            f"{', '.join(sorted(known)) or 'nothing'}"
        )
    links = _moral(graph, {first, second, *known})
    reached, new = {first}, [first]
    while new:
        further = links[new.pop()] - known - reached
        reached |= further
        new += further
    return second not in reached


def _moral(graph: Graph, wanted: set[str]) -> dict[str, set[str]]:
    """What each variable is linked to in the moral graph of some and their ancestors."""
    kept = set(wanted)
    for name in reversed(causes_first(graph)):
        if name in kept:
            kept |= set(graph[name])
    links: dict[str, set[str]] = {name: set() for name in kept}
    for name in kept:
        for one, other in combinations((name, *graph[name]), 2):
            links[one].add(other)
            links[other].add(one)
    return links
