"""CSV logs: each program's own layout, and what each of them hides."""

import pytest

from batchscope.errors import UserError
from batchscope.external import cells, numbers, reading
from batchscope.study import log_columns
from batchscope.study.log_source import Source

LIGHTNING = """epoch,step,train_loss_epoch,train_loss_step,val_loss
0,49,,0.9,
0,99,,0.7,
0,99,,,0.8
0,99,0.85,,
1,149,,0.6,
1,199,,,0.5
1,199,0.55,,
"""
CHART = """"Step","bs8_seed0 - val/loss","bs8_seed0 - val/loss__MIN","bs8_seed0 - val/loss__MAX",\
"a - b_bs16_seed0 - val/loss","a - b_bs16_seed0 - val/loss__MIN","a - b_bs16_seed0 - val/loss__MAX"
"10","0.5","0.5","0.5","","",""
"20","","","","NaN","NaN","NaN"
"30","0.4","0.4","0.4","0.6","0.6","0.6"
"""


@pytest.fixture
def log(tmp_path):
    """Returns a function that reads a text as the logs of a file."""

    def read(text, name="bs8_seed0.csv", kind="auto"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return reading.read(str(path), kind)

    return read


def evaluated(path, size=8, **more):
    """Returns the numbers of one run's log, as those of a command are read."""
    return numbers.of_run(path, size, more.pop("kind", "auto"), more.pop("columns", {}), **more)


def test_keras_counts_epochs_from_zero_and_writes_na(log, tmp_path):
    text = "epoch,accuracy,loss,val_accuracy,val_loss\n0,0.5,1.0,NA,NA\n1,0.6,0.8,0.55,0.9\n"
    (found,) = log(text)
    assert found.format == "keras" and found.rows["epoch"].tolist() == ["1", "2"]
    run = evaluated(tmp_path / "bs8_seed0.csv", examples_per_epoch=100)
    assert run.rows["examples"].tolist() == [100, 200] and run.status == ""
    assert run.rows["train_loss"].tolist() == [1.0, 0.8]
    assert run.rows["validation_loss"].isna().tolist() == [True, False]
    with pytest.raises(UserError, match="line 2: received no updates or examples, but epoch"):
        evaluated(tmp_path / "bs8_seed0.csv")


@pytest.mark.parametrize(
    ("first", "epochs"), [("0,15", [1, 2, 3]), ("0,0", [0, 1, 2]), ("0.5,15", [0.5, 1, 2])]
)
def test_epochs_count_from_one_if_the_first_row_is_trained(log, tmp_path, first, epochs):
    log(f"epoch,global_step,val_loss\n{first},0.9\n1,30,0.8\n2,45,0.7\n")
    assert evaluated(tmp_path / "bs8_seed0.csv").rows["epoch"].tolist() == epochs


def test_an_appended_keras_log_is_asked_about(log):
    with pytest.raises(UserError, match="line 4, epoch: received 0 after 1"):
        log("epoch,loss,val_loss\n0,1.0,1.1\n1,0.8,0.9\n0,1.0,1.1\n")


def test_lightning_has_sparse_rows_steps_from_zero_and_parameters_beside(log, tmp_path):
    (tmp_path / "hparams.yaml").write_text("batch_size: 16\noptim:\n  lr: 0.01\n")
    (found,) = log(LIGHTNING, "metrics.csv")
    assert found.format == "lightning" and found.counted == "line"
    assert found.parameters == {"batch_size": "16", "optim.lr": "0.01"}
    assert found.files[1].endswith("hparams.yaml")
    table = cells.gather(Source((str(tmp_path / "metrics.csv"),)), tmp_path).table
    assert table["batch_size"].unique().tolist() == ["16"]
    assert table["learning_rate"].unique().tolist() == ["0.01"]
    run = evaluated(tmp_path / "metrics.csv", 16)
    # The loss of an epoch, not that of its last batch.
    rows = run.rows.dropna(subset=["train_loss"])
    assert rows["updates"].tolist() == [100, 200] and rows["train_loss"].tolist() == [0.85, 0.55]
    assert rows["validation_loss"].tolist() == [0.8, 0.5]


def test_a_resumed_lightning_log_keeps_its_steps_and_may_hold_any_object_beside(log, tmp_path):
    (tmp_path / "hparams.yaml").write_text("a: !!python/object:pathlib.Path {}\n")
    (found,) = log("epoch,step,val_loss\n5,599,0.4\n6,699,0.3\n", "metrics.csv")
    assert found.rows["step"].tolist() == ["600", "700"] and not found.parameters
    assert any("hparams.yaml" in note for note in found.notes)


def test_a_chart_has_many_runs_whose_names_hold_the_factors(log, tmp_path):
    first, second = log(CHART, "chart.csv")
    assert (first.format, first.name, second.name) == ("wandb", "bs8_seed0", "a - b_bs16_seed0")
    assert first.rows["Step"].tolist() == ["10", "30"] and [*first.rows] == ["Step", "val/loss"]
    source = Source((str(tmp_path / "chart.csv"),), pattern="bs{batch_size}_seed{seed}")
    with pytest.raises(UserError, match="pattern: received 'bs{batch_size}.*'a - b_bs16_seed0'"):
        cells.gather(source, tmp_path)
    source = Source((str(tmp_path / "chart.csv"),), pattern="*bs{batch_size}_seed{seed}")
    table = cells.gather(source, tmp_path).table
    assert table["batch_size"].tolist() == ["8", "8", "16", "16"]
    with pytest.raises(UserError, match="not in the run's name 'bs8_seed0'"):
        cells.gather(Source((str(tmp_path / "chart.csv"),)), tmp_path)


def test_a_column_may_hold_objects(log):
    (found,) = log('config\tstep\tval_loss\n{"lr":0.1}\t10\t2\n{"lr":0.1}\t20\t1\n')
    assert found.format == "csv" and found.rows["step"].tolist() == ["10", "20"]


def test_a_chart_over_time_says_no_updates(log, tmp_path):
    log('"Relative Time (Process)","bs8 - loss"\n"1.5","0.5"\n"2.5","0.4"\n', "chart.csv")
    source = Source((str(tmp_path / "chart.csv"),), pattern="bs{batch_size}")
    with pytest.raises(UserError, match="no updates.*columns Relative Time .Process. and loss"):
        cells.gather(source, tmp_path)


def test_a_curve_that_tensorboard_exports_is_named_by_its_column(log, tmp_path):
    log("Wall time,Step,Value\n1700000000.5,100,0.9\n1700000010.5,200,NaN\n")
    run = evaluated(tmp_path / "bs8_seed0.csv", columns={"validation_loss": "Value"})
    assert run.rows["updates"].tolist() == [100, 200] and run.status == "diverged"


def test_cells_are_padded_or_absent_and_words_say_what_became_of_a_run(log, tmp_path):
    log("step , val_loss\n 10 , 0.5 \n20, N/A\n30,FAILED\n", "a.csv")
    run = evaluated(tmp_path / "a.csv")
    assert run.rows["validation_loss"].fillna(-1).tolist() == [0.5, -1, -1]
    assert run.status == "failed"
    log("step,val_loss\n10,0.5\n20,OOM\n", "b.csv")
    assert evaluated(tmp_path / "b.csv").status == "out_of_memory"


def test_the_index_of_pandas_and_other_separators_are_read(log):
    for separator in (",", ";", "\t"):
        (found,) = log(",step,val_loss\n0,10,0.5\n1,20,0.4\n".replace(",", separator))
        assert [*found.rows] == ["step", "val_loss"]


def test_a_stated_format_is_not_guessed(log):
    (found,) = log("epoch,loss\n0,1.0\n1,0.9\n", kind="csv")
    assert found.format == "csv" and found.rows["epoch"].tolist() == ["0", "1"]
    with pytest.raises(UserError, match="format: received 'keros'"):
        log("epoch,loss\n0,1.0\n", kind="keros")


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("epoch,step\n0,250\n1,500\n2,750\n", [1, 2, 3]),
        ("epoch,step\n1,500\n3,1000\n", [2, 4]),  # each second epoch
        ("epoch,step\n0,250\n", [1]),
        ("epoch,examples\n0,2000\n1,4000\n", [1, 2]),
        ("epoch,step\n0,0\n1,250\n2,500\n", [0, 1, 2]),  # evaluated before the first update
        ("epoch,step\n1,250\n2,500\n", [1, 2]),
        ("epoch,step\n3,750\n", [3]),
        ("epoch,step\n0,100\n0,200\n1,300\n", [0, 0, 1]),  # the epoch of a row, not its end
    ],
)
def test_updates_tell_if_epochs_count_from_zero(text, epochs, tmp_path):
    path = tmp_path / "log.csv"
    first, *rest = text.splitlines()
    lines = [f"{first},val_loss", *(f"{line},{1 / (at + 1)}" for at, line in enumerate(rest))]
    path.write_text("\n".join(lines))
    assert evaluated(path, kind="csv").rows["epoch"].tolist() == epochs


