"""Children that try a batch size, and die in every way they can."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from batchscope import disk
from batchscope.analysis import step_cost
from batchscope.catalogue import run_factors
from batchscope.store import records
from batchscope.timing.instruments.sampler import Sampler
from batchscope.timing.largest import attempts, search
from batchscope.timing.largest.memory_limits import Limits
from fake_nvml import Nvml

LIBRARY = Path(__file__).resolve().parents[2] / "workflow"
ROOMY = Limits("cpu", 0, 4000.0)


def script(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_a_child_that_answers():
    reply = {"outcome": "fits", "peak_mb": 321.5, "baseline_mb": 300.0, "message": ""}
    code = f"print('a library says hello'); print({json.dumps(reply)!r}); print('bye')"
    found = attempts.attempt(script(code), 8, ROOMY)
    assert (found.batch_size, found.outcome, found.message) == (8, "fits", "")
    assert (found.peak_mb, found.baseline_mb) == (321.5, 300.0)
    assert found.seconds > 0
    # A peak between two looks of the parent.
    found = attempts.attempt(script(code), 8, Limits("cpu", 200, 4000.0))
    assert (found.outcome, found.peak_mb) == ("over_limit", 321.5)
    assert "peak was 322 MB" in found.message and "200 MB" in found.message


BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'"
TENSORFLOW = (
    "W0000 00:00:1795253110.059765   19467 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 "
    ": RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[512,64]"
)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("os.abort()", BAD_ALLOC),
        ("os.kill(os.getpid(), 11)", TENSORFLOW),
        ("raise MemoryError", "MemoryError"),
        ("sys.exit(1)", "numpy: Unable to allocate 4.58 GiB for an array"),
    ],
)
def test_a_child_whose_allocator_refuses(end, text):
    code = f"import os, sys; print({text!r}, file=sys.stderr, flush=True); {end}"
    found = attempts.attempt(script(code), 8, ROOMY)
    assert found.outcome == "out_of_memory"
    assert found.message == text.partition("cc:1858] ")[2] or found.message == text


@pytest.mark.parametrize(
    ("code", "outcome", "message"),
    [
        ("raise ValueError('no such data')", "failed", "status 1: ValueError: no such data"),
        ("import os; os.abort()", "failed", "ended by signal 6: nothing on stderr"),
        ("print('hello')", "failed", "status 0: nothing on stderr"),
        ('print(\'{"outcome": "fits"}\'); raise SystemExit(3)', "failed", "status 3"),
        (
            "import sys; sys.exit('Allocator (GPU_0_bfc) ran out of memory. The caller indicates '"
            "'that this is not a failure, but this may mean')",
            *("failed", "status 1"),
        ),
        # As the kernel does.
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", "SIGKILL"),
    ],
)
def test_a_child_with_another_end(code, outcome, message):
    found = attempts.attempt(script(code), 8, ROOMY)
    assert found.outcome == outcome
    assert message in found.message


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
@pytest.mark.slow
def test_a_child_above_the_limit_is_ended(tmp_path, who):
    pids = tmp_path / "pids"
    command = script(GREEDY, str(pids), who, GREEDY)
    found = attempts.attempt(command, 8, Limits("cpu", 200, 4000.0))
    assert found.outcome == "over_limit"
    assert 200 < found.peak_mb < 500
    assert "at most 200 MB" in found.message
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == (2 if who == "parent" else 1)
    assert not any(alive(pid) for pid in started)


BUSY = """
import os, signal, sys, time
held = bytearray(b"x") * (150 * 10**6)
while time.process_time() < 0.6:
    pass
if sys.argv[1:] == ["killed"]:
    os.kill(os.getpid(), signal.SIGKILL)
