"""External runs: what is read, what is answered, and the tables that runs here have too."""

import io

import numpy as np
import pytest

import own_table
from batchscope.analysis import budget_comparisons, run_series
from batchscope.analysis.targets import ComparisonRequest
from batchscope.core.errors import UserError
from batchscope.external import external_runs
from batchscope.study import tasks
from batchscope.study.log_format import Logs
from batchscope.study.table_entries import TRAJECTORIES, measure_columns
from batchscope.study.tasks import CLASSIFICATION
from batchscope.tables import csv_tables, run_table
from batchscope.tables.long_tables import FIRST_COLUMNS

HEADER = "batch_size,seed,updates,validation_loss"
GOOD = [HEADER, "8,0,10,0.5", "8,0,20,0.2", "16,0,10,0.4", "16,0,20,0.1", "32,0,10,0.3"]
GOOD = [*GOOD, "32,0,20,0.1"]


@pytest.fixture
def read(tmp_path):
    """Returns a function that reads lines as a table of one's own."""

    def of_lines(lines, **keys):
        path = tmp_path / "own.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return external_runs.read(Logs(files=(str(path),), **keys))

    return of_lines


def test_a_good_table(read):
    runs = read(["\ufeff" + GOOD[0], "", *(line.replace("32,", "32.0,") for line in GOOD[1:]), ""])
    assert runs.factors == ()
    assert runs.rows["examples"].tolist() == [80, 160, 160, 320, 320, 640]
    assert runs.rows["validation_loss"].tolist() == [0.5, 0.2, 0.4, 0.1, 0.3, 0.1]
    examples = read([line.replace("updates", "examples") for line in GOOD]).rows["updates"]
    assert examples.tolist() == [10 / 8, 20 / 8, 10 / 16, 20 / 16, 10 / 32, 20 / 32]


def test_the_trajectories_of_an_experiment(read):
    """What names a training distinguishes no series; seconds are empty where nothing was timed."""
    lines = [f"run,status,machine,seconds,{GOOD[0]}"]
    lines += [f"seed {line.split(',')[1]},finished,,,{line}" for line in GOOD[1:]]
    runs = read(lines)
    assert runs.factors == () and set(runs.rows["status"]) == {"finished"}
    assert runs.rows.drop(columns="run").equals(read(GOOD).rows.drop(columns="run"))


def test_factors_are_numbers_where_they_can_be(read):
    options = ["decay,model", *["0.1,a"] * 2, *["0.2,a"] * 2, *["0.4,a"] * 2]
    lines = [f"{line},{item}" for line, item in zip(GOOD, options, strict=True)]
    runs = read(lines, factors=["decay"])
    assert runs.factors == ("own_decay", "model")
    assert runs.rows["own_decay"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.4, 0.4]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([*GOOD[:2], "8,0,ten,0.2", *GOOD[3:]], "line 3, updates: received 'ten'"),
        ([*GOOD[:2], "8,0,inf,0.2", *GOOD[3:]], "line 3, updates: received 'inf'"),
        ([*GOOD[:2], "8,0,,0.2", *GOOD[3:]], "line 3: received no number of updates"),
        ([*GOOD[:2], "8.5,0,20,0.2", *GOOD[3:]], "line 3, batch_size: received '8.5'"),
        ([*GOOD[:2], "8,9007199254740992,20,0.2"], "line 3, seed: received '9007199254740992'"),
        ([*GOOD[:2], "8,0,20,-0.2", *GOOD[3:]], "line 3, validation_loss: received '-0.2'"),
        ([*GOOD[:2], "8,0,10,0.2", *GOOD[3:]], "line 3: received batch size 8, seed 0 again"),
        (["batch_sizes,seed,updates,val_loss", *GOOD[1:]], "`columns: {batch_size: batch_sizes}`"),
        (["batch_size,seed,at,val_loss", *GOOD[1:]], "not in the columns batch_size, seed, at"),
        (["batch_size,size,seed,updates", ",8,0,10"], "columns size, seed and updates; "),
        ([f"{HEADER},world_size", "8,0,10,0.5,1.5"], "world_size: received '1.5'"),
        (["batch_size,seed,updates,test_accuracy", "8,0,10,97.3"], "received '97.3'"),
        (["batch_size,seed,updates,test_r2", "8,0,10,1.5"], "received '1.5'"),
        ([""], "received none of"),
        ([HEADER], "a header alone"),
        ([HEADER, '8,0,10,"0.5'], "no CSV text"),
        ([HEADER, "8,0,10,0,5"], "line 2: received more cells than the header has names"),
        (GOOD[:4], "batch_size: received 8 and 16; at least 3 different"),
    ],
)
def test_a_mistake_is_answered_with_its_place(read, lines, expected):
    with pytest.raises(UserError) as error:
        read(lines)
    assert expected in str(error.value)


