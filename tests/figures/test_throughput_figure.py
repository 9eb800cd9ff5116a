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


def test_each_panel_of_one_series_has_the_axis_that_shows_most():
    """Iterations span much and are logarithmic; images span as much, and stay linear for steps."""
    drawing, _, _ = drawn(sweep(DENSE, stairs(1e-5, 5e-4, 1)))
    assert drawing.axes[0].get_yscale() == "log"
    drawing, _, _ = drawn(sweep(DENSE, stairs(2e-3, 1e-5, 16)))
    assert [axes.get_yscale() for axes in drawing.axes] == ["linear", "linear"]


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
    assert found == (
        "Batch size 1 takes 4.706 (4.613 to 4.801 by quartiles) times as long as 64 for the same "
        "examples. Throughput tends to a plateau of 1900 examples/s, and reaches 90 % of it at "
        "batch size 36.0 (95 % interval 32.0 to 40.5) by the fit, from batch size 48 on as timed. "
        "The highest is 76.0 % of the ceiling of 2500 examples/s. "
        "No steps seen: a straight line, 0.50% residual. "
        "A batch size differs from itself by up to 3.4 % (noise floor)."
    )


def test_a_ceiling_far_above_is_reported_and_does_not_squash_the_data():
    far = {**LIMITS, "ceiling_images_per_second": 90000.0, "share_of_ceiling": 0.0211}
    drawing, _, found = drawn(sweep(**far))
    axes = drawing.axes[1]
    # The ceiling lies on the upper edge, in the axes' own coordinates.
    assert levels(axes) == pytest.approx([1, 0.9 * 1900])
    assert {"ceiling, above the panel", "\N{UPWARDS ARROW} 90000 examples/s"} <= texts(drawing)
    assert axes.get_ylim()[1] < 1.2 * points(axes)[0][1].max()
    assert "Ceiling far above the panel: 90000 examples/s (2.1 % of it reached)." in note(drawing)
    assert "2.1 % of the ceiling of 90000 examples/s" in found


NO_KNEE = {"knee_fitted": math.nan, "knee_batch_size": math.nan}
RISING = {**NO_KNEE, "still_rising": True}


def test_a_plateau_that_was_not_reached_is_drawn_and_has_no_knee():
    """64 images take 34 ms, which is 1880 examples/s."""
    far = {**LIMITS, **RISING, "plateau_images_per_second": 2600.0}
    drawing, _, found = drawn(sweep(**far))
    axes = drawing.axes[1]
    assert levels(axes) == pytest.approx([0.9 * 2600, 2500])
    assert axes.get_ylim()[1] > 2500
    assert not any(text.get_text().isdigit() for text in axes.texts)
    assert " Throughput still rises at the largest batch size, 64: 1880 examples/s. " in found


def test_still_rises_names_the_largest_size_with_its_own_value():
    """The size before it was as fast, by 0.1 %: what rises is the line."""

    def time(size):
        return (2e-3 + 5e-4 * size) * (0.98 if size == 48 else 1.02 if size == 64 else 1.0)

    given = sweep((*POWERS[:-1], 48, 64), time, **{**LIMITS, **RISING})
    _, frame, found = drawn(given)
    assert frame.set_index("batch_size")["images_per_second"].idxmax() == 48
    assert "Throughput still rises at the largest batch size, 64: 1850 examples/s." in found


def test_a_throughput_that_falls_is_reported_at_its_best_and_at_its_largest_size():
    none = {**LIMITS, **NO_KNEE, "plateau_images_per_second": math.nan, "still_rising": False}
    for time, ends in (
        (lambda size: 1e-5 * size**1.5, "16, 25000 examples/s, and 12500 examples/s at 64."),
        (lambda size: 1e-3, "64, 64000 examples/s. "),  # once
    ):
        _, _, found = drawn(sweep((16, 32, 64), time, **none))
        assert f"Throughput is highest at batch size {ends}" in found


NOISY = {**dict.fromkeys(LIMITS, math.nan), "still_rising": None, "noise_floor": 8.1}
NOISY["step_verdict"] = LIMITS["step_verdict"]


@pytest.mark.parametrize("plateau", [math.nan, 1900.0])
def test_nothing_is_drawn_of_noise(plateau):
    """Nor of repeated jobs, of which some found a plateau and most are too noisy."""
    drawing, _, found = drawn(sweep(**{**NOISY, "plateau_images_per_second": plateau}))
    assert levels(drawing.axes[1]) == []
    assert "Where throughput levels off is too noisy to tell, so no line at 90 %." in note(drawing)
    assert "No plateau within" not in note(drawing)
    assert found == (
        "Throughput is highest at batch size 64, 1880 examples/s; where it levels off is too noisy "
        "to tell. No steps seen: a straight line, 0.50% residual. A "
        "batch size differs from itself by up to 710 % (noise floor)."
    )
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
    if count < 3:
        assert (
            "The highest is 103 % of the 1830 examples/s that the measured peak of a matrix "
            "product allows: that is no ceiling."
        ) in found


