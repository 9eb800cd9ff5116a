"""Jobs of a user's command: their records, signals, kills and resume."""

import os
import signal
import subprocess

import psutil
import pytest

import commanded
import project
from batchscope.core import disk
from batchscope.store import paths, progress
from batchscope.study.registry import VERSIONS
from project import ROOT, forked, wait_for

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
    files = {"trajectory.csv", "command.json", "output.txt"}
    assert {path.name for path in folder.glob("*.*")} == files | {paths.RECORD}
    assert result["sha256"] == {name: disk.file_sha256(folder / name) for name in files}


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
    script = (
        'env > "$0/env"; setsid sleep 300 & echo $! > "$0/pid"; yes | head -n 1;'
        'exec python script.py "$@"'
    )
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
    # SIGPIPE ended `yes`, without a message about a broken pipe.
    assert (folder / paths.COMMAND_OUTPUT).read_text() == "y\nmode ok\n"
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
    print(command_runner.make_run(sys.argv[1], sys.argv[2]))
"""


def test_a_gpu_is_measured_beside_it(tmp_path):
    """Through NVML, which a fake stands for: how busy, its memory, its energy."""
    keys = {"vary": {"batch_size": [8]}, "resources": {"gpu": 1}}
    result = commanded.planned(tmp_path, "g={gpus}", **keys)
    (name,) = result.commands
    folder = paths.run_folder(tmp_path / "results", name)
    disk.write_json(folder / paths.COMMAND_NOTE, result.commands[name].model_dump())
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


@pytest.fixture
def waiting(tmp_path, request):
    """The job of a run whose script waits."""
    keys = getattr(request, "param", {})
    result = commanded.planned(tmp_path / "mine", vary={"batch_size": [8]}, **keys)
    (name,) = result.commands
    results, wait = tmp_path / "results", tmp_path / "wait"
    wait.touch()
    folder = paths.run_folder(results, name)
    disk.write_json(folder / paths.COMMAND_NOTE, result.commands[name].model_dump())
    environment = {"BATCHSCOPE_TEST_WAIT": str(wait)}
    options = {"stderr": subprocess.STDOUT, "start_new_session": True}
    job = project.start(*commanded.words(results, name), environment=environment, **options)
    output = folder / paths.COMMAND_OUTPUT
    wait_for(lambda: job.poll() is not None or (output.exists() and output.stat().st_size))
    assert job.poll() is None
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


@pytest.mark.parametrize("waiting", [{"resume": True, "alone": True}], indirect=True)
def test_a_run_that_resumes_keeps_its_folder_and_has_no_time(waiting):
    results, name, result, wait, job = waiting
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
