"""The largest batch that fits: the search, and children that end in every way."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import measured_run
from batchscope.host import memory_limits
from batchscope.study import names
from batchscope.timing import max_batch_size
from batchscope.timing.max_batch_size import Try, search
from batchscope.timing.samples import ProcessTree
from batchscope.timing.timing_job import TimingJob
from project import ROOT, wait_for

FACTORS = measured_run.timing_factors(
    dataset=measured_run.DATASET, model="small_cnn", optimizer="adam"
)
ROOMY, SMALL = 4000.0, 200.0  # limits in MB


class Machine:
    """Fits up to a size; remembers what it was asked."""

    def __init__(self, most: int, outcome: str = max_batch_size.OVER_LIMIT) -> None:
        self.most, self.outcome = most, outcome
        self.asked: list[int] = []

    def __call__(self, size: int) -> Try:
        self.asked.append(size)
        return Try(size, max_batch_size.FITS if size <= self.most else self.outcome)


@pytest.mark.parametrize("step", [1, 5])
def test_the_exact_largest_is_found(step):
    for most in range(200):
        machine = Machine(most)
        result = search(machine, 10**9, step, resolution=0)
        assert result.largest == most // step * step
        assert result.bound == ("resolved" if most >= step else "nothing_fits")
        assert [entry.batch_size for entry in result.tries] == machine.asked
        assert len(set(machine.asked)) == len(machine.asked) <= 2 * math.log2(most + 2) + 2
    machine = Machine(21)
    search(machine, 1000, resolution=0)
    assert machine.asked == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


def test_the_search_ends_at_its_resolution():
    for most in (5, 31, 32, 33, 1000, 123_456):
        result = search(Machine(most), 10**9, resolution=0.5)
        refused = min(entry.batch_size for entry in result.tries if entry.outcome != "fits")
        assert result.largest <= most < refused
        assert refused - result.largest <= max(1, result.largest * 0.5)


@pytest.mark.parametrize("most", [1, 2, 7, 100])
def test_the_largest_size_that_may_be_tried(most):
    machine = Machine(10**9)
    assert search(machine, most)[:2] == (most, "most_fits") and max(machine.asked) == most
    assert search(Machine(10**9), most + 2, 3).largest == (most + 2) // 3 * 3


@pytest.mark.parametrize("outcome", [max_batch_size.OUT_OF_MEMORY, max_batch_size.FAILED])
def test_every_way_not_to_fit_counts_and_a_failure_ends_the_search(outcome):
    result = search(Machine(11, outcome), 100, resolution=0)
    assert result[:2] == ((8, "failed") if outcome == max_batch_size.FAILED else (11, "resolved"))


def test_free_memory_is_what_every_control_group_leaves(monkeypatch):
    assert 0 < max_batch_size.free_memory_mb() <= 0.9 * psutil.virtual_memory().total / 10**6
    groups = [SimpleNamespace(free=free) for free in (None, 3 * 10**6, 2 * 10**6)]
    monkeypatch.setattr(memory_limits, "control_groups", lambda: groups)
    assert max_batch_size.free_memory_mb() == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("device", "limit_mb", "allowed_mb", "recorded_mb"),
    [("cpu", 0, 900, 900), ("cpu", 500, 500, 500), ("gpu", 0, 900, None), ("gpu", 5000, 900, 5000)],
)
def test_the_limit_is_of_the_devices_memory(device, limit_mb, allowed_mb, recorded_mb, monkeypatch):
    def attempt(command, size, max_mb, on_gpu):
        assert (max_mb, on_gpu) == (allowed_mb, device == "gpu")
        assert command[-4:-2] == (
            ["--gpu-mb", str(limit_mb)] if on_gpu else ["--sweep", sweep.name]
        )
        return Try(size, max_batch_size.FITS)

    monkeypatch.setattr(max_batch_size, "try_in_child", attempt)
    monkeypatch.setattr(max_batch_size, "free_memory_mb", lambda: 900)
    sweep = names.Sweep({**FACTORS, "device": device})
    settings = {"limit_mb": limit_mb, "most": 1, "resolution": 0}
    timed = max_batch_size.measure(TimingJob("results", sweep, None, Path("record")), settings)
    assert timed.details["limit_mb"] == recorded_mb


def script(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_a_child_that_replies():
    reply = json.dumps({"outcome": "fits", "peak_mb": 321.5, "message": ""})
    command = script(f"import sys; open(sys.argv[-1], 'w').write({reply!r})")
    done = max_batch_size.try_in_child(command, 8, ROOMY)
    assert (done.batch_size, done.outcome, done.message, done.peak_mb) == (8, "fits", "", 321.5)
    # A peak that the parent did not see.
    done = max_batch_size.try_in_child(command, 8, SMALL)
    assert (done.outcome, done.peak_mb) == ("over_limit", 321.5)
    assert "322 MB" in done.message and "200 MB" in done.message


BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'"
TENSORFLOW = "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[512,64]"
LOGGED = f"W0000 00:00:1795253110.059765   19467 op_kernel.cc:1858] {TENSORFLOW}"
NO_FAILURE = "ran out of memory. The caller indicates that this is not a failure, but this may"


@pytest.mark.parametrize(
    ("status", "stderr", "outcome", "message"),
    [
        (-6, BAD_ALLOC, "out_of_memory", BAD_ALLOC),
        (-11, LOGGED, "out_of_memory", TENSORFLOW),
        (1, "Traceback\nMemoryError", "out_of_memory", "MemoryError"),
        (1, "ValueError: no such data\n", "failed", "status 1: ValueError: no such data"),
        (-6, "", "failed", "signal 6: nothing on stderr"),
        (0, "MemoryError", "failed", "status 0: MemoryError"),
        (1, NO_FAILURE, "failed", "status 1"),
        (-9, "", "killed", "SIGKILL"),  # as the kernel does
    ],
)
def test_the_outcome_of_a_child_that_does_not_answer(status, stderr, outcome, message):
    result = max_batch_size.judge_exit(status, {}, stderr)
    assert result[0] == outcome and message in result[1]


# Takes 20 MB every 20 ms, up to 1.5 GB, in itself or in a child of its own.
GREEDY = """
import os, sys, time
open(sys.argv[1], "a").write(f"{os.getpid()} ")
if sys.argv[2] == "parent":
    import subprocess
    subprocess.run([sys.executable, "-c", sys.argv[3], sys.argv[1], "itself", ""])
    sys.exit()
