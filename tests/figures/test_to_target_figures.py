"""Critical and fastest batch size: what the figures show of trainings made by hand."""

import dataclasses
import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope import figures
from batchscope.analysis import critical_batch_size as fits
from batchscope.analysis import to_target_tables
from batchscope.analysis.updates_to_target import Target
from batchscope.figures import critical_batch_size
from batchscope.figures.drawing import canvas, to_target
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
    assert updates.get_yscale() == "log" and updates.get_title("left") == "To validation loss 0.2"
    assert "B_crit 40 [40, 40]" in examples.get_title("left")
    drawn = texts(CRITICAL.draw(frame))
    assert any("0.2 at 8, 16, 32, 64 and 128." in text for text in drawn)
    assert any("Not chosen, as a run diverged: 0.8 at 8," in text for text in drawn)
    # It begins below the smallest batch size here: what is not shaded has no entry.
    assert "perfect scaling" not in drawn and "maximal data parallelism" not in drawn


def test_regimes_in_the_panel_are_shaded_and_in_the_legend():
    with canvas.style():
        _, grid = canvas.panels(1, 1)
    (axes,) = grid.flat
    nothing = ((0.0, 0.0), (0.0, 0.0))
    fit = fits.CriticalBatchSize(5, 1.0, 40.0, 40.0, 30.0, 50.0, False, 0.0, "", nothing, 3)
    for ends, expected in (
        ((3, 7), set()),
        ((1, 7), {fits.PERFECT}),
        ((1, 10), {fits.PERFECT, fits.MAXIMAL}),
        ((math.log2(40 / 9) - 0.01, 7), set()),  # a sliver
    ):
        axes.set_xlim(*ends)
        assert to_target.shade(axes, fit) == expected


def test_it_is_stated_in_words():
    assert CRITICAL.found(CRITICAL.select(tables())) == (
        "To a validation loss of 0.2 the critical batch size is 40 (95 % interval 40 to 40): there "
        "a training takes 46.1 updates and 1,842 examples, twice the fewest of each."
    )
    found = CRITICAL.found(CRITICAL.select(tables(rates=(0.1, 0.2), sizes=(2, 4, 32, 512))))
    assert "Up to 4 a doubled batch nearly halves the updates." in found
    assert "From 512 on a larger batch saves next to no updates." in found
    assert "At batch size 2, 4, 32 and 512 the chosen learning rate lies on the edge" in found
    few = CRITICAL.found(CRITICAL.select(tables(never=[(size, 0) for size in SIZES[:3]])))
    assert few == (
        "To a validation loss of 0.2 there is no fit: 2 batch sizes reach the target with every "
        "seed; a fit needs 3."
    )


@pytest.mark.parametrize("end, words", [("low", "at most 50"), ("high", "at least 30")])
def test_open_ends_are_stated_and_drawn_as_arrows(monkeypatch, end, words):
    """The ends are of the test, whatever the fit of these exact curves gives."""
    fit, ends = fits.fit, {"low": 30.0, "high": 50.0} | {end: math.nan}
    monkeypatch.setattr(fits, "fit", lambda *given: dataclasses.replace(fit(*given), **ends))
    scaling = to_target_tables.restored(CRITICAL.select(tables()))[0]
    assert words in critical_batch_size.sentence(scaling)
    axes = to_target.draw([to_target.Panel(scaling, "", "", "")], seconds=False).axes[0]
    arrows = [line.get_marker() for line in coloured(axes, to_target.CRITICAL)]
    assert ("<" in arrows, ">" in arrows) == (end == "low", end == "high")


def test_the_noise_scale_stands_beside_it():
    frame = CRITICAL.select(tables(noise=[0.05]))
    found = CRITICAL.found(frame)
    assert "The gradient noise scale at batch size 32 was 20.00 (95 % interval 19.76 to" in found
    assert " at the start and at least " in found
    drawing = CRITICAL.draw(frame)
    assert {"noise scale, start", "noise scale, end"} <= texts(drawing)
    noise = coloured(drawing.axes[0], canvas.COLOURS[3])
    (mark,) = [line for line in noise if line.get_marker() == "o"]
    assert mark.get_xdata()[0] == pytest.approx(math.log2(20))
    assert "noise" not in CRITICAL.found(CRITICAL.select(tables()))


