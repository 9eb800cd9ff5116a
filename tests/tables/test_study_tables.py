"""Tables of a study: as files, those that follow from others, targets, and the cost of a seed."""

import math
from dataclasses import replace

import pandas
import pytest

import report_example
import small_study
import synthetic
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import estimates, jobs, paths
from batchscope.study import config, planner
from batchscope.tables import csv_tables, long_tables, run_table, study_tables
from costs import first


def test_a_run_whose_digest_looks_like_a_number_stays_a_text(tmp_path):
    frame = pandas.DataFrame({"run": ["12345678", "null"], "loss": [-1.5, 2.0]})
    csv_tables.write(frame, tmp_path / "runs.csv")
    assert csv_tables.read(tmp_path / "runs.csv").to_dict() == frame.to_dict()


@pytest.mark.parametrize(
    ("table", "column", "word"), [("runs", "batch_size", "64 x"), ("advice", "estimate", "-")]
)
def test_a_word_in_a_column_of_numbers_is_told_by_its_place(table, column, word, tmp_path):
    path = tmp_path / f"{table}.csv"
    frame = pandas.DataFrame({"run": ["a", "b", "c"], column: [1, None, 0.5]})
    csv_tables.write(frame, path)
    assert csv_tables.read(path)[column].sum() == 1.5
    csv_tables.write(frame.astype({column: object}).replace({column: {0.5: word}}), path)
    with pytest.raises(UserError) as raised:
        csv_tables.read(path)
    line = f"{path}:4: received '{word}' in column {column}; a number is expected. Delete {path} "
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)


@pytest.mark.parametrize("schedule", first(["cosine", "constant"]))
def test_what_is_decided(tmp_path, schedule):
    measures = {name: synthetic.MEASURES[name] for name in ("evaluate", "time_epoch")}
    study = synthetic.study(synthetic.grid(schedule=schedule), measures)
    synthetic.write(tmp_path, study)
    runs = run_table.from_records(tmp_path, study, "gap")
    tables = {"runs": runs, **long_tables.for_experiment(tmp_path, study, "gap")}
    tables |= study_tables.decision_tables(study, "gap", tables)
    compared = tables["comparisons"]
    fits = [tables["critical_batch_size"], tables["to_target"]]
    if schedule == "cosine":
        assert set(compared["budget"]) == {"epochs", "convergence", "end"}
        assert set(compared.loc[compared["budget"] == "epochs", "budget_value"]) == {40}
        assert all(frame.empty for frame in fits)
    else:
        assert {"updates", "target"} <= set(compared["budget"])
        assert not any(frame.empty for frame in fits)
    tables["limits"] = pandas.DataFrame()
    advised = study_tables.recommendations(tmp_path, study.experiments["gap"], tables)
    assert (advised["item"] == "recommendation").any()
    assert not {"target", "longer_training"} & {
        *advised.loc[advised["item"] == "suggestion", "name"]
    }


def test_trends_that_documents_state_of_whole_experiments_are_asked(tmp_path):
    study = config.study(report_example.write_config(tmp_path, experiments=("gap", "second")))
    assert study_tables._stated_directions(study, "gap") == {
        "generalisation_gap": "rises",
        "sharpness_full_0.001": "rises",
        "seconds_per_epoch": "falls",
    }
    assert study_tables._stated_directions(study, "second") == {}


def tabulated(folder, seeds, failed=(), budgets=(), added=(), **factors):
    """Write records and tables of some seeds; return the target of the comparisons.

    From seed 2 on, losses are 1.5 times as high. `added` are further runs.
    """
    runs = [*synthetic.grid([16, 32, 64], range(seeds), **factors), *added]
    study = synthetic.study(runs, {})
    study.datasets |= dict.fromkeys([factors.get("dataset")], study.datasets[synthetic.DATASET])
    experiment = study.experiments["gap"]
    keys = experiment.keys.model_copy(update={"budgets": dict(budgets)})
    study.experiments["gap"] = changed = replace(experiment, keys=keys)
    vars(changed)["measures"] = {}
    synthetic.write(folder, study, dict.fromkeys(failed, "missing"))
    for run, factors in experiment.runs.items():
        path = paths.run_folder(folder, run) / "history.csv"
        if factors["seed"] > 1 and path.exists():
            rows = pandas.read_csv(path)
            rows["validation_loss"] *= 1.5
            rows.to_csv(path, index=False)
            synthetic.write_sha256(path.parent)
    study_tables.write(folder, study, "gap", folder / "tables")
    frame = csv_tables.read(folder / "tables" / "comparisons.csv")
    (value,) = frame.loc[frame["budget"] == "target", "budget_value"].unique().tolist()
    return value


def test_more_seeds_move_no_default_target_until_its_file_is_deleted(tmp_path):
    first = tabulated(tmp_path, 2)
    (stored,) = disk.read_json(tmp_path / "tables" / paths.DEFAULT_TARGETS)["targets"]
    assert (stored["column"], stored["value"]) == ("validation_loss", first)
    assert stored["series"]["dataset"] == "digits" and "learning_rate" not in stored["series"]
    assert tabulated(tmp_path, 3, added=synthetic.grid([8], range(3), epochs=20)) == first
    fits = csv_tables.read(tmp_path / "tables" / "critical_batch_size.csv")
    assert fits["target_value"].iloc[-1] == first
    assert tabulated(tmp_path, 3, budgets={"target": {"validation_loss": 0.7}}) == 0.7
    for edited in ({"dataset": "digits-00000000"}, {"model": "small_cnn-00000000"}):
        assert tabulated(tmp_path, 3, **edited) != first  # other data or another model
    assert tabulated(tmp_path, 3) == first
    (tmp_path / "tables" / paths.DEFAULT_TARGETS).unlink()
    assert tabulated(tmp_path, 3) != first


def test_no_target_of_unfinished_runs_is_stored(tmp_path):
    runs = synthetic.grid([16, 32, 64], range(3))
    assert tabulated(tmp_path, 3, failed=runs[:1]) > 0
    assert disk.read_json(tmp_path / "tables" / paths.DEFAULT_TARGETS) == {"targets": []}


def test_trainings_measures_and_timings_of_a_seed(tmp_path):
    experiment = {
        "vary": {"batch_size": [16, 64], "learning_rate": [0.1, 0.2]},
        "seeds": 3,
        "measure": ["evaluate", "time_epoch"],
    }
    study = planner.make(small_study.config(experiment=experiment))
    gap = study.experiments["a"]
    trainings, timings = study_tables.seed_cost_function(tmp_path, gap)(gap.runs)
    assert math.isnan(trainings) and timings == 0  # nothing is known yet
    for run, planned in study.runs.items():
        path = paths.run_folder(tmp_path, run) / "record.json"
        record = {"status": "finished", "contended_seconds": 10.0, "epochs_run": planned["epochs"]}
        disk.write_json(path, record)
    for job in jobs.measure_jobs(gap, tmp_path, "local"):
        disk.write_json(job.path, {"status": "finished"})
        seconds = {"measure": 2, "timing": 5}[job.noun]
        estimates.note_job(tmp_path, job.measure, job.subject, job.path, seconds)
    trainings, timings = study_tables.seed_cost_function(tmp_path, gap)(gap.runs)
    assert trainings == 4 * (10 + 2)  # two sizes at two rates
    assert timings == 2 * 5  # which rates share
    assert math.isnan(study_tables.seed_cost_function(tmp_path, gap)([])[0])
