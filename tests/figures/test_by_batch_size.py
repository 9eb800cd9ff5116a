"""Figures against batch size: points, means, intervals, panels and what is not drawn."""

import itertools

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import figures
from batchscope.analysis import intervals, run_series
from batchscope.figures import canvas, rows
from batchscope.figures.kinds import by_batch_size
from batchscope.study.specifications import Figure, Panel
from drawing import bars, hollow, legend, note, texts, titles
from made_figures import drawing_of, frame_of, tables_of

SIZES, SEEDS = (16, 64, 256), (0, 1, 2)
NARROW = np.array([0.30, 0.35, 0.40])  # values at the sizes: by themselves on a linear axis
WIDE = np.array([0.001, 0.03, 1.0])  # and on a logarithmic one


def runs_of(sizes=SIZES, seeds=SEEDS, **columns):
    """Rows of all batch sizes and seeds, with columns of one value per size."""
    found = pandas.DataFrame(itertools.product(sizes, seeds), columns=["batch_size", "seed"])
    at = [sizes.index(size) for size in found["batch_size"]]
    scatter = 1 + 0.01 * found["seed"]
    values = {name: np.asarray(values)[at] * scatter for name, values in columns.items()}
    return found.assign(status="finished", **values)


def spec_of(*panels, **given):
    return Figure("a", "A", "Quality", "It is drawn.", panels=panels, **given)


def draw(frame, spec):
    with canvas.style():
        return by_batch_size.draw(frame, spec)


DISTANCE = Panel("distance", "Distance", "‖w‖")


def test_points_means_and_intervals(two_rates):
    drawing, frame = drawing_of("weight_distance", two_rates)
    axes = drawing.axes[0]
    chosen = frame[(frame["learning_rate"] == 0.05) & (frame["status"] == "finished")]
    points, mean = axes.lines[0], axes.containers[0]
    assert len(points.get_xdata()) == len(chosen)
    at_32 = intervals.t_interval(chosen.loc[chosen["batch_size"] == 32, "weight_distance"])
    assert mean.lines[0].get_ydata()[1] == pytest.approx(at_32.mean)
    assert bars(mean)[1, :, 1] == pytest.approx([at_32.low, at_32.high])
    assert legend(drawing) == ["learning rate 0.05", "learning rate 0.1"]


def test_one_seed_has_a_mean_without_an_interval_or_with_its_own_error():
    frame = runs_of(seeds=(0,), distance=NARROW).assign(error=0.1)
    (mean,) = draw(frame, spec_of(DISTANCE)).axes[0].containers
    assert not np.diff(bars(mean)[:, :, 1]).any()
    (mean,) = draw(frame, spec_of(Panel("distance", "", "", error="error"))).axes[0].containers
    assert np.diff(bars(mean)[:, :, 1]).ravel() == pytest.approx([0.2] * 3)


def test_failures_are_marked_and_in_no_mean(two_rates):
    figure, frame = frame_of("weight_distance", two_rates)
    chosen = (frame["learning_rate"] == 0.05) & (frame["batch_size"] == 32)
    frame.loc[frame.index[chosen][0], "status"] = "off_target"
    drawing = figures.draw(frame, figure)
    assert {"2 div.\n1 mem.", "2 miss.", "1 off t."} <= texts(drawing)
    assert "Of 60 runs: 2 diverged (div.), 1 out of memory" in note(drawing)
    mean = drawing.axes[0].containers[0].lines[0].get_ydata()[1]
    kept = frame[chosen & (frame["status"] == "finished")]
    assert mean == pytest.approx(kept["weight_distance"].mean())


def test_the_binomial_error_is_drawn(two_rates):
    drawing, frame = drawing_of("accuracy", two_rates)
    axes = drawing.axes[2]
    chosen = frame[(frame["batch_size"] == 16) & (frame["learning_rate"] == 0.05)]
    mean = chosen["test_accuracy"].mean()
    half = 1.96 * (mean * (1 - mean) / 360) ** 0.5
    broad = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 4.5]
    assert broad[0] == pytest.approx([mean - half, min(mean + half, 1)])
    assert axes.get_ylim()[1] < 1.02 and axes.get_ylim() == drawing.axes[0].get_ylim()
    assert titles(drawing)[2] == "Test (360 examples)"


def test_no_interval_of_a_logarithmic_axis_ends_below_zero():
    """Losses of two seeds that scatter by a factor of 100: their linear interval holds 0."""
    frame = runs_of((16, 256), (0, 1), distance=(1.0, 1.0)).assign(distance=[0.01, 1.0, 0.02, 0.9])
    (axes,) = draw(frame, spec_of(DISTANCE)).axes
    assert axes.get_yscale() == "log" and (bars(axes.containers[0])[:, :, 1] > 0).all()


def test_a_panel_that_says_nothing_else_is_left_out():
    entry = figures.FIGURES["time"]
    columns = {"seconds_per_epoch": NARROW, "train_seconds": 40 * NARROW, "epochs_run": [40] * 3}
    frame = runs_of(seeds=(0,), **columns).assign(epochs=40, patience=0, target_train_loss=0.0)
    shown = [panel.column for panel in rows.panels(frame, entry)]
    assert shown == ["seconds_per_epoch", "train_seconds"]
    one = frame.assign(epochs=1, epochs_run=1, train_seconds=frame["seconds_per_epoch"])
    assert [panel.column for panel in rows.panels(one, entry)] == ["seconds_per_epoch"]


