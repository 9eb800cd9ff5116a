"""Tables that follow from others of the same experiment."""

import report_example
from batchscope.study import config
from batchscope.tables import decisions


def test_trends_that_documents_state_of_whole_experiments_are_asked(tmp_path):
    study = config.study(report_example.write_config(tmp_path, experiments=("gap", "second")))
    found = decisions._stated(study, "gap")
    directions = {column: outcome.direction for column, outcome in found.items()}
    assert directions == {
        "generalisation_gap": "rises",
        "sharpness_full_0.001": "rises",
        "seconds_per_epoch": "falls",
    }
    assert decisions._stated(study, "second") == {}
