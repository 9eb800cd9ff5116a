"""The largest batch that fits: the search, and children that die in every way they can."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from batchscope import records
from batchscope.timing import largest
from batchscope.timing.largest import Limits, Try

LIBRARY = Path(__file__).resolve().parents[1] / "workflow"
ROOMY = Limits("cpu", 0, 4000.0)


class Machine:
    """Fits up to a size; remembers what it was asked."""

    def __init__(self, most: int, outcome: str = largest.OVER_LIMIT) -> None:
        self.most, self.outcome = most, outcome
        self.asked: list[int] = []

    def __call__(self, size: int) -> Try:
        self.asked.append(size)
        return Try(size, largest.FITS if size <= self.most else self.outcome)


@pytest.mark.parametrize(("start", "step"), [(1, 1), (3, 1), (1, 2), (4, 4), (5, 3)])
def test_the_exact_largest_is_found(start, step):
    for most in range(200):
        machine = Machine(most)
        found = largest.search(machine, start, step=step, resolution=0)
        sizes = range(start, most + 1, step)
        assert found.largest == (sizes[-1] if sizes else 0)
        assert found.refused == (sizes[-1] + step if sizes else start)
        assert found.stopped == ("resolved" if sizes else "nothing_fits")
        assert [entry.batch_size for entry in found.tries] == machine.asked
        assert len(set(machine.asked)) == len(machine.asked) <= 2 * math.log2(most + 2) + 2


def test_doubling_then_halving():
    machine = Machine(21)
    assert largest.search(machine, resolution=0).largest == 21
    assert machine.asked == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


def test_the_search_ends_at_its_resolution():
    for most in (5, 31, 32, 33, 100, 1000, 123_456):
        for resolution in (1 / 32, 0.5):
            found = largest.search(Machine(most), resolution=resolution)
            assert found.largest <= most < found.refused
            assert found.refused - found.largest <= max(1, found.largest * resolution)
    machine = Machine(123_456)
    largest.search(machine)
    assert len(machine.asked) == 18 + 5  # up to 2^17, then five halvings for a 32nd


@pytest.mark.parametrize("most", [1, 2, 7, 8, 9, 100])
def test_the_largest_size_that_may_be_tried(most):
    machine = Machine(10**9)
    found = largest.search(machine, most=most)
    assert (found.largest, found.refused, found.stopped) == (most, None, "most_fits")
    assert max(machine.asked) == most
    # One below the bound is found too.
    assert largest.search(Machine(most - 1), most=most, resolution=0).largest == most - 1
    assert largest.search(Machine(10**9), 2, most=most + 2, step=3).largest <= most + 2


@pytest.mark.parametrize("outcome", [largest.OUT_OF_MEMORY, largest.OVER_LIMIT, largest.KILLED])
def test_every_way_not_to_fit_counts(outcome):
    found = largest.search(Machine(11, outcome), resolution=0)
    assert found.largest == 11
    assert {entry.outcome for entry in found.tries} == {"fits", outcome}
    nothing = largest.search(Machine(0, outcome))
    assert (nothing.largest, nothing.stopped, len(nothing.tries)) == (0, "nothing_fits", 1)


def test_a_failure_ends_the_search():
    found = largest.search(Machine(10, largest.FAILED))
    assert (found.largest, found.refused, found.stopped) == (8, None, "failed")
    assert [entry.outcome for entry in found.tries] == ["fits"] * 4 + ["failed"]


def test_answers_that_are_not_monotone_end_too():
    for seed in range(200):
        random = np.random.default_rng(seed)

        def fits(size: int, random: np.random.Generator = random) -> Try:
            return Try(size, largest.FITS if random.random() < 0.7 else largest.KILLED)

        found = largest.search(fits, most=10**6, resolution=0)
        assert len(found.tries) < 50
        outcomes = {entry.batch_size: entry.outcome for entry in found.tries}
        assert outcomes.get(found.largest, "fits") == "fits"
        assert outcomes.get(found.refused, "killed") == "killed"


@pytest.mark.parametrize(
    "options", [{"start": 0}, {"step": 0}, {"start": 8, "most": 7}, {"resolution": -0.1}]
)
def test_arguments_out_of_range(options):
    with pytest.raises(ValueError, match=r"search: received .*expected"):
        largest.search(Machine(5), **options)


def test_memory_per_image_of_a_line():
    # 500 + 0.25 b, under a floor of 510 that starting takes, and what did not fit.
    sizes = (1, 2, 16, 64, 128, 256, 400)
    tries = [Try(size, largest.FITS, max(510.0, 500 + 0.25 * size), 505.0) for size in sizes]
    tries += [Try(512, largest.OVER_LIMIT, 9000.0), Try(450, largest.FITS, None)]
    fixed, each = largest.memory_per_image(tries)
    assert fixed == pytest.approx(500)
    assert each == pytest.approx(0.25)


def test_memory_per_image_that_cannot_be_told():
    flat = [Try(size, largest.FITS, 510.0 + size / 10) for size in (1, 2, 4, 8, 16)]
    assert all(map(math.isnan, largest.memory_per_image(flat)))
    two = [Try(1, largest.FITS, 510.0), Try(64, largest.FITS, 530.0)]
    assert all(map(math.isnan, largest.memory_per_image(two)))
    assert all(map(math.isnan, largest.memory_per_image([])))


def test_limits():
    assert Limits("cpu", 0, 900.0).memory_mb == Limits("cpu", 0, 900.0).host_mb == 900
    assert Limits("cpu", 200, 900.0).memory_mb == Limits("cpu", 200, 900.0).host_mb == 200
    # What is not free cannot be given.
    assert Limits("cpu", 5000, 900.0).memory_mb == 900
    assert (Limits("gpu", 0, 900.0).memory_mb, Limits("gpu", 0, 900.0).host_mb) == (None, 900)
    assert Limits("gpu", 5000, 900.0).memory_mb == 5000
    now = largest.limits_now("cpu", 123)
    assert now.memory_mb == 123
    assert 0 < now.free_mb <= 0.91 * psutil.virtual_memory().total / 10**6


def group(folder: Path, names: tuple[str, str], limit: object, used: int, stat: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip((*names, "memory.stat"), (limit, used, stat), strict=True):
        (folder / name).write_text(f"{value}\n")


def test_control_groups_of_version_2(tmp_path):
    files = ("memory.max", "memory.current")
    group(
        tmp_path / "job", files, 1000 * 10**6, 300 * 10**6, f"anon 1\ninactive_file {100 * 10**6}"
    )
    group(tmp_path / "job" / "step", files, "max", 10**6, "inactive_file 0")
    found = list(largest._free_in_groups("0::/job/step\n", tmp_path))
    assert found == [800]
    group(tmp_path / "job" / "step", files, 500 * 10**6, 10**6, "inactive_file 0")
    assert sorted(largest._free_in_groups("0::/job/step\n", tmp_path)) == [499, 800]
    # Full is none, never less; a path that is not there (a container's) leaves the root.
    group(tmp_path, files, 10 * 10**6, 11 * 10**6, "inactive_file 0")
    assert list(largest._free_in_groups("0::/not/here\n", tmp_path)) == [0]


def test_control_groups_of_version_1(tmp_path):
    files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    stat = f"inactive_file 7\ntotal_inactive_file {50 * 10**6}"
    group(tmp_path / "memory" / "job", files, 400 * 10**6, 150 * 10**6, stat)
    text = "9:name=systemd:/x\n4:cpu,memory:/job\n1:cpu:/\n0::/\n"
    assert list(largest._free_in_groups(text, tmp_path)) == [300]


def script(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_a_child_that_answers():
    reply = {"outcome": "fits", "peak_mb": 321.5, "baseline_mb": 300.0, "message": ""}
    code = f"print('a library says hello'); print({json.dumps(reply)!r}); print('bye')"
    found = largest.attempt(script(code), 8, ROOMY)
    assert (found.batch_size, found.outcome, found.message) == (8, "fits", "")
    assert (found.peak_mb, found.baseline_mb) == (321.5, 300.0)
    assert found.seconds > 0
    # A peak between two looks of the parent.
    found = largest.attempt(script(code), 8, Limits("cpu", 200, 4000.0))
    assert (found.outcome, found.peak_mb) == ("over_limit", 321.5)
    assert "peak was 322 MB" in found.message and "200 MB" in found.message


def test_a_child_that_the_kernel_kills():
    code = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    found = largest.attempt(script(code), 8, ROOMY)
    assert found.outcome == "killed"
    assert "SIGKILL" in found.message


BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'"
TENSORFLOW = (
    "W0000 00:00:1795253110.059765   19467 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 "
    ": RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[512,64]"
)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os.abort()", BAD_ALLOC),
        ("os.kill(os.getpid(), 11)", TENSORFLOW),
        ("raise MemoryError", "MemoryError"),
        ("sys.exit(1)", "numpy: Unable to allocate 4.58 GiB for an array"),
    ],
)
def test_a_child_whose_allocator_refuses(end, said):
    code = f"import os, sys; print({said!r}, file=sys.stderr, flush=True); {end}"
    found = largest.attempt(script(code), 8, ROOMY)
    assert found.outcome == "out_of_memory"
    assert found.message == said.partition("cc:1858] ")[2] or found.message == said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no such data set')", "status 1: ValueError: no such data set"),
        ("import os; os.abort()", "ended by signal 6: nothing on stderr"),
        ("print('hello')", "status 0: nothing on stderr"),
        ('print(\'{"outcome": "fits"}\'); raise SystemExit(3)', "status 3"),
        (
            "import sys; sys.exit('Allocator (GPU_0_bfc) ran out of memory. The caller indicates '"
            "'that this is not a failure, but this may mean')",
            "status 1",
        ),
    ],
)
def test_a_child_with_another_error(code, said):
    found = largest.attempt(script(code), 8, ROOMY)
    assert found.outcome == "failed"
    assert said in found.message


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


@pytest.mark.parametrize("who", ["itself", "parent"])
def test_a_child_above_the_limit_is_ended(tmp_path, who):
    pids = tmp_path / "pids"
    command = script(GREEDY, str(pids), who, GREEDY)
    found = largest.attempt(command, 8, Limits("cpu", 200, 4000.0))
    assert found.outcome == "over_limit"
    assert 200 < found.peak_mb < 500
    assert "at most 200 MB" in found.message
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == (2 if who == "parent" else 1)
    assert not any(alive(pid) for pid in started)


FORKED = """
import json, os, time
held = bytearray(b"x") * (150 * 10**6)
if os.fork() == 0:
    more = bytearray(b"x") * (5 * 10**6)
    time.sleep(0.5)
    os._exit(0)
