"""The workflow on a cluster: what sbatch is asked for, and studies on a real SLURM."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from batchscope.store import paths
from batchscope.study import config
from project import copy
from slurm import cluster

PROFILE = ("--profile", "slurm")
# As `python -m snakemake`, which would ask for the jobs ever more seldom while nothing ends: here
# nobody waits in a queue.
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

    def has_trained(self, run: str) -> bool:
        """Whether a run has an epoch behind it."""
        return (self.root / "results" / "runs" / run / "epochs" / "1.npz").exists()

    def submissions(self) -> list[dict[str, str]]:
        """Returns the options of each call of sbatch, in their order, without the command."""
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


def _rule(submission: dict[str, str]) -> str:
    return submission["--comment"].partition("_wildcards_")[0].removeprefix("rule_")


# What sbatch is asked for: no cluster needed --------------------------------------------------


def asked(folder: Path, *options: str) -> list[dict[str, str]]:
    """What is asked for a study whose data are there, and whose half of the runs."""
    pytest.importorskip("snakemake_executor_plugin_slurm")
    # The process that local jobs fork from is of no use, and no business, on a cluster.
    project = Project(folder, '[ -z "${BATCHSCOPE_SNAKEMAKE_PID:-}" ] || touch warm; exit 1')
    for name in ("sinfo", "squeue", "sacct", "scontrol"):
        project.program(name, "#!/bin/sh\nexit 0\n")
    study = project.study("tests/slurm/devices.yaml")
    results = project.root / "results"
    files = (paths.RECORD, *paths.ARRAYS)
    made = [paths.dataset_folder(results, each) / file for each in study.datasets for file in files]
    for name, run in study.runs.items():
        if run["batch_size"] == 64:
            made += [paths.run_folder(results, name) / file for file in paths.run_files(run)]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"status": "finished"}' if path.suffix == ".json" else "")
    with project.snakemake("--configfile", "tests/slurm/devices.yaml", *options) as process:
        assert process.wait(300) != 0
    found = project.submissions()
    assert found, project.tail()
    assert not (project.root / "warm").exists()
    assert "Traceback" not in project.log.read_text()
    return found


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> list[dict[str, str]]:
    """Of a job for each training, measure and timing."""
    return asked(tmp_path_factory.mktemp("asked"))


def test_memory_and_time_reach_sbatch_and_memory_grows(submissions):
    asked = {}
    for submission in submissions:
        memory = asked.setdefault(submission["--comment"], [])
        memory.append(int(submission["--mem"]))
        assert int(submission["-t"]) > 0
    assert {comment.partition("_wildcards_")[0] for comment in asked} == {
        "rule_train",
        "rule_evaluate",
        "rule_weight_distance",
        "rule_time_epoch",
        "rule_run_command",
    }
    for comment, memory in asked.items():  # the first try and three more
        # A training's last has no more than the one before: it records what was not enough.
        last = 4 if comment.startswith(("rule_train_", "rule_run_command_")) else 8
        assert memory == [factor * memory[0] for factor in (1, 2, 4, last)]


def test_jobs_ask_for_what_they_use_and_are_warned_before_their_time_is_up(submissions):
    for submission in submissions:
        rule, subject = _rule(submission), submission["--comment"]
        assert submission["--signal"] == "TERM@60"
        assert submission["--job-name"].startswith("batchscope_")
        # A node to itself has a timing, and a run of a command that is to be alone.
        alone = rule == "run_command" and submission["--mem"] in ("3000", "6000", "12000")
        assert ("--exclusive" in submission) == (rule == "time_epoch" or alone)
        several = "+th=4" in subject and rule not in ("evaluate", "weight_distance")
        several |= rule == "run_command"
        assert submission["--cpus-per-task"] == ("4" if several else "1")
        wanted = "+dev=gpu" in subject and rule != "weight_distance" or alone
        assert submission.get("--gpus") == ("1" if wanted else None)
        assert not {"--gres", "-p", "--partition", "-A", "--account"} & {*submission}
    assert any("--gpus" in submission for submission in submissions)


# A real SLURM ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory) -> Iterator[cluster.Cluster]:
    with cluster.Cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


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
    jobs = cluster.ask("scontrol", "-o", "show", "job").splitlines()
    ours = [job for job in jobs if "JobName=batchscope_" in job]
    assert len(ours) == len(project.submissions())
    assert all("JobState=COMPLETED" in job for job in ours)
    (record,) = project.root.glob("results/runs/command-*/record.json")
    assert json.loads(record.read_text())["train_seconds"] > 0
    # A node to itself, all of its CPUs, whatever was asked for.
    alone = [job for job in ours if "OverSubscribe=NO" in job]
    assert len(alone) == 2
    assert all(f"NumCPUs={cluster.CPUS} " in job for job in alone)


@pytest.fixture(scope="module")
def interrupted(project) -> dict[str, list]:
    """A whole study of two trainings, one cancelled while it ran, the other out of time.

    Each is stopped after its first epoch: how long a job takes to get there is the machine's.
    """
    runs = list(project.study("tests/slurm/slow.yaml").runs)
    # A limit below what it has had, or little above: SLURM warns it within half a minute.
    ends = [["scancel", "{job}"], ["scontrol", "update", "JobId={job}", "TimeLimit=1"]]
    waiting = dict(zip(runs, ends, strict=True))
    before, stopped = len(project.submissions()), []
    rest = project.root / "rest"
    rest.touch()
    arguments = ("--configfile", "tests/slurm/slow.yaml")
    with project.snakemake(*arguments, BATCHSCOPE_TEST_REST=str(rest)) as process:

        def those_that_train_are_stopped() -> bool:
            assert process.poll() is None, project.tail()
            for run in [run for run in waiting if project.has_trained(run)]:
                stopped.append(_running_job(project, run))
                assert stopped[-1], project.tail()
                end = [word.format(job=stopped[-1]) for word in waiting.pop(run)]
                subprocess.run(end, check=True)
            running = cluster.ask("squeue", "-h", "-t", "R,CG", "-o", "%A").split()
            return not waiting and not {*stopped} & {*running}

        _wait(those_that_train_are_stopped, 300, project)
        rest.unlink()
        project.wait(process, 900)
    return {"runs": runs, "submissions": project.submissions()[before:]}


def _running_job(project: Project, run: str) -> str:
    """Returns the number of the job that a run is in."""
    listed = cluster.ask("squeue", "-h", "-t", "R", "-o", "%A %k").splitlines()
    return next(
        (line.split()[0] for line in listed if line.endswith(f"rule_train_wildcards_{run}")), ""
    )


def _wait(condition: Callable[[], object], seconds: float, project: Project) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, project.tail()
        time.sleep(0.5)


def _undisturbed_weights(project: Project, run: str, results: Path) -> bytes:
    """Trains a run by hand, from the same data, and returns the file of its final weights."""
    (results / "data").symlink_to(project.root / "results" / "data")
    command = [sys.executable, "workflow/run.py", "train", "--run", run]
    command += ["--results", str(results), "--model-file", "tests/slurm/slow_model.py"]
    subprocess.run(command, cwd=project.root, env=project.environment(), check=True, timeout=600)
    return (results / "runs" / run / "final.npz").read_bytes()


@pytest.mark.slurm
@needs_a_cluster
@pytest.mark.parametrize("index", [0, 1], ids=["cancelled", "out of time"])
def test_an_interrupted_training_is_sent_again_and_goes_on(project, interrupted, tmp_path, index):
    run = interrupted["runs"][index]
    sent = [each["--comment"] for each in interrupted["submissions"]]
    assert sent.count(f"rule_train_wildcards_{run}") >= 2
    record = project.record(run)
    assert record["status"] == "finished"
    assert record["resumed"] >= 1  # no checkpoint was due: the signal asked for it
    final = project.root / "results" / "runs" / run / "final.npz"
    assert final.read_bytes() == _undisturbed_weights(project, run, tmp_path)
    headline = project.root / "results" / "studies" / "slow" / "report.txt"
    assert "2 runs: 2 finished" in headline.read_text()
