"""The job of a run that a command makes: what its end is, what it used, and what it leaves."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

import commanded
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.external import command_runner
from batchscope.host import memory_limits
from batchscope.store import paths, progress
from batchscope.study.versions import VERSIONS
from project import ROOT, forked

pytestmark = pytest.mark.slow

MODES = ["ok", "exit", "nan", "nan_exit", "memory", "killed", "no_log"]


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """Every mode of the script, run once: mode -> exit status, output, name; and the results."""
    folder = tmp_path_factory.mktemp("tried")
    vary = {"batch_size": [8], "mode": MODES}
    result = commanded.planned(folder / "mine", "mode={mode}", vary=vary)
    by_mode = {run.factors["mode"]: name for name, run in result.commands.items()}
    results = folder / "results"
    return results, {
        mode: (*commanded.make(results, by_mode[mode], result), by_mode[mode]) for mode in MODES
    }


@pytest.mark.parametrize(
    ("mode", "status", "rows"),
    [("ok", "finished", 20), ("nan", "diverged", 21), ("nan_exit", "diverged", 21)]
    + [("memory", "out_of_memory", 20)],
)
def test_what_is_a_result(tried, mode, status, rows):
    results, runs = tried
    code, output, name = runs[mode]
    assert code == 0 and output == f"{name}: {status}\n"
    result, folder = commanded.record(results, name), paths.run_folder(results, name)
    assert (result["status"], result["version"]) == (status, VERSIONS["run_command"])
    assert result["exit_status"] == {"nan_exit": 3, "memory": 1}.get(mode, 0)
    assert result["factors"] == {"batch_size": 8, "mode": mode, "seed": 0}
    assert ("MemoryError: cannot have that much" in result["message"]) == (mode == "memory")
    evaluated = disk.read_rows(folder / paths.TRAJECTORY, "updates", "examples", "validation_loss")
    assert len(evaluated) == rows
    assert [float(row["examples"]) for row in evaluated[:2]] == [160, 320]
    assert "seconds" not in evaluated[0]  # others may have run beside it
    assert result["contended_seconds"] > 0 and result["train_seconds"] is None
    assert 5 < result["memory_peak_mb"] < 200 and result["examples_per_second"] is None
    assert (folder / paths.COMMAND_OUTPUT).read_text().startswith(f"mode {mode}\n")
    files = {
        path.name: path for path in folder.iterdir() if path.suffix in (".csv", ".json", ".txt")
    }
    del files[paths.RECORD]
    assert result["sha256"] == {name: disk.file_sha256(path) for name, path in files.items()}
    assert files.keys() == {"trajectory.csv", "command.json", "output.txt"}


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("exit", "The command ended with exit status 3. Last line: the "),
        ("killed", "The command ended by SIGKILL."),
        ("no_log", "log.csv: "),
    ],
)
def test_what_is_none_fails_and_shows_its_last_lines(tried, mode, said):
    results, runs = tried
    code, output, name = runs[mode]
    assert code == 1 and said in output and "Traceback" not in output
    assert (f"mode {mode}\n" in output) == (mode in ("exit", "killed"))
    assert not paths.run_record(paths.run_folder(results, name)).exists()


def test_alone_its_times_count_with_the_threads_of_the_study_and_no_process_is_left(tmp_path):
    script = 'env > "$0/env"; setsid sleep 300 & echo $! > "$0/pid"; exec python script.py "$@"'
    words = ["bs={batch_size}", "seed={seed}", "out={run_dir}"]
    result = commanded.planned(
        tmp_path,
        command=["sh", "-c", script, "{run_dir}", *words],
        env={"MINE": "{batch_size}"},
        resources={"threads": 3},
        alone=True,
        vary={"batch_size": [8]},
    )
    (name,) = result.commands
    results = tmp_path / "results"
    assert commanded.make(results, name, result)[0] == 0
    folder = paths.run_folder(results, name)
    lines = (folder / paths.COMMAND_FOLDER / "env").read_text().splitlines()
    assert {"MINE=8", "OMP_NUM_THREADS=3", "CUDA_VISIBLE_DEVICES="} <= {*lines}
    assert not psutil.pid_exists(int((folder / paths.COMMAND_FOLDER / "pid").read_text()))
    record = commanded.record(results, name)
    rows = disk.read_rows(folder / paths.TRAJECTORY, "seconds")
    assert record["train_seconds"] == record["contended_seconds"] == float(rows[-1]["seconds"])
    assert float(rows[0]["seconds"]) == pytest.approx(record["train_seconds"] / 20)


WITH_A_GPU = """
import sys
sys.path.append(sys.argv[3])
import pytest
from batchscope.external import command_runner
from fake_nvml import Nvml
with pytest.MonkeyPatch.context() as patch:
    Nvml().install(patch)
    print(command_runner.make(sys.argv[1], sys.argv[2]))
