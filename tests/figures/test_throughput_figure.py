"""The figure of throughput, from tables made up by hand."""

import math

import numpy as np
import pytest

from drawing import bars, note, texts
from made_sweeps import DENSE, LIMITS, LOOPS, POWERS, SPARSE, line, points, stairs, sweep
from made_sweeps import drawn as drawing_of


def drawn(*made):
    return drawing_of("throughput", *made)


def levels(axes):
    """Returns the heights of the lines across a panel."""
    flat = [item for item in axes.lines if list(item.get_xdata()) == [0, 1]]
    return sorted(item.get_ydata()[0] for item in flat)


def test_medians_and_quartiles_of_both_panels():
    drawing, _, _ = drawn(sweep())
    seconds = np.array([2e-3 + 5e-4 * size for size in POWERS])
    left, right = drawing.axes
    for axes, expected in ((left, 1 / seconds), (right, np.array(POWERS) / seconds)):
        ((x, y),) = points(axes)
        assert x == pytest.approx(np.log2(POWERS))
        assert y == pytest.approx(expected)
        ends = bars(axes.containers[0])
        assert ends[:, 0, 1] == pytest.approx(0.99 * expected)
        assert ends[:, 1, 1] == pytest.approx(1.01 * expected)
    assert left.get_ylabel() == "iterations/s" and right.get_ylabel() == "examples/s"
    assert "quartiles of these blocks" in note(drawing) and "Machine: laptop." in note(drawing)


@pytest.mark.parametrize("sizes", [DENSE, SPARSE])
def test_steps_are_visible_in_a_dense_range(sizes):
    """Throughput falls after 16, 32 and 48, by a part of the panel that the eye sees."""
    drawing, _, _ = drawn(sweep(sizes, stairs(2e-3, 5e-4, 16)))
    axes = drawing.axes[1]
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0
    ((x, y),) = points(axes)
    speed = dict(zip(x, y, strict=True))
    assert set(speed) == set(sizes)
    for before, after in ((16, 18), (32, 34), (48, 50)):
        if after in speed:
            assert speed[before] - speed[after] > 0.15 * axes.get_ylim()[1]
    assert {16, 32, 48} <= set(axes.get_xticks())


def test_the_two_limits():
    drawing, _, found = drawn(sweep(**LIMITS))
    left, right = drawing.axes
    assert levels(right) == pytest.approx([0.9 * 1900, 2500])
    assert levels(left) == []
    upright = [item for item in right.lines if list(item.get_xdata()) == [np.log2(36)] * 2]
    assert upright[0].get_ydata()[1] == pytest.approx(0.9 * 1900)
    assert right.get_ylim()[1] > 2500
    assert {"36.0", "ceiling", "90 % of the plateau (number: knee)"} <= texts(drawing)
    assert "Noise floor: a batch size differs from itself by up to 3.4 %." in note(drawing)
    for number in ("4.706", "1900 examples/s", "36.0", "48", "76.0 %", "2500 examples/s", "3.4 %"):
        assert number in found


def test_a_ceiling_far_above_is_reported_and_does_not_squash_the_data():
    far = {**LIMITS, "ceiling_images_per_second": 90000.0, "share_of_ceiling": 0.0211}
    drawing, _, found = drawn(sweep(**far))
    axes = drawing.axes[1]
    # The ceiling lies on the upper edge, in the axes' own coordinates.
    assert levels(axes) == pytest.approx([1, 0.9 * 1900])
    assert {"ceiling, above the panel", "\N{UPWARDS ARROW} 90000 examples/s"} <= texts(drawing)
    assert axes.get_ylim()[1] < 1.2 * points(axes)[0][1].max()
    assert "2.1 % of the ceiling of 90000 examples/s" in found


NO_KNEE = {"knee_fitted": math.nan, "knee_batch_size": math.nan}
RISING = {**NO_KNEE, "still_rising": True}


