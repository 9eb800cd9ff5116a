"""Distances from the initial weights, by hand."""

import numpy as np
import pytest
import threadpoolctl

from batchscope.core.errors import UserError
from batchscope.measures.weight_distance import distances
from batchscope.store import paths, records, weights
from measured_run import RUN, measured, write_record


def arrays(**values):
    return {key.replace("__", "/"): np.array(value, np.float32) for key, value in values.items()}


def test_distances_by_hand():
    initial = arrays(a__kernel=[[3.0, 0.0], [0.0, 4.0]], a__bias=[0.0, 0.0], b__kernel=[0.0])
    trained = arrays(a__kernel=[[3.0, 2.0], [0.0, 4.0]], a__bias=[1.0, 2.0], b__kernel=[4.0])
    found = distances(initial, trained)
    assert (found["distance"], found["relative"]) == (5.0, 1.0)
    assert found["layers"] == {
        "a": {"distance": 3.0, "relative": 0.6},
        "b": {"distance": 4.0, "relative": None},
    }
    assert weights.distance(initial, trained) == 5.0
    assert weights.distance(initial, initial) == 0.0


def test_sums_are_in_float64():
    # In float32, adding 1e-4**2 to 1 a hundred thousand times would stay at 1.
    initial = arrays(a__kernel=np.zeros(100_001))
    trained = arrays(a__kernel=np.r_[1.0, np.full(100_000, 1e-4)])
    expected = np.sqrt(1 + 100_000 * float(np.float32(1e-4)) ** 2)
    assert weights.distance(initial, trained) == pytest.approx(expected, rel=1e-13)


def test_the_last_bits_do_not_depend_on_threads():
    random = np.random.default_rng(0).standard_normal(100_003)
    pair = arrays(a__kernel=np.zeros(len(random))), arrays(a__kernel=random)
    sums = set()
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads):
            sums.add(weights.distance(*pair))
    assert len(sums) == 1


def test_record_ignores_moving_statistics(tmp_path):
    folder = paths.run_folder(tmp_path, RUN)
    write_record(tmp_path)
    with pytest.raises(UserError, match=r"initial\.npz: missing"):
        measured("weight_distance", tmp_path, tmp_path)
    for name, gamma, mean in (("initial", 0.5, 0.0), ("final", 1.5, 9.0), ("best", 4.5, 9.0)):
        state = arrays(n__moving_mean=[mean])
        records.write_weights(folder / f"{name}.npz", arrays(n__gamma=[gamma]), state)
    for which, distance in (("final", 1.0), ("best", 4.0)):
        record = measured("weight_distance", tmp_path, tmp_path, {"weights": which})
        expected = {"weight_distance": distance, "weight_distance_relative": distance / 0.5}
        assert record["values"] == expected
        assert record["layers"] == {"n": {"distance": distance, "relative": distance / 0.5}}