held = []
while len(held) < 75:
    held.append(bytearray(b"x") * (20 * 10**6))
    time.sleep(0.02)
"""


@pytest.mark.slow
def test_a_child_above_the_limit_is_ended_with_its_own_children(tmp_path):
    pids = tmp_path / "pids"
    command = script(GREEDY, str(pids), "parent", GREEDY)
    result = max_batch_size.try_in_child(command, 8, SMALL)
    assert result.outcome == "over_limit" and 200 < result.peak_mb < 500
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    wait_for(lambda: all(map(has_ended, started)))


@pytest.mark.slow
def test_a_child_that_takes_too_long_is_ended(monkeypatch):
    """Its time is over when it holds its memory, however long that takes."""
    now, usage = [0.0], ProcessTree.usage

    def usage_until_timeout(self):
        seconds, memory_mb = usage(self)
        now[0] += max_batch_size.TIMEOUT_SECONDS + 1 if memory_mb > 140 else 0
        return seconds, memory_mb

    monkeypatch.setattr(ProcessTree, "usage", usage_until_timeout)
    monkeypatch.setattr(max_batch_size, "time", SimpleNamespace(monotonic=lambda: now[0]))
    code = "import time; held = bytearray(b'x') * (140 * 10**6); time.sleep(600)"
    result = max_batch_size.try_in_child(script(code), 8, ROOMY)
    assert result.outcome == "failed" and "longer than 1800 s" in result.message
    assert result.peak_mb > 140 and result.seconds == 1801


def test_no_child_outlives_an_error_of_its_parent(tmp_path, monkeypatch):
    pids = tmp_path / "pids"

    def usage(self):
        wait_for(lambda: pids.exists() and pids.read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(ProcessTree, "usage", usage)
    code = f"import os, time; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        max_batch_size.try_in_child(script(code), 8, ROOMY)
    wait_for(lambda: has_ended(int(pids.read_text())))


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_real_tries(tmp_path):
    """Of a data set of a few images, so large that some hundred of them are felt."""
    counts = {"train": 20, "validation": 5, "test": 5}
    measured_run.write_dataset(tmp_path, shape=(128, 128, 3), counts=counts)
    words = ("try_batch", "--results", str(tmp_path), "--sweep", names.Sweep(FACTORS).name)
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), *words, "--batch-size"]

    def try_batch(size):
        return max_batch_size.try_in_child([*command, str(size)], size, ROOMY)

    refused = try_batch(10**15)  # more bytes than there are addresses
    assert (refused.outcome, refused.peak_mb > 100) == ("out_of_memory", True), refused.message
    one, many = try_batch(1), try_batch(201)
    assert one.outcome == many.outcome == "fits", many.message
    # An image and its gradient's way back: 3 x 128 x 128 x 4 bytes, and no more than 30 of them.
    assert 0.19 < (many.peak_mb - one.peak_mb) / 200 < 6
