"""Trainings that the kernel killed for memory: apart from other kills, recorded, or tried again."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from batchscope.core.errors import UserError
from batchscope.host import memory_limits
from batchscope.study import model_files
from digit_runs import arrays, run_name
from project import ROOT, forked

MB = 10**6


class Groups:
    """A folder with the kernel's files of a control group, its parent, and the whole machine."""

    def __init__(self, folder: Path, version: int = 2) -> None:
        self.folder, self.version = folder, version
        self.own, self.vmstat = folder / "own", folder / "vmstat"
        self.root = folder / "root"
        self.own.parent.mkdir(parents=True, exist_ok=True)
        self.own.write_text("0::/job/step\n" if version == 2 else "3:memory:/job/step\n")
        self.vmstat.write_text("pgfault 1\noom_kill 4\n")
        self.top = self.root if version == 2 else self.root / "memory"
        (self.top / "job" / "step").mkdir(parents=True)

    def write(self, group: str, limit: object, kills: int) -> None:
        files = {
            2: {"memory.max": limit, "memory.events": f"low 0\noom 9\noom_kill {kills}"},
            1: {
                "memory.limit_in_bytes": 9223372036854771712 if limit == "max" else limit,
                "memory.oom_control": f"under_oom 0\noom_kill {kills}",
            },
        }[self.version]
        for name, text in files.items():
            (self.top / group / name).write_text(f"{text}\n")

    def use(self, monkeypatch) -> Self:
        monkeypatch.setattr(memory_limits, "GROUPS_FILE", self.own)
        monkeypatch.setattr(memory_limits, "CONTROLLERS_FOLDER", self.root)
        monkeypatch.setattr(memory_limits, "VMSTAT_FILE", self.vmstat)
        return self


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_is_reported_if_the_kernel_has_killed(tmp_path, monkeypatch, version):
    groups = Groups(tmp_path, version).use(monkeypatch)
    groups.write("job", 800 * MB, 0)
    groups.write("job/step", 300 * MB, 2)
    kills = memory_limits.kill_count()
    groups.vmstat.write_text("oom_kill 5\n")  # in another group
    assert memory_limits.limit_after_kill(kills) is None
    groups.write("job/step", 300 * MB, 3)
    assert memory_limits.limit_after_kill(kills) == 300
    groups.write("job", 200 * MB, 0)
    assert memory_limits.limit_after_kill(kills) == 200


def test_without_a_limit_or_control_groups_the_machine_counts(tmp_path, monkeypatch):
    groups = Groups(tmp_path).use(monkeypatch)
    groups.write("job/step", "max", 2)
    kills = memory_limits.kill_count()
    groups.write("job/step", "max", 3)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_limits.limit_after_kill(kills) == memory_limits.limit_mb() == total / MB
    groups.own.unlink()
    kills = memory_limits.kill_count()
    assert memory_limits.limit_after_kill(kills) is None
    groups.vmstat.write_text("oom_kill 5\n")
    assert memory_limits.limit_after_kill(kills) is not None
    groups.vmstat.unlink()
    assert memory_limits.kill_count() is None
    assert memory_limits.limit_after_kill(kills) is None


def test_a_scheduler_may_give_more_memory(tmp_path, monkeypatch):
    groups = Groups(tmp_path / "kernel").use(monkeypatch)
    run = tmp_path / "run"
    groups.write("job", 2000 * MB, 0)
    monkeypatch.setenv(memory_limits.SCHEDULED_VARIABLE, "7")
    assert memory_limits.record_or_retry(run, None) is None
    with pytest.raises(UserError, match="run: the kernel killed .* 2000 MB"):
        memory_limits.record_or_retry(run, 2000.0)
    groups.write("job", 4000 * MB, 0)
    assert memory_limits.record_or_retry(run, None) is None  # more: it trains
    with pytest.raises(UserError, match="4000 MB"):
        memory_limits.record_or_retry(run, 4000.0)
    message = "The kernel killed the training for memory; its limit was 4000 MB."
    assert memory_limits.record_or_retry(run, None) == message
    # By hand, elsewhere: what a scheduler gave says nothing; a kill is a result at once.
    monkeypatch.delenv(memory_limits.SCHEDULED_VARIABLE)
    assert memory_limits.record_or_retry(run, None) is None
    assert memory_limits.record_or_retry(run, 4000.0) == message


