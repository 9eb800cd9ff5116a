"""Steps in forks of the server or of their job: same bits, same exit status, same death."""

import contextlib
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import project
from batchscope.cli import entry, steps
from batchscope.core import disk
from batchscope.host import fork_server
from batchscope.study import names
from digit_runs import assert_same_bits, run_name
from project import ROOT, python, wait_for

pytestmark = pytest.mark.slow

LIMIT = 300  # seconds, for what takes a few where nobody else works


class Launcher:
    """A process that starts the fork server, as Snakemake does, and that can be killed."""

    def __init__(self) -> None:
        code = (
            "import sys; from pathlib import Path; from batchscope.host import fork_server;"
            f"fork_server.launch(Path({str(ROOT / 'workflow')!r}));"
            "print(flush=True); sys.stdin.read()"
        )
        self.process = project.start("-c", code)
        self.process.stdout.readline()
        self.environment = {"BATCHSCOPE_SNAKEMAKE_PID": str(self.process.pid)}  # of its jobs
        self.server = psutil.Process(self.process.pid).children()[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def launcher():
    made = Launcher()
    yield made
    made.kill()


def start(
    made: Launcher, results: Path | str, *words: str, shell: bool = False, cwd: Path = ROOT
) -> subprocess.Popen:
    """Starts a step as a job that knows the fork server."""
    command = [str(ROOT / "workflow" / "run.py"), *words, "--results", str(results)]
    options = {"cwd": cwd, "stderr": subprocess.PIPE, "environment": made.environment}
    if shell:  # one that waits for the step, as between Snakemake and most jobs
        command = ["-c", f"{shlex.join([sys.executable, *command])}; exit $?"]
        options["executable"] = "/bin/sh"
    return project.start(*command, **options)


def run_step(made: Launcher, results: Path, *words: str) -> tuple[int, str]:
    """Runs a step; returns its exit status and errors."""
    process = start(made, results, *words)
    _, errors = process.communicate(timeout=LIMIT)
    return process.returncode, errors


def forks(made: Launcher) -> list[psutil.Process]:
    return made.server.children(recursive=True)


def test_a_fork_trains_the_same_bits_as_a_job_without_a_server(launcher, digit_results, tmp_path):
    """The fork runs in the folder of its job."""
    run = run_name(epochs=2)
    (tmp_path / "data").symlink_to(digit_results / "data")
    alone = Launcher()
    end(alone.server)
    assert run_step(alone, tmp_path, "train", "--run", run) == (0, "")
    alone.kill()
    fork = start(launcher, digit_results.name, "train", "--run", run, cwd=digit_results.parent)
    wait_for(lambda: forks(launcher) or fork.poll() is not None)
    output, errors = fork.communicate(timeout=LIMIT)
    assert (fork.returncode, errors) == (0, "")
    assert f"{run}: finished" in output
    assert_same_bits(tmp_path / "runs" / run, digit_results / "runs" / run)
    wait_for(lambda: not forks(launcher))
    assert launcher.server.num_threads() == 1  # what has threads must not be forked
    assert launcher.server.cpu_times().children_user > 0  # whoever times a study counts the forks


def long_training(made, results, seed, threads=1, **options) -> tuple[subprocess.Popen, Path]:
    run = run_name(batch_size=1, epochs=500, seed=seed, threads=threads)
    words = ("train", "--run", run, "--chunk-steps", "20", "--checkpoint-seconds", "0")
    process = start(made, results, *words, **options)
    folder = results / "runs" / run
    wait_for((folder / "checkpoint.npz").exists)
    return process, folder


@pytest.mark.parametrize(
    ("receiver", "signum", "status"),
    [
        ("job", signal.SIGTERM, entry.INTERRUPTED_STATUS),
        ("job", signal.SIGKILL, -9),
        ("step", signal.SIGSEGV, 139),
    ],
)
def test_a_served_job_and_its_step_end_together(launcher, digit_results, receiver, signum, status):
    process, folder = long_training(launcher, digit_results, seed=10 + signum)
    (step,) = forks(launcher)
    {"job": process, "step": step}[receiver].send_signal(signum)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == status and ("SIGSEGV" in errors) == (status == 139)
    assert (folder / "checkpoint.npz").exists() and not (folder / "record.json").exists()
    wait_for(lambda: not forks(launcher))


def test_another_python_and_another_user_are_not_served(launcher, monkeypatch):
    code = (
        "import os, sys; sys.prefix = '/another'; from batchscope.host import fork_server;"
        f"words = ['evaluate', '--run', {run_name(epochs=7)!r}];"
        "print(fork_server.request(words, os.environ[fork_server.SNAKEMAKE_PID]))"
    )
    assert python("-c", code, **launcher.environment).stdout == "None\n"
    one, other = socket.socketpair()
    with one, other:
        assert fork_server.is_same_user(one)
        monkeypatch.setattr(fork_server.os, "getuid", lambda: -1)
        assert not fork_server.is_same_user(one)


def test_jobs_end_with_the_process_that_launched_them_behind_a_shell_too(digit_results):
    made = Launcher()
    served, _ = long_training(made, digit_results, seed=14, shell=True)
    alone, _ = long_training(made, digit_results, seed=14, shell=True, threads=2)
    shells = served, alone
    parents = [psutil.Process(process.pid) for process in (made.process, *shells)]
    started = [child for parent in parents for child in parent.children(recursive=True)]
    # The server, and for each job itself and its step: a fork of the one or of the other.
    assert len(started) == 5 and made.server in started
    for process in shells:
        process.stdout.close()
        process.stderr.close()  # the job cannot say why it ends
    made.kill()
    try:
        assert [process.wait(LIMIT) for process in shells] == [137, 137]
        assert psutil.wait_procs(started, timeout=LIMIT)[1] == []
    finally:
        end(*shells, *started)


def end(*processes: subprocess.Popen | psutil.Process) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def test_a_job_that_waits_for_the_import_ends_with_the_process_that_launched_it(digit_results):
    made = Launcher()
    made.server.suspend()
    run = run_name(epochs=1, seed=15)
    process = start(made, digit_results, "train", "--run", run)
    try:
        # It has asked, and waits for the answer.
        wait_for(lambda: psutil.Process(process.pid).net_connections("unix"))
        assert process.poll() is None
        made.kill()
        assert process.wait(LIMIT) == 137
        assert not (digit_results / "runs" / run).exists()
        made.server.resume()
        assert made.server.wait(LIMIT) is None
    finally:
        end(made.server, process)


@pytest.mark.parametrize("waits_for", ["the server", "its step"])
def test_ctrl_c_ends_a_job_without_a_traceback(launcher, digit_results, waits_for):
    """A terminal sends SIGINT to the job alone; the server is in a group of its own."""
    record = digit_results / "interrupted.json"
    words = ("time_epoch", "--timing", TIMING, "--settings", "bl=9+bsec=600")
    if waits_for == "the server":
        launcher.server.suspend()
    process = start(launcher, digit_results, *words, "--output", str(record))
    try:
        wait_for(lambda: psutil.Process(process.pid).net_connections("unix"))
        if waits_for == "its step":
            wait_for(lambda: forks(launcher))
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) != 0 and not record.exists()
    finally:
        launcher.server.resume()
        end(process)
    # The server may hold the job's standard output until it has refused the job.
    assert process.stdout.read() == process.stderr.read() == ""
    wait_for(lambda: not forks(launcher))