os.wait()
print(json.dumps({"outcome": "fits"}))
"""


def test_memory_that_two_processes_share_counts_once(monkeypatch):
    # Each of them has 160 MB; together they do not have 320.
    found = largest.attempt(script(FORKED), 8, Limits("cpu", 260, 4000.0))
    assert found.outcome == "fits", found.message
    assert 150 < found.peak_mb < 260
    # Between vfork and exec, a process is there twice.
    twice = [psutil.Process(), psutil.Process()]
    monkeypatch.setattr(largest, "_family", lambda pid: twice)
    held = np.ones(200 * 10**6, np.uint8)
    once = psutil.Process().memory_info().rss / 10**6
    assert 200 < largest._resident_mb(0) < 1.3 * once
    assert held[-1] == 1


def alive(pid: int) -> bool:
    for _ in range(50):  # whoever inherits a dead process may take a moment to bury it
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.1)
    return True


def test_a_child_that_never_ends():
    found = largest.attempt(script("import time; time.sleep(60)"), 8, ROOMY, timeout=0.5)
    assert found.outcome == "failed"
    assert "longer than" in found.message
    assert found.seconds < 10


def test_a_child_gives_way_to_all_others_and_does_not_outlive_its_parent():
    inner = (
        f"import sys, time; sys.path.insert(0, {str(LIBRARY)!r});"
        "from batchscope.timing import largest; largest._give_way();"
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
    "dataset": LARGE,
    "model": "small_cnn",
    "optimizer": "adam",
    "momentum": 0.0,
    "nesterov": False,
    "device": "cpu",
    "threads": 1,
    "replicas": 1,
    "augmentation": "none",
    "method": "plain",
    "inner_steps": 5,
}


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A results folder with a few images, so large that some hundred of them are felt."""
    results = tmp_path_factory.mktemp("large")
    folder = records.dataset_folder(results, LARGE)
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    counts = {"train": 20, "validation": 5, "test": 5}
    for split, count in counts.items():
        images = random.integers(0, 255, (count, 128, 128, 3), np.uint8)
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", random.integers(0, 3, count).astype(np.int32))
    record = {"dataset": LARGE, "scale": 1 / 255, "classes": 3, "counts": counts}
    records.write_json(folder / "record.json", record | {"input_shape": [128, 128, 3]})
    return results


