"""Joint evaluation of objectives: calls are merged, results are those of separate calls."""

import pytest
import torch

from unweave.fleet.joint import JointCalls

SCALE = torch.tensor([1.0, 2.0, 3.0, 4.0])
ROWS = [slice(0, 1), slice(1, 3), slice(3, 4)]


class Calls:
    """Shared functions that count their calls."""

    def __init__(self):
        self.seen = []
        self.joint = JointCalls({"double": self.double, "add": self.add})

    def double(self, index, x, times=1):
        self.seen.append(("double", index, len(x)))
        scale = SCALE if index is None else SCALE[ROWS[index]]
        return x * scale[:, None] * 2**times

    def add(self, index, x, y):
        self.seen.append(("add", index, len(x)))
        self.added = x
        return x + y


@pytest.fixture
def calls():
    return Calls()


def inputs(requires_grad=False):
    return [torch.ones(n, 3, requires_grad=requires_grad) for n in (1, 2, 1)]


def test_equal_calls_are_made_once(calls):
    def objective(index, x):
        doubled = calls.joint.shared("double", index)(x)
        return calls.joint.shared("add", index)(doubled, x).sum(1)

    tasks = [lambda i=i, x=x: objective(i, x) for i, x in enumerate(inputs())]
    results = calls.joint.run(tasks)
    assert calls.seen == [("double", None, 4), ("add", None, 4)]
    assert torch.cat(results).tolist() == [9.0, 15.0, 21.0, 27.0]


def test_the_parts_of_a_tensor_are_joined_without_a_copy(calls):
    wholes = torch.rand(4, 3), torch.rand(4, 3)
    parts = zip(*(calls.joint.split(whole, [1, 2, 1]) for whole in wholes), strict=True)
    add = [calls.joint.shared("add", index) for index in range(3)]
    calls.joint.run([lambda f=f, own=own: f(*own) for f, own in zip(add, parts, strict=True)])
    assert calls.added is wholes[0]


def test_calls_that_differ_are_made_separately(calls):
    def twice(index, x):
        double = calls.joint.shared("double", index)
        return double(double(x))

    def once(index, x):
        return calls.joint.shared("double", index)(x[:, :2])

    x = inputs()
    results = calls.joint.run([lambda: twice(0, x[0]), lambda: once(1, x[1]), lambda: "none"])
    assert calls.seen == [("double", 0, 1), ("double", 1, 2), ("double", 0, 1)]
    assert results[0].tolist() == [[4.0] * 3]
    assert results[1].tolist() == [[4.0] * 2, [6.0] * 2]
    assert results[2] == "none"


def test_an_objective_that_is_behind_catches_up(calls):
    def short(index, x):
        return calls.joint.shared("add", index)(x, x)

    def long(index, x):
        return short(index, calls.joint.shared("double", index)(x))

    x = inputs()
    calls.joint.run([lambda: short(0, x[0]), lambda: long(1, x[1]), lambda: short(2, x[2])])
    assert calls.seen == [("double", 1, 2), ("add", None, 4)]


def test_gradients_reach_the_right_objective(calls):
    x = inputs(requires_grad=True)
    double = [calls.joint.shared("double", index) for index in range(3)]
    results = calls.joint.run([lambda f=f, x=x: f(x) for f, x in zip(double, x, strict=True)])
    torch.cat(results).sum().backward()
    assert [own.grad[:, 0].tolist() for own in x] == [[2.0], [4.0, 6.0], [8.0]]


def test_disabled_gradients_stay_with_their_objective(calls):
    def frozen(index, x):
        with torch.no_grad():
            result = calls.joint.shared("double", index)(x)
            assert not torch.is_grad_enabled()
        return result

    def free(index, x):
        result = calls.joint.shared("double", index)(x)
        assert torch.is_grad_enabled()
        return result

    x = inputs(requires_grad=True)
    results = calls.joint.run(
        [lambda: frozen(0, x[0]), lambda: free(1, x[1]), lambda: free(2, x[2])]
    )
    assert [result.requires_grad for result in results] == [False, True, True]
    assert torch.is_grad_enabled()


def test_options_and_transforms_are_not_merged(calls):
    def with_options(index, x):
        return calls.joint.shared("double", index)(x, times=3)

    def derivative(index, x):
        double = calls.joint.shared("double", index)
        return torch.func.grad(lambda x: double(x).sum())(x)

    x = inputs()
    tasks = [lambda: with_options(0, x[0]), lambda: derivative(1, x[1]), lambda: None]
    results = calls.joint.run(tasks)
    assert results[0].tolist() == [[8.0] * 3]
    assert results[1].tolist() == [[4.0] * 3, [6.0] * 3]
    assert calls.seen == [("double", 0, 1), ("double", 1, 2)]


def test_an_error_in_one_objective_ends_the_evaluation(calls):
    def broken(index, x):
        calls.joint.shared("double", index)(x)
        raise ZeroDivisionError

    x, shared = inputs(), calls.joint.shared("double", 1)
    with pytest.raises(ZeroDivisionError):
        calls.joint.run([lambda: broken(0, x[0]), lambda: shared(x[1]).sum(), lambda: None])
    assert torch.is_grad_enabled()