def test_trainings_that_nothing_stopped_are_lower_bounds():
    frame = runs_of((32, 256), (0, 1), seconds_per_epoch=(2.0, 1.0)).assign(
        epochs_run=[30, 40, 60, 100],
        train_seconds=[60.0, 80.0, 60.0, 100.0],
        **{"epochs": 100, "patience": 10, "target_train_loss": 0.0},
    )
    drawing = figures.draw(frame, figures.FIGURES["time"])
    found = [[line.get_ydata().tolist() for line in hollow(axes)] for axes in drawing.axes]
    assert found == [[], [[100]], [[100.0]]]
    chosen = figures.draw(frame.assign(patience=0), figures.FIGURES["time"])
    assert not any(len(line.get_ydata()) for axes in chosen.axes for line in hollow(axes))


def test_what_a_factor_does_not_change_has_one_line():
    rates = [runs_of(a=NARROW, b=rate * NARROW).assign(learning_rate=rate) for rate in (0.1, 0.2)]
    drawing = draw(pandas.concat(rates), spec_of(Panel("a", "A", "a"), Panel("b", "B", "b")))
    assert [len(axes.containers) for axes in drawing.axes] == [1, 2]
    assert legend(drawing) == ["all runs", "learning rate 0.1", "learning rate 0.2"]


OPTIMIZERS, METHODS = ("sgd", "adam"), ("plain", "proximal", "sam")
AUGMENTATIONS = ("none", "crop", "random")


def _parts(cases):
    """Returns title and number of series of every part, of series with these factors."""
    frame = pandas.DataFrame([{"batch_size": 16, "seed": 0, **case} for case in cases])
    parts = by_batch_size.facets(run_series.series(frame))
    return {title: len(groups) for title, groups in parts}


def test_six_series_stand_in_panels_of_few_by_what_they_share():
    every = itertools.product(OPTIMIZERS, AUGMENTATIONS, METHODS)
    cases = [dict(zip(("optimizer", "augmentation", "method"), one, strict=True)) for one in every]
    parts = _parts(cases)
    assert len(parts) == 6 and set(parts.values()) == {3}
    assert _parts(cases[:3]) == {"": 3}
    momenta = itertools.product(("sgd", "rmsprop"), range(5))
    cases = [{"optimizer": name, "momentum": at / 10} for name, at in momenta]
    assert _parts(cases) == {"SGD": 5, "RMSprop": 5}


def test_training_time_is_a_median_with_quartiles(tmp_path):
    folder = tables_of(tmp_path, synthetic.grid(seeds=range(3)))
    drawing, frame = drawing_of("training_time", folder)
    assert not frame.duplicated(["batch_size", "at_epoch"]).any()
    runs = figures.read(folder).runs
    at_16 = runs[runs["batch_size"] == 16]
    most = frame["at_epoch"].max()
    found = frame[(frame["batch_size"] == 16) & (frame["at_epoch"] == most)].iloc[0]
    assert found["train_seconds"] == pytest.approx(most * at_16["seconds_per_epoch"].median())
    assert found["train_seconds_q1"] <= found["train_seconds"] <= found["train_seconds_q3"]
    assert drawing.axes[0].get_ylim()[0] == 0


def published_of(*series, column="distance"):
    """Rows of published.csv: each series its factors, batch sizes and numbers."""
    return pandas.DataFrame(
        [
            {"figure": "a", "document": "Table 2", "series": str(factors), "column": column}
            | {"batch_size": size, "value": value, **factors}
            for factors, sizes, values in series
            for size, value in zip(sizes, values, strict=True)
        ]
    )


def stars(axes):
    return [line for line in axes.lines if line.get_marker() == "*"]


def test_the_numbers_of_a_document_are_stars_at_its_batch_sizes():
    frame = runs_of(distance=NARROW)
    numbers = published_of(({}, (16, 1024), (0.5, 0.9)))
    with canvas.style():
        drawing = by_batch_size.draw(frame, spec_of(DISTANCE), numbers)
    (axes,) = drawing.axes
    (star,) = stars(axes)
    assert star.get_xdata().tolist() == [4, 10] and star.get_ydata().tolist() == [0.5, 0.9]
    assert axes.get_xlim()[1] > 10 and axes.get_ylim()[1] > 0.9  # they are within the axes
    assert legend(drawing) == ["document, Table 2"]
    far = published_of(({}, (16,), (20.0,)))
    with canvas.style():
        (axes,) = by_batch_size.draw(frame, spec_of(DISTANCE), far).axes
    assert axes.get_yscale() == "log" and axes.get_ylim()[1] > 20


def test_a_series_of_a_document_stands_at_ours_of_its_factors():
    frame = pandas.concat(
        [runs_of(distance=scale * NARROW).assign(learning_rate=scale) for scale in (1.0, 2.0)]
    )
    sizes = (16, 64, 256)
    numbers = published_of(
        ({"learning_rate": 2.0}, sizes, (1, 2, 3)),
        ({"learning_rate": 9.0}, sizes, (4, 5, 6)),  # none of ours
        ({"optimizer": "sgd"}, (64,), (7,)),  # which of ours is not said
    )
    with canvas.style():
        (axes,) = by_batch_size.draw(frame, spec_of(DISTANCE), numbers).axes
    own, several = stars(axes)
    assert own.get_ydata().tolist() == [1, 2, 3] and several.get_ydata().tolist() == [7]
    mean = axes.containers[1].lines[0]
    assert own.get_xdata() == pytest.approx(mean.get_xdata())
    assert own.get_color() == mean.get_color() and several.get_xdata().tolist() == [6]


def test_numbers_of_other_columns_are_in_no_panel():
    numbers = published_of(({}, (16,), (0.5,)), column="test_accuracy")
    with canvas.style():
        drawing = by_batch_size.draw(runs_of(distance=NARROW), spec_of(DISTANCE), numbers)
    assert not stars(drawing.axes[0]) and not legend(drawing)
