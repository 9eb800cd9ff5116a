"""The largest batch that fits: the search, and children that die in every way they can."""

import itertools
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from batchscope import disk
from batchscope.host import memory_limits
from batchscope.store import paths
from batchscope.study import run_factors
from batchscope.timing import attempts
from batchscope.timing.attempts import MemoryLimits, Try
from batchscope.timing.instruments.sampler import Sampler
from batchscope.timing.max_batch_size import search
from project import ROOT

ROOMY = MemoryLimits("cpu", 0, 4000.0)


class Machine:
    """Fits up to a size; remembers what it was asked."""

    def __init__(self, most: int, outcome: str = attempts.OVER_LIMIT) -> None:
        self.most, self.outcome = most, outcome
        self.asked: list[int] = []

    def __call__(self, size: int) -> Try:
        self.asked.append(size)
        return Try(size, attempts.FITS if size <= self.most else self.outcome)


@pytest.mark.parametrize("step", [1, 5])
def test_the_exact_largest_is_found(step):
    for most in range(200):
        machine = Machine(most)
        found = search(machine, 10**9, step, resolution=0)
        assert found.largest == most // step * step
        assert found.refused == found.largest + step
        assert found.bound == ("resolved" if most >= step else "nothing_fits")
        assert [entry.batch_size for entry in found.tries] == machine.asked
        assert len(set(machine.asked)) == len(machine.asked) <= 2 * math.log2(most + 2) + 2


def test_the_search_ends_at_its_resolution():
    for most in (5, 31, 32, 33, 1000, 123_456):
        for resolution in (1 / 32, 0.5):
            found = search(Machine(most), 10**9, resolution=resolution)
            assert found.largest <= most < found.refused
            assert found.refused - found.largest <= max(1, found.largest * resolution)
    machine = Machine(21)
    search(machine, 1000, resolution=0)
    assert machine.asked == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


@pytest.mark.parametrize("most", [1, 2, 7, 100])
def test_the_largest_size_that_may_be_tried(most):
    machine = Machine(10**9)
    found = search(machine, most)
    assert found[:3] == (most, None, "most_fits") and max(machine.asked) == most
    # One below the bound is found too.
    assert search(Machine(most - 1), most, resolution=0).largest == most - 1
    assert search(Machine(10**9), most + 2, 3).largest == (most + 2) // 3 * 3


@pytest.mark.parametrize("outcome", [attempts.OUT_OF_MEMORY, attempts.KILLED, attempts.FAILED])
def test_every_way_not_to_fit_counts_and_a_failure_ends_the_search(outcome):
    found, failed = search(Machine(11, outcome), 100, resolution=0), outcome == attempts.FAILED
    assert found[:3] == ((8, None, "failed") if failed else (11, 12, "resolved"))
    assert {entry.outcome for entry in found.tries} == {"fits", outcome}


def test_answers_that_are_not_monotone_end_too():
    for seed in range(50):
        random = np.random.default_rng(seed)

        def fits(size: int, random: np.random.Generator = random) -> Try:
            return Try(size, attempts.FITS if random.random() < 0.7 else attempts.KILLED)

        found = search(fits, 10**6, resolution=0)
        assert len(found.tries) < 50
        outcomes = {entry.batch_size: entry.outcome for entry in found.tries}
        assert outcomes.get(found.largest, "fits") == "fits"
        assert outcomes.get(found.refused, "killed") == "killed"


def test_free_memory_is_what_every_control_group_leaves(monkeypatch):
    class Group:
        def __init__(self, free):
            self.free = free

    assert 0 < attempts.limits_now("cpu", 0).free_mb <= 0.9 * psutil.virtual_memory().total / 10**6
    groups = [Group(None), Group(3 * 10**6), Group(2 * 10**6)]
    monkeypatch.setattr(memory_limits, "control_groups", lambda: groups)
    assert attempts.limits_now("cpu", 0).memory_mb == pytest.approx(1.8)


