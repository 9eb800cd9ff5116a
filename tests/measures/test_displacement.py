"""Ways of the weights, made by hand: straight, around a corner, and back to where they began."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchscope import disk
from batchscope.catalogue import measure_settings
from batchscope.catalogue.measures import MEASURES
from batchscope.errors import UserError
from batchscope.measures import displacement
from batchscope.store import records
from measured_run import RUN, measured, write_record

STRAIGHT = [[0, 0], [1, 0], [3, 0], [3.5, 0]]
CORNER = [[0, 0], [3, 0], [3, 4]]
LOOP = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]


def travel(places: list) -> tuple[np.ndarray, float]:
    """Norms of the steps between places, and the distance from the first to the last."""
    places = np.array(places, float)
    return np.linalg.norm(np.diff(places, axis=0), axis=1), np.linalg.norm(places[-1] - places[0])


def test_a_straight_line():
    values = displacement.path(*travel(STRAIGHT))
    assert tuple(values) == MEASURES["displacement"].columns_for({})
    assert tuple(values.values()) == (3, 3.5 / 3, 1.0, 3.5, 1.0)


def test_a_right_angle():
    norms, distance = travel(CORNER)
    values = displacement.path(norms, distance)
    assert (values["path_length"], values["straightness"]) == (7.0, 5 / 7)
    assert displacement.logs(values, distance) == {
        "distance": math.log(5),
        "updates": math.log(2),
        "mean_update": math.log(3.5),
        "straightness": math.log(5 / 7),
    }


def test_a_closed_loop_has_no_logarithm():
    norms, distance = travel(LOOP)
    values = displacement.path(norms, distance)
    assert (values["path_length"], values["straightness"]) == (4.0, 0.0)
    logs = displacement.logs(values, distance)
    assert (logs["distance"], logs["straightness"]) == (None, None)


def test_weights_that_never_move_have_no_straightness():
    norms = np.zeros(4)
    values = displacement.path(norms, 0.0)
    assert (values["updates"], values["path_length"], values["straightness"]) == (4, 0.0, None)
    assert displacement.logs(values, 0.0)["mean_update"] is None
    assert displacement.histogram(norms) == {"edges": [], "counts": []}


def test_the_parts_add_up():
    random = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e3):
        norms, distance = travel(scale * random.standard_normal((5000, 7)).cumsum(0))
        logs = displacement.logs(displacement.path(norms, distance), distance)
        parts = logs["updates"] + logs["mean_update"] + logs["straightness"]
        assert logs["distance"] == pytest.approx(parts, abs=1e-12)


def test_quantiles():
    found = displacement.quantiles(np.arange(101, dtype=np.float32))
    shares = ["0", "0.01", "0.05", "0.1", "0.25", "0.5", "0.75", "0.9", "0.95", "0.99", "1"]
    assert list(found) == shares
    assert found == pytest.approx({share: 100 * float(share) for share in shares})


def test_bins_hold_every_update_that_moved():
    random = np.random.default_rng(0)
    norms = np.r_[np.exp(3 * random.standard_normal(1000)) / 100, np.zeros(5)]
    found = displacement.histogram(norms)
    assert sum(found["counts"]) == 1000
    assert len(found["edges"]) == len(found["counts"]) + 1
    assert found["counts"][0] > 0 < found["counts"][-1]
    steps = np.diff(np.log10(found["edges"]))
    np.testing.assert_allclose(steps, 0.05, rtol=1e-9)
    low, high = found["edges"][:2]
    assert found["counts"][0] == np.count_nonzero((norms >= low) & (norms < high))


def test_bins_are_those_of_every_run():
    one, other = (displacement.histogram(np.array([norm])) for norm in (3e-3, 3.1e-3))
    assert one["edges"] == other["edges"]
    assert one["edges"] == pytest.approx([10**-2.55, 10**-2.5])


def test_norms_beyond_the_bins_are_counted_in_the_outermost():
    found = displacement.histogram(np.array([1e-12, 1e-8, 1.0, 1e3, 1e9]))
    assert (found["counts"][0], found["counts"][-1], sum(found["counts"])) == (2, 2, 5)
    assert (found["edges"][0], found["edges"][-1]) == (1e-8, 1e3)


def write_way(results, places, status="finished", norms=None):
    """Writes a run whose trainable weights took this way; its statistics went elsewhere."""
    folder = records.run_folder(results, RUN)
    write_record(results, status=status)
    for name, place, mean in (("initial", places[0], 0), ("final", places[-1], 9)):
        trainable = {"a/kernel": np.array(place[:1], "f"), "b/kernel": np.array(place[1:], "f")}
        state = {"n/moving_mean": np.array([mean], "f")}
        records.write_weights(folder / f"{name}.npz", trainable, state)
    norms = travel(places)[0] if norms is None else norms
    members = {"update_norms": np.asarray(norms, np.float32)}
    disk.write_arrays(folder / "updates.npz", members)


def test_record(tmp_path):
    write_way(tmp_path, [[0, 0], [3, 0], [3, 0], [3, 4]])
    record = measured("displacement", tmp_path, tmp_path)
    assert record["status"] == "finished"
    assert tuple(record["values"]) == MEASURES["displacement"].columns_for({})
    assert record["values"]["updates"] == 3
    assert record["values"]["update_norm_median"] == 3.0
    assert (record["distance"], record["values"]["straightness"]) == (5.0, 5 / 7)
    assert record["logs"]["distance"] == math.log(5)
    assert record["quantiles"]["1"] == 4.0
    assert sum(record["histogram"]["counts"]) + record["zero_updates"] == 3
    assert record["zero_updates"] == 1


def test_a_run_without_norms_is_named(tmp_path):
    write_way(tmp_path, CORNER, norms=[])
    with pytest.raises(UserError, match=r"\+seed=3: received no norms.*update_norms: true"):
        measured("displacement", tmp_path, tmp_path)


def test_a_measure_without_settings():
    assert measure_settings.settings_name("displacement", {}) == "default"
