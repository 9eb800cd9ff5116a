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
from batchscope.study.log_format import Logs
from batchscope.tables import study_tables

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
    return study_tables.make(folder / "results", config.study(path), "a")


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
    assert has_note(read("early.csv"), "unequal ends are not compared")


def test_a_partly_filled_column_that_nobody_named_is_ignored(tmp_path):
    runs = read("partly3.csv")
    assert runs.factors == ("optimizer",) and len(runs.series) == 3
    assert has_note(runs, "not read", "grad_norm")
    built = tables(tmp_path, "partly3.csv")
    assert set(built["comparisons"]["budget"]) == {"epochs"}
    assert set(built["comparisons"]["budget_value"]) == {3}
    assert "stop_reason" in built["runs"] and set(built["runs"]["stop_reason"]) == {"end"}


def test_epochs_from_zero_are_finished_epochs(tmp_path):
    runs = read("from_zero.csv")
    assert runs.rows["epoch"].tolist() == [1, 2] * 3
    assert has_note(runs, "epochs count from 0")
    used = read("from_zero.csv", examples_per_epoch=640).rows
    assert used["examples"].tolist() == [640, 1280] * 3
    assert used["updates"].tolist() == [20, 40, 10, 20, 5, 10]
    later = changed(tmp_path, "from_zero.csv", (",1,", ",2,"), (",0,", ",1,"))
    assert later.rows["epoch"].tolist() == [1, 2] * 3 and not has_note(later, "from 0")


@pytest.mark.parametrize(
    ("case", "status", "outcome", "reason"),
    [
        ("div.csv", records.DIVERGED, "test_loss", ""),
        ("emp.csv", records.CRASHED, "test_loss", ""),
        ("oom2.csv", records.OUT_OF_MEMORY, "validation_loss", "failed"),
    ],
)
def test_a_run_that_failed_is_a_result_and_never_the_best(tmp_path, case, status, outcome, reason):
    rows, size = read(case).rows, 256 if case == "oom2.csv" else 128
    failed = rows[(rows["batch_size"] == size) & (rows["learning_rate"] == 0.1)]
    assert failed["status"].tolist() == [status]
    assert set(rows.drop(failed.index)["status"]) == {"finished"}
    built = tables(tmp_path, case)
    losses = means(built, outcome)
    assert min(losses, key=lambda name: (losses[name] != losses[name], losses[name])) == 32
    assert means(built, outcome, "reason")[size] == reason


def test_a_column_of_words_that_nobody_named_is_ignored():
    runs = read("note.csv")
    assert runs.factors == () and has_note(runs, "not read", "note", "factors: [note]")
    with pytest.raises(UserError, match="3 series, distinguished by note, none with 3 batch"):
        read("note.csv", factors=["note"])


def test_precision_is_a_factor_only_with_its_values(tmp_path):
    pair = ("prec,", "precision,")
    runs = changed(tmp_path, "precision.csv", pair)
    assert runs.factors == () and has_note(runs, "not read", "precision", "recall")
    values = [(number, "float32") for number in ("0.81", "0.78", "0.74")]
    assert changed(tmp_path, "precision.csv", pair, *values).factors == ("precision",)
    assert read("precision.csv", factors=["prec"]).factors == ("own_prec",)


def test_several_runs_of_one_identity_are_one_question(tmp_path):
    with pytest.raises(UserError, match="batch size .*, seed 0 again, .* apart, run_id, by"):
        read("w_run_id.csv")
    runs = read("w_run_id.csv", columns={"seed": "run_id"})
    assert runs.rows["run"].nunique() == 9 and set(runs.rows["seed"]) == {1, 2, 3}
    for updates, name in (([10, 20], "8_a.csv"), ([30, 40], "8_b.csv")):
        frame = pandas.DataFrame({"updates": updates, "validation_loss": 1.0})
        frame.to_csv(tmp_path / name, index=False)
    with pytest.raises(UserError, match=r"8_b\.csv, line 2: .*, as in .*8_a\.csv, line 2: "):
        read("{batch_size}_*.csv", tmp_path)


def test_an_ambiguous_amount_is_ignored():
    runs = read("samples.csv")
    assert runs.rows["epoch"].tolist() == [10] * 3 and runs.rows["examples"].isna().all()
    assert has_note(runs, "not read", "samples")


