"""Timing an epoch: what a block is, what is dropped, and what is published of it."""

import math

import pytest

from batchscope.timing import time_epoch
from batchscope.timing.time_epoch import Epoch


class Machine:
    """A machine with seconds per step and per example; its first call takes ten times as long."""

    def __init__(self, epoch: Epoch, step: float, each: float) -> None:
        self.costs = epoch, step, each
        self.calls: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> float:
        epoch, step, each = self.costs
        self.calls.append((start, stop))
        examples = min(stop * epoch.batch_size, epoch.examples) - start * epoch.batch_size
        seconds = step * (stop - start) + each * examples
        return seconds * (10 if len(self.calls) == 1 else 1)

    def block(self, block_seconds: float) -> dict[str, float]:
        return time_epoch.run_block(
            self, time_epoch.calibrate_block(self, self.costs[0], block_seconds)
        )


@pytest.mark.parametrize("block_seconds", [1e-3, 0.3])
@pytest.mark.parametrize(("step", "each"), [(0.01, 1e-4), (0.0, 1e-4)])
@pytest.mark.parametrize("epoch", [(1010, 100), (1100, 1000), (1000, 100), (64, 64), (9, 4)])
def test_blocks_of_any_length_give_the_time_of_an_epoch(epoch, step, each, block_seconds):
    """Whether an epoch is longer or shorter than a block, its last batch smaller or not."""
    examples, batch_size = epoch
    block = Machine(Epoch(*epoch), step, each).block(block_seconds)
    exact = step * math.ceil(examples / batch_size) + each * examples
    assert block["seconds_per_epoch"] == pytest.approx(exact)
    assert block["seconds"] >= 0.99 * block_seconds


def test_a_long_epoch_is_not_run_to_its_end():
    """A million examples by 100: a block of a second takes little more, with the last batch."""
    machine = Machine(Epoch(1_000_050, 100), 0.01, 1e-4)
    block = machine.block(1.0)
    assert block["seconds_per_epoch"] == pytest.approx(100.01 + 100.005)
    assert 1 <= block["seconds"] <= 2.1
    # Both kinds of step have been run before anything counts.
    assert machine.calls[0] == (10_000, 10_001) and machine.calls[2][0] == 0


def test_values_are_the_median_and_the_quartiles():
    blocks = [{"seconds_per_epoch": float(value)} for value in (5, 1, 2, 3, 4)]
    assert list(time_epoch.epoch_columns(blocks, 30).values()) == [3.0, 2.0, 4.0, 10.0]