"""


def test_a_gpu_is_measured_beside_it(tmp_path):
    """Through NVML, which a fake stands for: how busy, its memory, its energy."""
    keys = {"vary": {"batch_size": [8]}, "resources": {"gpu": 1}}
    result = commanded.planned(tmp_path, "g={gpus}", **keys)
    (name,) = result.commands
    folder = paths.run_folder(tmp_path / "results", name)
    disk.write_json(folder / paths.COMMAND_NOTE, result.commands[name].note())
    done = forked(WITH_A_GPU, tmp_path / "results", name, ROOT / "tests")
    assert done.stdout == "finished\n", done.stderr
    record = commanded.record(tmp_path / "results", name)
    assert (record["device"], record["replicas"], record["gpu_percent"]) == ("gpu", 1, 63.0)
    assert record["gpu_memory_peak_mb"] == 12345.0 and record["gpu_energy_joules"] > 0
    assert record["gpu_device"]["name"] == "NVIDIA Test"


def test_an_input_that_changed_since_it_was_planned_is_refused(tmp_path):
    result = commanded.planned(tmp_path, vary={"batch_size": [8]})
    (name,) = result.commands
    with (tmp_path / "script.py").open("a") as script:
        script.write("# edited\n")
    code, output = commanded.make(tmp_path / "results", name, result)
    assert code == 1 and "script.py: changed after" in output
    assert not (paths.run_folder(tmp_path / "results", name) / paths.COMMAND_FOLDER).exists()


def started(results: Path, name: str, result, wait: Path) -> subprocess.Popen:
    """Starts the job of a run whose script waits, and returns once it does."""
    wait.touch()
    folder = paths.run_folder(results, name)
    disk.write_json(folder / paths.COMMAND_NOTE, result.commands[name].note())
    environment = {**os.environ, "BATCHSCOPE_TEST_WAIT": str(wait)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    words = commanded.words(results, name)
    job = subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True, **pipes)
    end = time.monotonic() + 60
    output = folder / paths.COMMAND_OUTPUT
    while not (output.exists() and output.stat().st_size):
        assert job.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    return job


@pytest.fixture
def waiting(tmp_path):
    result = commanded.planned(tmp_path / "mine", vary={"batch_size": [8]})
    (name,) = result.commands
    results, wait = tmp_path / "results", tmp_path / "wait"
    job = started(results, name, result, wait)
    yield results, name, result, wait, job
    job.kill()
    job.communicate()


def test_watch_lists_it_and_a_signal_reaches_all_of_it(waiting):
    results, name, *_, job = waiting
    below = psutil.Process(job.pid).children(recursive=True)
    assert [job.name for job in progress.running_jobs(results)] == [name]
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 1 and "stopped by a signal" in output
    assert not any(item.is_running() for item in below)
    assert not paths.run_record(paths.run_folder(results, name)).exists()
    assert not progress.running_jobs(results)


@pytest.mark.parametrize("killed", ["job", "supervisor", "group"])
def test_when_it_is_killed_nothing_of_the_command_goes_on(waiting, killed):
    results, name, result, wait, job = waiting
    below = psutil.Process(job.pid).children(recursive=True)
    supervisor = next(item for item in below if "supervisor.py" in " ".join(item.cmdline()))
    assert len(below) == 2
    left = (paths.run_folder(results, name) / paths.COMMAND_FOLDER) / "left"
    left.touch()
    if killed == "group":
        os.killpg(job.pid, signal.SIGKILL)
    else:
        (supervisor if killed == "supervisor" else psutil.Process(job.pid)).kill()
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive
    job.communicate(timeout=60)
    wait.unlink()
    code, output = commanded.make(results, name, result)
    assert (code, output) == (0, f"{name}: finished\n") and not left.exists()


def test_a_run_that_resumes_keeps_its_folder_and_has_no_time(tmp_path):
    keys = {"vary": {"batch_size": [8]}, "resume": True, "alone": True}
    result = commanded.planned(tmp_path / "mine", **keys)
    (name,) = result.commands
    results, wait = tmp_path / "results", tmp_path / "wait"
    job = started(results, name, result, wait)
    files = paths.run_folder(results, name) / paths.COMMAND_FOLDER
    (files / "checkpoint").touch()
    job.kill()
    job.communicate()
    wait.unlink()
    assert commanded.make(results, name, result)[0] == 0
    record = commanded.record(results, name)
    assert (files / "checkpoint").exists() and record["resumed"]
    assert record["train_seconds"] is None
    rows = disk.read_rows(paths.run_folder(results, name) / paths.TRAJECTORY, "updates")
    assert "seconds" not in rows[0]


def judged(tmp_path, monkeypatch, ended):
    result = commanded.planned(tmp_path / "mine", vary={"batch_size": [8]})
    (run,) = result.commands.values()
    folder = paths.run_folder(tmp_path / "results", run.name)
    folder.mkdir(parents=True, exist_ok=True)
    return command_runner._judged(folder, run, ended)[:2]


def judged_log(tmp_path, text, **log):
    """What is made of a log of a run that ended by itself."""
    given = {"file": "{run_dir}/log.csv", **log}
    result = commanded.planned(tmp_path / "mine", vary={"batch_size": [8]}, log=given)
    (run,) = result.commands.values()
    folder = paths.run_folder(tmp_path / "results", run.name)
    (folder / paths.COMMAND_FOLDER).mkdir(parents=True)
    (folder / paths.COMMAND_FOLDER / "log.csv").write_text(text)
    return command_runner._judged(folder, run, command_runner.Ended(0, []))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step,valloss\n1,2.0\n2,1.0\n", "no loss or metric: not in the columns step and valloss"),
        ("step,val_loss\n1,2.3\n,1.9\n3,1.8\n", r"line 3: received no number of updates"),
        (
            "step,epoch,val_loss\n10,1,2\n20,2,1.8\n20,2,1.7\n30,3,1.6\n40,2,1.5\n",
            r"line 6, epoch: received 2, .* of .*line 5, where",
        ),
        ("step,examples,val_loss\n10,20,0.5\n", r"line 2, examples: received 20, but 10 updates"),
        ("step,val_loss\n1,2.3\n2,FAILED\n", "status of the log is failed"),
    ],
)
def test_a_log_that_is_no_result_is_refused_at_its_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        judged_log(tmp_path, text)


def test_what_a_log_says_of_the_end_counts_though_the_command_ended(tmp_path):
    result = judged_log(tmp_path, "step,val_loss\n1,2.3\n2,1.9\n3,OOM\n")
    assert result[0] == "out_of_memory"


def test_what_a_run_that_went_on_logs_again_is_joined(tmp_path):
    text = "step,loss,val_loss\n2,,1.9\n2,1.8,\n2,,1.91\n2,1.81,\n4,1.5,1.6\n"
    rows = judged_log(tmp_path, text)[2]
    assert rows[["train_loss", "validation_loss"]].values.tolist() == [[1.81, 1.91], [1.5, 1.6]]


def test_a_log_may_say_its_own_seed_and_size(tmp_path):
    text = "step,seed,batch_size,val_loss\n10,7,8.0,2\n20,7,8.0,1.8\n"
    assert judged_log(tmp_path, text)[2]["validation_loss"].tolist() == [2, 1.8]


def test_a_summary_after_all_steps_is_of_the_end_and_costs_no_times(tmp_path):
    lines = [f'{{"step": {step}, "val_loss": {1 / step}}}' for step in (10, 20)]
    rows = judged_log(tmp_path, "\n".join([*lines, '{"test_loss": 1.95}']))[2]
    assert rows["updates"].tolist() == [10, 20] and rows["test_loss"].iloc[-1] == 1.95
    assert command_runner._timed(rows, 4.0)["seconds"].tolist() == [2.0, 4.0]


def test_a_kill_for_memory_is_a_result_or_another_attempt(tmp_path, monkeypatch):
    killed = command_runner.Ended(-signal.SIGKILL, ["reads data"], limit_mb=800.0)
    result = judged(tmp_path, monkeypatch, killed)
    assert result[0] == "out_of_memory" and "800 MB" in result[1]
    # Any other kill at the same time is none.
    with pytest.raises(UserError, match="SIGTERM"):
        judged(tmp_path, monkeypatch, command_runner.Ended(-signal.SIGTERM, [], limit_mb=800.0))
    monkeypatch.setenv(memory_limits.SCHEDULED, "7")
    with pytest.raises(UserError, match="at most 800 MB"):
        judged(tmp_path, monkeypatch, killed)


def test_the_words_of_a_refusal_are_sought_at_the_end_of_a_failure_alone(tmp_path, monkeypatch):
    refusal = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    ended = command_runner.Ended(1, ["epoch 1", "Traceback", refusal])
    assert judged(tmp_path, monkeypatch, ended) == ("out_of_memory", refusal)
    output = tmp_path / "output.txt"
    output.write_text("where it is out of memory, take smaller batches\n" + "a line\n" * 100)
    with pytest.raises(UserError, match="exit status 1"):
        lines = command_runner._last_lines(output)
        judged(tmp_path, monkeypatch, command_runner.Ended(1, lines))


def test_the_last_lines_hold_no_control_characters(tmp_path):
    output = tmp_path / "output.txt"
    bar = b" 1/9 [=>..]" + 11 * b"\b" + 3 * b"\b" + b"\r 9/9 [====] done\n"
    output.write_bytes(bar + b"\n\x1b[31mred\x1b[0m \x1b]0;owned\x07\xff\n\n")
    lines = command_runner._last_lines(output)
    assert lines == [" 1/9 [=>..]", " 9/9 [====] done", "red \\x1b]0;owned\\x07\ufffd"]
