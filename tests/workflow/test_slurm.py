"""The SLURM profile: the options of sbatch, and a study on a real SLURM."""

import contextlib
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import project
from batchscope.host import memory_limits
from batchscope.rules import resources
from batchscope.store import paths
from batchscope.study import config
from slurm import cluster

# As `python -m snakemake`, but with a constant interval between checks of the jobs.
SNAKEMAKE = """
from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor
Executor.next_seconds_between_status_checks = property(lambda _: 1.0, lambda *_: None)
main()
"""
REASON = cluster.unavailable()
GROUP = "runs_evaluate_train_weight_distance"
TIMEOUT = 600  # seconds; on an idle machine a call takes less than a minute


class Clone:
    """A copy of the project whose calls of `sbatch` are recorded."""

    def __init__(self, folder: Path, then: str) -> None:
        self.root = project.copy(folder / "project")
        self.calls, self.programs = folder / "calls", folder / "programs"
        for path in (self.calls, self.programs):
            path.mkdir()
        self.program("sbatch", f"printf '%s\\n' \"$@\" > {self.calls}/$$\n{then}\n")

    def program(self, name: str, text: str) -> None:
        """Write a shell script that precedes all programs of its name."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a user without settings for Snakemake."""
        variables |= {"HOME": str(self.programs)}
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
        return {**inherited, "PATH": path, **variables}

    @contextlib.contextmanager
    def snakemake(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen]:
        with open(self.root / "snakemake.log", "a") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", SNAKEMAKE, "--profile", "slurm", *arguments],
                cwd=self.root,
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log(self) -> str:
        return (self.root / "snakemake.log").read_text()[-6000:]

    def plan(self, path: str):
        with contextlib.chdir(self.root):
            return config.study(path, "full")

    def submissions(self) -> list[dict[str, str]]:
        """Return the options of each call of sbatch."""
        calls = sorted(self.calls.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [_options(path.read_text().splitlines()) for path in calls]


def _options(arguments: list[str]) -> dict[str, str]:
    options, words = {}, iter(arguments)
    for word in words:
        name, _, value = word.partition("=")
        if name == "--wrap":
            break
        if not value and name in ("--job-name", "--output", "--comment", "--mem", "-t", "-D", "-p"):
            value = next(words)
        options[name] = value
    # The name of a group has the names of its rules, a single job has that of its rule.
    options["steps"] = options["--comment"].partition("_wildcards_")[0].removeprefix("rule_")
    return options


# Options of sbatch: no cluster needed ------------------------------------------------------------


def _note_kill(results: Path, run: str, limit_mb: float) -> None:
    note = paths.run_folder(results, run) / memory_limits.KILL_NOTE
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"limit_mb": limit_mb}))


@pytest.mark.slow
def test_jobs_request_what_they_use_and_receive_a_signal_before_their_limit(tmp_path):
    """The study has its data and half of its runs.

    The kernel has killed one of the other runs for memory, at a limit of 3 GB.
    """
    # The fork server must not start on a login node.
    clone = Clone(tmp_path, '[ -z "${BATCHSCOPE_SNAKEMAKE_PID:-}" ] || touch warm; exit 1')
    for name in ("sinfo", "squeue", "sacct", "scontrol"):
        clone.program(name, "exit 0\n")
    study = clone.plan("tests/slurm/devices.yaml")
    results = clone.root / "results"
    folders = [paths.dataset_folder(results, name) for name in study.datasets]
    existing = [folder / file for folder in folders for file in (paths.RECORD, *paths.ARRAYS)]
    missing_runs = []
    for name, run in study.runs.items():
        if run["batch_size"] == 64:
            existing += [paths.run_folder(results, name) / file for file in paths.run_files(run)]
        else:
            missing_runs.append(name)
    for path in existing:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"status": "finished"}' if path.suffix == ".json" else "")
    _note_kill(results, missing_runs[0], 3000.0)
    options = ("--group-components", "runs=1", "timing=1")
    with clone.snakemake("--configfile", "tests/slurm/devices.yaml", *options) as process:
        wait(lambda: process.poll() is not None, clone)
        assert process.returncode != 0
    submissions = clone.submissions()
    assert submissions, clone.log()
    assert not (clone.root / "warm").exists()
    assert "Traceback" not in clone.log()
    memory = Counter(submission["--mem"] for submission in submissions)
    assert memory["6000"] == 1  # twice the limit of the killed run
    # A group has the time of its members: a training and its two measures.
    assert {job["-t"] for job in submissions if job["steps"] == GROUP} == {str(5 * 3)}
    requests = Counter()
    for submission in submissions:
        assert submission["--signal"] == "TERM@60"
        assert submission["--job-name"].startswith("batchscope_")
        assert not {"--gres", "-p", "--partition", "-A", "--account"} & {*submission}
        steps, exclusive = submission["steps"], "--exclusive" in submission
        # Timings come after jobs that can share a node.
        assert ("--nice" in submission) == (exclusive and steps != "run_command")
        requests[steps, submission["--cpus-per-task"], submission.get("--gpus"), exclusive] += 1
    timings = requests["timing_time_epoch", "1", None, True]
    assert timings >= 2
    assert requests == {
        # Every device with every number of threads.
        **{(GROUP, threads, gpu, False): 1 for threads in "14" for gpu in (None, "1")},
        **{("timing_time_epoch", cpu, gpu, True): timings for cpu in "14" for gpu in (None, "1")},
        # Measures of finished runs: one thread, and a GPU if the run had one.
        ("runs_evaluate", "1", None, False): 2,
        ("runs_evaluate", "1", "1", False): 2,
        ("runs_weight_distance", "1", None, False): 4,
        ("run_command", "4", "1", True): 1,
        ("run_command", "4", None, False): 1,
    }


