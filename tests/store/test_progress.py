"""What a training reports of itself while it runs, and who reads it."""

import errno
import json
import os
import platform
import signal
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from batchscope.store import progress
from digit_runs import door, run_name, with_digits
from project import wait_for

ROW = {"train_loss": 0.123456, "validation_loss": 0.654321}


def clock(monkeypatch, *seconds: float) -> None:
    times = iter(seconds)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))


def lines(results: Path) -> list[str]:
    return [job.line for job in progress.running_jobs(results)]


def test_a_line_has_epoch_losses_and_time_left(tmp_path, monkeypatch, capsys):
    clock(monkeypatch, 100, 110, 120, 121, 10_000, 10_010)
    reporter = progress.Reporter(tmp_path, "some+run", epochs=5)
    reporter.report(0, 0.5, [])  # the time left is computed from here on
    assert capsys.readouterr().out == "Epoch 1 of 5 (50 % of it).\n"
    reporter.report(2, 0, [ROW, ROW])
    reporter.report(2, 0.1, [ROW, ROW])  # a second later
    line = "Epoch 2 of 5: training loss 0.1235, validation loss 0.6543 after epoch 2; "
    assert capsys.readouterr().out == f"{line}about 20 s left.\n"
    assert lines(tmp_path) == [f"train some+run: e{line[1:]}about 20 s left"]
    reporter.report(4, 0, [ROW] * 4)
    assert capsys.readouterr().out
    reporter.report(4, 0.5, [ROW] * 4)  # the log of a long training has fewer lines
    assert capsys.readouterr().out == "" and "50 % of it" in lines(tmp_path)[0]


def test_who_runs_is_known_by_the_file_and_its_process(tmp_path):
    assert lines(tmp_path) == []
    with pytest.raises(KeyError), progress.listed_as_running(tmp_path, "sharpness", "some+run"):
        assert lines(tmp_path) == ["sharpness some+run: started 0 s ago"]
        raise KeyError
    assert lines(tmp_path) == []
    dead = subprocess.Popen(["true"])
    dead.wait()
    note = {"step": "train", "name": "some+run", "text": "epoch 2", "host": platform.node()}
    path = tmp_path / progress.FOLDER / "note.json"
    path.write_text(json.dumps({**note, "process": dead.pid, "time": time.time()}))
    assert lines(tmp_path) == []
    reused = {**note, "process": os.getpid(), "time": 1.0}  # the number of a later process
    path.write_text(json.dumps(reused))
    assert lines(tmp_path) == []
    elsewhere = {**note, "host": "another", "process": dead.pid, "time": time.time() - 600}
    path.write_text(json.dumps(elsewhere))
    assert lines(tmp_path) == ["train some+run on another: epoch 2 (reported 10 min ago)"]
    path.write_text('{"host"')  # it ends in this moment
    assert lines(tmp_path) == []


def test_a_full_disk_stops_no_training(tmp_path, monkeypatch, capsys):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(progress.disk, "write_json", Mock(side_effect=full))
    clock(monkeypatch, 0, 10, 20)
    reporter = progress.Reporter(tmp_path, "some+run", epochs=5)
    with reporter.listed_as_running():
        reporter.report(1, 0, [ROW])
        reporter.report(2, 0, [ROW, ROW])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_training_reports_and_another_process_sees_it(digits, tmp_path):
    results = with_digits(digits, tmp_path / "results")
    run = run_name(epochs=100000)
    log = tmp_path / "log"
    arguments = ("--results", str(results), "--run", run, "--chunk-seconds", "0.2")
    with open(log, "w") as file:
        training = door("train", *arguments, stdout=file, stderr=subprocess.STDOUT)
        wait_for(lambda: "Epoch " in log.read_text() or training.poll() is not None)
        once = door("watch", "--once", "--results", str(results))
        output, _ = once.communicate(timeout=300)
        training.send_signal(signal.SIGTERM)
        training.wait(timeout=300)
    assert output.startswith(f"train {run}: epoch ") and " of 100000" in output
    assert "validation loss" in output and output.endswith(" left\n")
    assert not list(results.glob(f"{progress.FOLDER}/*"))


@pytest.mark.slow
def test_watch_ends_quietly(tmp_path):
    watching = door("watch", "--results", str(tmp_path), stderr=subprocess.PIPE)
    assert watching.stdout.readline() == "No training, measure or timing runs now.\n"
    watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=300) == 130
    assert watching.stderr.read() == ""
