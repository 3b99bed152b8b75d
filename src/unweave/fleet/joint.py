"""Evaluation of several objectives whose calls of shared functions are merged.

Each objective runs as a coroutine (a greenlet) that pauses at every call of a shared function,
such as the encoder. When all of them wait, the arguments of equal calls are concatenated along
the model axis, the function is called once, and each objective continues with its own models. An
objective is therefore written as if its models were the whole fleet.

Shapes: M models in all, m models of one objective.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor

__all__ = ["JointCalls"]

Result = TypeVar("Result")


class Call(NamedTuple):
    """A call of a shared function by one objective."""

    name: str
    args: tuple[Tensor, ...]
    differentiable: bool

    @property
    def signature(self) -> tuple[Any, ...]:
        """Properties that calls must share to be merged."""
        return self.name, self.differentiable, *((arg.shape[1:], arg.dtype) for arg in self.args)


class JointCalls:
    """Evaluates objectives, merging their calls of shared functions.

    Args:
        functions: Shared functions by name, in the order in which objectives usually call them:
            from the index of an objective, or None for all models, and tensors `[m, …]` to a
            tensor `[m, …]`.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Tensor]]) -> None:
        self.functions = functions
        self._wholes: list[tuple[Sequence[Tensor], Tensor]] = []

    def split(self, whole: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Split a tensor `[M, …]` between objectives; merging the parts again costs nothing."""
        parts = whole.split(list(sizes))
        self._wholes.append((parts, whole))
        return parts

    def shared(self, name: str, index: int) -> Callable[..., Tensor]:
        """Return a shared function as one objective sees it."""

        def call(*args: Any, **options: Any) -> Tensor:
            # A transform of `torch.func` must not be left before it ends.
            if options or torch._C._functorch.peek_interpreter_stack() is not None:
                return self.functions[name](index, *args, **options)
            differentiable = torch.is_grad_enabled()
            parent = getcurrent().parent
            assert parent is not None, "shared functions are for objectives"
            result: Tensor = parent.switch(Call(name, args, differentiable))
            torch.set_grad_enabled(differentiable)
            return result

        return call

    def run(self, objectives: Sequence[Callable[[], Result]]) -> list[Result]:
        """Evaluate all objectives; return their results in order."""
        tasks = [greenlet(objective) for objective in objectives]
        waiting: dict[int, Call] = {}
        results: dict[int, Result] = {}
        order = list(self.functions)

        def resume(index: int, *value: Tensor) -> None:
            with torch.set_grad_enabled(torch.is_grad_enabled()):
                answer = tasks[index].switch(*value)
            (results if tasks[index].dead else waiting)[index] = answer

        for index in range(len(tasks)):
            resume(index)
        while waiting:
            # Objectives that are less far along continue first, so that later calls coincide.
            first = min(waiting.values(), key=lambda call: order.index(call.name)).signature
            chosen = [i for i in sorted(waiting) if waiting[i].signature == first]
            calls = [waiting.pop(index) for index in chosen]
            if len(chosen) == len(tasks):
                values = self._at_once(calls)
            else:
                values = [self._one(call, at) for call, at in zip(calls, chosen, strict=True)]
            for index, value in zip(chosen, values, strict=True):
                resume(index, value)
        return [results[index] for index in range(len(tasks))]

    def _one(self, call: Call, index: int | None) -> Tensor:
        with torch.set_grad_enabled(call.differentiable):
            return self.functions[call.name](index, *call.args)

    def _at_once(self, calls: Sequence[Call]) -> Sequence[Tensor]:
        """Return the results of equal calls by all objectives."""
        args = tuple(self._joined(parts) for parts in zip(*(c.args for c in calls), strict=True))
        whole = self._one(calls[0]._replace(args=args), None)
        return self.split(whole, [len(call.args[0]) for call in calls])

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate tensors of all objectives, or return the tensor they were split from."""
        for known, whole in self._wholes:
            if all(one is other for one, other in zip(known, parts, strict=True)):
                return whole
        return torch.cat(list(parts))
