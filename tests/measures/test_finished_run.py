"""A finished run as an object: what it reads, and what it says where something is missing."""

from __future__ import annotations

import pytest

from batchscope import measures
from batchscope.catalogue import run_names
from batchscope.errors import UserError
from batchscope.measures.finished_run import FinishedRun
from batchscope.store import records
from batchscope.training import models
from measured_run import COUNTS, RUN, write_dataset, write_run


def test_what_a_run_is_made_of(results):
    run = FinishedRun(results, RUN)
    assert run.factors == run_names.parse_run(RUN)
    assert run.folder == results / "runs" / RUN
    assert run.record["status"] == "finished"
    assert len(run.data.labels("train")) == COUNTS["train"]
    trainable, state = run.weights("final")
    for found, stored in zip(models.weights(run.model("final")), (trainable, state), strict=True):
        assert list(found) == list(stored)
        assert all((found[path] == stored[path]).all() for path in stored)
    initial, _ = run.weights("initial")
    assert any((initial[path] != trainable[path]).any() for path in trainable)


def test_weights_that_are_missing_or_of_another_network(tmp_path):
    write_dataset(tmp_path)
    write_run(tmp_path)
    run = FinishedRun(tmp_path, RUN)
    with pytest.raises(UserError, match="epochs/7.npz: missing"):
        run.model("epochs/7")
    records.write_weights(run.folder / "final.npz", {}, {})
    with pytest.raises(UserError, match="final.npz: weights of small_cnn: received None"):
        run.model("final")


def test_a_record_that_lacks_what_measures_read(tmp_path):
    folder = records.run_folder(tmp_path, RUN)
    folder.mkdir(parents=True)
    records.run_record(folder).write_text('{"status": "finished"}')
    with pytest.raises(UserError, match="record.json: received .*without epochs_run, weights"):
        measures.write("evaluate", [FinishedRun(tmp_path, RUN)], "default", tmp_path / "out.json")
