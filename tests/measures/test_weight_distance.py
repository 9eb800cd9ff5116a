"""Distances from the initial weights, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from batchscope.errors import UserError
from batchscope.store import records
from batchscope.training import distances
from measured_run import RUN, measured, write_record, write_run


def arrays(**values):
    return {key.replace("__", "/"): np.array(value, np.float32) for key, value in values.items()}


def test_distances_by_hand():
    initial = arrays(a__kernel=[[3.0, 0.0], [0.0, 4.0]], a__bias=[0.0, 0.0], b__kernel=[0.0])
    trained = arrays(a__kernel=[[3.0, 2.0], [0.0, 4.0]], a__bias=[1.0, 2.0], b__kernel=[4.0])
    measured = distances.distances(initial, trained)
    assert measured["distance"] == 5.0
    assert measured["relative"] == 1.0
    assert measured["layers"] == {
        "a": {"distance": 3.0, "relative": 0.6},
        "b": {"distance": 4.0, "relative": None},
    }


def test_squares_add_up_over_layers():
    random = np.random.default_rng(0)
    initial = {f"l{i}/kernel": random.standard_normal((20, 30)) for i in range(3)}
    trained = {key: value + random.standard_normal((20, 30)) for key, value in initial.items()}
    measured = distances.distances(initial, trained)
    squares = sum(layer["distance"] ** 2 for layer in measured["layers"].values())
    assert measured["distance"] ** 2 == pytest.approx(squares, rel=1e-14)


def test_sums_are_in_float64():
    # In float32, adding 1e-4**2 to 1 a hundred thousand times would stay at 1.
    initial = arrays(a__kernel=np.zeros(100_001))
    trained = arrays(a__kernel=np.r_[1.0, np.full(100_000, 1e-4)])
    expected = np.sqrt(1 + 100_000 * float(np.float32(1e-4)) ** 2)
    measured = distances.distances(initial, trained)
    assert measured["distance"] == pytest.approx(expected, rel=1e-13)


def test_unmoved_weights_have_distance_zero():
    initial = arrays(a__kernel=[1.0, 2.0])
    measured = distances.distances(initial, initial)
    assert (measured["distance"], measured["relative"]) == (0.0, 0.0)


def test_other_variables_are_refused():
    with pytest.raises(ValueError, match="one model"):
        distances.distances(arrays(a__kernel=[1.0]), arrays(a__kernel=[1.0, 2.0]))


def test_record_ignores_moving_statistics(tmp_path):
    folder = records.run_folder(tmp_path, RUN)
    write_record(tmp_path)
    still = arrays(n__moving_mean=[0.0])
    records.write_weights(folder / "initial.npz", arrays(n__gamma=[2.0]), still)
    moved = arrays(n__moving_mean=[9.0])
    records.write_weights(folder / "final.npz", arrays(n__gamma=[3.0]), moved)
    records.write_weights(folder / "best.npz", arrays(n__gamma=[6.0]), moved)
    for weights, distance in (("final", 1.0), ("best", 4.0)):
        record = measured("weight_distance", tmp_path, tmp_path, {"weights": weights})
        assert record["status"] == "finished"
        assert record["values"] == {
            "weight_distance": distance,
            "weight_distance_relative": distance / 2,
        }
        assert record["layers"] == {"n": {"distance": distance, "relative": distance / 2}}


def test_missing_weights_are_named(tmp_path):
    write_record(tmp_path)
    with pytest.raises(UserError, match=r"initial\.npz: missing"):
        measured("weight_distance", tmp_path, tmp_path)


def test_real_run(tmp_path):
    write_run(tmp_path)
    record = measured("weight_distance", tmp_path, tmp_path)
    assert record["values"]["weight_distance"] > 0
    assert all(layer["distance"] > 0 for layer in record["layers"].values())
