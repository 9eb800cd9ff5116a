"""Steps in a copy of the warm process: same bits, same exit status, same death."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from batchscope import disk
from batchscope.catalogue import run_names
from batchscope.host import job
from digit_runs import assert_same_bits, run_name, with_digits
from launcher import Launcher
from project import ROOT, python

pytestmark = pytest.mark.slow

LIMIT = 300  # seconds, for what takes a few where nobody else works


def door(
    *words: str, cwd: Path = ROOT, shell: bool = False, **environment: str
) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), *words]
    if shell:  # one that waits for the step, as between Snakemake and most jobs
        command = ["/bin/sh", "-c", f"{shlex.join(command)}; exit $?"]
    return subprocess.Popen(
        command,
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def launcher():
    made = Launcher()
    yield made
    made.kill()


@pytest.fixture
def launch():
    """Makes launchers, which are killed after the test."""
    with contextlib.ExitStack() as stack:

        def launched(**options: float) -> Launcher:
            made = Launcher(**options)
            stack.callback(made.kill)
            return made

        yield launched


@pytest.fixture(scope="module")
def results(tmp_path_factory, digits) -> Path:
    return with_digits(digits, tmp_path_factory.mktemp("warm") / "results")


def wait_for(condition) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_step_has_the_same_bits(launcher, results, tmp_path):
    run = run_name(epochs=2)
    (tmp_path / "data").symlink_to(results / "data")
    alone = door("train", "--run", run, "--results", str(tmp_path))
    assert alone.wait(timeout=LIMIT) == 0
    # The copy works where its job does.
    copy = start(launcher, results.name, "train", "--run", run, cwd=results.parent)
    wait_for(lambda: copies(launcher) != [launcher.warm.pid] or copy.poll() is not None)
    assert len(copies(launcher)) == 2  # it is not the job that trains
    output, errors = copy.communicate(timeout=LIMIT)
    assert (copy.returncode, errors) == (0, "")
    assert f"{run}: finished" in output
    assert_same_bits(tmp_path / "runs" / run, results / "runs" / run)


def start(made: Launcher, results: Path | str, *words: str, **options) -> subprocess.Popen:
    """Starts a step as a job that knows the warm process."""
    return door(*words, "--results", str(results), BATCHSCOPE_WARM=str(made.folder), **options)


def run_step(made: Launcher, results: Path, *words: str) -> int:
    """Runs a step; returns its exit status."""
    process = start(made, results, *words)
    process.communicate(timeout=LIMIT)
    return process.returncode


def test_a_copy_takes_the_next_step_with_the_same_bits(launch, results, tmp_path):
    runs = [
        run_name(epochs=2, seed=21, optimizer="adam", augmentation="random"),
        run_name(epochs=2, seed=22, batch_size=50, evaluate_every=300),
        run_name(epochs=2, seed=21, model="keskar_f1"),
    ]
    (tmp_path / "data").symlink_to(results / "data")
    fresh, lasting = launch(), launch(idle=LIMIT)
    seen = set()
    for run in runs:
        assert run_step(fresh, tmp_path, "train", "--run", run) == 0
        no_idle(fresh)
        assert run_step(lasting, results, "train", "--run", run) == 0
        seen |= {*copies(lasting)} - {lasting.warm.pid}
        assert_same_bits(tmp_path / "runs" / run, results / "runs" / run)
    assert len(seen) == 1
    # A step that fails is the last of its copy.
    missing = ("--run", run_name(epochs=9), "--output", str(results / "no.json"))
    assert run_step(lasting, results, "evaluate", *missing) == 1
    no_idle(lasting)


def test_a_users_code_has_a_process_of_its_own():
    import run

    assert run._leaves_nothing(["train", "--run", "a", "--model-file"])
    assert run._leaves_nothing(["evaluate", "--model-file", "--output", "a.json"])
    assert not run._leaves_nothing(["train", "--run", "a", "--model-file", "net.py"])


def test_an_error_is_reported_and_fails(launcher, results):
    words = ("evaluate", "--run", run_name(epochs=7), "--output", str(results / "no.json"))
    process = start(launcher, results, *words)
    output, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert output == ""
    assert "record.json: missing" in errors and "Traceback" not in errors


def long_training(
    launcher, results, seed: int, shell: bool = False, **factors
) -> tuple[subprocess.Popen, Path]:
    run = run_name(batch_size=1, epochs=500, seed=seed, **factors)
    words = ("train", "--run", run, "--chunk-steps", "20", "--checkpoint-seconds", "0")
    process = start(launcher, results, *words, shell=shell)
    folder = results / "runs" / run
    wait_for(lambda: (folder / "checkpoint.npz").exists())
    return process, folder


def test_a_signal_reaches_the_step(launcher, results):
    process, folder = long_training(launcher, results, seed=11)
    process.terminate()
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 85
    assert "checkpoint" in output
    assert (folder / "checkpoint.npz").exists() and not (folder / "record.json").exists()


def test_a_killed_job_takes_its_step_along(launcher, results):
    before = no_idle(launcher)
    process, _ = long_training(launcher, results, seed=12)
    (step,) = set(copies(launcher)) - before
    process.kill()
    process.wait()
    wait_for(lambda: step not in copies(launcher))


@pytest.mark.parametrize(
    ("signum", "status", "expected"),
    [(signal.SIGKILL, 137, "was killed"), (signal.SIGSEGV, 139, "was ended by SIGSEGV")],
)
def test_a_killed_step_fails_its_job(launcher, results, signum, status, expected):
    before = no_idle(launcher)
    process, _ = long_training(launcher, results, seed=100 + signum)
    (step,) = set(copies(launcher)) - before
    os.kill(step, signum)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == status
    assert f"The step {expected}." in errors


def no_idle(launcher) -> set[int]:
    """Waits until no copy waits for a step; returns the warm process alone."""
    wait_for(lambda: copies(launcher) == [launcher.warm.pid])
    return set(copies(launcher))


def copies(launcher) -> list[int]:
    return [child.pid for child in psutil.Process(launcher.process.pid).children(recursive=True)]


def test_without_the_process_a_job_imports_for_itself(launch, results):
    made = launch()
    end(made.warm)
    assert run_step(made, results, "train", "--run", run_name(epochs=1)) == 0


def test_another_python_is_not_served(launcher, results):
    code = (
        "import sys; sys.prefix = '/another'; from batchscope.host import job;"
        f"print(job.ask(['evaluate', '--run', {run_name(epochs=7)!r}]))"
    )
    assert python("-c", code, BATCHSCOPE_WARM=str(launcher.folder)).stdout == "None\n"


def test_a_copy_whose_launcher_is_gone_ends_without_a_word():
    ended = python(
        "-c",
        "import json, os, socket, struct; from batchscope.host import warm_process as warm;"
        "link, end = socket.socketpair(); end.close();"
        "connection, job = socket.socketpair(); descriptors = [os.dup(1), os.dup(2)];"
        "request = json.dumps({'arguments': [], 'python': '/another'}).encode();"
        "socket.send_fds(job, [struct.pack('!I', len(request))], descriptors);"
        "job.sendall(request); warm._work(link, connection, None)",
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("factors", [{}, {"threads": 2}], ids=["forked", "a process of its own"])
def test_jobs_end_with_the_process_that_launched_them_behind_a_shell_too(results, factors):
    made = Launcher()
    process, _ = long_training(made, results, seed=14, shell=True, **factors)
    parents = psutil.Process(process.pid), psutil.Process(made.process.pid)
    started = [child for parent in parents for child in parent.children(recursive=True)]
    # The job and its step: a copy of the warm process, which is there too, or of the job.
    assert len(started) == 3 and made.warm in started
    made.kill()
    try:
        _, errors = process.communicate(timeout=LIMIT)
        assert process.returncode == 137
        assert "killed" in errors
        assert psutil.wait_procs(started, timeout=LIMIT)[1] == []
        assert not made.folder.exists()
    finally:
        end(process, *started)


def end(*processes: subprocess.Popen | psutil.Process) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def test_a_job_that_waits_for_the_import_ends_with_the_process_that_launched_it(results):
    made = Launcher()
    made.warm.suspend()
    run = run_name(epochs=1, seed=15)
    process = start(made, results, "train", "--run", run)
    try:
        # It has asked, and waits for the answer.
        wait_for(lambda: psutil.Process(process.pid).net_connections("unix"))
        assert process.poll() is None
        made.kill()
        made.warm.resume()
        assert process.wait(LIMIT) != 0
        assert not (results / "runs" / run).exists()
    finally:
        end(made.warm, process)


def test_a_folder_that_was_left_behind_is_swept_by_the_next_and_one_in_use_is_not(launcher, launch):
    made = launch()
    folder = made.folder
    end(made.warm)
    made.kill()
    assert folder.is_dir()
    again = launch()
    assert not folder.exists()
    assert again.folder.is_dir() and launcher.folder.is_dir()
    again.kill()
    wait_for(lambda: not again.folder.exists())


def test_the_process_that_is_copied_has_one_thread(launcher, results):
    """All that steps import has started none: what has threads must not be forked."""
    assert run_step(launcher, results, "train", "--run", run_name(seed=32)) == 0
    # It answers again when all is imported.
    assert run_step(launcher, results, "train", "--run", run_name(seed=33)) == 0
    assert launcher.warm.num_threads() == 1


def test_a_timing_has_a_new_copy_to_itself(launch, results):
    """Nothing has run in it, whatever copies wait; nothing else runs in it afterwards."""
    run = run_name(seed=31)
    timing = run_names.timing_name(run_names.parse_run(run))
    record = results / "timed.json"
    made = launch(idle=LIMIT)
    assert run_step(made, results, "train", "--run", run) == 0
    waiting = copies(made)
    assert len(waiting) == 2  # the warm process, and the copy that trained
    words = ("time_epoch", "--timing", timing, "--settings", "bl=3+bsec=0.01")
    assert run_step(made, results, *words, "--output", str(record)) == 0
    assert disk.read_json(record)["status"] == "finished"
    wait_for(lambda: copies(made) == waiting)


def test_tables_come_out_of_a_copy_that_is_ready_and_never_wait_for_one(launch, results, tmp_path):
    given = ("tabulate", "--config", str(ROOT / "config.yaml"), "--experiment", "minimum")
    made = launch(idle=LIMIT)
    made.warm.suspend()  # while it imports TensorFlow
    alone, copied = tmp_path / "alone" / "minimum", tmp_path / "copied" / "minimum"
    assert run_step(made, results, *given, "--output", str(alone)) == 0
    made.warm.resume()
    wait_for((made.folder / job.READY).exists)
    assert copies(made) == [made.warm.pid]
    assert run_step(made, results, *given, "--output", str(copied)) == 0
    assert len(copies(made)) == 2
    for path in alone.iterdir():
        assert path.read_bytes() == (copied / path.name).read_bytes()


def test_what_is_timed_has_a_process_of_its_own():
    import run

    plain = run_name()
    assert not run._alone(["train", "--run", plain])
    assert not run._alone(["sharpness", "--run", plain])
    assert run._alone(["train", "--run", run_name(threads=2)])
    assert run._alone(["train", "--run", run_name(device="gpu")])
    assert not run._alone(["weight_distance", "--run", plain])
    assert not run._alone(["snapshot", "--run", plain])
    for step in ("train", "snapshot"):
        assert run._alone([step, "--run", run_name(replicas=2)])
    assert not run._alone(["sharpness", "--run", run_name(replicas=2)])
    timing = run_names.timing_name(run_names.parse_run(plain))
    assert not run._alone(["time_epoch", "--timing", timing])
    assert not run._leaves_nothing(["time_epoch", "--timing", timing])
    on_gpu = run_names.timing_name(run_names.parse_run(run_name(device="gpu")))
    assert run._alone(["time_epoch", "--timing", on_gpu])
    assert run._alone(["throughput", "--sweep", "any"])
    assert run._alone(["plan"])
    assert not any(run._alone([step]) for step in job.OF_TABLES)