def script(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_a_child_that_answers():
    reply = {"outcome": "fits", "peak_mb": 321.5, "message": ""}
    code = f"print('a library says hello'); print({json.dumps(reply)!r}); print('bye')"
    found = attempts.attempt(script(code), 8, ROOMY)
    assert (found.batch_size, found.outcome, found.message) == (8, "fits", "")
    assert found.peak_mb == 321.5
    # A peak between two looks of the parent.
    found = attempts.attempt(script(code), 8, MemoryLimits("cpu", 200, 4000.0))
    assert (found.outcome, found.peak_mb) == ("over_limit", 321.5)
    assert "322 MB" in found.message and "200 MB" in found.message


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
    found = attempts.judge(status, {}, stderr)
    assert found[0] == outcome and message in found[1]


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
    found = attempts.attempt(command, 8, MemoryLimits("cpu", 200, 4000.0))
    assert found.outcome == "over_limit" and 200 < found.peak_mb < 500
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2 and not any(map(alive, started))


@pytest.mark.slow
def test_a_child_that_takes_too_long_is_ended():
    code = "import time; held = bytearray(b'x') * (140 * 10**6); time.sleep(60)"
    found = attempts.attempt(script(code), 8, ROOMY, timeout=1.0)
    assert found.outcome == "failed" and "longer than 1 s" in found.message
    assert found.utilisation["memory_peak_mb"] > 120 and found.seconds < 10


@pytest.mark.parametrize("fails", [1, 3])
def test_no_child_is_left_behind_by_an_error_of_its_parent(tmp_path, monkeypatch, fails):
    pids, calls = tmp_path / "pids", itertools.count(1)

    def sample(self):
        while not pids.exists() or not pids.read_text():
            time.sleep(0.02)
        if next(calls) >= fails:
            raise KeyboardInterrupt
        return {"memory_mb": 1.0}

    monkeypatch.setattr(Sampler, "sample", sample)
    code = f"import os, time; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        attempts.attempt(script(code), 8, ROOMY)
    assert not alive(int(pids.read_text()))


def alive(pid: int) -> bool:
    for _ in range(50):  # whoever inherits a dead process may take a moment to bury it
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.slow
def test_a_child_gives_way_to_all_others_and_does_not_outlive_its_parent():
    inner = (
        f"import sys, time; sys.path.insert(0, {str(ROOT / 'workflow')!r});"
        "from batchscope.timing import attempts; attempts.give_way();"
        "print(open('/proc/self/oom_score_adj').read().strip(), flush=True); time.sleep(60)"
    )
    outer = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', sys.argv[1]]); print(p.pid, flush=True);"
        "p.wait()"
    )
    parent = subprocess.Popen(script(outer, inner), stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline().strip() == "1000"
    finally:
        parent.kill()
        parent.wait()
    assert not alive(pid)


LARGE = "large-0123abcd"
FACTORS = {
    **{
        name: each.default for name, each in run_factors.FACTORS.items() if each.default is not None
    },
    **{"dataset": LARGE, "model": "small_cnn", "optimizer": "adam"},
}


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A results folder with a few images, so large that some hundred of them are felt."""
    results = tmp_path_factory.mktemp("large")
    folder = paths.dataset_folder(results, LARGE)
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    counts = {"train": 20, "validation": 5, "test": 5}
    for split, count in counts.items():
        images = random.integers(0, 255, (count, 128, 128, 3), np.uint8)
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", random.integers(0, 3, count).astype(np.int32))
    sha256 = {path.name: disk.file_sha256(path) for path in folder.glob("*.npy")}
    record = {"dataset": LARGE, "scale": 1 / 255, "classes": 3, "counts": counts}
    disk.write_json(
        folder / "record.json", record | {"input_shape": [128, 128, 3], "sha256": sha256}
    )
    return results


def try_batch(results: Path, size: int, memory_mb: float | None, slack_mb: float = 1024):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'workflow')!r})\n"
        "from batchscope.study.names import Sweep\n"
        "from batchscope.timing import attempts\n"
        "from batchscope.timing.timing_job import TimingJob\n"
        f"job = TimingJob({str(results)!r}, Sweep({FACTORS!r}))\n"
        f"attempts.run(job, {size}, {memory_mb!r}, {slack_mb!r})"
    )
    return script(code)


@pytest.mark.slow
def test_a_real_search(large):
    """The operating system refuses 5 GB of pixels before a byte of them is touched."""
    refused = attempts.attempt(try_batch(large, 100_000, 700, slack_mb=64), 100_000, ROOMY)
    assert refused.outcome == "out_of_memory"
    assert 100 < refused.peak_mb < 1500
    alone = attempts.attempt(try_batch(large, 1, None), 1, ROOMY)
    assert alone.outcome == "fits", alone.message
    limits = MemoryLimits("cpu", round(alone.peak_mb) + 150, 4000.0)

    def fits(size: int) -> Try:
        return attempts.attempt(try_batch(large, size, limits.memory_mb), size, limits)

    found = search(fits, 4096, 32, resolution=0.5)
    assert found.bound == "resolved", found.tries[-1].message
    assert 1 < found.largest < found.refused <= 1.5 * found.largest
    known = [(each.batch_size, each.peak_mb) for each in found.tries if each.outcome == "fits"]
    known.append((1, alone.peak_mb))
    assert max(peak for _, peak in known) <= limits.memory_mb
    each, fixed = np.polyfit(*zip(*known, strict=True), 1)
    # An image and its gradient's way back: 3 x 128 x 128 x 4 bytes, and no more than 30 of them.
    assert 0.19 < each < 6
    assert abs(fixed + each * found.largest - limits.memory_mb) < each * found.largest / 2 + 20
