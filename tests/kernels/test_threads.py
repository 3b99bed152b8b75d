"""Tasks on threads: each on one of them, in order, errors and nested tasks included."""

import os
import threading
import time

import pytest
import torch

from unweave.kernels.threads import run_all, single_threaded


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_are_in_order_and_each_task_has_one_thread(threads):
    def task(place):
        time.sleep(0.001 * (place % 3))
        return place, torch.get_num_threads(), torch.is_grad_enabled()

    with torch.no_grad():
        results = run_all([lambda place=place: task(place) for place in range(20)])
    assert results == [(place, 1, False) for place in range(20)]
    assert torch.get_num_threads() == threads
    assert run_all([]) == []


def test_as_many_tasks_run_at_once_as_there_are_threads(threads):
    together = threading.Barrier(threads)
    run_all([lambda: together.wait(20)] * threads)


def test_tasks_may_be_nested(threads):
    def outer(place):
        return run_all([lambda inner=inner: 10 * place + inner for inner in range(5)])

    results = run_all([lambda place=place: outer(place) for place in range(6)])
    assert results == [[10 * place + inner for inner in range(5)] for place in range(6)]


def test_an_error_comes_out_after_all_tasks_have_ended(threads):
    running = []

    def task(place):
        running.append(place)
        time.sleep(0.01)
        running.remove(place)
        if place in (0, 5):
            raise ValueError(place)

    with pytest.raises(ValueError, match=r"0|5"):
        run_all([lambda place=place: task(place) for place in range(6)])
    assert not running
    assert torch.get_num_threads() == threads
    assert run_all([lambda: 1, lambda: 2]) == [1, 2]


def test_the_number_of_threads_is_restored_after_an_error(threads):
    @single_threaded()
    def failing():
        assert torch.get_num_threads() == 1
        together = threading.Barrier(threads)
        run_all([lambda: together.wait(20)] * threads)
        with single_threaded():
            run_all([lambda: None] * 3)
        assert torch.get_num_threads() == 1
        raise ValueError("failed")

    for _ in range(2):
        with pytest.raises(ValueError, match="failed"):
            failing()
        assert torch.get_num_threads() == threads


def test_a_new_thread_finds_the_number_of_threads_as_it_was(threads):
    run_all([lambda: None] * 4)
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [threads]


def test_a_forked_process_starts_new_threads(threads):
    run_all([lambda: None] * 4)
    child = os.fork()
    if child == 0:
        os._exit(run_all([lambda: 3, lambda: 4]) != [3, 4])
    _, status = os.waitpid(child, 0)
    assert status == 0