# Runs a step as a job, with the kernel's files of a test, and lets its training be killed when it
# pauses; the kernel counts that where the test says so.
KILLED = """
import os, signal, sys
from pathlib import Path
from typing import Self
from batchscope.cli import entry, steps
from batchscope.host import fork_server, memory_limits

folder, counted, *words = sys.argv[1:]
folder = Path(folder)
memory_limits.GROUPS_FILE, memory_limits.CONTROLLERS_FOLDER = folder / "own", folder / "root"
start = steps.start_tensorflow

def start_to_die(factors):
    start(factors)
    from batchscope.training import trainer as training

    def die(self):
        whole(self)
        if self.progress.epoch == 1 and self.progress.step == 2:
            group = folder / "root" / "job" / "step"
            if counted == "counted":
                (group / "memory.events").write_text("oom_kill 1")
            os.kill(os.getpid(), signal.SIGKILL)

    whole, training.Training._pause = training.Training._pause, die

steps.start_tensorflow = start_to_die
sys.exit(fork_server.run(words, entry.main))
"""


def killed(groups: Groups, counted: bool, results: Path, run: str):
    words = ("train", "--results", str(results), "--run", run, "--chunk-steps", "2")
    words += ("--checkpoint-seconds", "0")
    return forked(KILLED, groups.folder, "counted" if counted else "not", *words)


@pytest.mark.slow
def test_a_kill_for_memory_is_recorded_and_any_other_is_reported(digit_results, tmp_path):
    groups = Groups(tmp_path)
    groups.write("job/step", 300 * MB, 0)
    run = run_name(epochs=3, seed=21, batch_size=200)
    folder = digit_results / "runs" / run
    done = killed(groups, False, digit_results, run)
    assert (done.returncode, done.stderr) == (137, "The step was killed.\n")
    assert not (folder / "record.json").exists()
    (folder / "checkpoint.npz").unlink()
    done = killed(groups, True, digit_results, run)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{run}: out_of_memory. The kernel killed the training for memory" in done.stdout
    record = json.loads((folder / "record.json").read_text())
    assert (record["status"], record["stop_reason"]) == ("out_of_memory", "out_of_memory")
    assert record["message"].endswith("its limit was 300 MB.")
    # How far its checkpoint came.
    assert (record["epochs_run"], record["steps_run"]) == (1, 8)
    assert len((folder / "history.csv").read_text().splitlines()) == 2
    assert arrays(folder / "final.npz") == {} and arrays(folder / "initial.npz")
    files = ("record.json", "history.csv", "final.npz", "best.npz", "initial.npz", "updates.npz")
    assert {path.name for path in folder.glob("*.*")} == {*files}


LIMIT_MB = 1500  # TensorFlow takes a third of it, and the model's activations 4 GB


@pytest.fixture
def real_group():
    """A control group of the kernel's; skips where this machine lets nobody make one."""
    name = f"batchscope-test-{os.getpid()}"
    groups, counts = memory_limits.control_groups(), memory_limits._KILL_COUNT_FILES
    if any(group.version == 1 and group.read(counts) is not None for group in groups):
        folder, limit = groups[0].folder / name, "memory.limit_in_bytes"
    else:
        folder, limit = memory_limits.CONTROLLERS_FOLDER / name, "memory.max"
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir()
            stack.callback(folder.rmdir)
            (folder / limit).write_text(str(LIMIT_MB * MB))
        except OSError as error:
            pytest.skip(f"no memory control group can be made here ({error})")
        yield folder


@pytest.mark.slow
def test_the_kernels_own_kill_is_recorded(digit_results, real_group):
    model = ROOT / "tests" / "data" / "wide_model.py"
    run = run_name(model=model_files.token("wide", str(model)), batch_size=500, epochs=1)
    words = ("--results", str(digit_results), "--run", run, "--model-file", str(model))
    done = subprocess.run(
        [sys.executable, "workflow/run.py", "train", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: (real_group / "cgroup.procs").write_text(str(os.getpid())),
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((digit_results / "runs" / run / "record.json").read_text())
    assert record["status"] == "out_of_memory"
    assert record["message"].endswith(f"its limit was {LIMIT_MB} MB.")