def try_batch(results: Path, size: int, memory_mb: float | None, slack_mb: float = 1024):
    code = (
        f"import sys; sys.path.insert(0, {str(LIBRARY)!r})\n"
        "from batchscope.timing import largest\n"
        f"largest.child({str(results)!r}, {FACTORS!r}, {size}, {memory_mb!r}, None, {slack_mb!r})"
    )
    return script(code)


def test_the_operating_system_refuses_what_is_far_beyond_the_limit(large):
    # 5 GB of pixels at once: refused before a byte of it is touched.
    command = try_batch(large, 100_000, 700, slack_mb=64)
    found = largest.attempt(command, 100_000, ROOMY)
    assert found.outcome == "out_of_memory"
    assert "Unable to allocate" in found.message
    assert 100 < found.baseline_mb <= found.peak_mb < 1500


@pytest.mark.slow
def test_tensorflow_may_crash_where_memory_is_refused(large):
    command = try_batch(large, 512, 700, slack_mb=64)
    found = largest.attempt(command, 512, ROOMY)
    assert found.outcome == "out_of_memory"
    assert "ran out of memory" in found.message or "OOM when allocating" in found.message


@pytest.mark.slow
def test_a_real_search(large):
    alone = largest.attempt(try_batch(large, 1, None), 1, ROOMY)
    assert alone.outcome == "fits", alone.message
    limits = Limits("cpu", round(alone.peak_mb) + 150, 4000.0)
    found = largest.find(
        lambda size: try_batch(large, size, limits.memory_mb),
        limits,
        start=64,
        most=4096,
        step=32,
        resolution=0.5,
    )
    assert found.stopped == "resolved", found.tries[-1].message
    assert 1 < found.largest < found.refused <= 1.5 * found.largest
    for entry in found.tries:
        assert (entry.outcome == "fits") == (entry.batch_size <= found.largest)
        assert entry.outcome != "fits" or entry.peak_mb <= limits.memory_mb
    fixed, each = largest.memory_per_image([alone, *found.tries])
    # An image and its gradient's way back: 3 x 128 x 128 x 4 bytes, and no more than 30 of them.
    assert 0.19 < each < 6
    assert fixed + each * found.largest < limits.memory_mb + 20
    assert fixed + each * found.refused > limits.memory_mb - 20
