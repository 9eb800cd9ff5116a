"""What holds of every measure of a run: the same bytes again, and no values without a training."""

import pytest

from batchscope.core import disk
from batchscope.study import names, tasks
from batchscope.study.registry import MEASURES
from costs import first
from measured_run import measured, write_run

OF_RUNS = [name for name, entry in MEASURES.items() if not entry.pairs]
# Cheap settings of those that draw, search, or add up on several threads.
SMALL = {
    "evaluate": {"weights": "best"},
    "gradient_alignment": {"examples": 20, "draws": 3},
    "hessian": {"probes": 2, "iterations": 8, "examples": 30},
    "sam_sharpness": {"rhos": (0.01, 0.1), "examples": 30},
    "sharpness": {"iterations": 2, "starts": 3, "dimensions": 20, "examples": 50},
}


def columns(measure, changed):
    settings = names.parse_settings(measure, "default") | changed
    return tasks.columns_of_tasks(MEASURES[measure].columns_for(settings), [tasks.CLASSIFICATION])


@pytest.mark.parametrize("measure", first(SMALL))
def test_twice_the_same_bytes(measure, results, tmp_path):
    for name in ("one", "two"):
        record = measured(measure, results, tmp_path, SMALL[measure], name)
        assert [*record["values"]] == columns(measure, SMALL[measure])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("measure", OF_RUNS)
def test_an_unfinished_run_has_null_values(measure, tmp_path):
    status = "out_of_memory"
    write_run(tmp_path, status, with_weights=False)
    record = measured(measure, tmp_path, tmp_path)
    assert record["status"] == status
    assert [*record["values"]] == columns(measure, {})
    assert set(record["values"].values()) == {None}
    assert all(disk.read_arrays(path) == {} for path in tmp_path.glob("*.npz"))
