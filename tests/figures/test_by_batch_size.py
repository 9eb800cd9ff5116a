"""Figures by batch size: points, means, intervals, panels and published values."""

import itertools

import numpy as np
import pandas
import pytest

from batchscope import figures
from batchscope.analysis import intervals, run_series
from batchscope.figures import canvas, figure_rows
from batchscope.figures.kinds import by_batch_size
from batchscope.study.specifications import Figure, Panel, Scale
from drawing import bars, hollow, legend, note, texts, titles
from made_figures import drawing_of, frame_of

SIZES, SEEDS = (16, 64, 256), (0, 1, 2)
VALUES = np.array([0.30, 0.35, 0.40])  # at the sizes
DISTANCE = Panel("distance", "Distance", "‖w‖")


def runs_of(sizes=SIZES, seeds=SEEDS, **columns):
    """Return a row per batch size and seed, with columns of one value per size."""
    frame = pandas.DataFrame(itertools.product(sizes, seeds), columns=["batch_size", "seed"])
    at = np.searchsorted(sizes, frame["batch_size"])
    scatter = 1 + 0.01 * frame["seed"]
    values = {name: np.asarray(values)[at] * scatter for name, values in columns.items()}
    return frame.assign(status="finished", **values)


def draw(frame, *panels, numbers=None):
    spec = Figure("a", "A", "Quality", "It is drawn.", panels=panels or (DISTANCE,))
    with canvas.style():
        return by_batch_size.draw(frame, spec, numbers)


def test_points_means_and_intervals(two_rates):
    drawing, frame = drawing_of("weight_distance", two_rates)
    axes = drawing.axes[0]
    runs = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    points, mean = axes.lines[0], axes.containers[0]
    assert len(points.get_xdata()) == len(runs)
    at_32 = intervals.t_interval(runs.loc[runs["batch_size"] == 32, "weight_distance"])
    assert mean.lines[0].get_ydata()[1] == pytest.approx(at_32.mean)
    assert bars(mean)[1, :, 1] == pytest.approx([at_32.low, at_32.high])
    assert legend(drawing) == ["learning rate 0.05", "learning rate 0.1"]


def test_one_seed_has_the_error_of_its_value():
    frame = runs_of(seeds=(0,), distance=VALUES).assign(error=0.1)
    (mean,) = draw(frame, Panel("distance", "", "", error="error")).axes[0].containers
    assert np.diff(bars(mean)[:, :, 1]).ravel() == pytest.approx([0.2] * 3)


def test_panels_that_share_a_logarithmic_axis_show_all_of_their_values():
    series = [
        run_series.Series("", {}, runs_of(distance=factor * np.array([1, 10, 100])))
        for factor in (1000, 1)
    ]
    contents = [by_batch_size.PanelContent(DISTANCE, "", [line]) for line in series]
    frame = pandas.concat(line.frame for line in series)
    with canvas.style():
        _, grid = by_batch_size.draw_contents(frame, contents, 1)
    assert grid[0].get_yscale() == "log"
    for axes, line in zip(grid, series, strict=True):
        low, high = axes.get_ylim()
        assert low < line.frame["distance"].min() and line.frame["distance"].max() < high


def test_failures_are_marked_and_in_no_mean(two_rates):
    figure, frame = frame_of("weight_distance", two_rates)
    at_32 = (frame["learning_rate"] == 0.05) & (frame["batch_size"] == 32)
    frame.loc[frame.index[at_32][0], "status"] = "off_target"
    drawing = figures.draw(frame, figure)
    assert {"2 div.\n1 mem.", "2 miss.", "1 off t."} <= texts(drawing)
    assert "Of 60 runs: 2 diverged (div.), 1 out of memory" in note(drawing)
    mean = drawing.axes[0].containers[0].lines[0].get_ydata()[1]
    finished = frame[at_32 & (frame["status"] == "finished")]
    assert mean == pytest.approx(finished["weight_distance"].mean())


