"""A finished run as an object: what it reads, and what it says where something is missing."""

import numpy as np
import pytest

from batchscope.core.errors import UserError
from batchscope.measures import finished_run, measure_job
from batchscope.measures.finished_run import FinishedRun
from batchscope.store import paths, records
from batchscope.training import models
from measured_run import RUN, write_dataset, write_run


def test_its_model_has_the_weights_that_are_asked_for(results):
    run = FinishedRun(results, RUN)
    trainable, state = run.weights("final")
    for found, stored in zip(models.weights(run.model("final")), (trainable, state), strict=True):
        assert list(found) == list(stored)
        assert all((found[path] == stored[path]).all() for path in stored)
    initial, _ = run.weights("initial")
    assert any((initial[path] != trainable[path]).any() for path in trainable)


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
        measure_job.write(
            "evaluate", [FinishedRun(tmp_path, RUN)], "default", tmp_path / "out.json"
        )


def test_subsets_are_nested_and_fixed():
    large, small = finished_run.subset(5000, 2000), finished_run.subset(5000, 250)
    assert np.array_equal(large[:250], small) and len(set(large)) == 2000
    assert sorted(finished_run.subset(300, 0)) == list(range(300))
    assert len(finished_run.subset(300, 2000)) == 300
    order = np.random.default_rng(0).permutation(5000)
    assert small.tolist() == order[:250].tolist()


@pytest.mark.parametrize(
    ("examples", "chunk"), [(1, 1), (512, 512), (513, 257), (2000, 500), (1437, 479)]
)
def test_even_chunk(examples, chunk):
    assert finished_run.even_chunk(examples, 512) == chunk
