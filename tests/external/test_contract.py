"""The contract of external runs: only named columns are read, and nothing is guessed from values.

Every file in `tests/data/external` was once misread. Each test also covers the same fault in
another column.
"""

from pathlib import Path

import pandas
import pytest

from batchscope.core.errors import UserError
from batchscope.external import external_runs
from batchscope.store import records
from batchscope.study import config
from batchscope.study.log_keys import Logs
from batchscope.tables import experiment_tables

CASES = Path(__file__).resolve().parents[1] / "data" / "external"


def read(name, folder=CASES, **keys):
    return external_runs.read(Logs(files=(str(name),), **keys), folder)


def write(folder, rows, name="own.csv", **keys):
    pandas.DataFrame(rows).to_csv(folder / name, index=False)
    return read(name, folder, **keys)


def changed(folder, case, *pairs, **keys):
    """Return the runs of a case with other words."""
    text = (CASES / case).read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / case).write_text(text)
    return read(case, folder, **keys)


def tables(folder, case, **keys):
    """Return the tables of an experiment with a case."""
    path = folder / "mine.yaml"
    runs = {"files": str(CASES / case), **keys}
    path.write_text(f"study: mine\nexperiments:\n  a: {{runs: {runs}}}\n".replace("'", '"'))
    return experiment_tables.make(folder / "results", config.study(path), "a")


def means(built, outcome, column="mean"):
    rows = built["comparisons"]
    rows = rows[rows["outcome"] == outcome]
    return dict(zip(rows["batch_size"], rows[column], strict=True))


def has_note(runs, *words):
    return any(all(word in note for word in words) for note in runs.table.notes)


def test_ends_at_equal_updates_are_compared_there_and_are_no_targets(tmp_path):
    built = tables(tmp_path, "equal_updates.csv")
    assert set(built["comparisons"]["budget"]) == {"updates"}
    assert set(built["comparisons"]["budget_value"]) == {1000}
    losses = means(built, "validation_loss")
    assert min(losses, key=losses.get) == 128
    assert built["critical_batch_size"].empty and built["to_target"].empty
    assert set(built["runs"]["stop_reason"]) == {"end"}
    assert set(built["advice"].query("item == 'recommendation'")["headline"]) == {"no_outcome"}


def test_unequal_ends_are_shown_and_not_ranked(tmp_path):
    built = tables(tmp_path, "early.csv")
    assert built["comparisons"].empty and built["critical_batch_size"].empty
    assert built["trends"].empty and built["advice"].empty and len(built["runs"]) == 3
    assert has_note(read("early.csv"), "at epoch 10 to 25", "`rows: at_target`")
    for column in ("epoch", "step", "examples_seen"):
        pairs = [("epoch", column), *((f",{n},", f",{n}00,") for n in (10, 14, 25))]
        assert has_note(changed(tmp_path, "early.csv", *pairs), "unequal ends", "00")


def test_rows_at_a_target_are_stated(tmp_path):
    built = tables(tmp_path, "cbs_u_shaped.csv", rows="at_target")
    (fit,) = built["critical_batch_size"].to_dict("records")
    assert fit["lack_of_fit"] < 0.05 and fit["measured_fastest"] == 256
    reached = built["runs"].groupby("batch_size")["reached_target"].mean()
    assert 0 < reached[4096] < 1
    assert read("cbs_u_shaped.csv").end_reason == "end"


def test_a_partly_filled_column_that_nobody_named_is_ignored(tmp_path):
    for column in ("grad_norm", "seconds_of_evaluation", "parameters"):
        runs = changed(tmp_path, "partly3.csv", ("grad_norm", column))
        assert runs.factors == ("optimizer",) and len(runs.series) == 3
        assert has_note(runs, "not read", column)
    built = tables(tmp_path, "partly3.csv")
    assert set(built["comparisons"]["budget"]) == {"epochs"}
    assert set(built["comparisons"]["budget_value"]) == {3}
    assert "stop_reason" in built["runs"] and set(built["runs"]["stop_reason"]) == {"end"}