@pytest.mark.parametrize(
    ("killed_at_mb", "expected"), [(None, 2000), (1500.5, 3001), (3000.0, 6000), (7000.0, 8000)]
)
def test_a_run_killed_for_memory_requests_twice_its_limit(
    tmp_path, monkeypatch, killed_at_mb, expected
):
    monkeypatch.chdir(tmp_path)
    if killed_at_mb:
        _note_kill(Path("results"), "run", killed_at_mb)
    assert resources.run_memory_mb("run", 2000) == expected


# A real SLURM ------------------------------------------------------------------------------------

LIMIT_MB = 6100  # of all processes of the cluster's jobs together


@pytest.mark.slurm
@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_a_study_continues_after_the_signal_before_the_time_limit_of_its_job(tmp_path):
    """One training fails, two are interrupted; the second call submits only what is missing.

    The slow trainings sleep as long as a file exists. The failing one takes too much memory as long
    as another file exists.
    """
    with cluster.Cluster(tmp_path / "slurm") as slurm:
        clone = Clone(tmp_path, f'exec {shlex.quote(str(shutil.which("sbatch")))} "$@"')
        results = clone.root / "results"
        study = clone.plan("tests/slurm/study.yaml")
        names = {
            (run["model"].partition("-")[0], run["threads"]): results / "runs" / name
            for name, run in study.runs.items()
        }
        slow, failing = [names["slow", 1], names["slow", 2]], names["failing", 1]
        finished = names["small_cnn", 1]
        sleep_file, fail_file = tmp_path / "sleep", tmp_path / "fail"
        variables = {"BATCHSCOPE_TEST_SLEEP": sleep_file, "BATCHSCOPE_TEST_FAIL": fail_file}
        # Both slow trainings run at a time, with one of the other members.
        call = functools.partial(
            clone.snakemake,
            *("--cores", "4", "--set-resources", "evaluate:mem_mb=500"),
            *("--configfile", "tests/slurm/study.yaml"),
            **{name: str(file) for name, file in variables.items()},
        )

        def has_come_far(process: subprocess.Popen) -> bool:
            assert process.poll() is None, clone.log()
            log = clone.root / "logs" / "train" / f"{failing.name}.log"
            return (
                all((run / "epochs" / "1.npz").exists() for run in slow)
                and len([*finished.glob("evaluate/*.json")]) == 2
                and log.exists()
                and ("memory" if is_limited else "This member fails.") in log.read_text()
            )

        is_limited = slurm.limit_memory(LIMIT_MB)
        sleep_file.touch()
        fail_file.write_text(f"{2 * LIMIT_MB if is_limited else 0}000000")
        with call() as process:
            wait(lambda: has_come_far(process), clone)
            # The fork server has imported TensorFlow for the first training. A training with more
            # threads sets them before it imports TensorFlow itself.
            assert [imports_tensorflow(slurm, run) for run in slow] == [False, True]
            (job,) = cluster.ask("squeue", "-h", "-t", "R", "-o", "%A").split()
            # As SLURM does for --signal=TERM@60; it looks for time limits every half minute.
            subprocess.run(["scancel", "--signal=TERM", job], check=True)
            wait(lambda: process.poll() is not None, clone)
            assert process.returncode == 1, clone.log()
        wait(lambda: not slurm.processes(), clone)
        first = clone.submissions()
        group = "runs_evaluate_snapshot_train"
        assert sorted(options["steps"] for options in first) == ["run_command", group]
        records = modification_times(results)
        trained = {path.parent for path in records if path.name == "record.json"}
        (command,) = results.glob("runs/command-*")
        assert trained == {finished, command}
        assert json.loads((command / "record.json").read_text())["train_seconds"] > 0

        for file in (sleep_file, fail_file):
            file.unlink()
        if is_limited:
            slurm.limit_memory(2 * LIMIT_MB)  # SLURM would provide the requested memory
        with call() as process:
            wait(lambda: process.poll() is not None, clone)
            assert process.returncode == 0, clone.log()
        jobs = cluster.ask("scontrol", "-o", "show", "job").splitlines()

    (second,) = clone.submissions()[len(first) :]
    assert records.items() <= modification_times(results).items()
    assert "5 runs: 5 finished" in (results / "studies" / "cluster" / "report.txt").read_text()
    if is_limited:
        # The requests of the three trainings that run at a time; at most four times the memory of
        # the rule. Snakemake may count an evaluation beside three jobs of 2,000 MB.
        (before,) = (int(options["--mem"]) for options in first if options["steps"] == group)
        assert before in (3 * 2000, 3 * 2000 + 500)
        assert int(second["--mem"]) == 2 * 2000 + 4 * 2000
    jobs = [job for job in jobs if "JobName=batchscope_" in job]
    (exclusive,) = [job for job in jobs if "OverSubscribe=NO" in job]
    assert len(jobs) == 3 and f"NumCPUs={cluster.CPUS} " in exclusive
    for run in slow:
        assert json.loads((run / "record.json").read_text())["resumed"] == 1


def wait(condition: Callable[[], object], clone: Clone) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, clone.log()
        time.sleep(0.5)


def modification_times(results: Path) -> dict[Path, int]:
    records = [*results.glob("runs/*/record.json"), *results.glob("runs/*/evaluate/*.json")]
    return {path: path.stat().st_mtime_ns for path in records}


def imports_tensorflow(slurm: cluster.Cluster, run: Path) -> bool:
    """Return whether the process of a training has imported TensorFlow."""
    imports = []
    for process in slurm.processes():
        with contextlib.suppress(psutil.Error):  # it has ended
            if {run.name, "train"} <= {*process.cmdline()}:
                imports.append(any("tensorflow" in file.path for file in process.memory_maps()))
    assert imports
    return any(imports)