print('{"outcome": "fits"}')
"""


@pytest.mark.parametrize("end", ["answers", "killed"])
@pytest.mark.slow
def test_what_a_child_uses_is_sampled_however_it_ends(end):
    found = attempts.attempt(script(BUSY, end), 8, ROOMY, cores=2)
    assert found.outcome == ("killed" if end == "killed" else "fits")
    used = found.utilisation
    # Ticks of 10 ms, and what falls between the last sample and the end.
    assert used["process_cores_mean"] * used["seconds"] == pytest.approx(0.6, abs=0.15)
    assert used["process_percent_mean"] == pytest.approx(50 * used["process_cores_mean"])
    assert 150 < used["memory_peak_mb"] <= found.peak_mb + 1
    assert used["gpu_percent"] is None
    assert used["seconds"] <= found.seconds
    lengths = {len(values) for values in found.samples.values()}
    assert lengths == {used["samples"]} and used["samples"] >= 5
    assert max(value for value in found.samples["memory_mb"] if value == value) > 150


@pytest.mark.slow
def test_the_gpu_is_sampled_where_its_memory_is_tried(monkeypatch):
    nvml = Nvml().install(monkeypatch)
    code = """import time; time.sleep(0.5); print('{"outcome": "fits"}')"""
    found = attempts.attempt(script(code), 8, Limits("gpu", 0, 4000.0))
    assert found.peak_mb is None  # what is resident says nothing of a GPU's memory
    assert found.utilisation["gpu_memory_peak_mb"] == 12_345
    assert set(found.samples["gpu_percent"]) == {63}
    assert found.gpu_device["name"] == "NVIDIA Test"
    assert nvml.open == 0


@pytest.mark.parametrize("limits", [Limits("cpu", 120, 4000.0), ROOMY], ids=["memory", "time"])
@pytest.mark.slow
def test_what_a_child_used_before_it_was_ended(limits):
    code = "import time; held = bytearray(b'x') * (140 * 10**6); time.sleep(60)"
    found = attempts.attempt(script(code), 8, limits, timeout=1.0)
    assert found.outcome == ("over_limit" if limits is not ROOMY else "failed")
    assert ("longer than 1 s" in found.message) == (limits is ROOMY)
    assert found.utilisation["memory_peak_mb"] > 120
    assert found.utilisation["process_cores_mean"] is not None and found.seconds < 10


@pytest.mark.parametrize("fails", [1, 3])
def test_no_child_is_left_behind_by_an_error_of_its_parent(tmp_path, monkeypatch, fails):
    pids, calls = tmp_path / "pids", itertools.count(1)
    nvml = Nvml().install(monkeypatch)

    def sample(self):
        while not pids.exists() or not pids.read_text():
            time.sleep(0.02)
        if next(calls) >= fails:
            raise KeyboardInterrupt
        return {"memory_mb": 1.0}

    monkeypatch.setattr(Sampler, "sample", sample)
    code = f"import os, time; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        attempts.attempt(script(code), 8, Limits("gpu", 0, 4000.0))
    assert not alive(int(pids.read_text()))
    assert nvml.open == 0


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
        f"import sys, time; sys.path.insert(0, {str(LIBRARY)!r});"
        "from batchscope.timing.largest import attempt_child; attempt_child._give_way();"
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
    **{name: each.birth for name, each in run_factors.FACTORS.items() if each.birth is not None},
    **{"dataset": LARGE, "model": "small_cnn", "optimizer": "adam"},
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
    sha256 = {path.name: disk.file_sha256(path) for path in folder.glob("*.npy")}
    record = {"dataset": LARGE, "scale": 1 / 255, "classes": 3, "counts": counts}
    record |= {"input_shape": [128, 128, 3], "sha256": sha256}
    disk.write_json(folder / "record.json", record)
    return results


def try_batch(results: Path, size: int, memory_mb: float | None, slack_mb: float = 1024, **factors):
    code = (
        f"import sys; sys.path.insert(0, {str(LIBRARY)!r})\n"
        "from batchscope.catalogue.sweep_names import Sweep\n"
        "from batchscope.timing.largest import attempt_child as child\n"
        f"job = child.TimingJob({str(results)!r}, Sweep({FACTORS | factors!r}))\n"
        f"child.run(job, {size}, {memory_mb!r}, {slack_mb!r})"
    )
    return script(code)


@pytest.mark.slow
def test_the_operating_system_refuses_what_is_far_beyond_the_limit(large):
    # 5 GB of pixels at once: refused before a byte of it is touched.
    command = try_batch(large, 100_000, 700, slack_mb=64)
    found = attempts.attempt(command, 100_000, ROOMY)
    assert found.outcome == "out_of_memory"
    assert "Unable to allocate" in found.message
    assert 100 < found.baseline_mb <= found.peak_mb < 1500


@pytest.mark.slow
def test_tensorflow_may_crash_where_memory_is_refused(large):
    command = try_batch(large, 512, 700, slack_mb=64)
    found = attempts.attempt(command, 512, ROOMY)
    assert found.outcome == "out_of_memory"
    assert "ran out of memory" in found.message or "OOM when allocating" in found.message


@pytest.mark.slow
def test_the_memory_of_a_batch_in_pieces_is_that_of_a_piece(large):
    whole, pieces, piece = (
        attempts.attempt(try_batch(large, size, None, micro_batch_size=of), size, ROOMY)
        for size, of in ((512, 0), (512, 8), (8, 0))
    )
    assert whole.outcome == pieces.outcome == piece.outcome == "fits", pieces.message
    # The examples themselves are held in either case, as bytes.
    assert pieces.peak_mb - piece.peak_mb < 0.3 * (whole.peak_mb - piece.peak_mb)


@pytest.mark.slow
def test_a_real_search(large):
    alone = attempts.attempt(try_batch(large, 1, None), 1, ROOMY)
    assert alone.outcome == "fits", alone.message
    limits = Limits("cpu", round(alone.peak_mb) + 150, 4000.0)

    def fits(size: int) -> search.Try:
        return attempts.attempt(try_batch(large, size, limits.memory_mb), size, limits)

    found = search.search(fits, start=64, most=4096, step=32, resolution=0.5)
    assert found.stopped == "resolved", found.tries[-1].message
    assert 1 < found.largest < found.refused <= 1.5 * found.largest
    for entry in found.tries:
        assert (entry.outcome == "fits") == (entry.batch_size <= found.largest)
        assert entry.outcome != "fits" or entry.peak_mb <= limits.memory_mb
    fits = [entry for entry in (alone, *found.tries) if entry.outcome == "fits"]
    sizes, peaks = ([getattr(entry, name) for entry in fits] for name in ("batch_size", "peak_mb"))
    fixed, (each, *_) = step_cost.memory_per_image(sizes, peaks)
    # An image and its gradient's way back: 3 x 128 x 128 x 4 bytes, and no more than 30 of them.
    assert 0.19 < each < 6
    assert fixed + each * found.largest < limits.memory_mb + 20
    assert fixed + each * found.refused > limits.memory_mb - 20
