"""Sharpness against answers that are known without a search."""

import itertools

import numpy as np
import pytest

from batchscope.errors import UserError
from batchscope.measures import sharpness, subspace
from batchscope.study import names
from batchscope.study.registry import MEASURES
from measured_run import COUNTS, measured

SETTINGS = names.parse_settings("sharpness", "default")
SHORT = {"iterations": 2, "starts": 3, "dimensions": 20}


def logistic(n=8, examples=40, seed=0):
    """Returns the mean loss and gradient of a logistic regression, convex in its weights."""
    random = np.random.default_rng(seed)
    signed = random.standard_normal((examples, n)) * random.choice([-1.0, 1.0], (examples, 1))

    def loss_and_gradient(w):
        margin = signed @ w
        gradient = -(signed / (1 + np.exp(margin))[:, None]).mean(0)
        return float(np.logaddexp(0, -margin).mean()), gradient

    return loss_and_gradient


def quadratic(curvature, minimum, floor=0.25):
    def loss_and_gradient(w):
        moved = w - minimum
        return floor + 0.5 * float(curvature @ moved**2), curvature * moved

    return loss_and_gradient


def corners(function, x, width, matrix=None):
    """Returns the largest value over all corners of a box."""
    signs = itertools.product([-1.0, 1.0], repeat=len(width))
    matrix = np.eye(len(x)) if matrix is None else matrix
    return max(function(x + matrix @ (np.array(sign) * width))[0] for sign in signs)


def full(function, x, **settings):
    """Returns the sharpness in a box, and what the record says of its search."""
    given = SETTINGS | {"spaces": ("full",), "epsilons": (1e-3,)} | settings
    found = sharpness.measure(function, x, given)
    (value,), (search,) = found.values.values(), found.details["searches"].values()
    return value, search


@pytest.mark.parametrize("epsilon", [5e-4, 0.1])
def test_logistic_regression_against_all_corners(epsilon):
    function, x = logistic(), np.random.default_rng(0).standard_normal(8)
    largest = corners(function, x, epsilon * (np.abs(x) + 1))
    value, search = full(function, x, epsilons=(epsilon,))
    assert value == pytest.approx(sharpness.sharpness(largest, function(x)[0]), rel=1e-9)
    assert search["share_at_bound"] == 1.0
    assert search["maximum"] == max(start["maximum"] for start in search["starts"])


def test_a_box_with_many_peaks_needs_more_starts():
    # Half edges above the weights themselves: many corners are local maxima.
    function, x = logistic(seed=1), np.random.default_rng(1).standard_normal(8)
    expected = sharpness.sharpness(corners(function, x, np.abs(x) + 1), function(x)[0])
    found = [full(function, x, epsilons=(1.0,), starts=starts)[0] for starts in (1, 4, 40)]
    assert found == sorted(found) and found[1] < 0.9 * expected
    assert found[2] == pytest.approx(expected, rel=1e-9)


def test_at_a_stationary_point_random_corners_are_tried():
    random = np.random.default_rng(1)
    x, curvature = random.standard_normal(50), random.uniform(0.1, 10.0, 50)
    value, search = full(quadratic(curvature, x), x)
    rise = 0.5 * curvature @ (1e-3 * (np.abs(x) + 1)) ** 2
    assert value == pytest.approx(100 * rise / 1.25, rel=1e-12)
    zero, *others = search["starts"]
    assert (zero["start"], zero["sharpness"], zero["objective_scale"]) == ("zero", 0.0, 1.0)
    assert zero["message"] == "CONVERGENCE: NORM OF PROJECTED GRADIENT <= PGTOL"
    kinds = ["random_corner", "random_corner", "random_interior"]
    assert [start["start"] for start in others] == kinds


@pytest.mark.parametrize(("scale", "moved"), [(1.0, 1e-4), (1e-9, 1e-3)])
def test_a_steep_function_and_a_flat_one_are_searched_to_the_top(scale, moved):
    random = np.random.default_rng(2)
    x, curvature = random.standard_normal(200), scale * random.uniform(0.1, 10.0, 200)
    minimum = x + moved
    function = quadratic(curvature, minimum)
    value, search = full(function, x)
    # A separable convex function is largest where each coordinate is farthest off.
    far = 0.5 * curvature @ (moved + 1e-3 * (np.abs(x) + 1)) ** 2 + 0.25
    assert value == pytest.approx(sharpness.sharpness(far, function(x)[0]), rel=1e-6)
    if scale < 1:  # the published start sees a gradient that is no step at all
        assert search["starts"][0]["sharpness"] < 0.5 * value


def test_never_below_the_loss_at_the_weights():
    # The weights are the box's highest point: every other start is lower.
    value, search = full(quadratic(np.full(4, -1.0), np.ones(4)), np.ones(4))
    assert (value, search["best_start"]) == (0.0, 0)