def test_epochs_from_zero_are_finished_epochs(tmp_path):
    runs = read("from_zero.csv")
    assert runs.rows["epoch"].tolist() == [1, 2] * 3
    assert has_note(runs, "epochs count from 0", "first_epoch: 1")
    used = read("from_zero.csv", examples_per_epoch=640).rows
    assert used["examples"].tolist() == [640, 1280] * 3
    assert used["updates"].tolist() == [20, 40, 10, 20, 5, 10]
    assert read("from_zero.csv", first_epoch=1).rows["epoch"].tolist() == [0, 1] * 3
    # The values of the losses do not matter.
    untrained = changed(tmp_path, "from_zero.csv", ("0.40", "2.3"), ("0.50", "2.3"))
    assert untrained.rows["epoch"].tolist() == [1, 2] * 3
    later = changed(tmp_path, "from_zero.csv", (",1,", ",2,"), (",0,", ",1,"))
    assert later.rows["epoch"].tolist() == [1, 2] * 3 and not has_note(later, "from 0")
    stated = read("from_zero.csv", tmp_path, first_epoch=0)
    assert stated.rows["epoch"].tolist() == [2, 3] * 3 and not has_note(stated, "from 0")


def test_examples_of_epochs_from_zero_are_those_of_finished_epochs():
    runs = read("keras_epoch_zero.csv")
    assert (runs.rows["examples"] == 1400 * runs.rows["epoch"]).all()
    assert runs.rows["epoch"].min() == 1 and has_note(runs, "from 0")


@pytest.mark.parametrize(
    ("case", "word", "status"),
    [
        ("div.csv", "diverged", records.DIVERGED),
        ("div.csv", "nan", records.DIVERGED),
        ("div.csv", "OOM", records.OUT_OF_MEMORY),
        ("div.csv", "crashed", records.CRASHED),
        ("emp.csv", "", records.CRASHED),
        ("oom2.csv", "OOM", records.OUT_OF_MEMORY),
        ("oom2.csv", "inf", records.DIVERGED),
    ],
)
def test_a_run_that_failed_is_a_result_and_never_the_best(tmp_path, case, word, status):
    size = 256 if case == "oom2.csv" else 128
    old = {"div.csv": ",diverged,diverged", "emp.csv": ",,\n", "oom2.csv": ",OOM,OOM"}[case]
    new = f",,{word}" if word in ("nan", "inf") else f",{word},{word}" + "\n" * (not word)
    text = (CASES / case).read_text().replace(old, new)
    (tmp_path / case).write_text(text)
    rows = read(case, tmp_path).rows
    failed = rows[(rows["batch_size"] == size) & (rows["learning_rate"] == 0.1)]
    assert failed["status"].tolist() == [status]
    assert set(rows.drop(failed.index)["status"]) == {"finished"}
    built = tables(tmp_path, tmp_path / case)
    outcome = "validation_loss" if case == "oom2.csv" else "test_loss"
    losses = means(built, outcome)
    assert min(losses, key=lambda name: (losses[name] != losses[name], losses[name])) == 32
    reasons = means(built, outcome, "reason")
    assert reasons[size] == ("failed" if case == "oom2.csv" else "")


@pytest.mark.parametrize("column", ["note", "comment", "host", "day"])
def test_a_column_of_words_that_nobody_named_is_ignored(tmp_path, column):
    runs = changed(tmp_path, "note.csv", ("note", column))
    assert runs.factors == () and has_note(runs, "not read", column, f"factors: [{column}]")
    with pytest.raises(UserError, match=f"3 series, distinguished by {column}, none with 3 batch"):
        read("note.csv", tmp_path, factors=[column])


@pytest.mark.parametrize("column", ["prec", "precision"])
def test_precision_is_a_factor_only_with_its_values(tmp_path, column):
    runs = changed(tmp_path, "precision.csv", ("prec", column))
    assert runs.factors == () and has_note(runs, "not read", column, "recall")
    pairs = [(f"{column},", "precision,"), *((n, "float32") for n in ("0.81", "0.78", "0.74"))]
    assert changed(tmp_path, "precision.csv", ("prec,", "precision,"), *pairs[1:]).factors == (
        "precision",
    )
    assert read("precision.csv", factors=["prec"]).factors == ("own_prec",)


@pytest.mark.parametrize("column", ["run_id", "trial", "repeat"])
def test_several_runs_of_one_identity_are_one_question(tmp_path, column):
    with pytest.raises(UserError) as error:
        changed(tmp_path, "w_run_id.csv", ("run_id", column))
    assert f"`columns: {{seed: {column}}}`" in str(error.value)
    assert str(error.value).count("\n") == 0
    runs = read("w_run_id.csv", tmp_path, columns={"seed": column})
    assert runs.rows["run"].nunique() == 9 and set(runs.rows["seed"]) == {1, 2, 3}