def test_an_epoch_ends_with_a_smaller_batch(tmp_path):
    """As Keras and our own runs count: 1,087 examples are 5 batches of 256, or one of 2,048."""
    path = tmp_path / "log.csv"
    path.write_text("epoch,val_loss\n0.5,3\n1,2\n3,1\n")
    for size, updates in ((256, [543.5 / 256, 5, 15]), (2048, [543.5 / 2048, 1, 3])):
        run = evaluated(path, size, examples_per_epoch=1087)
        assert run.rows["updates"].tolist() == pytest.approx(updates)
        assert run.rows["examples"].tolist() == [543.5, 1087, 3261]
    path.write_text("updates,val_loss\n5,2\n10,1\n")
    assert evaluated(path, 256, examples_per_epoch=1087).rows["examples"].tolist() == [1280, 2560]
    path.write_text("examples,val_loss\n1280,2\n2560,1\n")
    assert evaluated(path, 256).rows["updates"].tolist() == [5, 10]


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (
            ["bs8_lr0.1_seed3/metrics.csv", "bs16_lr1e-3_seed0/metrics.csv", "notes.csv"],
            "bs{batch_size}_lr{learning_rate}_seed{seed}/metrics.csv",
        ),
        (["try2/batch-size=8,s=1.csv"], "try*/batch-size={batch_size},s=*.csv"),
        (["mine_global_batch_size_64"], "mine_global_batch_size_{batch_size}"),
    ],
)
def test_numbers_that_a_word_names_become_factors(paths, pattern):
    assert log_columns.pattern(paths) == pattern
