"""Paths of the weights by hand: straight, around a corner, and back to the start."""

import math

import numpy as np
import pytest

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.measures import displacement
from batchscope.store import paths, records
from batchscope.study.registry import MEASURES
from measured_run import RUN, measured, write_record


def travel(places: list) -> tuple[np.ndarray, float]:
    """Return the norms of the steps between places, and the distance from first to last."""
    places = np.array(places, float)
    return np.linalg.norm(np.diff(places, axis=0), axis=1), np.linalg.norm(places[-1] - places[0])


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([[0, 0], [1, 0], [3, 0], [3.5, 0]], (3, 3.5 / 3, 1.0, 3.5, 1.0)),
        ([[0, 0], [3, 0], [3, 4]], (2, 3.5, 3.5, 7.0, 5 / 7)),
        ([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], (4, 1.0, 1.0, 4.0, 0.0)),
        ([[1, 1]] * 5, (4, 0.0, 0.0, 0.0, None)),
    ],
    ids=["straight", "corner", "loop", "still"],
)
def test_paths_by_hand(places, expected):
    norms, distance = travel(places)
    values = displacement.path_columns(norms, distance)
    assert values == dict(zip(MEASURES["displacement"].columns_for({}), expected, strict=True))
    if distance:
        parts = ("updates", "update_norm_mean", "straightness")
        assert math.prod(values[part] for part in parts) == pytest.approx(distance, abs=1e-12)


def test_bins_hold_every_update_that_moved():
    random = np.random.default_rng(0)
    norms = np.r_[np.exp(3 * random.standard_normal(1000)) / 100, np.zeros(5)]
    bins = displacement.histogram(norms)
    assert sum(bins["counts"]) == 1000
    assert bins["counts"][0] > 0 < bins["counts"][-1]
    np.testing.assert_allclose(np.diff(np.log10(bins["edges"])), 0.05, rtol=1e-9)
    low, high = bins["edges"][:2]
    assert bins["counts"][0] == np.count_nonzero((norms >= low) & (norms < high))
    edges = displacement.histogram(np.array([3e-3]))["edges"]
    assert edges == pytest.approx([10**-2.55, 10**-2.5])
    beyond = displacement.histogram(np.array([1e-12, 1e-8, 1.0, 1e3, 1e9]))
    assert (beyond["counts"][0], beyond["counts"][-1], sum(beyond["counts"])) == (2, 2, 5)
    assert (beyond["edges"][0], beyond["edges"][-1]) == (1e-8, 1e3)
    assert displacement.histogram(np.zeros(4)) == {"edges": [], "counts": []}


def test_record_and_a_run_without_norms(tmp_path):
    places = [[0, 0], [3, 0], [3, 0], [3, 4]]
    folder = paths.run_folder(tmp_path, RUN)
    write_record(tmp_path)
    for name, place, mean in (("initial", places[0], 0), ("final", places[-1], 9)):
        trainable = {"a/kernel": np.array(place[:1], "f"), "b/kernel": np.array(place[1:], "f")}
        state = {"n/moving_mean": np.array([mean], "f")}  # no parameter
        records.write_weights(folder / f"{name}.npz", trainable, state)
    norms = travel(places)[0].astype(np.float32)
    disk.write_arrays(folder / "updates.npz", {"update_norms": norms})
    record = measured("displacement", tmp_path, tmp_path)
    assert record["values"]["update_norm_median"] == 3.0
    assert record["values"]["straightness"] == 5 / 7
    rows = MEASURES["displacement"].tables["updates"].rows(record, None)
    moved = [(row["low"], row["high"], row["share"]) for row in rows if row["count"]]
    assert len(moved) == 2
    for norm, (low, high, share) in zip((3, 4), moved, strict=True):
        assert low <= norm < high and share == pytest.approx(1 / 3)  # of three updates
    disk.write_arrays(folder / "updates.npz", {"update_norms": norms[:0]})
    with pytest.raises(UserError, match=r"\+seed=3: received no norms"):
        measured("displacement", tmp_path, tmp_path)
