"""Sharpness against answers that are known without a search."""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest
from scipy import optimize

from batchscope.catalogue import parameters, run_names
from batchscope.catalogue.measures import MEASURES
from batchscope.datasets import Examples
from batchscope.errors import UserError
from batchscope.measures import maximiser, sharpness, subspace
from batchscope.training.losses import Objective
from measured_run import COUNTS, measured

SETTINGS = run_names.parse_settings("sharpness", "default")
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


def corners(function, x, width):
    """Returns the largest value over all corners of a box."""
    signs = itertools.product([-1.0, 1.0], repeat=len(x))
    return max(function(x + np.array(sign) * width)[0] for sign in signs)


def full(function, x, **settings):
    found = sharpness.measure(function, x, SETTINGS | {"spaces": ("full",)} | settings)
    return found.values, found.details


@pytest.mark.parametrize(("n", "edge", "iterations"), [(2, 3.0, 100), (30, 0.8, 10), (9, 0.3, 7)])
def test_driver_is_scipys_minimize(n, edge, iterations):
    seen, expected_seen = [], []

    def rosenbrock(y, log):
        log.append(y.copy())
        return float(optimize.rosen(y)), optimize.rosen_der(y)

    start = np.random.default_rng(n).uniform(-edge, edge, n)
    minimum = maximiser.minimise_in_box(
        lambda y: rosenbrock(y, seen), start, np.full(n, edge), iterations
    )
    expected = optimize.minimize(
        *(rosenbrock, start, (expected_seen,)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-edge, edge)] * n,
        options={"maxiter": iterations, "ftol": 0.0, "gtol": 0.0},
    )
    assert np.array_equal(seen, expected_seen)
    assert minimum.iterations == expected.nit
    assert minimum.evaluations == expected.nfev
    assert minimum.message == expected.message


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [5e-4, 1e-3, 0.1])
def test_logistic_regression_against_all_corners(seed, epsilon):
    function = logistic(seed=seed)
    x = np.random.default_rng(seed).standard_normal(8)
    width = epsilon * (np.abs(x) + 1)
    values, details = full(function, x, epsilons=(epsilon,))
    name = f"sharpness_full_{parameters.number_text(epsilon)}"
    loss = function(x)[0]
    expected = sharpness.sharpness(corners(function, x, width), loss)
    assert values[name] == pytest.approx(expected, rel=1e-9)
    search = details["searches"][name]
    assert search["share_at_bound"] == 1.0
    assert search["maximum"] == max(start["maximum"] for start in search["starts"])


def test_a_box_with_many_peaks_needs_more_starts():
    # Half edges above the weights themselves: many corners are local maxima.
    function = logistic(seed=1)
    x = np.random.default_rng(1).standard_normal(8)
    largest = corners(function, x, np.abs(x) + 1)
    expected = sharpness.sharpness(largest, function(x)[0])
    found = [
        full(function, x, epsilons=(1.0,), starts=starts)[0]["sharpness_full_1"]
        for starts in (1, 4, 40)
    ]
    assert found == sorted(found)
    assert found[1] < 0.9 * expected
    assert found[2] == pytest.approx(expected, rel=1e-9)


def test_stationary_point_of_a_quadratic():
    random = np.random.default_rng(1)
    x, curvature = random.standard_normal(50), random.uniform(0.1, 10.0, 50)
    values, details = full(quadratic(curvature, x), x)
    for epsilon in (1e-3, 5e-4):
        rise = 0.5 * curvature @ (epsilon * (np.abs(x) + 1)) ** 2
        name = sharpness.column("full", epsilon)
        assert values[name] == pytest.approx(100 * rise / 1.25, rel=1e-12)
        starts = details["searches"][name]["starts"]
        assert starts[0]["start"] == "zero"
        assert starts[0]["sharpness"] == 0.0
        assert starts[0]["message"] == "CONVERGENCE: NORM OF PROJECTED GRADIENT <= PGTOL"
        # The gradient points nowhere: a random corner takes its place.
        assert [start["start"] for start in starts[1:]] == [
            *("random_corner", "random_corner", "random_interior")
        ]