def test_points_lie_in_the_box_and_starts_are_recorded_and_fixed():
    x, points = np.random.default_rng(7).standard_normal(8), []

    def logged(w):
        points.append(w - x)
        return logistic()(w)

    _, search = full(logged, x, epsilons=(0.1,), iterations=4)
    assert np.all(np.abs(points) <= 0.1 * (np.abs(x) + 1) * (1 + 1e-12))
    # The loss at the weights, y = 0, is computed once.
    assert len(points) == search["total_evaluations"]
    assert all(start["iterations"] <= 4 for start in search["starts"])
    few, many = (full(logistic(), x, starts=starts)[1]["starts"] for starts in (3, 6))
    assert many[:3] == few
    kinds = ["zero", "gradient_sign", "random_corner", "random_interior"]
    assert [start["start"] for start in many] == kinds + kinds[2:]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_loss_without_finite_value_inside_the_box_or_at_the_weights(bad):
    slope = np.ones(6)

    def function(w):
        rise = float(slope @ w)
        return (1.0 + rise if rise < 4e-3 else bad), slope

    value, search = full(function, np.zeros(6), starts=6)
    assert 0 < value < 100 * 4e-3 / 2 and search["non_finite"] >= 2
    corner = search["starts"][1]
    assert (corner["start"], corner["non_finite"]) == ("gradient_sign", 1)
    assert corner["message"] == "STOP: THE LOSS IS NOT FINITE"
    value, search = full(lambda w: (bad, np.zeros(3)), np.zeros(3))
    assert value is None and search["message"].startswith("STOP: ")


def test_subspace_of_the_identity_is_the_full_space(monkeypatch):
    identity = np.eye(8, dtype=np.float32)
    monkeypatch.setattr(subspace, "normal_column", lambda size, seed, index: identity[index])
    function = logistic()
    x = np.float32(np.random.default_rng(8).standard_normal(8)).astype(np.float64)
    coordinates, condition = subspace.Subspace(8, 8).coordinates(x)
    assert np.array_equal(coordinates, x) and condition == 1.0
    within, _ = full(function, x, spaces=("subspace",), dimensions=8)
    assert within == pytest.approx(full(function, x)[0], rel=1e-5)


def test_subspace_against_all_corners():
    n, p = 60, 7
    function, x = logistic(n), np.random.default_rng(9).standard_normal(n)
    matrix = np.stack([subspace.normal_column(n, 0, index) for index in range(p)], 1)
    matrix = matrix.astype(np.float64)
    width = 1e-3 * (np.abs(np.linalg.pinv(matrix) @ x) + 1)
    expected = sharpness.sharpness(corners(function, x, width, matrix), function(x)[0])
    value, _ = full(function, x, spaces=("subspace",), dimensions=p)
    assert value == pytest.approx(expected, rel=1e-5)


def test_regenerated_blocks_give_the_same_as_memory():
    n, p = 5000, 11
    x, vector = np.random.default_rng(10).standard_normal((2, n))
    whole, narrow = subspace.Subspace(n, p), subspace.Subspace(n, p, memory_mb=4 * n * 4.5 / 1e6)
    assert (whole.in_memory, whole.block, narrow.in_memory, narrow.block) == (True, 11, False, 3)
    matrix, again = (
        np.concatenate([part for _, part in each.blocks()]) for each in (whole, narrow)
    )
    assert np.array_equal(matrix, again)
    expected = np.linalg.pinv(matrix.T.astype(np.float64)) @ x
    for space in (whole, narrow):
        np.testing.assert_allclose(space.coordinates(x)[0], expected, rtol=1e-9)
        y = np.linspace(-1, 1, p)
        np.testing.assert_allclose(space.times(y), y @ matrix, rtol=0, atol=1e-5)
        limit = 1e-6 * np.linalg.norm(vector)
        np.testing.assert_allclose(space.transposed_times(vector), matrix @ vector, atol=limit)


def test_columns_are_standard_normal_and_pinned():
    column = subspace.normal_column(100_000, 0, 3)
    assert abs(column.mean()) < 0.02 and column.std() == pytest.approx(1.0, abs=0.01)
    assert np.array_equal(column[:3], subspace.normal_column(3, 0, 3))
    assert not np.array_equal(column[:3], subspace.normal_column(3, 0, 4))


def test_subspaces_that_do_not_fit_are_refused(monkeypatch):
    with pytest.raises(UserError, match=r"memory_mb: received 1; at least 8"):
        subspace.Subspace(1_000_000, 100, memory_mb=1)
    assert subspace.Subspace(1_000_000, 100, memory_mb=8).block == 1
    with pytest.raises(UserError, match="dimensions: received 100; at most"):
        subspace.Subspace(99, 100)
    monkeypatch.setattr(subspace, "normal_column", lambda *_: np.ones(50, np.float32))
    with pytest.raises(UserError, match="dimensions: received 3,"):
        subspace.Subspace(50, 3).coordinates(np.ones(50))


@pytest.mark.parametrize("more", [{}, {"batch_norm": "batch", "spaces": ("full",)}])
def test_record(results, tmp_path, more):
    settings = SETTINGS | SHORT | more
    record = measured("sharpness", results, tmp_path, SHORT | more)
    assert tuple(record["values"]) == MEASURES["sharpness"].columns_for(settings)
    assert record["subset"]["examples"] == record["chunk"] == COUNTS["train"]
    assert record["settings"]["batch_norm"] == settings["batch_norm"]
    for name, value in record["values"].items():
        search = record["searches"][name]
        assert 0 < value == search["sharpness"]
        assert len(search["starts"]) == settings["starts"]
        found = sharpness.sharpness(search["maximum"], record["loss"])
        assert value == pytest.approx(found, rel=1e-12)
