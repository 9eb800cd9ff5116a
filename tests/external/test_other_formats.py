"""Logs that are no tables: JSON, what programs print, event files."""

import json
import math

import pandas
import pytest

from batchscope.errors import UserError
from batchscope.external import cells, folders, numbers, reading
from batchscope.external.log import Log
from batchscope.study.log_source import CLOCKS, Source

HISTORY = [
    {"epoch": 0.5, "grad_norm": 1.2, "learning_rate": 9e-5, "loss": 2.5, "step": 50},
    {"epoch": 0.5, "eval_loss": 2.4, "eval_accuracy": 0.3, "eval_runtime": 1.0, "step": 50},
    {"epoch": 1.0, "learning_rate": 8e-5, "loss": 2.0, "step": 100},
    {"epoch": 1.0, "eval_loss": math.nan, "eval_runtime": 1.0, "step": 100},
    {"epoch": 1.0, "step": 100, "train_loss": 2.25, "train_runtime": 9.0, "total_flos": 1e9},
]
NANOGPT = """Overriding: batch_size = 12
Overriding: dataset = 'shakespeare_char'
tokens per iteration will be: 16,384
number of parameters: 10.65M
step 0: train loss 4.2874, val loss 4.2823
iter 0: loss 4.2649, time 31225.29ms, mfu -100.00%
iter 10: loss 3.1462, time 90.57ms, mfu 4.14%
step 250: train loss 1.9683, val loss nan
saving checkpoint to out
"""
MAIN = """s:0 tel:10.9000
s:0 trl:10.9500 lr:0.000001 norm:15.71
s:250 tel:6.5000
s:250 eval:0.2440
s:100 trl:7.1000 lr:0.000100 norm:1.20
s:250 tel:6.4000
"""


def of_run(path, columns=(), **more):
    return numbers.of_run(path, 8, "auto", dict(columns), **more)


def state(history, **more):
    return json.dumps({"global_step": 100, "log_history": history, **more}, indent=2)


def test_a_trainer_state_joins_training_and_evaluation_without_the_summary(tmp_path):
    path = tmp_path / "trainer_state.json"
    more = {"train_batch_size": 4, "trial_params": {"seed": 3}}
    path.write_text(state(HISTORY, **more))
    (log,) = reading.read(str(path))
    assert log.format == "huggingface"
    assert log.parameters["train_batch_size"] == "4" and log.parameters["seed"] == "3"
    run = of_run(path)
    assert run.rows["updates"].tolist() == [50, 100] and run.rows["epoch"].tolist() == [0.5, 1]
    assert run.rows["train_loss"].tolist() == [2.5, 2.0] and run.status == "diverged"
    # The size is that of one device: it is asked for, and named where somebody says so.
    with pytest.raises(UserError, match="no batch size.*parameters train_batch_size"):
        cells.gather(Source((str(path),)), tmp_path)
    source = Source((str(path),), columns=(("batch_size", "train_batch_size"),))
    assert cells.gather(source, tmp_path).table["batch_size"].tolist() == ["4", "4"]


def test_states_that_begin_otherwise_are_of_trainings_of_their_own(tmp_path):
    """Three trainings in run_0 to run_2 are not the checkpoints of one."""
    for at in range(3):
        folder = tmp_path / "bs8" / f"run_{at}"
        folder.mkdir(parents=True)
        rows = [{"step": step, "loss": 2.0 + at, "epoch": step / 50} for step in (50, 100)]
        (folder / "trainer_state.json").write_text(state(rows))
    found = cells.gather(Source(("bs{batch_size}/*/trainer_state.json",)), tmp_path)
    assert found.places["run"].tolist() == [0, 0, 1, 1, 2, 2]


def test_several_evaluation_sets_are_asked_about(tmp_path):
    path = tmp_path / "trainer_state.json"
    rows = [{"step": 10, "loss": 2.0}, {"step": 10, "eval_a_loss": 1.0, "eval_b_loss": 1.5}]
    path.write_text(state(rows))
    with pytest.raises(UserError, match="received eval_a_loss and eval_b_loss"):
        of_run(path)
    run = of_run(path, {"validation_loss": "eval_b_loss"})
    assert run.rows[["train_loss", "validation_loss"]].values.tolist() == [[2.0, 1.5]]