NOISY = {**dict.fromkeys(LIMITS, math.nan), "still_rising": None, "noise_floor": 8.1}


@pytest.mark.parametrize("plateau", [math.nan, 1900.0])
def test_nothing_is_drawn_of_noise(plateau):
    """Nor of repeated jobs, of which some found a plateau and most are too noisy."""
    drawing, _, found = drawn(sweep(**{**NOISY, "plateau_images_per_second": plateau}))
    assert levels(drawing.axes[1]) == []
    assert "1880 examples/s" in found and "710 %" in found
    drawing, _, _ = drawn(sweep(**NOISY), sweep(loop="eager", **LIMITS))
    assert "so no line at 90 % (loop in the graph)." in note(drawing)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900, 2500])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_ceiling_that_was_exceeded_is_none(count):
    exceeded = {"ceiling_images_per_second": 1832.0, "share_of_ceiling": 1.026}
    made = [sweep(loop=loop, **{**LIMITS, **exceeded}) for loop in LOOPS[:count]]
    drawing, _, found = drawn(*made)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900] * count)
    assert "No ceiling, since more than it was reached" in note(drawing)
    assert count > 2 or "103 % of the 1830 examples/s" in found


def test_a_knee_without_a_line_is_the_timed_one():
    drawing, _, _ = drawn(sweep(**{**LIMITS, "knee_fitted": math.nan}))
    assert "48" in texts(drawing) and "36.0" not in texts(drawing)


def test_two_machines_each_have_their_limits():
    """One of them without a plateau: `still_rising` then has gaps and no type of its own."""
    other = sweep(machine="gpu_box", time=line(1e-3, 2.5e-4), ceiling_images_per_second=5000.0)
    drawing, _, _ = drawn(sweep(**LIMITS), other)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900, 2500, 5000])
    assert {"laptop", "gpu_box"} <= texts(drawing)
    _, frame, _ = drawn(sweep(**{**LIMITS, **RISING}), other)
    assert frame["still_rising"].dtype == object


COSTS = dict(zip(LOOPS, (1e-3, 5e-3, 2e-3, 4e-3, 3e-3), strict=True))


def many(**other):
    """Returns five series, of loops whose fixed costs differ, with their limits."""
    return [
        sweep(loop=loop, time=line(cost, 5e-4), **{**LIMITS, **other.get(loop, {})})
        for loop, cost in COSTS.items()
    ]


def rings(axes):
    """Returns batch size and throughput of every knee that is ringed."""
    found = [item for item in axes.lines if item.get_fillstyle() == "none"]
    return [(2 ** item.get_xdata()[0], item.get_ydata()[0]) for item in found]


def test_more_series_have_a_ring_on_each_knee_and_one_ceiling():
    made = many(eager=RISING, fit={"plateau_images_per_second": 1800.0})
    drawing, _, found = drawn(*made)
    axes = drawing.axes[1]
    shares = [0.9 * plateau for plateau in (1800, *[1900] * 4)]
    assert levels(axes) == pytest.approx([*shares, 2500])
    colours = {item.get_color() for item in axes.lines if list(item.get_xdata()) == [0, 1]}
    assert len(colours) == 6  # of each series, and that of the one ceiling
    assert len(points(axes)) == 5
    knees = [share for share in shares if share != shares[-1]] + [shares[-1]] * 3
    assert sorted(rings(axes)) == [(pytest.approx(36), pytest.approx(knee)) for knee in knees]
    assert {"eager", "Keras fit, 32 steps per execution"} <= texts(drawing)
    assert {"90 % of the plateau (ring: knee)", "ceiling"} <= texts(drawing)
    assert "1730 examples/s (eager)" in found and "1940 examples/s" in found
    drawing, _, _ = drawn(*many()[:3])
    assert levels(drawing.axes[1]) == pytest.approx([*[1710] * 3, 2500])
    assert len(rings(drawing.axes[1])) == 3