def test_the_binomial_error_is_drawn(two_rates):
    drawing, frame = drawing_of("accuracy", two_rates)
    axes = drawing.axes[2]
    at_16 = frame[(frame["batch_size"] == 16) & (frame["learning_rate"] == 0.05)]
    mean = at_16["test_accuracy"].mean()
    half = 1.96 * (mean * (1 - mean) / 360) ** 0.5
    broad = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 4.5]
    assert broad[0] == pytest.approx([mean - half, min(mean + half, 1)])
    assert axes.get_ylim()[1] < 1.02 and axes.get_ylim() == drawing.axes[0].get_ylim()
    assert titles(drawing)[2] == "Test (360 examples)"


def test_a_panel_that_repeats_another_is_left_out():
    figure = figures.FIGURES["time"]
    columns = {"seconds_per_epoch": VALUES, "train_seconds": 40 * VALUES, "epochs_run": [40] * 3}
    frame = runs_of(seeds=(0,), **columns).assign(epochs=40, patience=0, target_train_loss=0.0)
    panels = [panel.column for panel in figure_rows.panels_with_values(frame, figure)]
    assert panels == ["seconds_per_epoch", "train_seconds"]
    one = frame.assign(epochs=1, epochs_run=1, train_seconds=frame["seconds_per_epoch"])
    (panel,) = figure_rows.panels_with_values(one, figure)
    assert panel.column == "seconds_per_epoch"


def test_trainings_that_did_not_stop_early_are_lower_bounds():
    frame = runs_of((32, 256), (0, 1), seconds_per_epoch=(2.0, 1.0)).assign(
        epochs_run=[30, 40, 60, 100],
        train_seconds=[60.0, 80.0, 60.0, 100.0],
        **{"epochs": 100, "patience": 10, "target_train_loss": 0.0},
    )
    drawing = figures.draw(frame, figures.FIGURES["time"])
    bounds = [[line.get_ydata().tolist() for line in hollow(axes)] for axes in drawing.axes]
    assert bounds == [[], [[100]], [[100.0]]]
    without = figures.draw(frame.assign(patience=0), figures.FIGURES["time"])
    assert not any(len(line.get_ydata()) for axes in without.axes for line in hollow(axes))


def test_a_column_has_one_line_for_all_values_of_a_factor_without_effect():
    rates = [runs_of(a=VALUES, b=rate * VALUES).assign(learning_rate=rate) for rate in (0.1, 0.2)]
    drawing = draw(pandas.concat(rates), Panel("a", "A", "a"), Panel("b", "B", "b"))
    assert [len(axes.containers) for axes in drawing.axes] == [1, 2]
    assert legend(drawing) == ["all runs", "learning rate 0.1", "learning rate 0.2"]


def _parts(cases):
    """Return title and number of series of all parts, of series with these factors."""
    frame = pandas.DataFrame([{"batch_size": 16, "seed": 0, **case} for case in cases])
    parts = by_batch_size.divide_series(run_series.split_series(frame))
    return {title: len(groups) for title, groups in parts}


def test_many_series_are_divided_by_common_factors():
    names = ("optimizer", "augmentation", "method")
    values = ("sgd", "adam"), ("none", "crop", "random"), ("plain", "proximal", "sam")
    cases = [dict(zip(names, case, strict=True)) for case in itertools.product(*values)]
    parts = _parts(cases)
    assert len(parts) == 6 and set(parts.values()) == {3}
    assert _parts(cases[:3]) == {"": 3}


def test_training_time_is_a_number_of_epochs_times_the_time_of_one():
    times = pandas.DataFrame({"batch_size": [16, 16, 64, 64], "at_epoch": [2, 5, 2, 5]})
    quartiles = {"seconds_per_epoch_q1": 1.5, "seconds_per_epoch_q3": 2.5}
    times = times.assign(**quartiles, train_seconds=2.0 * times["at_epoch"], machine="local")
    figure = figures.FIGURES["training_time"]
    frame = figures.select(figures.FigureTables(training_times=times), figure)
    assert frame["train_seconds_q1"].tolist() == [3, 7.5, 3, 7.5]
    assert frame["train_seconds_q3"].tolist() == [5, 12.5, 5, 12.5]
    (axes,) = figures.draw(frame, figure).axes
    assert axes.get_ylim()[0] == 0 and len(axes.containers) == 2
    assert figures.select(figures.FigureTables(), figure).empty