def test_of_the_states_of_one_training_the_longest_counts(tmp_path):
    for step, history in ((50, HISTORY[:2]), (100, HISTORY[:4])):
        folder = tmp_path / "bs8_seed0" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(state(history))
    source = Source(("bs{batch_size}_seed{seed}/checkpoint-*/trainer_state.json",))
    found = cells.gather(source, tmp_path)
    assert found.table["updates"].tolist() == ["50", "100"] and len(found.files) == 2


def test_json_lines_have_nested_names_and_lines_of_parameters(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [{"config": {"batch_size": 32, "data": {"seed": 1}, "layers": [1, 2]}}]
    lines += [{"step": step, "val": {"loss": 1 / step}, "ok": True} for step in (10, 20)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    (log,) = reading.read(str(path))
    assert log.format == "json_lines" and log.parameters["config.data.seed"] == "1"
    table = cells.gather(Source((str(path),)), tmp_path).table
    assert table["batch_size"].tolist() == ["32", "32"] and table["seed"].tolist() == ["1", "1"]
    assert of_run(path).rows["validation_loss"].tolist() == [0.1, 0.05]
    path.write_text('{"config": {"batch_size": 32}}\n')  # it crashed early
    with pytest.raises(UserError, match="log.jsonl: received no line"):
        reading.read(str(path))
    path.write_text('{"step": 1, "loss": 2}\n{"step": 2, "lo')
    with pytest.raises(UserError, match="line 2: received no JSON"):
        reading.read(str(path))


def test_objects_are_found_among_what_else_is_printed(tmp_path):
    path = tmp_path / "output.txt"
    rows = [f'{{"step": {step}, "val_loss": {1 / step}}}' for step in (10, 20)]
    path.write_text("\n".join(["UserWarning: deprecated", rows[0], "  epoch 1 done", rows[1]]))
    run = of_run(path)
    assert run.read_as.startswith("JSON") and run.rows["updates"].tolist() == [10, 20]
    assert run.cells.logs[0].notes == ("2 lines without an object passed over",)


def test_a_batch_size_that_columns_name_goes_before_a_parameter_of_that_name(tmp_path):
    path = tmp_path / "log.jsonl"
    whole = '{"batch_size": 8, "accum": 4, "effective_batch_size": 32}'
    path.write_text(whole + '\n{"step": 10, "val_loss": 0.5}\n')
    source = Source((str(path),), columns=(("batch_size", "effective_batch_size"),))
    assert cells.gather(source, tmp_path).table["batch_size"].tolist() == ["32"]
    path.write_text('{"data": {"eval_loader": {"batch_size": 160}}}\n{"step": 1, "loss": 2}\n')
    with pytest.raises(UserError, match="no batch size"):
        cells.gather(Source((str(path),)), tmp_path)


def test_nanogpt_prints_estimates_and_the_loss_of_single_batches(tmp_path):
    path = tmp_path / "out.log"
    path.write_text(NANOGPT)
    (log,) = reading.read(str(path))
    assert log.format == "nanogpt" and log.parameters["tokens_per_iteration"] == "16384"
    run = of_run(path)
    assert run.rows["updates"].tolist() == [0, 250] and run.status == "diverged"
    assert run.rows["train_loss"].tolist() == [4.2874, 1.9683]
    path.write_text('{"config": 1}\n' + NANOGPT)  # another line that a program prints
    assert reading.read(str(path))[0].format == "nanogpt"
    path.write_text("\n".join(line for line in NANOGPT.splitlines() if "step" not in line))
    assert of_run(path).rows["train_loss"].tolist() == [4.2649, 3.1462]


def test_llm_c_goes_on_from_an_earlier_step(tmp_path):
    path = tmp_path / "main.log"
    path.write_text(MAIN)
    (log,) = reading.read(str(path))
    assert log.format == "llm_c"
    run = of_run(path)
    assert run.rows["updates"].tolist() == [0, 100, 250]
    assert run.rows["validation_loss"].dropna().tolist() == [10.9, 6.4]


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Event files as Keras writes them, by epochs, and as PyTorch does, by updates."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("boards")
    scalars = tf.compat.v1.SummaryMetadata()
    scalars.plugin_data.plugin_name = "scalars"
    for part in ("train", "validation"):
        writer = tf.summary.create_file_writer(str(folder / "keras" / "bs8_seed0" / part))
        with writer.as_default():
            for epoch in range(3):
                tf.summary.write("epoch_loss", tf.constant(1 / (epoch + 1)), epoch, scalars)
                tf.summary.write("image", tf.zeros((2, 2)), epoch)
                tf.summary.write("evaluation_loss_vs_iterations", tf.constant(1.0), 10 * epoch)
        writer.close()
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(folder / "torch"))
        for step in (10, 20):
            for tag, number in (("Loss/val", math.nan if step == 20 else 0.5), ("Loss/train", 0.4)):
                value = tf.compat.v1.Summary.Value(tag=tag, simple_value=number)
                writer.add_summary(tf.compat.v1.Summary(value=[value]), step)
        writer.close()
    return folder


def test_keras_counts_epochs_in_event_files_whose_folders_are_parts_of_a_run(boards):
    for files in ("keras", "keras/bs{batch_size}_seed0", "keras/bs{batch_size}_seed0/*/*tfevents*"):
        pattern = "" if "{" in files else "bs{batch_size}_seed0"
        found = cells.gather(Source((files,), pattern=pattern), boards)
        assert found.logs[0].format == "tensorboard" and found.logs[0].notes
        assert found.table["epoch"].tolist() == ["1", "2", "3"]
        for name in ("train_loss", "validation_loss"):
            assert found.table[name].astype(float).tolist() == pytest.approx([1, 1 / 2, 1 / 3])
        assert "image" not in found.table


@pytest.mark.parametrize(
    ("tags", "steps"),
    [
        (("loss/val", "epoch_time"), ["100", "200"]),  # steps are updates
        (("val/epoch_loss",), ["100", "200"]),
        (("epoch_loss", "batch_loss", "evaluation_loss_vs_iterations"), ["101", "201"]),
    ],
)
def test_only_tags_of_keras_count_epochs(tags, steps):
    rows = pandas.DataFrame([{"step": step, CLOCKS[0]: "0.0"} for step in ("100", "200")])
    log = Log("run", "tensorboard", rows.assign(**dict.fromkeys(tags, "0.5")))
    found = folders._by_epochs(log, dict(zip(tags, tags, strict=True))).rows
    assert found[next(iter({"epoch", "step"} & {*found}))].tolist() == steps


def test_simple_values_are_read_and_a_record_that_is_cut_ends_a_file(boards, tmp_path):
    run = of_run(boards / "torch")
    assert run.rows["updates"].tolist() == [10, 20] and run.status == "diverged"
    assert run.rows["train_loss"].tolist() == [0.4, 0.4]  # in the digits of their own kind
    (event_file,) = (boards / "torch").iterdir()
    cut = tmp_path / event_file.name
    cut.write_bytes(event_file.read_bytes()[:-20])
    assert of_run(cut).rows["updates"].tolist() == [10, 20]


def test_files_that_are_too_large_are_not_read(boards, tmp_path, monkeypatch):
    monkeypatch.setattr("batchscope.external.files.MOST_BYTES", 100)
    monkeypatch.setattr("batchscope.external.files.MOST_EVENT_BYTES", 100)
    (tmp_path / "a.csv").write_text("step,loss\n" + "1,2\n" * 100)
    for path in (tmp_path / "a.csv", boards / "torch"):
        with pytest.raises(UserError, match="received more than 100 bytes"):
            of_run(path)
