"""Layouts: trees that group latents into subspaces, which can be nested."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from unweave.errors import UnweaveError
from unweave.text import shown

__all__ = ["Layout", "Run", "Tree", "tree_of"]

MAX_LENGTH, MAX_DEPTH = 10_000, 50
"""Largest number of characters and of brackets in a layout."""


@dataclass(frozen=True)
class Run:
    """Equal, adjacent children of a node; the properties are those of each child.

    Args:
        count: Number of children.
        tree: Tree of each child; None for a single latent.
    """

    count: int
    tree: "Tree | None" = None

    @property
    def num_latents(self) -> int:
        return 1 if self.tree is None else self.tree.num_latents

    @property
    def num_exponents(self) -> int:
        return 0 if self.tree is None else self.tree.num_exponents

    @property
    def num_branches(self) -> int:
        return 0 if self.tree is None else self.tree.num_branches

    def __str__(self) -> str:
        if self.tree is None:
            child = "1"
        elif self.tree.is_flat:
            child = str(self.tree.num_latents)
        else:
            child = f"({self.tree})"
        return child if self.count == 1 else f"{self.count}x{child}"


@dataclass(frozen=True)
class Tree:
    """Node of a layout with everything below it; its leaves are the latents, in order.

    Every inner node has an exponent. Exponents are numbered depth first: a node comes before its
    children, and everything below a child before the next child. For subspaces of several latents
    each, these are p₀, p₁, …, p_l.

    Args:
        runs: Children of the node.

    Example:
        >>> tree = tree_of("2x4,3x1")
        >>> tree.num_latents, tree.num_exponents, tree.sizes
        (11, 3, (4, 4, 1, 1, 1))
    """

    runs: tuple[Run, ...]

    @cached_property
    def num_latents(self) -> int:
        """Number of leaves."""
        return sum(run.count * run.num_latents for run in self.runs)

    @cached_property
    def num_children(self) -> int:
        """Number of children of this node."""
        return sum(run.count for run in self.runs)

    @cached_property
    def num_exponents(self) -> int:
        """Number of inner nodes."""
        return 1 + sum(run.count * run.num_exponents for run in self.runs)

    @cached_property
    def num_branches(self) -> int:
        """Number of nodes and leaves that have a parent in this tree."""
        return self.num_children + sum(run.count * run.num_branches for run in self.runs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of latents below each child; at the root, the sizes of the subspaces."""
        return tuple(run.num_latents for run in self.runs for _ in range(run.count))

    @property
    def is_flat(self) -> bool:
        """Whether all children are latents."""
        return all(run.tree is None for run in self.runs)

    def __str__(self) -> str:
        return ",".join(map(str, self.runs))


Layout = str | Tree
"""Layouts accepted by `tree_of`."""


def tree_of(layout: Layout) -> Tree:
    """Parse a layout.

    Args:
        layout: Sizes of subspaces, with `x` for repetition: `"5x4"` is five subspaces of four
            latents, `"4,3,3"` one of four and two of three, `"2x4,3x1"` two of four and three
            single latents, `"20x1"` no subspaces at all. Brackets nest: `"2x(1,2),4"`.

    Notes:
        A latent that is alone in its subspace is a child of the root without its own exponent. So
        `"20x1"` has one exponent, and `"20"`, a single subspace of 20 latents, has two.

    Example:
        >>> str(tree_of("4,4,1,(2,2)"))
        '2x4,1,(2x2)'
        >>> tree_of("4,4,1,(2,2)").num_exponents
        6
    """
    return layout if isinstance(layout, Tree) else _read(str(layout))


@lru_cache
def _read(layout: str) -> Tree:
    tokens = re.findall(r"\d+|\S", layout[: MAX_LENGTH + 1].replace("×", "x"))
    good = len(layout) <= MAX_LENGTH and tokens.count("(") <= MAX_DEPTH
    try:
        tree, rest = _children(tokens if good else [])
    except (IndexError, ValueError):
        good = False
    if not good or rest:
        raise UnweaveError(
            'layout must list sizes of subspaces, at least 1 each, such as "5x4", "2x4,3x1" or '
            f'(nested) "2x(1,2),4", got {shown(layout)}',
            subject="layout",
            value=layout,
        )
    return tree


def _children(tokens: list[str]) -> tuple[Tree, list[str]]:
    """Parse the tree `item,item,…` at the beginning; return it and the remaining tokens."""
    runs: list[Run] = []
    while True:
        run, tokens = _run(tokens)
        if runs and runs[-1].tree == run.tree:
            run = Run(runs.pop().count + run.count, run.tree)
        runs.append(run)
        if tokens[:1] != [","]:
            return Tree(tuple(runs)), tokens
        tokens = tokens[1:]


def _run(tokens: list[str]) -> tuple[Run, list[str]]:
    """Parse the item `child` or `count x child`; return it and the remaining tokens."""
    count = 1
    if tokens[1:2] == ["x"]:
        count, tokens = _positive(tokens[0]), tokens[2:]
    if tokens[0] != "(":
        size = _positive(tokens[0])
        return Run(count, None if size == 1 else Tree((Run(size),))), tokens[1:]
    tree, tokens = _children(tokens[1:])
    if tokens[0] != ")":
        raise ValueError(tokens[0])
    # The norm of one number is its absolute value, so a node with one child becomes that child.
    child = tree.runs[0].tree if tree.num_children == 1 else tree
    return Run(count, child), tokens[1:]


def _positive(token: str) -> int:
    number = int(token)
    if number < 1:
        raise ValueError(token)
    return number