def test_a_line_that_is_not_drawn_is_reported_missing():
    above = {**LIMITS, **RISING, "plateau_images_per_second": 90000.0}
    drawing, _, _ = drawn(sweep(**above))
    assert levels(drawing.axes[1]) == pytest.approx([2500])
    expected = "90 % of the plateau, by the fit, lies above the panel: 81000 examples/s."
    assert expected in note(drawing)
    none = {**LIMITS, **RISING, "plateau_images_per_second": math.nan}
    drawing, _, found = drawn(sweep(**none))
    assert levels(drawing.axes[1]) == pytest.approx([2500])
    assert "No plateau within the batch sizes, so no line at 90 %." in note(drawing)
    assert "Throughput still rises at the largest batch size, 64: 1880 examples/s." in found


def test_a_plateau_that_no_batch_size_holds():
    given = {**LIMITS, **NO_KNEE}
    drawing, _, found = drawn(sweep(DENSE, stairs(2e-3, 5e-4, 16), **given))
    assert 0.9 * 1900 in levels(drawing.axes[1])
    assert "90 % of the plateau" in texts(drawing)
    assert (
        "Throughput tends to a plateau of 1900 examples/s, and reaches 90 % of it at no batch size "
        "from which on it stays there."
    ) in found


def test_a_knee_without_a_line_is_the_timed_one():
    drawing, _, found = drawn(sweep(**{**LIMITS, "knee_fitted": math.nan}))
    assert "48" in texts(drawing) and "36.0" not in texts(drawing)
    assert "90 % of it from batch size 48 on as timed." in found


def test_two_machines_each_have_their_limits():
    """One of them without a plateau: `still_rising` then has gaps and no type of its own."""
    other = sweep(machine="gpu_box", time=line(1e-3, 2.5e-4), ceiling_images_per_second=5000.0)
    drawing, frame, found = drawn(sweep(**LIMITS), other)
    assert levels(drawing.axes[1]) == pytest.approx([0.9 * 1900, 2500, 5000])
    assert {"laptop", "gpu_box"} <= texts(drawing)
    assert "Machine" not in note(drawing)
    assert found.startswith("Laptop: batch size 1 takes 4.706 (4.613 to 4.801 by quartiles) times")
    rising = sweep(**{**LIMITS, **RISING})
    _, frame, found = drawn(rising, other)
    assert frame["still_rising"].dtype == object
    assert "still rises" in found


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
    assert found == (  # 64 images in 37 and in 33 ms
        "The highest throughput was least at 1730 examples/s (eager) and most at 1940 examples/s "
        "(loop in the graph). Noise floor: a batch size differs from itself by up to 3.4 %."
    )
    drawing, _, found = drawn(*many()[:3])
    assert levels(drawing.axes[1]) == pytest.approx([*[1710] * 3, 2500])
    assert len(rings(drawing.axes[1])) == 3
    assert found.count("from batch size 48 on as timed") == 3


SHARES = [0.9 * 1900] * len(LOOPS)


def test_ceilings_of_more_series_that_differ():
    high, far = ({"ceiling_images_per_second": ceiling} for ceiling in (2900.0, 90000.0))
    drawing, _, _ = drawn(*many(eager=high, fit=high))
    assert levels(drawing.axes[1]) == pytest.approx([*SHARES, 2500, 2500, 2500, 2900, 2900])
    drawing, _, _ = drawn(*many(eager=far))
    assert levels(drawing.axes[1]) == pytest.approx([*SHARES, *[2500] * 4])
    assert "Ceilings, some far above the panel: from 2500 examples/s (" in note(drawing)
    assert "to 90000 examples/s (eager)." in note(drawing)
    drawing, _, _ = drawn(*many(**dict.fromkeys(LOOPS, far)))
    assert levels(drawing.axes[1]) == pytest.approx(SHARES)
    assert "Ceiling far above the panel: 90000 examples/s." in note(drawing)
    none = {"ceiling_images_per_second": math.nan, "plateau_images_per_second": math.nan}
    drawing, _, _ = drawn(*many(**dict.fromkeys(LOOPS, none)))
    assert levels(drawing.axes[1]) == rings(drawing.axes[1]) == []
    assert "No plateau within the batch sizes, so no line at 90 % (" in note(drawing)


def test_the_same_images_at_both_ends_and_steps_just_above_a_multiple():
    _, _, found = drawn(sweep(sizes=(16, 17, 34, 32, 128), time=line(10e-3, 0.0)))
    # A step takes the same whatever it holds: 128 images take 8 times as long at 16; quartiles
    # lie 1 % around the times.
    assert found.startswith(
        "Step times: t(17) / t(16) = 1.000 (0.980 to 1.020 by quartiles) for 1.06 times the "
        "images; t(34)"
    )
    assert ". Batch size 16 takes 8.00 (7.84 to 8.16 by quartiles) times as long as 128" in found
    assert "t(34) / t(32) = 1.000" in found and "t(18)" not in found
