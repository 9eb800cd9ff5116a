"""Every measure, and a training itself, on what is no image: rows of numbers, and tokens."""

import math

import numpy as np
import pytest

from batchscope import datasets
from batchscope.core import disk
from batchscope.measures import measure_job
from batchscope.measures.finished_run import FinishedRun
from batchscope.store import records
from batchscope.study import dataset_definitions, names, snapshot_epochs
from batchscope.study.registry import MEASURES
from batchscope.training import trainer

pytestmark = pytest.mark.slow

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
MODELS = {"rows": "mlp", "tokens": "tiny_transformer"}
TEXT = "the quick brown fox jumps over the lazy dog; " * 50


def run_name(token, **factors):
    return names.run_name(
        {
            "dataset": token,
            "model": MODELS[names.split_token(token)[0]],
            "batch_size": 16,
            "learning_rate": 0.1,
            "optimizer": "sgd",
            "epochs": 2,
            "seed": 0,
            "update_norms": True,
            "evaluate_every": 40,
            **factors,
        }
    )


@pytest.fixture(scope="module", params=MODELS)
def trained(request, tmp_path_factory):
    """The data set's token, and a folder with two runs on it of different batch sizes."""
    results = tmp_path_factory.mktemp(request.param)
    (results / "text.txt").write_text(TEXT)
    text = {"source": "text", "path": str(results / "text.txt"), "length": 12}
    given = {"rows": {"source": "wine"}, "tokens": text}[request.param]
    definition = dataset_definitions.resolve(given)
    token = dataset_definitions.token(request.param, definition)
    datasets.prepare(token, definition, results)
    runs = [run_name(token, batch_size=size) for size in (16, 32)]
    disk.write_json(results / "epochs_read.json", {run: [snapshot_epochs.MIDDLE] for run in runs})
    for run in runs:
        assert trainer.train(trainer.TrainingRun(results, run)) == records.FINISHED
    return token, results


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_has_finite_values(measure, trained, tmp_path):
    token, results = trained
    settings = names.settings_name(measure, SETTINGS.get(measure, {}))
    sizes = (16, 32) if MEASURES[measure].pairs else (16,)
    runs = [FinishedRun(results, run_name(token, batch_size=size)) for size in sizes]
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