def test_runs_that_only_a_column_of_no_seed_tells_apart_need_a_factor(tmp_path):
    rows = [
        {"batch_size": size, "width": width, "epoch": 5, "val_loss": size / width}
        for size in (8, 16, 32)
        for width in (3, 7)
    ]
    with pytest.raises(UserError, match=r"`factors: \[width\]`"):
        write(tmp_path, rows)
    assert len(write(tmp_path, rows, factors=["width"]).series) == 2


@pytest.mark.parametrize("column", ["samples", "tokens", "size"])
def test_an_ambiguous_amount_is_ignored(tmp_path, column):
    runs = changed(tmp_path, "samples.csv", ("samples", column))
    assert runs.rows["epoch"].tolist() == [10] * 3 and runs.rows["examples"].isna().all()
    assert has_note(runs, "not read", column)


@pytest.mark.parametrize("column", ["epoch_time", "seconds_per_epoch", "Time per Epoch"])
def test_the_time_of_an_epoch_is_no_time_since_the_start(tmp_path, column):
    runs = changed(tmp_path, "epochtime.csv", ("epoch_time", column))
    seconds = runs.rows.groupby("batch_size")["seconds"].agg(list)
    assert seconds[32] == pytest.approx([10, 20.1, 30.3])
    named = changed(
        tmp_path, "epochtime.csv", ("epoch_time", "t"), columns={"seconds_per_epoch": "t"}
    )
    assert named.rows["seconds"].tolist() == pytest.approx(runs.rows["seconds"].tolist())
    since = changed(tmp_path, "epochtime.csv", ("epoch_time", "t"), columns={"seconds": "t"})
    assert since.rows["seconds"].tolist()[:3] == [10, 10.1, 10.2]
    assert has_note(changed(tmp_path, "epochtime.csv", ("epoch_time", "time")), "time")


def test_a_pattern_reads_a_column(tmp_path):
    runs = read("runcol.csv", pattern={"run": "batch_size_{batch_size}"})
    assert runs.rows["batch_size"].tolist() == [32, 64, 128, 256, 512, 1024]
    assert runs.rows["train_accuracy"].iloc[0] == 0.956
    with pytest.raises(UserError, match=r'`pattern: \{name: "exp-bs=\{batch_size\}"\}`'):
        changed(tmp_path, "runcol.csv", ("run,", "name,"), ("batch_size_", "exp-bs="))


@pytest.mark.parametrize(
    ("case", "keys", "message"),
    [
        ("machine_column.csv", {"rows": "at_target"}, "line 3: .* further row .*`rows: at_target`"),
        ("runcol.csv", {}, r'`pattern: \{run: "batch_size_\{batch_size\}"\}`'),
        ("runcol.csv", {"pattern": {"name": "bs{batch_size}"}}, "pattern: .*one of run, epoch, "),
        ("runcol.csv", {"pattern": {"run": "bs={batch_size}"}}, "does not match 'batch_size_32'"),
        ("identical_seeds.csv", {}, "line 11: received batch size 16, seed 1 with the very"),
        (
            "tb_nan_bs{batch_size}_seed{seed}.csv",
            {"columns": {"validation_loss": "Value"}},
            "64; at",
        ),
        ("w_run_id.csv", {"columns": {"seed": "run_idd"}}, "'run_idd'.*Did you mean 'run_id'"),
        ("note.csv", {"factors": ["notes"]}, "'notes'.*Did you mean 'note'"),
    ],
)
def test_a_mistake_is_answered_with_its_place_or_the_key_to_write(case, keys, message):
    with pytest.raises(UserError, match=message):
        read(case, **keys)


def test_a_pattern_names_factors_of_a_column(tmp_path):
    rows = [
        {"run": f"w{width}-bs{size}-s{seed}", "step": 10, "val_loss": size / width + seed}
        for width in (3, 5)
        for size in (8, 16, 32)
        for seed in (0, 1)
    ]
    runs = write(tmp_path, rows, pattern={"run": "w{width}-bs{batch_size}-s{seed}"})
    assert runs.factors == ("own_width",) and len(runs.series) == 2
    assert not has_note(runs, "no seed") and not has_note(runs, "not read")


