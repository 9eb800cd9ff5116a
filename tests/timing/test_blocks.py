"""Blocks: turns, warm-up, disturbed blocks, batch sizes that end, and one real sweep."""

import json
from collections import Counter

import numpy as np
import pytest

from batchscope.study import names
from batchscope.timing import blocks, throughput
from batchscope.timing.blocks import Turn
from batchscope.timing.instruments import processes
from batchscope.timing.instruments.sampler import Sampler
from digit_runs import door, run_name, with_digits

ONE, EIGHT = Turn(1), Turn(8)


class Machine:
    """A machine that takes `seconds` per step, and notes what it was asked to run."""

    def __init__(self, seconds: dict[Turn, float], late: float = 0.0) -> None:
        self.seconds, self.late = seconds, late
        self.calls: list[tuple[Turn, int]] = []

    def runner(self, turn: Turn):
        def run(steps: int) -> float:
            self.calls.append((turn, steps))
            return steps * self.seconds[turn] + (self.late if len(self.calls) == 1 else 0.0)

        return run

    def timed(self):
        """What times 5 steps of batch size 1, or 2 of another."""
        return {
            turn: lambda turn=turn: throughput.block(self.runner(turn), 5 if turn == ONE else 2)
            for turn in self.seconds
        }


def test_every_round_has_every_turn_once_and_those_of_a_size_next_to_each_other():
    turns = [Turn(size, delayed) for delayed in (True, False) for size in range(1, 31)]
    found = list(blocks.rounds(turns, 6, 1))
    assert [sorted(order) for order in found] == [sorted(turns)] * 6
    assert len({tuple(turn.batch_size for turn in order) for order in found}) == 6
    assert found == list(blocks.rounds(turns, 6, 1))
    assert found[0] != next(blocks.rounds(turns, 6, 2))  # another job's order
    for order in found:
        pairs = list(zip(order[::2], order[1::2], strict=True))
        assert all(one.batch_size == other.batch_size for one, other in pairs)
        assert 3 < sum(one.delayed for one, _ in pairs) < 27


@pytest.mark.parametrize("seconds", [1e-5, 3e-3, 2.0])
def test_a_block_takes_at_least_what_is_asked(seconds):
    machine = Machine({EIGHT: seconds}, late=5.0)
    steps = blocks.calibrate(machine.runner(EIGHT), block_seconds=0.25)
    # No more than twice too long, beyond what one step takes.
    assert 0.25 <= steps * seconds <= max(0.5, seconds) * 1.2
    # What the first call takes is no warm-up.
    counted = machine.calls[1:]
    assert sum(count * seconds for _, count in counted) >= blocks.WARM_UP_SECONDS
    assert len(counted) < 60 and sum(count for _, count in counted) >= 3


def test_blocks_are_whole_calls():
    machine = Machine({EIGHT: 1e-3})
    steps = blocks.calibrate(machine.runner(EIGHT), block_seconds=0.25, unit=32)
    assert steps % 32 == 0 and steps >= 250
    assert all(count % 32 == 0 for _, count in machine.calls)
    assert [blocks.rounded_up(steps, 32) for steps in (1, 32, 32.5)] == [32, 32, 64]


def quiet(monkeypatch, others=()):
    """Lets others take so many cores in block after block."""
    given = iter(others)
    monkeypatch.setattr(processes, "foreign_cores", lambda *_: next(given, 0.0))


def test_blocks_are_timed_in_turns(monkeypatch):
    quiet(monkeypatch)
    machine = Machine({ONE: 0.1, EIGHT: 0.3})
    with Sampler(None) as sampler:
        found, ended = blocks.time_blocks(machine.timed(), 4, sampler)
    assert not ended and {*sampler.phases} == {("batch_size", 1), ("batch_size", 8)}
    assert [block["seconds_per_step"] for block in found[ONE]] == pytest.approx([0.1] * 4)
    assert [block["seconds"] for block in found[EIGHT]] == pytest.approx([0.6] * 4)
    rounds = [machine.calls[index : index + 2] for index in range(0, 8, 2)]
    assert all(Counter(each) == Counter([(ONE, 5), (EIGHT, 2)]) for each in rounds)


def test_a_disturbed_block_is_repeated_and_flagged_where_that_does_not_help(monkeypatch):
    quiet(monkeypatch, [0.9, 0.0, 0.9, 0.8, 0.7, 0.1, 0.0])
    machine = Machine({EIGHT: 0.1})
    with Sampler(None) as sampler:
        found, _ = blocks.time_blocks(machine.timed(), 4, sampler)
    assert [block["repeats"] for block in found[EIGHT]] == [1, 2, 0, 0]
    assert [block["disturbed"] for block in found[EIGHT]] == [False, True, False, False]
    assert [block["foreign_cores"] for block in found[EIGHT]] == [0.0, 0.7, 0.1, 0.0]
    assert len(machine.calls) == 7


def test_an_error_of_a_batch_size_ends_it_alone_and_a_failure_all(monkeypatch):
    quiet(monkeypatch)
    timed = Machine({ONE: 0.1, EIGHT: 0.3}).timed()
    errors = iter([MemoryError("of eight")])

    def refused():
        raise next(errors, ValueError("no batch size's own"))

    timed[EIGHT] = refused
    with Sampler(None) as sampler:
        found, ended = blocks.time_blocks(timed, 3, sampler)
        assert ended == {EIGHT: "out_of_memory"} and {*found} == {ONE} and len(found[ONE]) == 3
        with pytest.raises(ValueError, match="no batch size's own"):
            blocks.time_blocks(timed, 3, sampler)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (blocks.NonFiniteLoss("The loss"), "diverged"),
        (MemoryError(), "out_of_memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out_of_memory"),
        (RuntimeError("ran out of memory. This is not a failure, but"), None),
        (RuntimeError("shapes differ"), None),
    ],
)
def test_what_an_error_says_of_a_batch_size(error, status):
    if status:
        assert blocks.error_status(error) == status
    else:
        with pytest.raises(type(error)):
            blocks.error_status(error)


@pytest.mark.slow
def test_a_delay_takes_turns_with_none(digits, tmp_path):
    """Every batch size is timed with its delay and without it, in one job."""
    dataset = run_name().split("+")[0]
    with_digits(digits, tmp_path)
    delay, output = 0.02, tmp_path / "record.json"
    sweep = f"{dataset}+small_cnn+bs=4_16+opt=sgd+dev=cpu+th=1+loop=function+delay={delay}"
    defaults = names.parse_settings("throughput", "default")
    settings = {**defaults, "blocks": 10, "block_seconds": 0.05}
    place = ("--sweep", sweep, "--settings", names.settings_name("throughput", settings))
    words = ("--results", str(tmp_path), *place, "--output", str(output), "--model-file")
    assert door("throughput", *words).wait() == 0
    sizes = json.loads(output.read_text())["sizes"]
    assert [size["batch_size"] for size in sizes] == [4, 16]
    for size in sizes:
        assert len(size["blocks"]) == len(size["blocks_without_delay"]) == 10
        assert size["utilisation"]["process_percent"] > 0
    without, delayed = (
        np.array([[block["seconds_per_step"] for block in size[name]] for size in sizes])
        for name in ("blocks_without_delay", "blocks")
    )
    # Whatever else the machine does meanwhile: a sleep ends late and never early, and caches cool.
    assert delayed.min() > delay and np.median(delayed - without) > 0.9 * delay
