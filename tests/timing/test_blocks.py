"""Blocks: turns, warm-up, disturbed blocks, and batch sizes that fail."""

from collections import Counter

import pytest

from batchscope.timing import blocks, processes, throughput

STEPS = {1: 5, 8: 2}  # batch size -> steps of a block


class Machine:
    """A machine that takes `seconds` per step, and notes the steps that it ran."""

    def __init__(self, seconds: dict[int, float], late: float = 0.0) -> None:
        self.seconds, self.late = seconds, late
        self.calls: list[tuple[int, int]] = []

    def runner(self, size: int):
        def run(steps: int) -> float:
            self.calls.append((size, steps))
            return steps * self.seconds[size] + (self.late if len(self.calls) == 1 else 0.0)

        return run

    def timed(self):
        return {
            size: lambda size=size: throughput.run_block(self.runner(size), STEPS[size])
            for size in self.seconds
        }


@pytest.mark.parametrize("seconds", [1e-5, 3e-3, 2.0])
def test_a_block_takes_at_least_the_seconds_of_the_setting(seconds):
    machine = Machine({8: seconds}, late=5.0)
    steps = blocks.calibrate(machine.runner(8), block_seconds=0.25)
    # No more than twice too long, beyond the time of one step.
    assert 0.25 <= steps * seconds <= max(0.5, seconds) * 1.2
    # The first call is no part of the warm-up.
    counted = machine.calls[1:]
    assert sum(count * seconds for _, count in counted) >= blocks.WARM_UP_SECONDS
    assert len(counted) < 60 and sum(count for _, count in counted) >= 3


def test_blocks_are_whole_calls():
    machine = Machine({8: 1e-3})
    steps = blocks.calibrate(machine.runner(8), block_seconds=0.25, unit=32)
    assert steps % 32 == 0 and steps >= 250
    assert all(count % 32 == 0 for _, count in machine.calls)
    assert [blocks.rounded_up(steps, 32) for steps in (1, 32, 32.5)] == [32, 32, 64]


def quiet(monkeypatch, others=()):
    """Let other processes take a number of cores in each block."""
    cores = iter(others)
    monkeypatch.setattr(processes, "foreign_cores", lambda *_: next(cores, 0.0))


def test_blocks_are_timed_in_turns_in_an_order_of_the_job(monkeypatch):
    quiet(monkeypatch)
    machine = Machine({1: 0.1, 8: 0.3})
    block_lists, errors = blocks.time_blocks(machine.timed(), 4)
    assert not errors
    assert [block["seconds_per_step"] for block in block_lists[1]] == pytest.approx([0.1] * 4)
    assert [block["seconds"] for block in block_lists[8]] == pytest.approx([0.6] * 4)
    rounds = [machine.calls[index : index + 2] for index in range(0, 8, 2)]
    assert all(Counter(calls) == Counter(STEPS.items()) for calls in rounds)
    orders = []
    for job in (1, 1, 2):
        order = []
        timed = {size: lambda size=size, order=order: order.append(size) or {} for size in range(9)}
        blocks.time_blocks(timed, 2, job)
        orders.append(order)
    assert orders[0] == orders[1] != orders[2] and orders[0][:9] != orders[0][9:]


def test_a_disturbed_block_is_repeated_and_flagged_if_that_does_not_help(monkeypatch):
    quiet(monkeypatch, [0.9, 0.0, 0.9, 0.8, 0.7, 0.1, 0.0])
    machine = Machine({8: 0.1})
    (block_list,) = blocks.time_blocks(machine.timed(), 4)[0].values()
    assert [block["repeats"] for block in block_list] == [1, 2, 0, 0]
    assert [block["disturbed"] for block in block_list] == [False, True, False, False]
    assert [block["foreign_cores"] for block in block_list] == [0.0, 0.7, 0.1, 0.0]
    assert len(machine.calls) == 7


def failing(error: Exception):
    def run():
        raise error

    return run


def test_an_error_of_a_batch_size_ends_it_alone_and_a_failure_all(monkeypatch):
    quiet(monkeypatch)
    statuses = {
        MemoryError(): "out_of_memory",
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"): "out_of_memory",
        blocks.NonFiniteLoss("The loss"): "diverged",
    }
    timed = Machine({1: 0.1, 8: 0.3}).timed()
    for size, error in enumerate(statuses, start=10):
        timed[size] = failing(error)
    block_lists, errors = blocks.time_blocks(timed, 3)
    assert errors == dict(enumerate(statuses.values(), start=10))
    assert {size: len(block_list) for size, block_list in block_lists.items()} == {1: 3, 8: 3}
    timed[8] = failing(ValueError("not the batch size"))
    with pytest.raises(ValueError, match="not the batch size"):
        blocks.time_blocks(timed, 3)