def test_seconds_measured_and_in_closed_form():
    frame = FASTEST.select(tables())
    axes = FASTEST.draw(frame).axes[0]
    points = axes.containers[0]
    seconds = EXACT * (0.002 + 0.0001 * np.array(SIZES))
    assert points.lines[0].get_ydata() == pytest.approx(seconds[:1])
    (curve,) = coloured(axes, to_target.LINE)
    sizes = 2 ** curve.get_xdata()
    updates = 10 * math.log(10) * (1 + 40 / sizes)
    assert curve.get_ydata() == pytest.approx(updates * (0.002 + 0.0001 * sizes))
    dotted = next(line for line in axes.lines if line.get_linestyle() == ":")
    assert dotted.get_xdata()[0] == pytest.approx(math.log2(40 * 20) / 2)
    half = [line for line in axes.lines if line.get_marker() == "^"]
    assert half[0].get_xdata()[0] == pytest.approx(math.log2(20))
    assert FASTEST.found(frame) == (
        "Batch size 32 reached a validation loss of 0.2 soonest, in 0.269 s (geometric mean of 3 "
        "seeds); 16 took 1.08 times as long (95 % interval 1.08 to 1.08) and 64 took 1.17 times as "
        "long (95 % interval 1.17 to 1.17). In closed form the fastest batch size is 28.3 (95 % "
        "interval 28.3 to 28.3), with 0.268 s; from 15 to 53.2 it takes at most 10 % longer. Half "
        "of a step is fixed cost at batch size 20. No measured time departs from it by more than "
        "its 95 % interval."
    )


def test_without_a_seed_in_common_no_size_is_the_fastest():
    frame = FASTEST.select(tables())
    alone = frame["seed"] == frame["batch_size"].rank(method="dense") % 3
    found = FASTEST.found(frame[alone])
    assert found.startswith(
        "The batch sizes that reached a validation loss of 0.2 with every seed share no seed, so "
        "that their times are not compared."
    )
    with_one = frame["seed"].eq(1) & frame["batch_size"].isin((16, 64))
    assert "Batch size 32 reached" in FASTEST.found(frame[~with_one])


def test_an_interval_that_is_open_is_said_to_be():
    frame = FASTEST.select(tables())
    text = FASTEST.found(frame.assign(half_batch_high=math.nan))
    assert "the fastest batch size is 28.3 (its interval is open), with 0.268 s;" in text


def test_batch_sizes_whose_seeds_are_at_different_rates_are_reported():
    trajectories, runs = made_trainings.slow_seed()
    trajectories["seconds"] *= 1 + 0.01 * np.cos(trajectories["seed"] * trajectories["batch_size"])
    made = written(trajectories, runs)
    wider = "At 16 these are different ones, and intervals are wider for it."
    assert wider in note(FASTEST.draw(FASTEST.select(made)))
    assert "At 16" not in note(FASTEST.draw(FASTEST.select(tables())))
    # Updates choose alike there.
    assert "At 16" not in note(CRITICAL.draw(CRITICAL.select(made)))


def test_a_figure_reports_the_edges_of_the_rates_that_its_own_axis_chooses():
    """At 16 seconds choose .4, the highest; updates choose .2 as elsewhere."""
    made = written(*made_trainings.slow_seed())
    found = FASTEST.found(FASTEST.select(made))
    assert "At batch size 16 the chosen learning rate lies on the edge of those tried" in found
    assert "with it fewer seconds" in found
    assert "0.4 at 16 (edge)" in note(FASTEST.draw(FASTEST.select(made)))
    assert "edge" not in CRITICAL.found(CRITICAL.select(made))
    assert "edge" not in " ".join(texts(CRITICAL.draw(CRITICAL.select(made)))).lower()


def test_what_strays_from_the_closed_form_is_reported():
    frame = FASTEST.select(tables())
    at = frame["batch_size"] == 64
    text = FASTEST.found(frame.assign(seconds=frame["seconds"].where(~at, frame["seconds"] / 1.25)))
    assert text.endswith("by more than their 95 % intervals: batch size 64 took 20 % less.")


def test_what_was_never_reached_is_marked():
    frame = FASTEST.select(tables(never=[(8, 0)]))
    drawing = FASTEST.draw(frame)
    assert "1 never" in texts(drawing)
    low, high = drawing.axes[0].get_ylim()
    assert frame["seconds"].max() < low * (high / low) ** 0.85


@pytest.mark.parametrize("figure", [CRITICAL, FASTEST])
def test_nothing_to_draw_is_reported(figure):
    frame = figure.select(tables(sizes=(8, 16)))
    assert figure.found(frame) == "No target was reached at three batch sizes."
    assert "no target that three\nbatch sizes reached" in texts(figure.draw(frame))


def test_without_timing_jobs_there_are_no_seconds():
    assert FASTEST.found(FASTEST.select(tables(timed=False))) == ""
    assert CRITICAL.found(CRITICAL.select(tables(timed=False))) != ""


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
    drawing = CRITICAL.draw(CRITICAL.select(made))
    lowest = made.critical_batch_size["target_value"].min()
    assert titles(drawing)[::2] == [
        f"{name}, validation loss {lowest:.3g}" for name in ("SGD", "Adam", "RMSprop")
    ]
    assert any("Of each series the lowest target" in text for text in texts(drawing))
