"""Tables that follow from others of the same experiment."""

import pandas
import pytest

import report_example
import synthetic
from batchscope.study import config
from batchscope.tables import advice, experiment_tables, long_tables, run_table
from costs import first


@pytest.mark.parametrize("schedule", first(["cosine", "constant"]))
def test_what_is_decided(tmp_path, schedule):
    study = synthetic.study(synthetic.grid(schedule=schedule))
    synthetic.write(tmp_path, study)
    runs = run_table.collect(tmp_path, study, "gap")
    given = (runs, long_tables.made(tmp_path, study, "gap")["trajectories"])
    experiment = study.experiments["gap"]
    compared = experiment_tables.held_equal(study, "gap", *given)["comparisons"]
    found = experiment_tables.to_target(experiment.trainings, *given)
    if schedule == "cosine":
        assert set(compared["budget"]) == {"epochs", "convergence", "end"}
        assert set(compared.loc[compared["budget"] == "epochs", "budget_value"]) == {40}
        assert all(frame.empty for frame in found.values())
    else:
        assert {"updates", "target"} <= set(compared["budget"])
        assert not any(frame.empty for frame in found.values())
    tables = {"runs": runs, "comparisons": compared, **found}
    tables |= dict.fromkeys(("limits", "trends"), pandas.DataFrame())
    tables["trajectories"] = given[1]
    advised = advice.rows(tmp_path, experiment, tables)
    assert (advised["item"] == "recommendation").any()
    assert not {"target", "longer_training"} & {
        *advised.loc[advised["item"] == "suggestion", "name"]
    }


def test_trends_that_documents_state_of_whole_experiments_are_asked(tmp_path):
    study = config.study(report_example.write_config(tmp_path, experiments=("gap", "second")))
    found = experiment_tables._stated(study, "gap")
    directions = {column: outcome.direction for column, outcome in found.items()}
    assert directions == {
        "generalisation_gap": "rises",
        "sharpness_full_0.001": "rises",
        "seconds_per_epoch": "falls",
    }
    assert experiment_tables._stated(study, "second") == {}
