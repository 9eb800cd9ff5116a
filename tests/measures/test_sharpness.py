"""Sharpness against answers that are known without a search."""

import itertools

import numpy as np
import pytest

from batchscope.core.errors import UserError
from batchscope.measures import sharpness
from batchscope.study import names
from measured_run import measured

SETTINGS = names.parse_settings("sharpness", "default")


def logistic(n=8, examples=40, seed=0):
    """Return the mean loss and gradient of a logistic regression, convex in its weights."""
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
    """Return the largest value over all corners of a box."""
    signs = itertools.product([-1.0, 1.0], repeat=len(width))
    matrix = np.eye(len(x)) if matrix is None else matrix
    return max(function(x + matrix @ (np.array(sign) * width))[0] for sign in signs)


def value(function, x, **settings):
    """Return the sharpness in one box."""
    settings = SETTINGS | {"spaces": ("full",), "epsilons": (1e-3,)} | settings
    (number,) = sharpness.measure(function, x, settings).values.values()
    return number


@pytest.mark.parametrize("epsilon", [5e-4, 0.1])
def test_logistic_regression_against_all_corners(epsilon):
    function, x = logistic(), np.random.default_rng(0).standard_normal(8)
    largest = corners(function, x, epsilon * (np.abs(x) + 1))
    expected = sharpness.sharpness(largest, function(x)[0])
    assert value(function, x, epsilons=(epsilon,)) == pytest.approx(expected, rel=1e-9)


def test_a_box_with_many_peaks_needs_more_starts():
    # Half edges above the weights themselves: many corners are local maxima.
    function, x = logistic(seed=1), np.random.default_rng(1).standard_normal(8)
    expected = sharpness.sharpness(corners(function, x, np.abs(x) + 1), function(x)[0])
    values = [value(function, x, epsilons=(1.0,), starts=starts) for starts in (1, 4, 40)]
    assert values == sorted(values) and values[1] < 0.9 * expected
    assert values[2] == pytest.approx(expected, rel=1e-9)


def test_at_a_stationary_point_random_corners_are_tried():
    random = np.random.default_rng(1)
    x, curvature = random.standard_normal(50), random.uniform(0.1, 10.0, 50)
    rise = 0.5 * curvature @ (1e-3 * (np.abs(x) + 1)) ** 2
    function = quadratic(curvature, x)
    assert value(function, x) == pytest.approx(100 * rise / 1.25, rel=1e-12)
    assert value(function, x, starts=1) == 0.0


@pytest.mark.parametrize(("scale", "moved"), [(1.0, 1e-4), (1e-9, 1e-3)])
def test_a_steep_function_and_a_flat_one_are_searched_to_the_top(scale, moved):
    random = np.random.default_rng(2)
    x, curvature = random.standard_normal(200), scale * random.uniform(0.1, 10.0, 200)
    function = quadratic(curvature, x + moved)
    # A separable convex function is largest where each coordinate is farthest off.
    far = 0.5 * curvature @ (moved + 1e-3 * (np.abs(x) + 1)) ** 2 + 0.25
    expected = sharpness.sharpness(far, function(x)[0])
    assert value(function, x) == pytest.approx(expected, rel=1e-6)
    if scale < 1:  # the published start sees a gradient that is no step at all
        assert value(function, x, starts=1) < 0.5 * expected


def test_never_below_the_loss_at_the_weights():
    # The weights are the box's highest point: every other start is lower.
    assert value(quadratic(np.full(4, -1.0), np.ones(4)), np.ones(4)) == 0.0


def test_points_are_in_the_box_and_further_starts_add_to_fewer():
    x = np.random.default_rng(7).standard_normal(8)
    visited = {3: [], 6: []}
    for starts, points in visited.items():

        def logged(w, points=points):
            points.append(w - x)
            return logistic()(w)

        value(logged, x, epsilons=(0.1,), starts=starts)
        assert np.all(np.abs(points) <= 0.1 * (np.abs(x) + 1) * (1 + 1e-12))
    assert np.array_equal(visited[6][: len(visited[3])], visited[3])


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_loss_without_finite_value_inside_the_box_or_at_the_weights(bad):
    slope = np.ones(6)

    def function(w):
        rise = float(slope @ w)
        return (1.0 + rise if rise < 4e-3 else bad), slope

    assert 0 < value(function, np.zeros(6), starts=6) < 100 * 4e-3 / 2
    assert value(lambda w: (bad, np.zeros(3)), np.zeros(3)) is None


def test_subspace_against_all_corners():
    n, p = 60, 7
    function, x = logistic(n), np.random.default_rng(9).standard_normal(n)
    matrix = np.stack([sharpness.normal_column(n, 0, index) for index in range(p)], 1)
    matrix = matrix.astype(np.float64)
    width = 1e-3 * (np.abs(np.linalg.pinv(matrix) @ x) + 1)
    expected = sharpness.sharpness(corners(function, x, width, matrix), function(x)[0])
    within = value(function, x, spaces=("subspace",), dimensions=p)
    assert within == pytest.approx(expected, rel=1e-5)


def test_products_with_the_matrix():
    n, p = 40_000, 11  # more weights than a tile
    x, vector = np.random.default_rng(10).standard_normal((2, n))
    matrix = np.array([sharpness.normal_column(n, 0, index) for index in range(p)])
    space = sharpness.Subspace(n, p, 0)
    expected = np.linalg.pinv(matrix.T.astype(np.float64)) @ x
    np.testing.assert_allclose(space.coordinates(x), expected, rtol=1e-9)
    y = np.linspace(-1, 1, p)
    np.testing.assert_allclose(space.times(y), y @ matrix, rtol=0, atol=1e-5)
    limit = 1e-6 * np.linalg.norm(vector)
    np.testing.assert_allclose(space.transposed_times(vector), matrix @ vector, atol=limit)


def test_columns_are_standard_normal_and_fixed():
    column = sharpness.normal_column(100_000, 0, 3)
    assert column.std() == pytest.approx(1.0, abs=0.01)
    assert np.array_equal(column[:3], sharpness.normal_column(3, 0, 3))
    assert not np.array_equal(column[:3], sharpness.normal_column(3, 0, 4))


def test_subspaces_that_do_not_fit_are_refused(monkeypatch):
    with pytest.raises(UserError, match="dimensions: received 100; at most"):
        sharpness.Subspace(99, 100, 0)
    monkeypatch.setattr(sharpness, "normal_column", lambda *_: np.ones(50, np.float32))
    with pytest.raises(UserError, match="dimensions: received 3,"):
        sharpness.Subspace(50, 3, 0).coordinates(np.ones(50))


def test_a_run_with_the_statistics_of_batches(results, tmp_path):
    settings = {"iterations": 2, "starts": 3, "batch_norm": "batch", "spaces": ("full",)}
    record = measured("sharpness", results, tmp_path, settings)
    assert record["settings"]["batch_norm"] == "batch" and min(record["values"].values()) > 0