# The first row has fewer outcomes than the rows before it.
@pytest.mark.parametrize(("last", "status"), [("0.3,", "finished"), ("nan,0.3", "diverged")])
def test_a_training_diverged_where_its_last_losses_are_not_finite(read, last, status):
    lines = ["batch_size,seed,updates,validation_loss,validation_accuracy"]
    for size in (8, 32, 128):
        lines += [f"{size},0,{index},{1 / index},0.{index}" for index in (1, 2)]
    lines[-1] = f"128,0,2,{last}"
    assert read(lines).rows["status"].tolist() == ["finished"] * 4 + [status] * 2
    # What the table says of it counts first, in its last row alone and in either case.
    words = ["status", *["", "Late"] * 3]
    stated = [f"{line},{word}" for line, word in zip(lines, words, strict=True)]
    assert set(read(stated).rows["status"]) == {"late"}


def tables(folder, frame, **keys):
    """Returns runs.csv and trajectories.csv, read as figures and statistics read them."""
    result = external_runs.read(Logs(files=(str(own_table.write(folder, frame)),), **keys))
    built = (run_table.from_logs(result, "mine", "a"), run_table.logged_trajectories(result))
    return [csv_tables.read(io.StringIO(table.to_csv(index=False))) for table in built]


def test_a_row_per_training_and_a_row_per_evaluation(tmp_path):
    """Values are those of the last and of the best evaluation."""
    frame = own_table.rows(seconds=True).assign(mean=lambda rows: rows["variant"].map(len))
    runs, trajectories = tables(tmp_path, frame, factors=["variant", "mean"])
    assert len(runs) == 36 and len(trajectories) == len(frame)
    assert runs["run"].is_unique and set(trajectories["run"]) == set(runs["run"])
    known = measure_columns({"evaluate": {}}, [CLASSIFICATION])
    own = ["own_variant", "own_mean"]
    at = known.index("status")
    assert list(runs) == [*known[:at], *own, *known[at:]]
    of_classes = tasks.columns_of_tasks(TRAJECTORIES, [CLASSIFICATION])
    assert list(trajectories) == [*FIRST_COLUMNS[:-1], *own, "status", *of_classes]
    assert run_series.series_factors(runs) == ["own_variant"]
    assert (runs["machine"] == "elsewhere").all() and (runs["status"] == "finished").all()
    assert runs.loc[0, "run"].endswith("+batch_size=8+seed=0+variant=plain+mean=5")
    groups = frame.groupby(["variant", "batch_size", "seed"], sort=False)
    last, best = groups.last(), groups["validation_loss"].min()
    assert runs["best_validation_loss"].tolist() == pytest.approx(best.tolist())
    for name, value in (("validation_loss",) * 2, ("steps_run", "updates")):
        assert runs[name].tolist() == pytest.approx(last[value].tolist())
    assert trajectories["examples"].tolist() == (frame["updates"] * frame["batch_size"]).tolist()
    assert np.allclose(trajectories["seconds"], frame["seconds"])


def test_factors_of_ours_keep_their_names_where_their_values_are_of_their_kind(tmp_path):
    frame = own_table.rows(("plain",), learning_rate="1e-1", momentum="high", train_loss=0.25)
    frame = frame.assign(nesterov="True", threads="", model="12345678", test_loss=0.75)
    runs, _ = tables(tmp_path, frame)
    assert (runs["learning_rate"] == 0.1).all() and (runs["generalisation_gap"] == 0.5).all()
    assert runs["nesterov"].all() and (runs["model"] == "12345678").all()
    assert (runs["own_momentum"] == "high").all() and "own_threads" not in runs
    assert runs[["momentum", "threads"]].isna().all(axis=None)


def test_a_regression_made_elsewhere_has_its_columns_and_no_others(tmp_path):
    frame = own_table.rows(variants=["plain"]).drop(columns="test_accuracy")
    loss = frame["validation_loss"]
    frame = frame.assign(validation_r2=1 - 3 * loss, train_r2=0.9, test_r2=-0.1, test_mae=40 * loss)
    runs, trajectories = tables(tmp_path, frame)
    assert tasks.from_columns(runs) == tasks.from_columns(trajectories) == (tasks.REGRESSION,)
    assert (runs["generalisation_gap_r2"] == 1.0).all() and runs["test_mse"].isna().all()
    last = frame.groupby("batch_size")["test_mae"].min()
    assert runs.groupby("batch_size")["test_mae"].max().to_numpy() == pytest.approx(last, rel=0.1)
    request = ComparisonRequest(margins={"test_mae": 1.0})
    result = budget_comparisons.for_experiment(runs, trajectories, request)
    outcomes = {
        item.outcome: item.higher_is_better for item in result if item.budget.kind == "updates"
    }
    assert outcomes == {"test_r2": True, "test_mae": False, "validation_loss": False}
