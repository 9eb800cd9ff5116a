"""Surfaces and lines of the loss, against bowls that are known in closed form."""

import numpy as np
import pytest

from batchscope import datasets
from batchscope.core import disk
from batchscope.measures import landscape
from batchscope.measures.measure_job import FinishedRun
from batchscope.study.names import parse_settings
from batchscope.training import losses, models
from measured_run import DATASET, RUN, measured

SETTINGS = parse_settings("landscape", "default")


def weights(seed=0):
    random = np.random.default_rng(seed)
    shapes = {
        "conv/kernel": (3, 3, 2, 5),
        "conv/bias": (5,),
        "norm/gamma": (5,),
        "norm/beta": (5,),
        "dense/kernel": (20, 4),
        "own/factor": (),
    }
    return {
        key: np.asarray(random.standard_normal(shape), np.float32) for key, shape in shapes.items()
    }


def flat(arrays):
    return np.concatenate([array.reshape(-1).astype(np.float64) for array in arrays.values()])


def bowl(w, seed=1):
    """Return the loss on planes through the weights w of a quadratic bowl, and its curvature."""
    random = np.random.default_rng(seed)
    x = flat(w)
    root = random.standard_normal((x.size, x.size)) / 10
    hessian, gradient = root @ root.T, random.standard_normal(x.size)

    def plane(first, second):
        def loss(a, b):
            step = a * flat(first) + b * flat(second)
            return 0.5 + gradient @ step + 0.5 * step @ hessian @ step

        return loss

    return plane, hessian


def settings(**changed):
    return SETTINGS | {"points": 7, "pairs": 2, "lines": 5} | changed


def test_directions_are_normal_draws_with_the_norms_of_the_weights_filters():
    w = weights()
    w["dense/kernel"][:, 1] = 0
    d, again, other = (landscape.direction(w, seed) for seed in ((0, 3), (0, 3), (0, 2)))
    assert list(d) == list(w)
    for key, axes in (("conv/kernel", (0, 1, 2)), ("dense/kernel", (0,))):
        found = np.linalg.norm(d[key].reshape(-1, d[key].shape[-1]), axis=0)
        expected = np.sqrt(np.square(w[key].astype(np.float64)).sum(axes))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert d[key].dtype == np.float32
        assert np.array_equal(d[key], again[key]) and not np.array_equal(d[key], other[key])
    for key in ("conv/bias", "norm/gamma", "norm/beta", "own/factor"):  # no filters
        assert d[key].shape == w[key].shape and not d[key].any()
    # Filters of equal norms: only then is the direction itself a sample of a normal.
    d = landscape.direction({"kernel": np.ones((2000, 50), np.float32)}, 4)["kernel"]
    assert (d**4).mean() == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("points", "offset"), [(3, 1), (5, 1), (7, 1), (9, 2), (51, 12)])
def test_rise_is_half_way(points, offset):
    grid = np.arange(points) - points // 2
    assert landscape.rise(3.0 * grid**2 + grid + 1.0) == 3.0 * offset**2


@pytest.mark.parametrize(("pairs", "lines"), [(2, 5), (1, 0), (0, 3), (2, 1)])
def test_bowl_is_its_formula(pairs, lines, tmp_path):
    w = weights()
    plane, hessian = bowl(w)
    rows = landscape.SavedRows(tmp_path / "rows.npz", "")
    measured = landscape.measure(plane, w, settings(pairs=pairs, lines=lines), rows)
    arrays = measured.arrays
    grid = landscape.axis(7)
    d = [landscape.direction(w, (0, i)) for i in range(max(2 * pairs, lines))]
    surfaces, names = (f"surface:{i}" for i in range(pairs)), (f"line:{i}" for i in range(lines))
    assert list(arrays) == ["axis", *surfaces, *names]
    assert np.array_equal(arrays["axis"], grid)
    for pair in range(pairs):
        loss = plane(d[2 * pair], d[2 * pair + 1])
        expected = [[loss(a, b) for a in grid] for b in grid]
        np.testing.assert_array_equal(arrays[f"surface:{pair}"], expected)
        assert expected[3][3] == 0.5
    for line in range(lines):
        loss = plane(d[line], d[line])
        np.testing.assert_array_equal(arrays[f"line:{line}"], [loss(a, 0.0) for a in grid])
    rises = [0.5 * grid[4] ** 2 * flat(one) @ hessian @ flat(one) for one in d[:lines]]
    mean = pytest.approx(np.mean(rises), rel=1e-9) if lines else None
    assert measured.values["landscape_rise"] == mean


def test_losses_that_are_not_finite_are_kept(tmp_path):
    def plane(first, second):
        return lambda a, b: {-1.0: np.inf, 1.0: np.nan}.get(a, a * a)

    rows = landscape.SavedRows(tmp_path / "rows.npz", "")
    found = landscape.measure(plane, weights(), settings(pairs=0, lines=2, points=3), rows)
    assert found.values == {"landscape_rise": None}
    np.testing.assert_array_equal(found.arrays["line:1"], [np.inf, 0.0, np.nan])


def test_record_and_its_points(results, tmp_path):
    record = measured("landscape", results, tmp_path, {"points": 5, "pairs": 1, "lines": 3})
    assert {path.name for path in tmp_path.iterdir()} == {"out.json", "out.npz"}
    arrays = disk.read_arrays(tmp_path / "out.npz")
    assert list(arrays) == ["axis", "surface:0", "line:0", "line:1", "line:2"]
    middle = arrays["surface:0"][2, 2]
    assert {arrays[f"line:{line}"][2] for line in range(3)} == {middle}
    rises = [landscape.rise(arrays[f"line:{i}"]) for i in range(3)]
    assert record["values"]["landscape_rise"] == pytest.approx(np.mean(rises))
    model = FinishedRun(results, RUN).model("final")
    w, state = models.weights(model)
    first, second = (landscape.direction(w, (0, i)) for i in (0, 1))
    objective = losses.Objective(model, datasets.load(results, DATASET).examples("train"))
    for row, column in ((0, 0), (1, 4), (4, 2)):
        a, b = arrays["axis"][[column, row]]
        moved = {
            key: w[key] + np.float32(a) * first[key] + np.float32(b) * second[key] for key in w
        }
        models.set_weights(model, moved, state)
        expected = objective.evaluate()[0]
        assert arrays["surface:0"][row, column] == pytest.approx(expected, rel=1e-5)


def test_a_killed_job_continues_from_its_rows_and_uses_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(landscape, "SAVE_SECONDS", 0.0)
    w, path = weights(), tmp_path / "rows.npz"
    bowl_of, _ = bowl(w)
    chosen = settings(points=5, pairs=1, lines=3)

    def measured_until(stop, key="version"):
        """Return the arrays and the number of computed points, unless the job is killed."""
        points = []

        def plane(first, second):
            loss = bowl_of(first, second)

            def point(a, b):
                points.append((a, b))
                if len(points) == stop:
                    raise KeyboardInterrupt
                return loss(a, b)

            return point

        rows = landscape.SavedRows(path, key)
        arrays = landscape.measure(plane, w, chosen, rows).arrays
        return [array.tolist() for array in arrays.values()], len(points)

    whole, total = measured_until(None)
    assert total == (5 + 3) * 5
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        measured_until(17)  # three rows of 5, and one point
    assert measured_until(None) == (whole, total - 3 * 5)
    assert measured_until(None) == (whole, 0)
    assert measured_until(None, "another version") == (whole, total)
