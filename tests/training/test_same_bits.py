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


def test_same_seed_gives_the_same_bits_wherever_the_chunks_are_cut(dropout_run, again):
    results, run, model = dropout_run
    limits = ("--chunk-steps", "3", "--checkpoint-seconds", "0")
    train(again, run, "--model-file", model, *limits)
    assert_same_training(results / "runs" / run, again / "runs" / run)


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


# Runs a step that dies, as by `kill -9`, when a function is called for the given time.
DYING = """
import os, signal, sys
from batchscope.cli import entry, steps

owner, name, calls, *words = sys.argv[1:]
left, start = int(calls), steps.start_tensorflow

def start_to_die(factors):
    start(factors)
    from batchscope.core import disk
    from batchscope.training import trainer

    place = {"disk": disk, "Training": trainer.Training}[owner]
    whole = getattr(place, name)

    def dying(*arguments, **options):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **options)

    setattr(place, name, dying)

steps.start_tensorflow = start_to_die
entry.main(words)
"""
PAUSE_IN_THE_FIRST_EPOCH = ("Training", "_pause", "4")  # every 1 or 2 steps; an epoch has 11
WRITING_THE_HISTORY = ("disk", "write_rows", "1")  # after the weights, before the record


@pytest.mark.parametrize(
    ("call", "checkpoint_seconds", "left", "resumed"),
    [
        (PAUSE_IN_THE_FIRST_EPOCH, "1000", set(), 0),
        (WRITING_THE_HISTORY, "0", {"final.npz", "best.npz", "checkpoint.npz"}, 1),
    ],
)
def test_killed_before_the_first_checkpoint_or_while_the_results_are_written(
    dropout_run, again, call, checkpoint_seconds, left, resumed
):
    results, run, model = dropout_run
    folder = again / "runs" / run
    words = ("train", "--results", str(again), "--run", run, "--model-file", model)
    limits = ("--chunk-steps", "2", "--checkpoint-seconds", checkpoint_seconds)
    half = [folder / ".checkpoint.npz.a1.tmp", folder / "epochs" / ".1.npz.b2.tmp"]
    half[1].parent.mkdir(parents=True)
    for path in half:  # of a kill before
        path.write_bytes(b"half")
    done = forked(DYING, *call, *words, *limits)
    assert done.returncode == -signal.SIGKILL, done.stderr
    result = {path.name for path in folder.glob("*")}
    assert result - {"initial.npz", "updates.npz", "training.lock", "epochs"} == left
    assert not any(path.exists() for path in half)
    assert train(again, run, "--model-file", model)["resumed"] == resumed
    assert_same_training(results / "runs" / run, folder)
    assert not (folder / "checkpoint.npz").exists()