def test_quadratic_away_from_its_minimum():
    random = np.random.default_rng(2)
    x, curvature = random.standard_normal(300), random.uniform(0.1, 10.0, 300)
    minimum = x + 1e-4 * random.standard_normal(300)
    function = quadratic(curvature, minimum)
    values, details = full(function, x, epsilons=(1e-3,))
    width = 1e-3 * (np.abs(x) + 1)
    # A separable convex function is largest where each coordinate is farthest off.
    far = 0.5 * curvature @ (np.abs(x - minimum) + width) ** 2 + 0.25
    expected = sharpness.sharpness(far, function(x)[0])
    assert values["sharpness_full_0.001"] == pytest.approx(expected, rel=1e-9)


def test_flat_function_is_searched_as_well_as_a_steep_one():
    # The published start sees a gradient that is no step at all; the scaled ones find the top.
    random = np.random.default_rng(3)
    x = random.standard_normal(200)
    function = quadratic(np.full(200, 1e-9), x + 1e-3, floor=0.0)
    values, details = full(function, x, epsilons=(1e-3,))
    far = 0.5e-9 * np.sum((1e-3 + 1e-3 * (np.abs(x) + 1)) ** 2)
    expected = sharpness.sharpness(far, function(x)[0])
    assert values["sharpness_full_0.001"] == pytest.approx(expected, rel=1e-6)
    starts = details["searches"]["sharpness_full_0.001"]["starts"]
    assert starts[0]["sharpness"] < 0.5 * expected
    assert starts[0]["objective_scale"] == 1.0


def test_never_below_the_loss_at_the_weights():
    # The weights are the box's highest point: every other start is lower.
    x = np.ones(4)
    values, details = full(quadratic(np.full(4, -1.0), x), x, starts=4)
    assert set(values.values()) == {0.0}
    assert details["searches"]["sharpness_full_0.001"]["best_start"] == 0


def test_points_lie_in_the_box_and_starts_are_recorded_and_fixed():
    x = np.random.default_rng(7).standard_normal(8)
    function, points = logistic(), []

    def logged(w):
        points.append(w - x)
        return function(w)

    _, details = full(logged, x, epsilons=(0.1,))
    assert np.all(np.abs(points) <= 0.1 * (np.abs(x) + 1) * (1 + 1e-12))
    (search,) = details["searches"].values()
    # The loss at the weights, y = 0, is computed once.
    assert len(points) == search["total_evaluations"]
    few = full(logistic(), x, starts=3)[1]["searches"]["sharpness_full_0.001"]["starts"]
    many = full(logistic(), x, starts=6)[1]["searches"]["sharpness_full_0.001"]["starts"]
    assert many[:3] == few
    kinds = ["zero", "gradient_sign", "random_corner", "random_interior"]
    assert [start["start"] for start in many] == kinds + kinds[2:]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_loss_without_finite_value_inside_the_box(bad):
    slope = np.ones(6)

    def function(w):
        rise = float(slope @ w)
        return (1.0 + rise if rise < 4e-3 else bad), slope

    values, details = full(function, np.zeros(6), epsilons=(1e-3,), starts=6)
    search = details["searches"]["sharpness_full_0.001"]
    assert 0 < values["sharpness_full_0.001"] < 100 * 4e-3 / 2
    assert search["non_finite"] >= 2
    corner = search["starts"][1]
    assert (corner["start"], corner["non_finite"]) == ("gradient_sign", 1)
    assert corner["message"] == "STOP: THE LOSS IS NOT FINITE"


def test_loss_without_finite_value_at_the_weights():
    values, _ = full(lambda w: (np.nan, np.zeros(3)), np.zeros(3))
    assert set(values.values()) == {None}


def test_subspace_of_the_identity_is_the_full_space():
    function = logistic()
    x = np.float32(np.random.default_rng(8).standard_normal(8)).astype(np.float64)
    identity = np.eye(8, dtype=np.float32)
    space = subspace.Subspace(8, 8, column=lambda index: identity[index])
    coordinates, condition = space.coordinates(x)
    assert np.array_equal(coordinates, x)
    assert condition == 1.0
    width = 1e-3 * (np.abs(x) + 1)
    loss, gradient = function(x)

    def within(y):
        value, slope = function(x + space.times(y))
        return value, space.transposed_times(slope)

    inside = maximiser.maximise(within, (loss, space.transposed_times(gradient)), width)
    expected = maximiser.maximise(lambda y: function(x + y), (loss, gradient), width)
    assert inside.value == pytest.approx(expected.value, rel=1e-9)
    assert inside.value == pytest.approx(corners(function, x, width), rel=1e-9)


