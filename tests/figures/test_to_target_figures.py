"""Critical and fastest batch size: figures of trainings with a known critical batch size."""

import functools
import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope import figures
from drawing import legend, reread, titles
from made_trainings import EXACT, SIZES, TO

CRITICAL = figures.FIGURES["critical_batch_size"]
FASTEST = figures.FIGURES["fastest_batch_size"]


def tables_of(trajectories, runs, targets=TO):
    fits, trainings = made_trainings.fitted(trajectories, runs, targets)
    return figures.FigureTables(runs=runs, critical_batch_size=fits, to_target=trainings)


@functools.cache
def tables(**keywords):
    return tables_of(*made_trainings.tables(**keywords))


def drawn(figure, made, **changed):
    """Return a figure of tables, with columns of its frame changed."""
    return figures.draw(reread(figures.select(made, figure).assign(**changed)), figure)


def curves(axes):
    return [line for line in axes.lines if len(line.get_xdata()) == 40]


def marks(axes, marker):
    return [2 ** line.get_xdata()[0] for line in axes.lines if line.get_marker() == marker]


def means(axes):
    return [container.lines[0].get_ydata()[0] for container in axes.containers]


def test_the_curve_and_the_critical_batch_size():
    updates, examples = drawn(CRITICAL, tables()).axes
    for axes, times in ((updates, lambda sizes: 1 + 40 / sizes), (examples, lambda s: 40 + s)):
        (curve,) = curves(axes)
        sizes = 2 ** curve.get_xdata()
        assert curve.get_ydata() == pytest.approx(10 * math.log(10) * times(sizes))
        assert marks(axes, "D") == pytest.approx([40])
    assert means(updates) == pytest.approx(EXACT)


def test_regimes_are_shaded_unless_the_updates_depart_from_the_curve():
    wide = tables(sizes=(4, 16, 64, 512))
    assert {"perfect scaling", "maximal data parallelism"} <= {*legend(drawn(CRITICAL, wide))}
    assert "perfect scaling" not in legend(drawn(CRITICAL, wide, lack_of_fit=0.01))


@pytest.mark.parametrize(("end", "arrow"), [("low", "<"), ("high", ">")])
def test_an_open_end_is_drawn_as_an_arrow(end, arrow):
    ends = {"critical_batch_size_low": 30.0, "critical_batch_size_high": 50.0}
    ends[f"critical_batch_size_{end}"] = math.nan
    axes = drawn(CRITICAL, tables(), **ends).axes[0]
    assert {line.get_marker() for line in axes.lines} & {"<", ">"} == {arrow}


def test_seconds_measured_and_in_closed_form():
    (axes,) = drawn(FASTEST, tables()).axes
    assert means(axes) == pytest.approx(EXACT * (0.002 + 0.0001 * np.array(SIZES)))
    (curve,) = curves(axes)
    sizes = 2 ** curve.get_xdata()
    updates = 10 * math.log(10) * (1 + 40 / sizes)
    assert curve.get_ydata() == pytest.approx(updates * (0.002 + 0.0001 * sizes))
    assert marks(axes, "D") == pytest.approx([math.sqrt(40 * 20)])
    assert marks(axes, "^") == pytest.approx([20])
    assert not curves(drawn(FASTEST, tables(), fastest_batch_size=math.nan).axes[0])


def test_without_values_there_is_no_figure():
    assert figures.select(tables(timed=False), FASTEST).empty
    assert not figures.select(tables(timed=False), CRITICAL).empty
    assert figures.select(tables(sizes=(8, 16)), CRITICAL).empty


def test_each_of_many_series_has_one_target():
    names = {"sgd": "SGD", "adam": "Adam", "rmsprop": "RMSprop"}
    frames = [made_trainings.tables(rates=(0.2,), optimizer=name) for name in names]
    trajectories, runs = (
        pandas.concat(
            frame.assign(run=frame["run"] + name) for name, frame in zip(names, part, strict=True)
        )
        for part in zip(*frames, strict=True)
    )
    made = tables_of(trajectories, runs, targets=())
    assert len(made.critical_batch_size) == 9
    lowest = made.critical_batch_size["target_value"].min()
    headings = [title.replace("\n", " ") for title in titles(drawn(CRITICAL, made))[::2]]
    assert headings == [f"Updates, {name}, validation loss {lowest:.3g}" for name in names.values()]
