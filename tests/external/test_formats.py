"""Formats of logs: tables, JSON, printed lines, event files, and a message for all others."""

import json
import math
from typing import NamedTuple

import pandas
import pytest

from batchscope.core.errors import UserError
from batchscope.external import external_runs, text_logs
from batchscope.study.log_format import CommandLog, Logs

NANOGPT = """Overriding: batch_size = 12
number of parameters: 10.65M
step 0: train loss 4.2874, val loss 4.2823
iter 0: loss 4.2649, time 31225.29ms, mfu -100.00%
iter 10: loss 3.1462, time 90.57ms, mfu 4.14%
step 250: train loss 1.9683, val loss nan
"""


class Run(NamedTuple):
    rows: pandas.DataFrame
    status: str


def of_run(path, size=8, **keys):
    """Return the evaluations and the status of one run as a command's are read."""
    return Run(*external_runs.read_command_log(str(path), size, CommandLog(**keys), ()))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(folder, files, **keys):
    return external_runs.read(Logs(files=(files,), **keys), folder)


def test_sparse_rows_of_a_table_are_joined(tmp_path):
    """As Lightning writes them, with the number of the current epoch."""
    text = "epoch,step,train_loss_epoch,train_loss_step,val_loss\n"
    text += "0,49,,0.9,\n0,99,,,0.8\n0,99,0.85,,\n1,149,,0.6,\n1,199,,,0.5\n1,199,0.55,,\n"
    for size in (8, 16, 32):
        write(tmp_path / f"bs{size}" / f"bs{size}.csv", text.replace("0.5,", f"0.5{size},"))
    runs = read(tmp_path, "bs{batch_size}/bs{batch_size}.csv")  # one name, twice
    rows = runs.rows[runs.rows["batch_size"] == 8].dropna(subset="train_loss")
    assert rows["updates"].tolist() == [99, 199] and rows["train_loss"].tolist() == [0.85, 0.55]
    assert rows["validation_loss"].tolist() == [0.8, 0.5] and "epoch" not in runs.rows
    assert any("several rows of a run have the same epoch" in note for note in runs.table.notes)
    # Lightning's TensorBoard logger has the epoch in the steps of training losses alone.
    text = "step,epoch,train_loss,val_loss\n30,1,.3,\n10,0,1,\n15,,,1\n20,1,.5,\n25,,,.9\n"
    assert "epoch" not in of_run(write(tmp_path / "a.csv", text)).rows


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("epoch,step\n0,250\n1,500\n2,750\n", [1, 2, 3]),
        ("epoch,examples\n0,2000\n1,4000\n", [1, 2]),
        ("epoch,step\n0,0\n1,250\n2,500\n", [0, 1, 2]),  # evaluated before the first update
        ("epoch,step\n0.5,15\n1,30\n", [0.5, 1]),
        ("epoch,step\n1,250\n2,500\n", [1, 2]),
    ],
)
def test_updates_at_epoch_zero_tell_if_it_is_finished(text, epochs, tmp_path):
    first, *rest = text.splitlines()
    lines = [f"{first},val_loss", *(f"{line},{1 / (at + 1)}" for at, line in enumerate(rest))]
    path = write(tmp_path / "log.csv", "\n".join(lines))
    assert of_run(path).rows["epoch"].tolist() == epochs


def test_an_epoch_ends_with_a_smaller_batch(tmp_path):
    """As Keras and our own runs count: 1,087 examples are 5 batches of 256, or one of 2,048."""
    path = write(tmp_path / "log.csv", "epoch,val_loss\n0.5,3\n1,2\n3,1\n")
    for size, updates in ((256, [543.5 / 256, 5, 15]), (2048, [543.5 / 2048, 1, 3])):
        run = of_run(path, size, examples_per_epoch=1087)
        assert run.rows["updates"].tolist() == pytest.approx(updates)
        assert run.rows["examples"].tolist() == [543.5, 1087, 3261]


def test_cells_are_padded_or_absent_and_words_are_failures(tmp_path):
    run = of_run(write(tmp_path / "a.csv", "step , val_loss\n 10 , 0.5 \n20, N/A\n30,FAILED\n"))
    assert run.rows["validation_loss"].fillna(-1).tolist() == [0.5, -1, -1]
    assert run.status == "failed"


