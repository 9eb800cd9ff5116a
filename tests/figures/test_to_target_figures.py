"""Critical and fastest batch size: what the figures show of trainings made by hand."""

import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope import figures
from batchscope.analysis import critical_batch_size, to_target_tables
from batchscope.analysis.updates_to_target import Target
from batchscope.figures.drawing import canvas, target_words, to_target
from drawing import note, reread, texts, titles
from made_trainings import EXACT, SIZES

CRITICAL = figures.FIGURES["critical_batch_size"]
FASTEST = figures.FIGURES["fastest_batch_size"]
TO = [Target("validation_loss", 0.2)]


def tables(targets=TO, noise=(), **made):
    """Returns the tables of an experiment, made of `made_trainings.tables`.

    Args:
        noise: Mean of the squared gradient at the end, where a noise scale of 40 / that is
            measured in every run.
    """
    return written(*made_trainings.tables(**made), targets, noise)


def written(trajectories, runs, targets=TO, noise=()):
    """Returns the tables of trainings, as `tables` does."""
    for square in noise:
        jitter = 0.2 * (runs["seed"] - 1)
        runs = runs.assign(gradient_variance_start=40.0 + jitter)
        runs = runs.assign(gradient_norm_squared_start=2.0 + 0.1 * jitter)
        runs = runs.assign(gradient_variance=40.0 - jitter, gradient_norm_squared=square + jitter)
    scalings = to_target_tables.of_study(trajectories, runs, targets)
    constant = to_target_tables.constants(runs)
    return figures.Tables(
        runs=runs,
        critical_batch_size=to_target_tables.fits(scalings, constant),
        to_target=to_target_tables.trainings(scalings, constant),
    )


def coloured(axes, colour):
    return [line for line in axes.lines if line.get_color() == colour]


def test_the_curve_and_the_critical_batch_size():
    frame = CRITICAL.select(tables())
    updates, examples = CRITICAL.draw(frame).axes
    (curve,) = coloured(updates, to_target.LINE)
    sizes = 2 ** curve.get_xdata()
    assert curve.get_ydata() == pytest.approx(10 * math.log(10) * (1 + 40 / sizes))
    (curve,) = coloured(examples, to_target.LINE)
    assert curve.get_ydata() == pytest.approx(10 * math.log(10) * (40 + sizes))
    means = next(line for line in updates.lines if line.get_marker() == "s")
    assert means.get_ydata() == pytest.approx(EXACT)
    dashed = next(line for line in updates.lines if line.get_linestyle() == "--")
    assert dashed.get_xdata()[0] == pytest.approx(math.log2(40))
    assert "B_crit 40 [40, 40]" in examples.get_title("left")
    assert any("0.2 at 8, 16, 32, 64 and 128." in text for text in texts(CRITICAL.draw(frame)))
    assert CRITICAL.found(frame) and FASTEST.found(FASTEST.select(tables()))


@pytest.mark.parametrize(
    "lack_of_fit, ends, expected",
    [
        (math.nan, (3, 7), set()),
        (math.nan, (1, 7), {critical_batch_size.PERFECT}),
        (0.5, (1, 10), {critical_batch_size.PERFECT, critical_batch_size.MAXIMAL}),
        (0.5, (math.log2(40 / 9) - 0.01, 7), set()),  # a sliver
        (0.01, (1, 10), set()),  # the updates depart from the curve
    ],
)
def test_regimes_in_the_panel_are_shaded(lack_of_fit, ends, expected):
    row = {"critical_batch_size": 40.0, "updates_min": 1.0, "examples_min": 40.0}
    panel = target_words.Panel({}, pandas.DataFrame([{**row, "lack_of_fit": lack_of_fit}]))
    with canvas.style():
        _, grid = canvas.panels(1, 1)
    (axes,) = grid.flat
    axes.set_xlim(*ends)
    assert to_target.shade(axes, panel) == expected


@pytest.mark.parametrize("end", ["low", "high"])
def test_open_ends_are_drawn_as_arrows(end):
    frame = CRITICAL.select(tables())
    frame = frame.assign(critical_batch_size_low=30.0, critical_batch_size_high=50.0)
    axes = CRITICAL.draw(frame.assign(**{f"critical_batch_size_{end}": math.nan})).axes[0]
    arrows = [line.get_marker() for line in coloured(axes, to_target.CRITICAL)]
    assert ("<" in arrows, ">" in arrows) == (end == "low", end == "high")