def test_times_alone_give_no_recommendation(tmp_path):
    built = tables(tmp_path, "epoch_seconds.csv")
    assert built["comparisons"].empty and built["advice"].empty and len(built["runs"]) == 3
    assert has_note(read("epoch_seconds.csv"), "no loss or metric")
    rows = read("epoch_seconds.csv", examples_per_epoch=1000).rows
    assert rows["examples"].tolist() == [1000] * 3
    other = read("epoch_seconds.csv", updates_per_epoch=10).rows
    assert other["examples"].tolist() == [260, 1050, 1580]


@pytest.mark.parametrize(
    "column", ["gradient_accumulation_steps", "accumulate_grad_batches", "world_size", "num_gpus"]
)
def test_the_batch_size_is_that_of_an_update(tmp_path, column):
    runs = changed(tmp_path, "accumulation.csv", ("gradient_accumulation_steps", column))
    assert set(runs.rows["batch_size"]) == {32, 64, 128} and runs.factors == ()


def test_devices_multiply_a_batch_size_and_nothing_a_global_one(tmp_path):
    pairs = [("steps,", "steps,world,"), *((f"\n{n},4,", f"\n{n},4,2,") for n in (8, 16, 32))]
    runs = changed(tmp_path, "accumulation.csv", *pairs, columns={"devices": "world"})
    assert set(runs.rows["batch_size"]) == {64, 128, 256}
    runs = changed(tmp_path, "accumulation.csv", ("batch_size", "global_batch_size"))
    assert set(runs.rows["batch_size"]) == {8, 16, 32}


def test_per_cent_is_said_by_the_name_or_the_user(tmp_path):
    rows = [
        {"batch_size": size, "epoch": 5, "val acc (%)": 90 - size, "test_acc": 80 + size / 10}
        for size in (8, 16, 32)
    ]
    with pytest.raises(UserError) as error:
        write(tmp_path, rows)
    lines = str(error.value).splitlines()
    assert len(lines) == 1 and "and 2 more rows like it" in lines[0]
    assert "`percent: [test_acc]`" in lines[0]
    result = write(tmp_path, rows, percent=["test_acc"]).rows
    assert result["validation_accuracy"].tolist() == [0.82, 0.74, 0.58]
    assert result["test_accuracy"].tolist() == pytest.approx([0.808, 0.816, 0.832])


def test_two_machines_are_never_merged(tmp_path):
    built = tables(tmp_path, "machine_column.csv")
    assert set(built["runs"]["own_machine"]) == {"M1", "V100"} and len(built["runs"]) == 6
    ends = built["comparisons"][built["comparisons"]["budget"] == "convergence"]
    result = ends.groupby("own_machine")["mean"].agg(set)
    assert result["M1"] == {0.5} and result["V100"] == {0.3}


def test_rows_at_an_equal_budget_next_to_one_out_of_memory(tmp_path):
    built = tables(tmp_path, "oom_row.csv")
    rows = built["comparisons"]
    assert set(rows["budget"]) == {"examples"} and set(rows["budget_value"]) == {75000}
    seconds = means(built, "seconds")
    assert min(seconds, key=seconds.get) == 32
    assert seconds[256] / seconds[16] == pytest.approx(3.85, abs=0.01)
    assert means(built, "seconds", "reason")[512] == "failed"
    assert means(built, "train_loss")[16] == 0.255
    assert built["critical_batch_size"].empty
    best = built["advice"].iloc[0]
    assert (best["item"], best["batch_size"], best["grade"]) == ("recommendation", 32, "open")


def test_epochs_and_tokens_are_equal_up_to_the_last_batches(tmp_path):
    ceil = tables(tmp_path, "epoch_budget_ceil.csv")
    assert set(ceil["comparisons"]["budget"]) == {"examples"} and ceil["critical_batch_size"].empty
    built = tables(tmp_path, "token_budget.csv")
    losses, rates = (
        means(built, "validation_loss"),
        means(built, "validation_loss", "learning_rate"),
    )
    best = min(losses, key=losses.get)
    assert (best, losses[best], rates[best]) == (1024, 2.342, 0.007812)


def test_a_budget_is_that_of_a_series(tmp_path):
    built = tables(tmp_path, "two_budgets.csv")
    result = built["comparisons"].groupby("model")["budget_value"].agg(set)
    assert result["small"] == {1e6} and result["large"] == {3e6}
    assert built["critical_batch_size"].empty