def test_the_index_of_pandas_separators_and_objects_in_cells_are_read(tmp_path):
    for separator in (",", ";", "\t"):
        text = ",step,val_loss,config\n0,10,0.5,{}\n1,20,0.4,{}\n".replace(",", separator)
        rows = of_run(write(tmp_path / "a.csv", text)).rows
        assert rows["updates"].tolist() == [10, 20]


def test_a_file_of_no_format_gets_the_line_to_write(tmp_path):
    path = write(tmp_path / "bs8.log", NANOGPT)
    with pytest.raises(UserError) as error:
        of_run(path)
    line = '`lines: "step {updates}: train loss {train_loss}, val loss {validation_loss}"`'
    assert line in str(error.value) and "event files" in str(error.value)


def test_printed_lines_are_read_by_patterns(tmp_path):
    path = write(tmp_path / "out.log", NANOGPT)
    keys = {"lines": "step {updates}: train loss {train_loss}, val loss {validation_loss}"}
    run = of_run(path, **keys)
    assert run.rows["updates"].tolist() == [0, 250] and run.status == "diverged"
    assert run.rows["train_loss"].tolist() == [4.2874, 1.9683]
    both = of_run(path, lines=["iter {step}: loss {loss}, *", "step {step}: * val loss {val_loss}"])
    assert both.rows["updates"].tolist() == [0, 10, 250]
    assert both.rows["validation_loss"].iloc[0] == 4.2823
    with pytest.raises(UserError, match="received no line like 'epoch {epoch}'. .*step {updates}"):
        of_run(path, lines="epoch {epoch}")
    for wrong in ("step", "step {a} {a}", "step {}"):
        with pytest.raises(UserError, match="different names in braces|received no line"):
            of_run(path, lines=wrong)


@pytest.mark.parametrize(
    ("line", "pattern", "values"),
    [
        ("[12:01] epoch 3 | loss=1.5e-3", "epoch {epoch} | loss={loss}", ["3", "1.5e-3"]),
        ("loss 0.5, lr 1e-4, OOM", "loss {loss}, lr {lr}, {status}", ["0.5", "1e-4", "OOM"]),
        ("step   5:  nan", "step {step}: {loss}", ["5", "nan"]),
        ("acc (top 1) -.5%", "acc (top 1) {acc}%", ["-.5%"]),
        ("acc 93.2 % of 9%", "acc {acc} % of {f1}", ["93.2 %", "9%"]),
        ("3,+Inf,-NaN", "{step},{loss},{val_loss}", ["3", "+Inf", "-NaN"]),
        ("loss 0,5 acc 1.234,5e3", "loss {loss} acc {acc}", ["0,5", "1.234,5e3"]),  # refused later
    ],
)
def test_patterns_match_any_place_of_a_line(line, pattern, values):
    log = text_logs.read_printed_lines("a.log", f"first\n{line}\n", [pattern])
    assert log.rows.to_numpy().tolist() == [values]


def test_json_lines_have_nested_names_and_lines_of_parameters(tmp_path):
    lines = [{"config": {"batch_size": 32, "data": {"seed": 1}, "layers": [1, 2]}}]
    lines += [{"step": step, "val": {"loss": 1 / step}, "ok": True} for step in (10, 20)]
    text = "UserWarning: deprecated\n" + "\n".join(map(json.dumps, lines)) + "\n\n"
    path = write(tmp_path / "log.jsonl", text)
    run = of_run(path)
    assert run.rows["validation_loss"].tolist() == [0.1, 0.05]
    with pytest.raises(UserError, match="`columns: {batch_size: config.batch_size}`"):
        read(tmp_path, "log.jsonl")
    columns = {"batch_size": "config.batch_size", "seed": "config.data.seed"}
    with pytest.raises(UserError, match="received 32; at least 3"):
        read(tmp_path, "log.jsonl", columns=columns)
    options = text + text.replace("32", "16") + text.replace("32", "8")
    write(path, options.replace("0.1}", "0.15}"))
    assert len(read(tmp_path, "log.jsonl", columns=columns).rows) == 6
    with pytest.raises(UserError, match="line 2: received no JSON"):
        of_run(write(path, '{"step": 1, "loss": 2}\n{"step": 2, "lo'))


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Event files as Keras writes them, by epochs, and as PyTorch does, by updates."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("boards")
    scalars = tf.compat.v1.SummaryMetadata()
    scalars.plugin_data.plugin_name = "scalars"
    for size in (8, 16, 32):
        for part in ("train", "validation"):
            writer = tf.summary.create_file_writer(str(folder / "keras" / f"bs{size}_seed0" / part))
            with writer.as_default():
                for epoch in range(3):
                    loss = tf.constant(1 / (epoch + 1) + size)
                    tf.summary.write("epoch_loss", loss, epoch, scalars)
                    tf.summary.write("image", tf.zeros((2, 2)), epoch)
                    other = "evaluation_loss_vs_iterations"
                    tf.summary.write(other, tf.constant(1.0), 10 * epoch)
            writer.close()
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(folder / "torch"))
        for step in (10, 20):
            for tag, number in (("Loss/val", math.nan if step == 20 else 0.5), ("Loss/train", 0.4)):
                value = tf.compat.v1.Summary.Value(tag=tag, simple_value=number)
                writer.add_summary(tf.compat.v1.Summary(value=[value]), step)
        writer.close()
        writer = tf.compat.v1.summary.FileWriter(str(folder / "mixed"))
        for tag, steps in (("loss/train", range(0, 1000, 100)), ("loss/val", range(3))):
            for step in steps:
                value = tf.compat.v1.Summary.Value(tag=tag, simple_value=1 / (step + 1))
                writer.add_summary(tf.compat.v1.Summary(value=[value]), step)
        writer.close()
    return folder