def published_of(*series, column="distance"):
    """Return rows of published.csv: factors, batch sizes and numbers of series."""
    frames = (
        pandas.DataFrame({"batch_size": sizes, "value": values}).assign(
            figure="a", document="Table 2", series=str(factors), column=column, **factors
        )
        for factors, sizes, values in series
    )
    return pandas.concat(frames, ignore_index=True)


def stars(axes):
    return [line for line in axes.lines if line.get_marker() == "*"]


def test_published_values_are_stars_within_the_axes():
    frame = runs_of(distance=VALUES)
    drawing = draw(frame, numbers=published_of(({}, (16, 1024), (0.5, 20.0))))
    (axes,) = drawing.axes
    (star,) = stars(axes)
    assert star.get_xdata().tolist() == [4, 10] and star.get_ydata().tolist() == [0.5, 20]
    assert axes.get_xlim()[1] > 10 and axes.get_yscale() == "log" and axes.get_ylim()[1] > 20
    assert legend(drawing) == ["document, Table 2"]
    drawing = draw(frame, numbers=published_of(({}, (16,), (0.5,)), column="test_accuracy"))
    assert not stars(drawing.axes[0]) and not legend(drawing)


@pytest.mark.parametrize(
    ("measured", "value", "scale"),
    [(VALUES, 0.6, "linear"), (VALUES, 20.0, "log"), ([0.0, 1.0, 2.0], 90.0, "linear")],
)
def test_far_published_values_leave_the_measured_ones_apart(measured, value, scale):
    panel = Panel("distance", "Time", "time (s)", Scale.ZERO)
    numbers = published_of(({}, (16,), (value,)))
    (axes,) = draw(runs_of(distance=measured), panel, numbers=numbers).axes
    assert axes.get_yscale() == scale and axes.get_ylim()[1] > value
    assert (axes.get_ylim()[0] == 0) == (scale == "linear")


def test_a_published_series_has_the_place_of_the_measured_one_with_its_factors():
    frame = pandas.concat(
        [runs_of(distance=scale * VALUES).assign(learning_rate=scale) for scale in (1.0, 2.0)]
    )
    numbers = published_of(
        ({"learning_rate": 2.0}, SIZES, (1, 2, 3)),
        ({"learning_rate": 9.0}, SIZES, (4, 5, 6)),  # no measured series
        ({"optimizer": "sgd"}, (64,), (7,)),  # either measured series
    )
    (axes,) = draw(frame, numbers=numbers).axes
    matched, either = stars(axes)
    assert matched.get_ydata().tolist() == [1, 2, 3] and either.get_ydata().tolist() == [7]
    mean = axes.containers[1].lines[0]
    assert matched.get_xdata() == pytest.approx(mean.get_xdata())
    assert matched.get_color() == mean.get_color() and either.get_xdata().tolist() == [6]


def test_usage_has_a_line_for_each_framework_and_stars_of_the_published_values():
    used = {"process_percent": 0.05, "memory_peak_mb": 2.0, "examples_per_second": 50.0}
    frames = []
    for scale, name in enumerate(("jax", "pytorch", "mxnet"), start=1):
        columns = {column: scale * share * np.array(SIZES) for column, share in used.items()}
        frames.append(runs_of(**columns).assign(own_framework=name))
    frames[-1]["status"] = "not_installed"
    runs = pandas.concat(frames).assign(machine="local", gpu_percent=np.nan)
    figure, jax = figures.FIGURES["usage"], {"own_framework": "jax"}
    numbers = published_of((jax, (4, 64, 4096), (20.0, 30.0, 9.0)), column="utilisation_percent")
    frame = figures.select(figures.FigureTables(runs=runs), figure)
    drawing = figures.draw(frame, figure, numbers)
    assert titles(drawing) == ["CPU utilisation", "Resident memory", "Throughput"]
    (star,) = [star for axes in drawing.axes for star in stars(axes)]
    assert star.axes is drawing.axes[0] and star.get_ydata().tolist() == [20, 30, 9]
    assert star.get_linestyle() != "None"  # the line style of its framework
    labels = legend(drawing)
    assert labels[:2] == ["framework jax", "framework pytorch"] and "Table 2" in labels[-1]
