"""Runs of a user's command: their status by output and log, their utilisation and throughput."""

import signal

import numpy as np
import pandas
import pytest

import commanded
from batchscope.core.errors import UserError
from batchscope.external import command_runner
from batchscope.host import memory_limits
from batchscope.store import paths

ENDED = command_runner.CommandEnd(0, [])


def judged(tmp_path, text="", end=ENDED, **log):
    """Return status, message and rows of a run; the text is its log, or its output with `lines`."""
    keys = log or {"file": "{run_dir}/log.csv"}
    planned = commanded.planned(tmp_path / "mine", vary={"batch_size": [8]}, log=keys)
    (run,) = planned.commands.values()
    folder = paths.run_folder(tmp_path / "results", run.name)
    (folder / paths.COMMAND_FOLDER).mkdir(parents=True, exist_ok=True)
    place = paths.COMMAND_OUTPUT if log else f"{paths.COMMAND_FOLDER}/log.csv"
    (folder / place).write_text(text)
    return command_runner._judge(folder, run, end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step,valloss\n1,2.0\n2,1.0\n", "no loss or metric: not in the columns step and valloss"),
        ("step,val_loss\n1,2.3\n,1.9\n3,1.8\n", r"line 3: received no number of updates"),
        (
            "step,epoch,val_loss\n10,1,2\n20,2,1.8\n20,2,1.7\n30,3,1.6\n40,2,1.5\n",
            r"line 6, epoch: received 2 after 3, where",
        ),
        ("step,val_loss\n1,2.3\n2,FAILED\n", "status of the log is failed"),
    ],
)
def test_a_log_that_is_no_result_is_refused_at_its_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        judged(tmp_path, text)


def test_what_a_log_says_of_the_end_counts_though_the_command_ended(tmp_path):
    result = judged(tmp_path, "step,val_loss\n1,2.3\n2,1.9\n3,OOM\n")
    assert result[0] == "out_of_memory"
    for end in ("3,", "3,nan"):  # pandas writes NaN as an empty cell.
        status, message, _ = judged(tmp_path, f"step,val_loss\n1,2.3\n2,1.9\n{end}\n")
        assert status == "diverged" and "last loss is empty or not finite" in message
    assert judged(tmp_path, "step,val_loss,status\n1,2.3,\n2,,finished\n")[0] == "finished"


def test_what_a_run_that_went_on_logs_again_is_joined(tmp_path):
    text = "step,loss,val_loss\n2,,1.9\n2,1.8,\n2,,1.91\n2,1.81,\n4,1.5,1.6\n"
    rows = judged(tmp_path, text)[2]
    assert rows[["train_loss", "validation_loss"]].values.tolist() == [[1.81, 1.91], [1.5, 1.6]]


def test_lines_without_a_file_are_those_of_the_output(tmp_path):
    rows = judged(tmp_path, "step 10: 2.5\n", lines="step {updates}: {val_loss}")[2]
    assert rows[["updates", "validation_loss"]].values.tolist() == [[10, 2.5]]


def test_a_log_may_say_its_own_seed_and_size(tmp_path):
    text = "step,seed,batch_size,val_loss\n10,7,8.0,2\n20,7,8.0,1.8\n"
    assert judged(tmp_path, text)[2]["validation_loss"].tolist() == [2, 1.8]


def test_a_summary_after_all_steps_is_of_the_end_and_costs_no_times(tmp_path):
    lines = [f'{{"step": {step}, "val_loss": {1 / step}}}' for step in (10, 20)]
    rows = judged(tmp_path, "\n".join([*lines, '{"test_loss": 1.95}']))[2]
    assert rows["updates"].tolist() == [10, 20] and rows["test_loss"].iloc[-1] == 1.95
    assert command_runner._with_seconds(rows, 4.0)["seconds"].tolist() == [2.0, 4.0]


def test_a_kill_for_memory_is_a_result_or_another_attempt(tmp_path, monkeypatch):
    killed, ended = (
        command_runner.CommandEnd(-number, ["reads data"], limit_mb=800.0)
        for number in (signal.SIGKILL, signal.SIGTERM)
    )
    status, message, _ = judged(tmp_path, end=killed)
    assert status == "out_of_memory" and "800 MB" in message
    # Any other kill at the same time is none.
    with pytest.raises(UserError, match="SIGTERM"):
        judged(tmp_path, end=ended)
    monkeypatch.setenv(memory_limits.SCHEDULED_VARIABLE, "7")
    with pytest.raises(UserError, match="at most 800 MB"):
        judged(tmp_path, end=killed)


def test_the_words_of_a_refusal_are_sought_at_the_end_of_a_failure_alone(tmp_path):
    refusal = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    end = command_runner.CommandEnd(1, ["epoch 1", "Traceback", refusal])
    assert judged(tmp_path, end=end)[:2] == ("out_of_memory", refusal)
    output = tmp_path / "output.txt"
    output.write_text("where it is out of memory, take smaller batches\n" + "a line\n" * 100)
    with pytest.raises(UserError, match="exit status 1"):
        lines = command_runner._last_lines(output)
        judged(tmp_path, end=command_runner.CommandEnd(1, lines))


def test_the_last_lines_hold_no_control_characters(tmp_path):
    output = tmp_path / "output.txt"
    bar = b" 1/9 [=>..]" + 11 * b"\b" + 3 * b"\b" + b"\r 9/9 [====] done\n"
    output.write_bytes(bar + b"\n\x1b[31mred\x1b[0m \x1b]0;owned\x07\xff\n\n")
    lines = command_runner._last_lines(output)
    assert lines == [" 1/9 [=>..]", " 9/9 [====] done", "red \\x1b]0;owned\\x07\ufffd"]


# Two seconds of imports on a tenth of a core, then two seconds of training.
SERIES = {
    "seconds": np.arange(5.0),
    "process_percent": np.array([np.nan, 10, 10, 90, 90]),
    "gpu_percent": np.array([np.nan, 0, 0, 60, 80]),
}


@pytest.mark.parametrize(
    ("seconds", "cpu", "gpu"),
    [
        ([0, 1, 2], 90, 70),
        ([0, 1, 2.5], (0.5 * 10 + 2 * 90) / 2.5, 2 * 70 / 2.5),
        ([900], 50, 35),  # a clock that is not the run's own
        (None, 50, 35),
    ],
)
def test_use_counts_while_the_log_counts_seconds(seconds, cpu, gpu):
    rows = pandas.DataFrame({} if seconds is None else {"seconds": seconds})
    used = command_runner.utilisation(SERIES, rows)
    assert used == {"process_percent": pytest.approx(cpu), "gpu_percent": pytest.approx(gpu)}


@pytest.mark.parametrize(
    ("rows", "rate"),
    [
        ({"examples": [32, 1024, 2016], "seconds": [0, 1, np.nan]}, 992),
        ({"examples": [32, 1024], "seconds": [1, 1]}, None),
        ({"examples": [32, 1024]}, None),
    ],
)
def test_throughput_is_that_between_the_first_and_the_last_timed_row(rows, rate):
    assert command_runner.throughput(pandas.DataFrame(rows)) == rate