def test_a_timing_and_tables_run_in_forks_and_tables_do_not_wait_for_the_import(
    launcher, digit_results, tmp_path
):
    record = digit_results / "timed.json"
    given = ("tabulate", "--config", str(ROOT / "config.yaml"), "--experiment", "minimum")
    alone, copied = tmp_path / "alone" / "minimum", tmp_path / "copied" / "minimum"
    importing = Launcher()
    importing.server.suspend()
    assert run_step(importing, digit_results, *given, "--output", str(alone))[0] == 0
    importing.kill()
    end(importing.server)
    words = ("time_epoch", "--timing", TIMING, "--settings", "bl=3+bsec=0.01")
    assert run_step(launcher, digit_results, *words, "--output", str(record)) == (0, "")
    assert disk.read_json(record)["status"] == "finished"
    tables = start(launcher, digit_results, *given, "--output", str(copied))
    wait_for(lambda: forks(launcher) or tables.poll() is not None)
    tables.communicate(timeout=LIMIT)
    for path in alone.iterdir():
        assert path.read_bytes() == (copied / path.name).read_bytes()


# A step in a copy of its job. It starts a process, and SIGTERM ends it with a status of its own.
STARTS = """
import signal, subprocess, sys, time
from batchscope.host import fork_server

def main(words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
    time.sleep(600)

sys.exit(fork_server.run(["train"], main))
"""
# Two figures in two processes, which wait.
DRAWS = """
import os, sys, time
from batchscope import figures

def wait(*arguments):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(600)

figures._write_figure = wait
figures.write(sys.argv[1], [*figures.FIGURES][:2], sys.argv[1], processes=2)
"""


def started_by(program: str, count: int, *arguments: str) -> tuple[subprocess.Popen, list]:
    """Run a program; return it with the processes that it says to have started."""
    process = project.start("-c", program, *arguments)
    return process, [psutil.Process(int(process.stdout.readline())) for _ in range(count)]


@pytest.mark.parametrize(
    ("receiver", "signum", "status"),
    [("step", signal.SIGKILL, 137), ("job", signal.SIGTERM, 5), ("job", signal.SIGKILL, -9)],
)
def test_a_job_and_its_copy_and_what_that_started_end_together(receiver, signum, status):
    process, started = started_by(STARTS, 1)
    (step,) = psutil.Process(process.pid).children()
    {"job": process, "step": step}[receiver].send_signal(signum)
    try:
        assert process.wait(LIMIT) == status
        # Nobody is left to end what the step of a killed job has started.
        ended = [step] if status == -signal.SIGKILL else [step, *started]
        assert psutil.wait_procs(ended, LIMIT)[1] == []
    finally:
        end(*started)


def test_the_workers_of_a_killed_process_that_draws_figures_end(tmp_path):
    process, workers = started_by(DRAWS, 2, str(tmp_path / "figures"))
    process.kill()
    try:
        assert psutil.wait_procs(workers, LIMIT)[1] == []
    finally:
        end(*workers)


TIMING = names.timing_name(names.parse_run(run_name()))
ON_GPU = names.timing_name(names.parse_run(run_name(device="gpu")))


@pytest.mark.parametrize(
    ("words", "shared"),
    [
        *((f"{step} --run {run_name()}", True) for step in ("train", "snapshot", "sharpness")),
        *((f"{step} --config c.yaml", True) for step in sorted(fork_server.TABLE_STEPS)),
        (f"train --run {run_name(threads=2)}", False),
        (f"train --run {run_name(replicas=2)}", False),
        (f"sharpness --run {run_name(replicas=2)}", True),
        (f"time_epoch --timing {TIMING}", True),
        (f"time_epoch --timing {ON_GPU}", False),
        ("throughput --sweep any", False),
    ],
)
def test_steps_that_may_share_a_process_with_one_thread(words, shared):
    assert steps.can_share(words.split()) is shared