def test_subspace_against_all_corners():
    n, p, epsilon = 60, 7, 1e-3
    function = logistic(n)
    x = np.random.default_rng(9).standard_normal(n)
    values, details = full(function, x, spaces=("subspace",), dimensions=p)
    matrix = np.stack([subspace.normal_column(n, 0, index) for index in range(p)], 1)
    matrix = matrix.astype(np.float64)
    width = epsilon * (np.abs(np.linalg.pinv(matrix) @ x) + 1)
    signs = itertools.product([-1.0, 1.0], repeat=p)
    largest = max(function(x + matrix @ (np.array(sign) * width))[0] for sign in signs)
    expected = sharpness.sharpness(largest, function(x)[0])
    assert values["sharpness_subspace_0.001"] == pytest.approx(expected, rel=1e-5)
    assert details["subspace"]["dimensions"] == p
    assert details["subspace"]["in_memory"]
    assert details["subspace"]["gram_condition"] < 10


def test_regenerated_blocks_give_the_same_as_memory():
    n, p = 5000, 11
    x = np.random.default_rng(10).standard_normal(n)
    vector = np.random.default_rng(11).standard_normal(n)
    whole = subspace.Subspace(n, p)
    narrow = subspace.Subspace(n, p, memory_mb=4 * n * 4.5 / 1e6)
    assert (whole.in_memory, whole.block) == (True, 11)
    assert (narrow.in_memory, narrow.block) == (False, 3)
    matrix = np.concatenate([block for _, block in whole.blocks()])
    again = np.concatenate([block for _, block in narrow.blocks()])
    assert np.array_equal(matrix, again)
    np.testing.assert_allclose(narrow.coordinates(x)[0], whole.coordinates(x)[0], rtol=1e-12)
    np.testing.assert_allclose(
        whole.coordinates(x)[0], np.linalg.pinv(matrix.T.astype(np.float64)) @ x, rtol=1e-9
    )
    y = np.linspace(-1, 1, p)
    np.testing.assert_allclose(narrow.times(y), whole.times(y), rtol=0, atol=1e-6)
    products = (space.transposed_times(vector) for space in (narrow, whole))
    np.testing.assert_allclose(*products, rtol=0, atol=1e-6 * np.linalg.norm(vector))


def test_columns_are_standard_normal_and_pinned():
    column = subspace.normal_column(100_000, 0, 3)
    assert abs(column.mean()) < 0.02
    assert column.std() == pytest.approx(1.0, abs=0.01)
    assert np.array_equal(column[:3], subspace.normal_column(3, 0, 3))
    assert not np.array_equal(column[:3], subspace.normal_column(3, 0, 4))


def test_subspaces_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match=r"memory_mb: received 1; at least 8"):
        subspace.Subspace(1_000_000, 100, memory_mb=1)
    assert subspace.Subspace(1_000_000, 100, memory_mb=8).block == 1
    with pytest.raises(UserError, match="dimensions: received 100; at most"):
        subspace.Subspace(99, 100)
    space = subspace.Subspace(50, 3, column=lambda index: np.ones(50, np.float32))
    with pytest.raises(UserError, match="dimensions: received 3,"):
        space.coordinates(np.ones(50))


def test_keras_model_against_all_corners():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2, 2, 1)), keras.layers.Flatten()])
    model.add(keras.layers.Dense(1, activation="sigmoid"))
    random = np.random.default_rng(0)
    images = random.integers(0, 255, (64, 2, 2, 1), np.uint8)
    objective = Objective(model, Examples(images, random.integers(0, 2, 64), 1 / 255), chunk=40)
    x = objective.weights()
    assert len(x) == 5
    values, _ = full(objective.loss_and_gradient, x)
    for epsilon in (1e-3, 5e-4):
        width = epsilon * (np.abs(x) + 1)
        largest = corners(lambda w: (objective.loss(w),), x, width)
        expected = sharpness.sharpness(largest, objective.loss(x))
        # What is left is the rounding of the weights and of the losses to float32.
        assert values[sharpness.column("full", epsilon)] == pytest.approx(expected, rel=1e-3)


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
        found = sharpness.sharpness(search["maximum"], record["loss"])
        assert value == pytest.approx(found, rel=1e-12)
        assert len(search["starts"]) == settings["starts"]
        for start in search["starts"]:
            assert start["evaluations"] >= 1 and start["message"]
            assert 0 <= start["iterations"] <= settings["iterations"]
            assert 0 <= start["share_at_bound"] <= 1 and start["sharpness"] <= value
