"""Tables of trainings whose rate falls towards the horizon: nothing is read before their ends."""

import pandas
import pytest

import synthetic
from batchscope.tables import advice, decisions, long_tables, run_table
from costs import first


@pytest.mark.parametrize("schedule", first(["cosine", "constant"]))
def test_what_is_decided(tmp_path, schedule):
    study = synthetic.study(synthetic.grid(schedule=schedule))
    synthetic.write(tmp_path, study)
    runs = run_table.collect(tmp_path, study, "gap")
    given = (runs, long_tables.trajectories(tmp_path, study, "gap"))
    experiment = study.experiments["gap"]
    compared = decisions.held_equal(study, "gap", *given)["comparisons"]
    found = decisions.to_target(experiment.trainings, *given)
    if schedule == "cosine":
        assert set(compared["budget"]) == {"epochs", "convergence", "end"}
        assert set(compared.loc[compared["budget"] == "epochs", "budget_value"]) == {40}
        assert all(frame.empty for frame in found.values())
    else:
        assert {"updates", "target"} <= set(compared["budget"])
        assert not any(frame.empty for frame in found.values())
    tables = {"runs": runs, "comparisons": compared, **found}
    tables |= dict.fromkeys(("limits", "trends"), pandas.DataFrame())
    advised = advice.rows(tmp_path, experiment, tables)
    assert (advised["item"] == "recommendation").any()
    assert not {"target", "longer_training"} & {*advised.loc[advised["item"] == "need", "name"]}