def test_keras_counts_epochs_in_event_files_whose_folders_are_parts_of_a_run(boards):
    with pytest.raises(UserError, match="event files of 3 runs"):
        read(boards, "keras")
    for files in ("keras/bs{batch_size}_seed0", "keras/bs{batch_size}_seed0/*/*tfevents*"):
        runs = read(boards, files)
        assert runs.table.read_as.startswith("TensorBoard")
        rows = runs.rows[runs.rows["batch_size"] == 8]
        assert rows["epoch"].tolist() == [1, 2, 3]
        for name in ("train_loss", "validation_loss"):
            assert rows[name].tolist() == pytest.approx([9, 8.5, 8 + 1 / 3])


def test_simple_values_are_read_and_a_record_that_is_cut_ends_a_file(boards, tmp_path):
    run = of_run(boards / "torch")
    assert run.rows["updates"].tolist() == [10, 20] and run.status == "diverged"
    assert run.rows["train_loss"].tolist() == [0.4, 0.4]  # in the digits of their own type
    (event_file,) = (boards / "torch").iterdir()
    cut = tmp_path / event_file.name
    cut.write_bytes(event_file.read_bytes()[:-20])
    assert of_run(cut).rows["updates"].tolist() == [10, 20]


def test_steps_that_count_different_things_are_refused(boards):
    with pytest.raises(UserError, match="loss/train ends at step 900, and loss/val at step 2"):
        of_run(boards / "mixed")


def test_what_is_no_file_is_not_read(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path / "none", tmp_path / ("long" * 99)):
        with pytest.raises(UserError, match="cannot be read|received a pipe"):
            of_run(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="event files of 0 runs"):
        of_run(tmp_path / "empty")


def test_a_pattern_without_a_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="files: received 'none_{a}', which no file in .* matches"):
        read(tmp_path, "none_{a}")


HISTORY = [
    {"epoch": 0.5, "grad_norm": 1.2, "learning_rate": 9e-5, "loss": 2.5, "step": 50},
    {"epoch": 0.5, "eval_loss": 2.4, "eval_accuracy": 0.3, "eval_runtime": 1.0, "step": 50},
    {"epoch": 1.0, "learning_rate": 8e-5, "loss": 2.0, "step": 100},
    {"epoch": 1.0, "eval_loss": math.nan, "eval_runtime": 1.0, "step": 100},
    {"epoch": 1.0, "step": 100, "train_loss": 2.25, "train_runtime": 9.0, "total_flos": 1e9},
]


def state(history, **options):
    return json.dumps({"global_step": 100, "log_history": history, **options}, indent=2)


def test_a_trainer_state_joins_training_and_evaluation_without_the_summary(tmp_path):
    path = tmp_path / "trainer_state.json"
    write(path, state(HISTORY, train_batch_size=4, trial_params={"seed": 3}))
    run = of_run(path)
    assert run.rows["updates"].tolist() == [50, 100] and run.rows["epoch"].tolist() == [0.5, 1]
    assert run.rows["train_loss"].tolist() == [2.5, 2.0] and run.status == "diverged"
    # The size is that of one device: it is asked for.
    with pytest.raises(UserError, match="no batch size.*`columns: {batch_size: train_batch_size}`"):
        read(tmp_path, "trainer_state.json")
