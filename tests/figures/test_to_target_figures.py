"""Critical and fastest batch size: what the figures show of trainings made by hand."""

import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope import figures
from batchscope.analysis import run_series, to_target_tables
from batchscope.analysis.targets import Target
from drawing import legend, reread, titles
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
    constant = run_series.constants(runs)
    return figures.FigureTables(
        runs=runs,
        critical_batch_size=to_target_tables.fits(scalings, constant),
        to_target=to_target_tables.trainings(scalings, constant),
    )


def drawn(figure, made, **changed):
    """Returns a figure of tables, with columns of its frame changed."""
    return figures.draw(reread(figures.select(made, figure).assign(**changed)), figure)


def curves(axes):
    return [line for line in axes.lines if len(line.get_xdata()) == 40]


def marks(axes, marker):
    """Returns the batch sizes of the marks that look so."""
    return [2 ** line.get_xdata()[0] for line in axes.lines if line.get_marker() == marker]


def test_the_curve_and_the_critical_batch_size():
    updates, examples = drawn(CRITICAL, tables()).axes
    for axes, times in ((updates, lambda sizes: 1 + 40 / sizes), (examples, lambda s: 40 + s)):
        (curve,) = curves(axes)
        sizes = 2 ** curve.get_xdata()
        assert curve.get_ydata() == pytest.approx(10 * math.log(10) * times(sizes))
        assert marks(axes, "D") == pytest.approx([40])
    means = [container.lines[0].get_ydata()[0] for container in updates.containers]
    assert means == pytest.approx(EXACT)


def test_regimes_in_the_panel_are_shaded():
    made = tables(sizes=(4, 16, 64, 512))
    assert {"perfect scaling", "maximal data parallelism"} <= {*legend(drawn(CRITICAL, made))}
    # Where the updates depart from the curve there are none.
    assert "perfect scaling" not in legend(drawn(CRITICAL, made, lack_of_fit=0.01))


@pytest.mark.parametrize("open_ends", [("low",), ("high",), ("low", "high")])
def test_open_ends_are_drawn_as_arrows(open_ends):
    ends = {"critical_batch_size_low": 30.0, "critical_batch_size_high": 50.0}
    ends |= {f"critical_batch_size_{end}": math.nan for end in open_ends}
    axes = drawn(CRITICAL, tables(), **ends).axes[0]
    arrows = {line.get_marker() for line in axes.lines}
    assert ("<" in arrows, ">" in arrows) == ("low" in open_ends, "high" in open_ends)


def test_the_noise_scale_stands_beside_it():
    drawing = drawn(CRITICAL, tables(noise=[0.05]))
    assert {"noise scale, start", "noise scale, end"} <= {*legend(drawing)}
    assert 20 in [pytest.approx(size) for size in marks(drawing.axes[0], "o")]


def test_seconds_measured_and_in_closed_form():
    (axes,) = drawn(FASTEST, tables()).axes
    seconds = EXACT * (0.002 + 0.0001 * np.array(SIZES))
    means = [container.lines[0].get_ydata()[0] for container in axes.containers]
    assert means == pytest.approx(seconds)
    (curve,) = curves(axes)
    sizes = 2 ** curve.get_xdata()
    updates = 10 * math.log(10) * (1 + 40 / sizes)
    assert curve.get_ydata() == pytest.approx(updates * (0.002 + 0.0001 * sizes))
    assert marks(axes, "D") == pytest.approx([math.sqrt(40 * 20)])
    assert marks(axes, "^") == pytest.approx([20])
    assert not curves(drawn(FASTEST, tables(), fastest_batch_size=math.nan).axes[0])


def test_nothing_to_draw_is_no_figure():
    assert figures.select(tables(timed=False), FASTEST).empty
    assert not figures.select(tables(timed=False), CRITICAL).empty
    assert figures.select(tables(sizes=(8, 16)), CRITICAL).empty


def test_of_many_series_each_has_one_target():
    parts = []
    for name in ("sgd", "adam", "rmsprop"):
        found = made_trainings.tables(rates=(0.2,), optimizer=name)
        parts.append([one.assign(run=one["run"] + name) for one in found])
    made = written(*map(pandas.concat, zip(*parts, strict=True)), targets=())
    assert len(made.critical_batch_size) == 9
    lowest = made.critical_batch_size["target_value"].min()
    found = [title.replace("\n", " ") for title in titles(drawn(CRITICAL, made))[::2]]
    assert found == [
        f"Updates, {name}, validation loss {lowest:.3g}" for name in ("SGD", "Adam", "RMSprop")
    ]