def test_one_statistic_is_named_at_targets(tmp_path):
    built = tables(tmp_path, "median_or_mean.csv", rows="at_target")
    seconds = means(built, "seconds")
    assert min(seconds, key=seconds.get) == 16 and seconds[16] == pytest.approx(0.4 ** (1 / 3))


def test_a_run_that_is_empty_to_the_end_has_failed_and_nan_is_divergence(tmp_path):
    """pandas writes NaN as nothing."""
    case = "diverged_written_by_pandas.csv"
    runs = read(case)
    assert has_note(runs, "failed, as they end without any loss", "1 run", "line 10")
    for result, status in (
        (runs, "failed"),
        (changed(tmp_path, case, (",\n", ",nan\n")), "diverged"),
    ):
        rows = result.rows
        assert set(rows.loc[rows["batch_size"] == 1024, "status"]) == {status}
        assert set(rows.loc[rows["batch_size"] < 1024, "status"]) == {"finished"}


@pytest.mark.parametrize("name", ["hf_learning_rate.csv", "plateau_learning_rate.csv"])
def test_a_factor_that_changes_within_a_run_is_none(name, tmp_path):
    result = read(name)
    assert result.factors == () and result.tried_rates == () and result.rows["run"].nunique() == 3
    assert has_note(result, "changes within a run", "learning_rate")
    other = changed(tmp_path, name, ("learning_rate", "weight_decay"))
    assert other.factors == () and has_note(other, "weight_decay")


def test_a_factor_that_runs_are_crossed_with_is_one(tmp_path):
    rows = [
        {"batch_size": size, "lr": rate, "step": step, "val_loss": size / step + rate}
        for size in (8, 16, 32)
        for rate in (0.1, 0.2)
        for step in (10, 20)
    ]
    assert write(tmp_path, rows).tried_rates == (0.1, 0.2)


def test_a_named_factor_that_changes_within_a_log_is_an_error(tmp_path):
    for size in (8, 16, 32):
        rows = [{"step": step, "beta": step / 10, "loss": 1 / step + size} for step in (1, 2)]
        pandas.DataFrame(rows).to_csv(tmp_path / f"bs{size}.csv", index=False)
    with pytest.raises(UserError, match="beta: received a factor that changes within a run"):
        read("bs{batch_size}.csv", tmp_path, factors=["beta"])
    assert read("bs{batch_size}.csv", tmp_path).factors == ()


def test_the_loss_of_keras_is_the_training_loss():
    result = read("keras_loss.csv")
    assert result.rows["train_loss"].max() == 2.24 and result.factors == ()


def test_replicates_that_nearly_equal_another_are_read(tmp_path):
    rows = pandas.read_csv(CASES / "identical_seeds.csv")
    rows["validation_loss"] += 1e-6 * rows["seed"]
    assert write(tmp_path, rows).rows["seed"].nunique() == 6


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("step", "step", "iter"),
        ("val_loss", "val_loss", "valid/loss"),
        ("batch_size", "bs", "batchsize"),
    ],
)
def test_two_columns_with_one_name_are_one_question(tmp_path, column, first, second):
    frame = pandas.DataFrame({"batch_size": [8, 16, 32], "step": 10, "val_loss": [8, 16, 32]})
    frame = frame.rename(columns={column: first}).assign(**{second: frame[column]})
    with pytest.raises(UserError, match=f"received {first} and {second}, each of which may"):
        write(tmp_path, frame)


@pytest.mark.parametrize(
    ("column", "cell", "place"),
    [
        ("model", "a\x07red", "own.csv, model: received 'a\\x07red'"),
        ("mo\x1bdel", "a", "received 'mo\\x1bdel'"),
    ],
)
def test_control_characters_reach_no_page_and_no_terminal(tmp_path, column, cell, place):
    rows = [{"batch_size": n, "step": 1, "val_loss": n, column: cell} for n in (8, 16, 32)]
    with pytest.raises(UserError) as error:
        write(tmp_path, rows, factors=[column])
    assert place in str(error.value)
    assert all(line.isprintable() for line in str(error.value).splitlines())


def test_examples_in_another_unit_than_updates_are_refused(tmp_path):
    rows = [{"batch_size": n, "updates": 10, "examples": n, "val_loss": n} for n in (8, 16, 32)]
    with pytest.raises(UserError, match="own.csv, line 2, examples: received 8, but 10 updates"):
        write(tmp_path, rows)
