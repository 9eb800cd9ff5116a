"""The job of a measure: its run and record, and every measure on tokens."""

import math

import numpy as np
import pytest

from batchscope import datasets
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.measures import measure_job
from batchscope.measures.measure_job import FinishedRun
from batchscope.store import paths, records
from batchscope.study import dataset_definitions, names, snapshot_epochs, tasks
from batchscope.study.registry import MEASURES
from batchscope.training import trainer
from costs import first
from measured_run import RUN, measured, write_dataset, write_record, write_run


def test_weights_and_records_that_are_missing_or_of_another_network(tmp_path):
    write_dataset(tmp_path)
    write_run(tmp_path)
    run = FinishedRun(tmp_path, RUN)
    with pytest.raises(UserError, match="epochs/7.npz: missing"):
        run.model("epochs/7")
    records.write_weights(run.folder / "final.npz", {}, {})
    with pytest.raises(UserError, match=r"final.npz: weights of small_cnn: .*received None"):
        run.model("final")
    paths.run_record(run.folder).write_text('{"status": "finished"}')
    with pytest.raises(UserError, match="record.json: received .*without sha256"):
        measured("evaluate", tmp_path, tmp_path)


def test_subsets_are_nested_and_fixed():
    order = np.random.default_rng(0).permutation(300)
    for examples, count in ((25, 25), (250, 250), (2000, 300), (0, 300)):
        assert measure_job.subset(300, examples).tolist() == order[:count].tolist()


@pytest.mark.parametrize(
    ("examples", "chunk"), [(1, 1), (512, 512), (513, 257), (2000, 500), (1437, 479)]
)
def test_even_chunk(examples, chunk):
    assert measure_job.even_chunk(examples, 512) == chunk


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
    write_record(tmp_path, status=status)
    record = measured(measure, tmp_path, tmp_path)
    assert record["status"] == status
    assert [*record["values"]] == columns(measure, {})
    assert set(record["values"].values()) == {None}
    assert all(disk.read_arrays(path) == {} for path in tmp_path.glob("*.npz"))


# Fewer and smaller than what a study would measure.
SETTINGS = {
    "sharpness": {"examples": 20, "iterations": 2, "starts": 2, "dimensions": 4},
    "gradient_alignment": {"examples": 8, "draws": 2},
    "noise_scale": {"examples": 16},
    "branches": {"examples": 16, "factors": (2,), "points": (0.3, 0.9), "window": 32},
    "hessian": {"examples": 20, "probes": 3, "iterations": 6},
    "sam_sharpness": {"examples": 20},
    "landscape": {"examples": 20, "points": 5, "lines": 1},
    "line": {"points": 4},
}
TEXT = "the quick brown fox jumps over the lazy dog; " * 50


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder, and its two runs of different batch sizes on tokens."""
    results = tmp_path_factory.mktemp("tokens")
    (results / "text.txt").write_text(TEXT)
    text = {"source": "text", "path": str(results / "text.txt"), "length": 12}
    definition = dataset_definitions.read(text).resolved()
    token = dataset_definitions.read(definition).token("tokens")
    datasets.prepare(token, definition, results)
    changes = {"dataset": token, "model": "tiny_transformer", "epochs": 2}
    changes |= {"update_norms": True, "evaluate_every": 40}
    factors = {**names.parse_run(RUN), **changes}
    runs = [names.run_name({**factors, "batch_size": size}) for size in (16, 32)]
    disk.write_json(results / "epochs_read.json", {run: [snapshot_epochs.MIDDLE] for run in runs})
    for run in runs:
        assert trainer.train(trainer.TrainingRun(results, run)) == records.FINISHED
    return results, runs


@pytest.mark.slow
@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_has_finite_values(measure, trained, tmp_path):
    results, names_of_runs = trained
    settings = names.settings_name(measure, SETTINGS.get(measure, {}))
    count = 2 if MEASURES[measure].pairs else 1
    runs = [FinishedRun(results, run) for run in names_of_runs[:count]]
    output = tmp_path / f"{settings}.json"
    measure_job.write(measure, runs, settings, output)
    record = disk.read_json(output)
    assert record["status"] == records.FINISHED
    values = record["values"]
    unresolved = {"gradient_noise_scale", "gradient_noise_scale_error"}  # of few examples
    unresolved |= {"normalisation_noise_scale", "normalisation_noise_ratio"}
    missing = {name for name, value in values.items() if value is None}
    assert missing <= {name for name in values if name.removesuffix("_start") in unresolved}
    assert all(math.isfinite(value) for value in values.values() if value is not None)
    if measure == "line":
        assert np.isfinite(record["train_loss"]).all()
