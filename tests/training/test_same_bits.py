"""The same bits again: from the same seed, in other chunks, after a kill at any point."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from test_trainer import history

from batchscope.store import progress
from digit_runs import assert_same_bits, door, train, wait_for_checkpoints, with_digits
from project import forked

pytestmark = pytest.mark.slow


def assert_same_training(one: Path, other: Path) -> None:
    assert_same_bits(one, other)
    assert history(one) == history(other)


@pytest.fixture
def again(dropout_run, digits, tmp_path) -> Path:
    """Results without the run, and with the note of what it keeps."""
    shutil.copy(dropout_run[0] / "epochs_read.json", with_digits(digits, tmp_path))
    return tmp_path


def test_examples_that_stay_on_the_disk_give_the_same_bits(dropout_run, again):
    results, run, model = dropout_run
    program = (
        "import sys; from batchscope.host import memory_limits; memory_limits._ARRAY_SHARE = 0.0;"
        "from batchscope.cli import entry; entry.main(sys.argv[1:])"
    )
    done = forked(program, *("train", "--results", again, "--run", run, "--model-file", model))
    assert done.returncode == 0, done.stderr
    assert_same_training(results / "runs" / run, again / "runs" / run)


def test_killed_at_several_points_ends_with_the_same_bits(dropout_run, again):
    results, run, model = dropout_run
    folder = again / "runs" / run
    arguments = ("train", "--results", str(again), "--run", run, "--model-file", model)
    arguments += ("--chunk-steps", "2", "--checkpoint-seconds", "0")
    kills = {1: signal.SIGKILL, 5: signal.SIGTERM, 12: signal.SIGKILL}
    for checkpoints, kill in kills.items():  # further into the training each time
        process = door(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for_checkpoints(process, folder, checkpoints)
        assert process.poll() is None
        process.send_signal(kill)
        output, _ = process.communicate(timeout=300)
        assert kill == signal.SIGKILL or process.returncode == 85, output
        assert not (folder / "record.json").exists()
    done = train(again, run, *arguments[5:])
    assert done["resumed"] == 3
    assert_same_training(results / "runs" / run, folder)
    assert not (folder / "checkpoint.npz").exists()
    assert not progress.running_jobs(again)