@pytest.mark.parametrize(
    ("case", "keys", "message"),
    [
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


def test_times_alone_give_no_recommendation(tmp_path):
    built = tables(tmp_path, "epoch_seconds.csv")
    assert built["comparisons"].empty and built["advice"].empty and len(built["runs"]) == 3
    assert has_note(read("epoch_seconds.csv"), "no loss or metric")
    rows = read("epoch_seconds.csv", examples_per_epoch=1000).rows
    assert rows["examples"].tolist() == [1000] * 3


@pytest.mark.parametrize("column", ["gradient_accumulation_steps", "num_gpus"])
def test_the_batch_size_is_that_of_an_update_unless_it_is_global(tmp_path, column):
    pair = ("gradient_accumulation_steps", column)
    runs = changed(tmp_path, "accumulation.csv", pair)
    assert set(runs.rows["batch_size"]) == {32, 64, 128} and runs.factors == ()
    runs = changed(tmp_path, "accumulation.csv", pair, ("batch_size", "global_batch_size"))
    assert set(runs.rows["batch_size"]) == {8, 16, 32}


def test_a_cell_may_be_in_per_cent(tmp_path):
    rows = [{"batch_size": size, "epoch": 5, "test_acc": 90 - size} for size in (8, 16, 32)]
    with pytest.raises(UserError, match="line 2, test_acc: received '82', in 3 rows"):
        write(tmp_path, rows)
    result = write(tmp_path, [{**row, "test_acc": f"{row['test_acc']}%"} for row in rows]).rows
    assert result["test_accuracy"].tolist() == [0.82, 0.74, 0.58]


def test_two_machines_are_never_merged():
    runs = read("machine_column.csv")
    assert set(runs.rows["own_machine"]) == {"M1", "V100"} and len(runs.series) == 2


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
    losses = means(built, "validation_loss")
    rates = means(built, "validation_loss", "learning_rate")
    best = min(losses, key=losses.get)
    assert (best, losses[best], rates[best]) == (1024, 2.342, 0.007812)


def test_a_run_that_is_empty_to_the_end_has_failed_and_nan_is_divergence(tmp_path):
    """pandas writes NaN as nothing, or as null in JSON."""
    case = "diverged_written_by_pandas.csv"
    runs = read(case)
    assert has_note(runs, "failed, as they end without any loss", "1 run", "line 10")
    with_nan = changed(tmp_path, case, (",\n", ",nan\n"))
    frame = pandas.read_csv(CASES / case)
    frame.to_json(tmp_path / "own.jsonl", orient="records", lines=True)
    renamed = frame.rename(columns={"validation_loss": "v"})
    renamed.to_json(tmp_path / "v.jsonl", orient="records", lines=True)
    named = read("v.jsonl", tmp_path, columns={"validation_loss": "v"})
    failed = [runs, read("own.jsonl", tmp_path), named]
    for result, status in ((with_nan, "diverged"), *((run, "failed") for run in failed)):
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


def test_updates_and_not_epochs_tell_whether_a_scheduled_rate_is_a_factor(tmp_path):
    rows = [
        {"batch_size": size, "step": step, "epoch": step // 2, "lr": 1 / step, "val_loss": size}
        for size in (8, 16, 32)
        for step in (2, 3, 4, 5)
    ]
    assert write(tmp_path, rows).factors == ()


def test_a_named_factor_that_changes_within_a_log_is_an_error(tmp_path):
    for size in (8, 16, 32):
        rows = [{"step": step, "beta": step / 10, "loss": 1 / step + size} for step in (1, 2)]
        pandas.DataFrame(rows).to_csv(tmp_path / f"bs{size}.csv", index=False)
    with pytest.raises(UserError, match="beta: received a factor that changes within a run"):
        read("bs{batch_size}.csv", tmp_path, factors=["beta"])
    assert read("bs{batch_size}.csv", tmp_path).factors == ()


def test_two_columns_with_one_name_are_one_question(tmp_path):
    frame = pandas.DataFrame({"batch_size": [8, 16, 32], "step": 10, "val_loss": [8, 16, 32]})
    with pytest.raises(UserError, match="received val_loss and valid/loss, each of which may"):
        write(tmp_path, frame.assign(**{"valid/loss": 1}))


@pytest.mark.parametrize(("column", "cell"), [("model", "a\x07red"), ("mo\x1bdel", "a")])
def test_control_characters_reach_no_page_and_no_terminal(tmp_path, column, cell):
    rows = [{"batch_size": n, "step": 1, "val_loss": n, column: cell} for n in (8, 16, 32)]
    with pytest.raises(
        UserError, match=r"own.csv, mo.*: received '(a\\x07red|mo\\x1bdel)'"
    ) as error:
        write(tmp_path, rows, factors=[column])
    assert str(error.value).isprintable()
