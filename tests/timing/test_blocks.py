"""Blocks of steps: turns, warm-up, whole epochs, disturbances, and batch sizes that fail."""

import contextlib
import math
from collections import Counter
from unittest.mock import Mock

import numpy as np
import psutil
import pytest

from batchscope.timing import blocks, samples, throughput, time_epoch, utilisation
from batchscope.timing.samples import CpuReading
from fake_nvml import Nvml

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


@pytest.mark.parametrize(("seconds", "unit"), [(1e-5, 1), (3e-3, 1), (2.0, 1), (1e-3, 32)])
def test_a_block_takes_at_least_the_seconds_of_the_setting_in_whole_calls(seconds, unit):
    machine = Machine({8: seconds}, late=5.0)
    steps = blocks.calibrate(machine.runner(8), block_seconds=0.25, unit=unit)
    # No more than twice too long, beyond the time of one step.
    assert 0.25 <= steps * seconds <= max(0.5, seconds) * 1.2
    assert all(count % unit == 0 for _, count in [*machine.calls, (8, steps)])
    # The first call is no part of the warm-up.
    counted = machine.calls[1:]
    assert sum(count * seconds for _, count in counted) >= blocks.WARM_UP_SECONDS
    assert len(counted) < 60 and sum(count for _, count in counted) >= 3


def quiet(monkeypatch, others=()):
    """Let other processes take a number of cores in each block."""
    cores = iter(others)
    monkeypatch.setattr(samples, "foreign_cores", lambda *_: next(cores, 0.0))


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


def test_an_error_of_a_batch_size_ends_it_alone_and_a_failure_all(monkeypatch):
    quiet(monkeypatch)
    statuses = {
        MemoryError(): "out_of_memory",
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"): "out_of_memory",
        blocks.NonFiniteLoss("The loss"): "diverged",
    }
    timed = Machine({1: 0.1, 8: 0.3}).timed()
    for size, error in enumerate(statuses, start=10):
        timed[size] = Mock(side_effect=error)
    block_lists, errors = blocks.time_blocks(timed, 3)
    assert errors == dict(enumerate(statuses.values(), start=10))
    assert {size: len(block_list) for size, block_list in block_lists.items()} == {1: 3, 8: 3}
    timed[8] = Mock(side_effect=ValueError("not the batch size"))
    with pytest.raises(ValueError, match="not the batch size"):
        blocks.time_blocks(timed, 3)


def test_a_stated_number_of_iterations_is_divided_among_blocks_of_whole_calls(monkeypatch):
    quiet(monkeypatch)
    machine = Machine({1: 0.1, 8: 0.3})
    runner = Mock(steps_at_size=machine.runner, steps_per_call=5, examples=96)
    job = Mock(runner=lambda: contextlib.nullcontext(runner))
    job.subject.batch_sizes = [1, 8]
    settings = {"block_seconds": 1.0, "iterations": 30, "blocks": 4, "repeats": 1}
    sizes = throughput.measure(job, settings).details["sizes"]
    assert [(entry["steps"], len(entry["blocks"])) for entry in sizes] == [(10, 4), (10, 4)]


class EpochMachine:
    """A machine with seconds per step and per example; its first call takes ten times as long."""

    def __init__(self, examples: int, batch_size: int, step: float, each: float) -> None:
        self.costs = examples, batch_size, step, each
        self.calls: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> float:
        examples, batch_size, step, each = self.costs
        self.calls.append((start, stop))
        run = min(stop * batch_size, examples) - start * batch_size
        return (step * (stop - start) + each * run) * (10 if len(self.calls) == 1 else 1)

    def block(self, block_seconds: float) -> dict[str, float]:
        return time_epoch.calibrated_block(self, *self.costs[:2], block_seconds)()


@pytest.mark.parametrize("block_seconds", [1e-3, 0.3])
@pytest.mark.parametrize(("step", "each"), [(0.01, 1e-4), (0.0, 1e-4)])
@pytest.mark.parametrize("epoch", [(1010, 100), (1100, 1000), (1000, 100), (64, 64), (9, 4)])
def test_blocks_of_any_length_give_the_time_of_an_epoch(epoch, step, each, block_seconds):
    """Whether an epoch is longer or shorter than a block, its last batch smaller or not."""
    examples, batch_size = epoch
    block = EpochMachine(*epoch, step, each).block(block_seconds)
    exact = step * math.ceil(examples / batch_size) + each * examples
    assert block["seconds_per_epoch"] == pytest.approx(exact)
    assert block["seconds"] >= 0.99 * block_seconds


