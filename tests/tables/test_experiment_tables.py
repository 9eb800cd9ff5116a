"""Tables that follow from others of the same experiment."""

from dataclasses import replace

import pandas
import pytest

import report_example
import synthetic
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import paths
from batchscope.study import config
from batchscope.tables import (
    advice,
    csv_tables,
    experiment_tables,
    long_tables,
    run_table,
    study_tables,
)
from costs import first


@pytest.mark.parametrize("schedule", first(["cosine", "constant"]))
def test_what_is_decided(tmp_path, schedule):
    measures = {name: synthetic.MEASURES[name] for name in ("evaluate", "time_epoch")}
    study = synthetic.study(synthetic.grid(schedule=schedule), measures)
    synthetic.write(tmp_path, study)
    runs = run_table.from_records(tmp_path, study, "gap")
    tables = {"runs": runs, **long_tables.for_experiment(tmp_path, study, "gap")}
    tables |= experiment_tables.decision_tables(study, "gap", tables)
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
    advised = advice.recommendations(tmp_path, study.experiments["gap"], tables)
    assert (advised["item"] == "recommendation").any()
    assert not {"target", "longer_training"} & {
        *advised.loc[advised["item"] == "suggestion", "name"]
    }


def test_trends_that_documents_state_of_whole_experiments_are_asked(tmp_path):
    study = config.study(report_example.write_config(tmp_path, experiments=("gap", "second")))
    assert experiment_tables._stated_directions(study, "gap") == {
        "generalisation_gap": "rises",
        "sharpness_full_0.001": "rises",
        "seconds_per_epoch": "falls",
    }
    assert experiment_tables._stated_directions(study, "second") == {}


def test_claims_need_the_tables_of_their_experiments(tmp_path):
    study = config.study(report_example.write_config(tmp_path))
    with pytest.raises(UserError, match=r"gap/runs\.csv"):
        study_tables.write_claims(study, tmp_path, tmp_path / "claims.csv")


def tabulated(folder, seeds, failed=(), budgets=()):
    """Write records and tables of some seeds; return the target of the comparisons.

    From seed 2 on, losses are 1.5 times as high.
    """
    study = synthetic.study(synthetic.grid([16, 32, 64], range(seeds)), {})
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
    experiment_tables.write(folder, study, "gap", folder / "tables")
    frame = csv_tables.read(folder / "tables" / "comparisons.csv")
    (value,) = frame.loc[frame["budget"] == "target", "budget_value"].unique().tolist()
    return value


def test_more_seeds_move_no_default_target_until_its_file_is_deleted(tmp_path):
    first = tabulated(tmp_path, 2)
    (stored,) = disk.read_json(tmp_path / "tables" / paths.DEFAULT_TARGETS)["targets"]
    assert (stored["column"], stored["value"]) == ("validation_loss", first)
    assert stored["series"]["dataset"] == "digits" and "learning_rate" not in stored["series"]
    assert tabulated(tmp_path, 3) == first
    fits = csv_tables.read(tmp_path / "tables" / "critical_batch_size.csv")
    assert fits["target_value"].iloc[-1] == first
    stated = tabulated(tmp_path, 3, budgets={"target": {"validation_loss": 0.7}})
    assert stated == 0.7 and tabulated(tmp_path, 3) == first
    (tmp_path / "tables" / paths.DEFAULT_TARGETS).unlink()
    assert tabulated(tmp_path, 3) != first


def test_no_target_of_unfinished_runs_is_stored(tmp_path):
    runs = synthetic.grid([16, 32, 64], range(3))
    assert tabulated(tmp_path, 3, failed=runs[:1]) > 0
    assert disk.read_json(tmp_path / "tables" / paths.DEFAULT_TARGETS) == {"targets": []}