def test_the_noise_scale_stands_beside_it():
    drawing = CRITICAL.draw(CRITICAL.select(tables(noise=[0.05])))
    assert {"noise scale, start", "noise scale, end"} <= texts(drawing)
    noise = coloured(drawing.axes[0], canvas.COLOURS[3])
    (mark,) = [line for line in noise if line.get_marker() == "o"]
    assert mark.get_xdata()[0] == pytest.approx(math.log2(20))


def test_seconds_measured_and_in_closed_form():
    frame = FASTEST.select(tables())
    axes = FASTEST.draw(frame).axes[0]
    seconds = EXACT * (0.002 + 0.0001 * np.array(SIZES))
    assert axes.containers[0].lines[0].get_ydata() == pytest.approx(seconds[:1])
    (curve,) = coloured(axes, to_target.LINE)
    sizes = 2 ** curve.get_xdata()
    updates = 10 * math.log(10) * (1 + 40 / sizes)
    assert curve.get_ydata() == pytest.approx(updates * (0.002 + 0.0001 * sizes))
    dotted = next(line for line in axes.lines if line.get_linestyle() == ":")
    assert dotted.get_xdata()[0] == pytest.approx(math.log2(40 * 20) / 2)
    half = [line for line in axes.lines if line.get_marker() == "^"]
    assert half[0].get_xdata()[0] == pytest.approx(math.log2(20))
    without = FASTEST.draw(frame.assign(fastest_batch_size=math.nan)).axes[0]
    assert not coloured(without, to_target.LINE)


def test_a_figure_reads_the_rates_that_its_own_axis_chooses():
    """At 16 seconds choose .4, the highest; updates choose .2 as elsewhere."""
    trajectories, runs = made_trainings.slow_seed()
    trajectories["seconds"] *= 1 + 0.01 * np.cos(trajectories["seed"] * trajectories["batch_size"])
    made = written(trajectories, runs)
    of_seconds, of_updates = (each.draw(each.select(made)) for each in (FASTEST, CRITICAL))
    assert "At 16" in note(of_seconds) and "0.4 at 16 (edge)" in note(of_seconds)
    assert "At 16" not in note(of_updates) and "edge" not in note(of_updates).lower()


def test_what_was_never_reached_is_marked():
    frame = FASTEST.select(tables(never=[(8, 0)]))
    drawing = FASTEST.draw(frame)
    assert "1 never" in texts(drawing)
    low, high = drawing.axes[0].get_ylim()
    assert frame["seconds"].max() < low * (high / low) ** 0.85


@pytest.mark.parametrize("figure", [CRITICAL, FASTEST])
def test_nothing_to_draw_is_reported(figure):
    frame = figure.select(tables(sizes=(8, 16)))
    assert figure.found(frame)
    assert "no target that three\nbatch sizes reached" in texts(figure.draw(frame))
    untimed = figure.select(tables(timed=False))
    assert bool(figure.found(untimed)) == (figure is CRITICAL)


@pytest.mark.parametrize("figure", [CRITICAL, FASTEST])
@pytest.mark.slow
def test_a_figure_is_drawn_from_its_csv_alone(figure):
    frame = figure.select(tables(targets=(), noise=[0.05]))
    read = reread(frame)
    drawn = [canvas.svg_and_png(figure.draw(one), "")[0] for one in (frame, read)]
    assert drawn[0] == drawn[1]
    assert figure.found(frame) == figure.found(read)


def test_of_many_series_each_has_one_target():
    parts = []
    for name in ("sgd", "adam", "rmsprop"):
        found = made_trainings.tables(rates=(0.2,), optimizer=name)
        parts.append([one.assign(run=one["run"] + name) for one in found])
    made = written(*map(pandas.concat, zip(*parts, strict=True)), targets=())
    assert len(made.critical_batch_size) == 9
    lowest = made.critical_batch_size["target_value"].min()
    assert titles(CRITICAL.draw(CRITICAL.select(made)))[::2] == [
        f"{name}, validation loss {lowest:.3g}" for name in ("SGD", "Adam", "RMSprop")
    ]
