"""The workflow on a cluster: the options of sbatch, and studies on a real SLURM."""

import contextlib
import itertools
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
from typing import Any

import pytest

from batchscope.host import memory_limits
from batchscope.rules import resources
from batchscope.store import paths
from batchscope.study import config
from project import copy
from slurm import cluster

PROFILE = ("--profile", "slurm")
# As `python -m snakemake`, which asks for the states of jobs at growing intervals. These jobs
# wait in no queue.
ASKING_OFTEN = """
from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor
Executor.next_seconds_between_status_checks = property(lambda _: 1.0, lambda *_: None)
main()
"""
REASON = cluster.unavailable()
needs_a_cluster = pytest.mark.skipif(REASON is not None, reason=str(REASON))

# Notes each call's arguments, and then does what the test needs.
RECORDING_SBATCH = """\
#!/bin/sh
printf '%s\\n' "$@" > {calls}/$$
{then}
"""


class Project:
    """A fresh copy of the project, as a user who cloned it has."""

    def __init__(self, folder: Path, then: str) -> None:
        self.root = folder / "project"
        self.calls = folder / "calls"
        self.programs = folder / "programs"
        self.log = folder / "snakemake.log"
        self._home = folder / "home"
        for path in (self.calls, self.programs, self._home):
            path.mkdir(parents=True)
        copy(self.root)
        self.program("sbatch", RECORDING_SBATCH.format(calls=self.calls, then=then))

    def program(self, name: str, text: str) -> None:
        """Puts a program before all others."""
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        """Returns the environment of someone without settings of their own."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "HOME": str(self._home), "PATH": path, **more}

    @contextlib.contextmanager
    def snakemake(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen]:
        """Starts Snakemake; it is stopped, if it still runs, in the end."""
        command = [sys.executable, "-c", ASKING_OFTEN, *PROFILE, *arguments]
        with open(self.log, "a") as log:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=self.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def wait(self, process: subprocess.Popen, seconds: float) -> None:
        """Waits for a Snakemake that is expected to succeed."""
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"Snakemake still ran after {seconds} s.\n{self.tail()}")
        assert status == 0, self.tail()

    def tail(self) -> str:
        return self.log.read_text()[-6000:]

    def study(self, path: str):
        with contextlib.chdir(self.root):
            return config.study(path, "full")

    def record(self, run: str) -> dict:
        return json.loads((self.root / "results" / "runs" / run / "record.json").read_text())

    def has_trained(self, run: str, epoch: int) -> bool:
        return (self.root / "results" / "runs" / run / "epochs" / f"{epoch}.npz").exists()

    def is_evaluated(self, run: str) -> bool:
        folder = self.root / "results" / "runs" / run / "evaluate"
        return len(list(folder.glob("*.json"))) == 3

    def submissions(self) -> list[dict[str, str]]:
        paths = sorted(self.calls.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [_options(path.read_text().splitlines()) for path in paths]


def _options(arguments: list[str]) -> dict[str, str]:
    found, left = {}, iter(arguments)
    for argument in left:
        name, _, value = argument.partition("=")
        if name == "--wrap":
            break
        if not value and name in ("--job-name", "--output", "--comment", "--mem", "-t", "-D", "-p"):
            value = next(left)
        found[name] = value
    return found


def _steps(submission: dict[str, str]) -> str:
    """Return the group of a submission with the names of its rules, or the name of its rule."""
    return submission["--comment"].partition("_wildcards_")[0].removeprefix("rule_")


# Options of sbatch: no cluster needed ------------------------------------------------------------


def submitted(folder: Path, *options: str) -> list[dict[str, str]]:
    """Return the options of each call of sbatch, for a study with data and half of its runs.

    The kernel has killed one of the other runs for memory, at a limit of 3 GB.
    """
    pytest.importorskip("snakemake_executor_plugin_slurm")
    # A fork server has no place on a login node.
    project = Project(folder, '[ -z "${BATCHSCOPE_SNAKEMAKE_PID:-}" ] || touch warm; exit 1')
    for name in ("sinfo", "squeue", "sacct", "scontrol"):
        project.program(name, "#!/bin/sh\nexit 0\n")
    study = project.study("tests/slurm/devices.yaml")
    results = project.root / "results"
    files = (paths.RECORD, *paths.ARRAYS)
    made = [paths.dataset_folder(results, name) / file for name in study.datasets for file in files]
    missing = []
    for name, run in study.runs.items():
        if run["batch_size"] == 64:
            made += [paths.run_folder(results, name) / file for file in paths.run_files(run)]
        else:
            missing.append(name)
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"status": "finished"}' if path.suffix == ".json" else "")
    _note_kill(results, missing[0], 3000.0)
    with project.snakemake("--configfile", "tests/slurm/devices.yaml", *options) as process:
        assert process.wait(300) != 0
    submissions = project.submissions()
    assert submissions, project.tail()
    assert not (project.root / "warm").exists()
    assert "Traceback" not in project.log.read_text()
    return submissions


def _note_kill(results: Path, run: str, limit_mb: float) -> None:
    note = paths.run_folder(results, run) / memory_limits.NOTE
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"limit_mb": limit_mb}))


def test_runs_and_timings_are_a_job_each(tmp_path):
    submissions = submitted(tmp_path)
    jobs = {_steps(submission): submission for submission in submissions}
    assert len(submissions) == 4 and {*jobs} == {
        "runs_evaluate_train_weight_distance",
        "timing_time_epoch",
        "run_command",
    }
    runs, timings = jobs["runs_evaluate_train_weight_distance"], jobs["timing_time_epoch"]
    # The members run one after another: the largest request, and the sum of all times. Four runs
    # are missing, and two measures of all eight; each timing is repeated once.
    assert runs["-t"] == str(5 * (4 + 2 * 8))
    assert int(timings["-t"]) % (5 * 8) == 0
    for group, memory in ((runs, "6000"), (timings, "2000")):
        assert (group["--cpus-per-task"], group["--gpus"], group["--mem"]) == ("4", "1", memory)
    assert "--exclusive" in timings and "--exclusive" not in runs


def test_jobs_request_what_they_use_and_receive_a_signal_before_their_limit(tmp_path):
    submissions = submitted(tmp_path, "--group-components", "runs=1", "timing=1")
    memory = Counter(submission["--mem"] for submission in submissions)
    assert memory["6000"] == 1  # twice what the killed run had
    requests = Counter()
    for submission in submissions:
        assert submission["--signal"] == "TERM@60"
        assert submission["--job-name"].startswith("batchscope_")
        assert not {"--gres", "-p", "--partition", "-A", "--account"} & {*submission}
        gpus, exclusive = submission.get("--gpus"), "--exclusive" in submission
        # Timings stand behind jobs that a node can share.
        assert ("--nice" in submission) == (exclusive and _steps(submission) != "run_command")
        requests[_steps(submission), submission["--cpus-per-task"], gpus, exclusive] += 1
    component = "runs_evaluate_train_weight_distance"
    timings = requests["timing_time_epoch", "1", None, True]
    assert timings >= 2
    assert requests == {
        # Every device with every number of threads.
        **{(component, threads, gpu, False): 1 for threads in "14" for gpu in (None, "1")},
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


# A real SLURM ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory) -> Iterator[cluster.Cluster]:
    with cluster.Cluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(scope="module")
def project(running_cluster, tmp_path_factory) -> Project:
    sbatch = shutil.which("sbatch")
    return Project(tmp_path_factory.mktemp("user"), f'exec {shlex.quote(str(sbatch))} "$@"')


@pytest.mark.slurm
@needs_a_cluster
def test_a_study_runs_through_to_its_report(project):
    with project.snakemake("--configfile", "tests/slurm/tiny.yaml") as process:
        project.wait(process, 900)
    report = project.root / "results" / "studies" / "tiny" / "report.html"
    assert "Does a study run through on a cluster?" in report.read_text()
    listed = cluster.ask("scontrol", "-o", "show", "job").splitlines()
    jobs = [job for job in listed if "JobName=batchscope_" in job]
    assert all("JobState=COMPLETED" in job for job in jobs)
    assert Counter(map(_steps, project.submissions())) == {
        "runs_evaluate_train_weight_distance": 1,
        "timing_time_epoch": 1,
        "run_command": 1,
    }
    assert len(jobs) == 3
    (record,) = project.root.glob("results/runs/command-*/record.json")
    assert json.loads(record.read_text())["train_seconds"] > 0
    exclusive = [job for job in jobs if "OverSubscribe=NO" in job]
    assert len(exclusive) == 2
    assert all(f"NumCPUs={cluster.CPUS} " in job for job in exclusive)
    # Two trainings, one with two threads, and four measures.
    (runs,) = set(jobs) - set(exclusive)
    assert "NumCPUs=2 " in runs and "TimeLimit=00:30:00" in runs


LIMIT_MB = 6100  # of all processes of the cluster's jobs together


@pytest.fixture(scope="module")
def interrupted(running_cluster, project) -> dict[str, Any]:
    """Three calls of a study: one cancelled, one out of time, and one that is not disturbed.

    The slow trainings go on for as long as a file exists, whatever the machine's speed. The failing
    one raises an error in the first call and takes too much memory in the second.
    """
    study = project.study("tests/slurm/interrupted.yaml")
    models = {
        (run["model"].partition("-")[0], run["threads"]): name for name, run in study.runs.items()
    }
    slow, failing, finished = models["slow", 1], models["failing", 1], models["small_cnn", 1]
    slow_with_threads = models["slow", 2]
    rest, fail = (project.root / name for name in ("BATCHSCOPE_TEST_REST", "BATCHSCOPE_TEST_FAIL"))
    environment = {file.name: str(file) for file in (rest, fail)}
    limited = running_cluster.limit_memory(LIMIT_MB)
    imports: dict[str, bool] = {}

    def call(until: Callable[[], bool] | None = None, *end: str) -> dict[str, Any]:
        """Call Snakemake, and end its only job by a command of SLURM."""
        before = len(project.submissions())
        # Both slow trainings run at a time, with one of the other members.
        options = ("--cores", "4", "--set-resources", "evaluate:mem_mb=500")
        options += ("--configfile", "tests/slurm/interrupted.yaml")
        with project.snakemake(*options, **environment) as process:
            if until:
                _wait(lambda: _is_running(process, project) and until(), 900, project)
                for run in (slow, slow_with_threads):
                    imports[run] = _imports_tensorflow(running_cluster, run)
                (job,) = cluster.ask("squeue", "-h", "-t", "R", "-o", "%A").split()
                subprocess.run([word.format(job=job) for word in end], check=True)
                assert process.wait(900) == 1, project.tail()
            else:
                project.wait(process, 900)
        _wait(lambda: not running_cluster.processes(), 60, project)
        (submission,) = project.submissions()[before:]
        runs = [project.root / "results" / "runs" / run for run in study.runs]
        records = [path for run in runs for path in run.rglob("*.json")]
        return {
            "memory_mb": int(submission["--mem"]),
            "records": {path: path.stat().st_mtime_ns for path in records},
        }

    def has_trained(epoch: int) -> bool:
        return all(project.has_trained(run, epoch) for run in (slow, slow_with_threads))

    def failed(message: str) -> bool:
        log = project.root / "logs" / "train" / f"{failing}.log"
        return log.exists() and message in log.read_text()

    rest.touch()
    fail.write_text("0")
    cancelled = call(
        lambda: has_trained(1) and project.is_evaluated(finished) and failed("This member fails."),
        *("scancel", "{job}"),
    )
    if limited:
        fail.write_text(f"{2 * LIMIT_MB}000000")
    # A limit below the time that has passed: SLURM sends the signal within half a minute.
    out_of_time = call(
        lambda: has_trained(8) and failed("memory" if limited else "This member fails."),
        *("scontrol", "update", "JobId={job}", "TimeLimit=1"),
    )
    for file in (rest, fail):
        file.unlink()
    if limited:
        running_cluster.limit_memory(2 * LIMIT_MB)  # SLURM would give what is requested
    return {
        "slow": (slow, slow_with_threads),
        "failing": failing,
        "finished": finished,
        "limited": limited,
        "imports": imports,
        "calls": [cancelled, out_of_time, call()],
    }


def _imports_tensorflow(running_cluster: cluster.Cluster, run: str) -> bool:
    """Whether the job of a training has imported TensorFlow, rather than its fork server."""
    jobs = [process for process in running_cluster.processes() if run in process.cmdline()]
    jobs = [process for process in jobs if "train" in process.cmdline()]
    assert jobs
    return any("tensorflow" in file.path for job in jobs for file in job.memory_maps())


def _is_running(process: subprocess.Popen, project: Project) -> bool:
    assert process.poll() is None, project.tail()
    return True


def _wait(condition: Callable[[], object], seconds: float, project: Project) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, project.tail()
        time.sleep(0.5)


def _undisturbed_weights(project: Project, run: str, results: Path) -> bytes:
    """Train a run by hand, from the same data, and return the file of its final weights."""
    (results / "data").symlink_to(project.root / "results" / "data")
    command = [sys.executable, "workflow/run.py", "train", "--run", run]
    command += ["--results", str(results), "--model-file", "tests/slurm/slow_model.py"]
    subprocess.run(command, cwd=project.root, env=project.environment(), check=True, timeout=600)
    return (results / "runs" / run / "final.npz").read_bytes()


@pytest.mark.slurm
@needs_a_cluster
def test_a_call_submits_only_what_is_missing(project, interrupted):
    folder = project.root / "results" / "runs"
    finished, failing = (folder / interrupted[name] for name in ("finished", "failing"))
    trained = [
        {path.parent for path in call["records"] if path.name == "record.json"}
        for call in interrupted["calls"]
    ]
    # Neither the member that failed nor the end of the job took the results of another member.
    slow = {folder / run for run in interrupted["slow"]}
    assert trained == [{finished}, {finished}, {finished, failing, *slow}]
    for earlier, later in itertools.pairwise(call["records"] for call in interrupted["calls"]):
        results = [path for path in earlier if path.parent.name == "evaluate"]
        assert results and all(later[path] == earlier[path] for path in results)


@pytest.mark.slurm
@needs_a_cluster
def test_members_share_one_import_of_tensorflow(interrupted):
    # A training with more threads sets them before it imports TensorFlow.
    assert [interrupted["imports"][run] for run in interrupted["slow"]] == [False, True]


@pytest.mark.slurm
@needs_a_cluster
def test_a_member_that_was_killed_for_memory_receives_more(project, interrupted):
    if not interrupted["limited"]:
        pytest.skip("no memory control group can be made here")
    # Of the three trainings that run at a time; at most four times the memory of the rule.
    # Snakemake may count an evaluation beside three jobs of 2,000 MB.
    _, before, after = (call["memory_mb"] for call in interrupted["calls"])
    assert before in (3 * 2000, 3 * 2000 + 500) and after == 2 * 2000 + 4 * 2000
    assert project.record(interrupted["failing"])["status"] == "finished"


@pytest.mark.slurm
@needs_a_cluster
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupted_training_goes_on_with_the_same_bits(
    project, interrupted, tmp_path, threads
):
    run = interrupted["slow"][threads - 1]
    record = project.record(run)
    assert record["status"] == "finished"
    assert record["resumed"] == 2
    final = project.root / "results" / "runs" / run / "final.npz"
    assert final.read_bytes() == _undisturbed_weights(project, run, tmp_path)
    headline = project.root / "results" / "studies" / "interrupted" / "report.txt"
    assert "4 runs: 4 finished" in headline.read_text()
