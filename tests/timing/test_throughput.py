"""Throughput over batch sizes: turns, warm-up, disturbed blocks, and one real sweep."""

from __future__ import annotations

import contextlib
import json
from collections import Counter

import numpy as np
import pytest

from batchscope.catalogue import measure_settings, sweep_names
from batchscope.timing import throughput
from digit_runs import door, run_name, with_digits

ONE, EIGHT = throughput.Turn(1), throughput.Turn(8)


class Machine:
    """A machine that takes `seconds` per step, and notes what it was asked to run."""

    def __init__(self, seconds: dict[throughput.Turn, float], first: float = 0.0) -> None:
        self.seconds, self.first = seconds, first
        self.calls: list[tuple[throughput.Turn, int]] = []

    def runner(self, turn: throughput.Turn):
        def run(steps: int) -> float:
            self.calls.append((turn, steps))
            late = self.first if len(self.calls) == 1 else 0.0
            return steps * self.seconds[turn] + late

        return run

    def runners(self) -> dict:
        return {turn: self.runner(turn) for turn in self.seconds}


def test_every_round_has_every_size_once_in_an_order_of_its_own():
    turns = [throughput.Turn(size) for size in range(1, 31)]
    found = list(throughput.rounds(turns, 6))
    assert [sorted(order) for order in found] == [turns] * 6
    assert len({tuple(order) for order in found}) == 6
    assert found == list(throughput.rounds(turns, 6))


def test_both_turns_of_a_size_follow_each_other_in_either_order():
    turns = [throughput.Turn(size, delayed) for delayed in (True, False) for size in range(1, 31)]
    found = list(throughput.rounds(turns, 6))
    assert [sorted(order) for order in found] == [sorted(turns)] * 6
    for order in found:
        pairs = list(zip(order[::2], order[1::2], strict=True))
        assert all(first.batch_size == second.batch_size for first, second in pairs)
        assert 3 < sum(first.delayed for first, _ in pairs) < 27
    assert len({tuple(turn.batch_size for turn in order) for order in found}) == 6


@pytest.mark.parametrize("seconds", [1e-5, 3e-3, 0.2, 2.0])
def test_a_block_takes_at_least_what_is_asked(seconds):
    machine = Machine({EIGHT: seconds}, first=5.0)
    steps = throughput.calibrate(machine.runner(EIGHT), block_seconds=0.25)
    assert steps * seconds >= 0.25
    # No more than twice too long, beyond what one step takes.
    assert steps * seconds <= max(0.5, seconds) * 1.2
    assert sum(count * seconds for _, count in machine.calls) >= throughput.WARM_UP_SECONDS


def test_blocks_are_whole_calls():
    machine = Machine({EIGHT: 1e-3})
    steps = throughput.calibrate(machine.runner(EIGHT), block_seconds=0.25, unit=32)
    assert steps % 32 == 0 and steps >= 250
    assert all(count % 32 == 0 for _, count in machine.calls)


def test_blocks_are_timed_in_turns():
    machine = Machine({ONE: 0.1, EIGHT: 0.3})
    found = throughput.time_blocks(machine.runners(), {ONE: 5, EIGHT: 2}, blocks=4)
    assert [round(block["seconds_per_step"], 9) for block in found[ONE]] == [0.1] * 4
    assert [round(block["seconds"], 9) for block in found[EIGHT]] == [0.6] * 4
    rounds = [machine.calls[index : index + 2] for index in range(0, 8, 2)]
    assert all(Counter(each) == Counter([(ONE, 5), (EIGHT, 2)]) for each in rounds)


def test_a_disturbed_block_is_repeated_and_flagged_where_that_does_not_help():
    machine = Machine({EIGHT: 0.1})
    others = iter([0.9, 0.0, 0.9, 0.8, 0.7, 0.1, 0.0])

    def foreign():
        value = next(others)
        return lambda: value

    found = throughput.time_blocks(machine.runners(), {EIGHT: 1}, 4, foreign)[EIGHT]
    assert [block["repeats"] for block in found] == [1, 2, 0, 0]
    assert [block["disturbed"] for block in found] == [False, True, False, False]
    assert [block["foreign_cores"] for block in found] == [0.0, 0.7, 0.1, 0.0]
    assert len(machine.calls) == 7


def test_blocks_are_surrounded():
    turns = []

    def around(turn):
        turns.append(turn)
        return contextlib.nullcontext()

    machine = Machine({ONE: 0.1, EIGHT: 0.3})
    throughput.time_blocks(machine.runners(), {ONE: 1, EIGHT: 1}, 3, around=around)
    assert turns == [turn for turn, _ in machine.calls]


@pytest.mark.slow
def test_a_delay_takes_turns_with_none(digits, tmp_path):
    """Every batch size is timed with its delay and without it, in one job."""
    dataset = run_name().split("+")[0]
    with_digits(digits, tmp_path)
    delay, output = 0.02, tmp_path / "record.json"
    sweep = f"{dataset}+small_cnn+bs=4_16+opt=sgd+dev=cpu+th=1+loop=function+delay={delay}"
    births = measure_settings.parse_settings("throughput", "default")
    settings = {**births, "blocks": 10, "block_seconds": 0.05}
    place = ("--sweep", sweep, "--settings", measure_settings.settings_name("throughput", settings))
    words = ("--results", str(tmp_path), *place, "--output", str(output), "--model-file")
    assert door("throughput", *words).wait() == 0
    sizes = json.loads(output.read_text())["sizes"]
    assert [size["batch_size"] for size in sizes] == [4, 16]
    for size in sizes:
        assert len(size["blocks"]) == len(size["blocks_without_delay"]) == 10
        assert min(block["seconds_per_step"] for block in size["blocks"]) > delay
        assert size["utilisation"]["process_percent"] > 0
    without, delayed = (
        np.array([[block["seconds_per_step"] for block in size[name]] for size in sizes])
        for name in ("blocks_without_delay", "blocks")
    )
    # Whatever else the machine does meanwhile: a sleep ends late and never early, and caches cool.
    assert np.median(delayed - without) > 0.9 * delay


def test_without_a_delay_every_size_has_one_turn():
    sweep = sweep_names.parse("digits-1f0a93c2+small_cnn+bs=4_16+opt=sgd+dev=cpu+th=1+loop=eager")
    assert throughput.turns(sweep) == [(4, True), (16, True)]