def test_a_long_epoch_is_not_run_to_its_end():
    """A million examples by 100: a block of a second takes little more, with the last batch."""
    machine = EpochMachine(1_000_050, 100, 0.01, 1e-4)
    block = machine.block(1.0)
    assert block["seconds_per_epoch"] == pytest.approx(100.01 + 100.005)
    assert 1 <= block["seconds"] <= 2.1
    # Both kinds of step have been run before anything counts.
    assert machine.calls[0] == (10_000, 10_001) and machine.calls[2][0] == 0


def test_values_are_the_median_and_the_quartiles():
    epochs = [{"seconds_per_epoch": float(value)} for value in (5, 1, 2, 3, 4)]
    assert list(time_epoch.epoch_columns(epochs, 30).values()) == [3.0, 2.0, 4.0, 10.0]


class SharedMachine:
    """A clock of a machine with one busy process, and others that take `levels` after each rest."""

    examples, steps_at_size, reset_peak = 96, Mock(), Mock(return_value=False)

    def __init__(self, levels):
        self.seconds = self.process = self.machine = 0.0
        self.levels, self.others, self.steps_per_call = iter(levels), 0.0, 1

    def __call__(self):
        return CpuReading(self.seconds, self.process, self.machine)

    def run(self, batch_size, steps):
        self.seconds += 0.5 * steps
        self.process += 0.5 * steps
        self.machine += 0.5 * steps * (1 + self.others)
        return 0.5 * steps

    def sleep(self, seconds):
        self.seconds += seconds
        self.others = next(self.levels)


@pytest.mark.parametrize(
    ("levels", "repeats", "disturbed"),
    [([0.1], 0, False), ([0.5, 0.5, 0.1], 2, False), ([0.5, 0.4, 0.3], 2, True)],
)
def test_a_disturbed_training_is_repeated_and_flagged_if_that_does_not_help(
    levels, repeats, disturbed, monkeypatch
):
    Nvml().install(monkeypatch)  # each reading is 20 J after the one before
    machine = SharedMachine([*levels, 0.0])
    job = Mock(runner=lambda: contextlib.nullcontext(machine), threads=1, gpus=repeats // 2)
    job.subject.batch_sizes = [8]
    monkeypatch.setattr(samples, "cpu_times", machine)
    monkeypatch.setattr(blocks.time, "sleep", machine.sleep)
    monkeypatch.setattr(blocks, "calibrate", lambda *_: 2)
    settings = {"seconds": 2.0, "pause_seconds": 1.0, "interval": 60}
    details = utilisation.measure(job, settings).details
    (entry,), lists = details["sizes"], details["samples"]
    expected = {"steps": 4, "seconds": 2.0, "disturbed": disturbed, "repeats": repeats}
    assert entry | expected == entry
    assert entry.get("joules_per_epoch") == (20 * 96 / (4 * 8) if repeats else None)
    assert ("gpu_percent" in lists) == (repeats > 0)
    assert not list(machine.levels)
    used = entry["utilisation"]
    assert [used["foreign_cores"], entry["foreign_cores"]] == pytest.approx(levels[-1:] * 2)
    assert used["process_percent"] == pytest.approx(100, rel=0.05)  # less the sampling itself
    busy = 100 * (1 + levels[-1]) / psutil.cpu_count()
    assert lists["machine_percent"][-2] == pytest.approx(busy, rel=1e-3)
    by_phase = Counter()
    spans = np.diff(lists["seconds"], prepend=0.0)
    for phase, span in zip(lists["phase"], spans, strict=True):
        by_phase[phase] += span
    # Only the pauses are outside all phases.
    assert by_phase.pop("repeated", 0.0) == 2.0 * repeats
    assert by_phase == {"lead_in": 0.5, "batch_size": 2.0, None: 2.0 + repeats}
    assert lists["batch_size"].count(8) == lists["phase"].count("batch_size")
