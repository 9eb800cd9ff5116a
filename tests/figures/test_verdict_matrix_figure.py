"""Matrix and limits are drawn from comparisons.csv: each cell shows the interval it is read off."""

import math

import numpy as np
import pandas
import pytest
from batchscope.figures.verdict_matrix import _LOOKS
from matplotlib.colors import to_rgb

from batchscope import figures
from batchscope.catalogue import decision_columns, timing_columns
from drawing import texts, titles

MATRIX, LIMITS = figures.FIGURES["verdict_matrix"], figures.FIGURES["batch_size_limits"]
SIZES = (16, 32, 64)
NAN = float("nan")
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"


def row(budget, outcome, verdicts, estimates=(-0.02, 0.02, 0.1), **rest):
    """Returns the rows of one outcome at one budget."""
    kind = outcome.rpartition("_")[2]
    value = {"epochs": 40.0, "updates": 900.0, "target": 0.2}.get(budget, NAN)
    shared = {
        **dict.fromkeys(decision_columns.COMPARISONS),
        **{"machine": "laptop", "budget": budget, "budget_value": value, "stated": 0},
        **{"budget_column": "validation_loss" if budget == "target" else ""},
        **{"outcome": outcome, "margin": {"accuracy": 0.01, "loss": 0.05}.get(kind, 0.1)},
        **{"learning_rate": 0.1, "on_edge": 0, "still_falling": 0, "seeds": 6, "reached": 6},
        **{"mean": 0.9, "against": 32, "n": 6, "reason": ""},
    }
    return [
        {
            **{**shared, "batch_size": size, "verdict": verdict, "estimate": estimate},
            **{"low": estimate - 0.01, "high": estimate + 0.01, **rest},
        }
        for size, verdict, estimate in zip(SIZES, verdicts, estimates, strict=True)
    ]


def frame_of(rows, trends=()):
    """Returns what the matrix is drawn from; `trends` are (budget, outcome, verdict, ...)."""
    names = ("budget", "outcome", "verdict", "reason", "optimizer")
    trends = pandas.DataFrame([dict(zip(names, trend, strict=False)) for trend in trends])
    return MATRIX.select(figures.Tables(comparisons=pandas.DataFrame(rows), trends=trends))


CROSSING = [
    *row("epochs", "test_loss", ("within", "not_resolved", "beyond")),
    *row("updates", "test_accuracy", ("beyond", "not_resolved", "within")),
    *row("target", "updates", ("within", "not_resolved", "beyond"), (0.9, 1.1, 12.0)),
    *row("end", "test_loss", ["within"] * 3),
]
TRENDS = [
    ("epochs", "test_loss", "contradicted", ""),
    ("updates", "test_accuracy", "supported", ""),
    ("target", "updates", "not_resolved", "rate_on_edge"),
    ("end", "test_loss", "supported", ""),
]


def test_every_cell_shows_its_interval_in_the_colour_of_its_verdict():
    frame = frame_of(CROSSING, TRENDS)
    drawing = MATRIX.draw(frame)
    (axes,) = drawing.axes
    colours = [to_rgb(patch.get_facecolor()) for patch in axes.patches]
    assert colours == [to_rgb(_LOOKS[each]["facecolor"]) for each in frame["verdict"]]
    assert len(colours) == 9  # each at its own end is no budget
    found = texts(drawing)
    assert {f"{MINUS}0.02\n[{MINUS}0.03, {MINUS}0.01]", "+0.10\n[+0.09, +0.11]"} <= {*found}
    assert {"+10.0\n[+9.0, +11.0]", f"{TIMES}1.10\n[1.09, 1.11]"} <= {*found}
    beside = {text for text in found if text.endswith(("is better", "edge)"))}
    assert beside == {"smaller is better", "larger is better", "not resolved (rate on edge)"}
    assert "larger is better" in MATRIX.found(frame)


def test_an_open_end_and_a_single_seed_have_no_number():
    opened = row("target", "updates", ["not_resolved"] * 3, high=NAN)
    assert f"{TIMES}0.10\n[0.09, open]" in texts(MATRIX.draw(frame_of(opened)))
    single = row("epochs", "test_loss", ["one_seed"] * 3, low=NAN, high=NAN, n=1)
    assert "+0.10" in texts(MATRIX.draw(frame_of(single)))


def test_what_has_no_comparison_says_why():
    given = row("target", "updates", ["not_testable"] * 3, (NAN, NAN, NAN))
    for cell, reason in zip(given, ("alone", "no_value", "failed"), strict=True):
        cell["reason"] = reason
    given[2]["reached"] = 4
    found = texts(MATRIX.draw(frame_of(given)))
    assert {"0.9", "no value", "4 of 6\ngot there", "no other to compare it with"} <= {*found}


@pytest.mark.parametrize(
    ("mark", "letter"), [("on_edge", "\N{DAGGER}"), ("still_falling", "\N{DOUBLE DAGGER}")]
)
def test_marks_are_explained(mark, letter):
    given = row("convergence", "test_loss", ["within"] * 3)
    given[2][mark] = 1
    found = texts(MATRIX.draw(frame_of(given)))
    assert sum(letter in text for text in found) == 2  # the cell and the note


def test_one_matrix_per_series_with_the_trend_of_its_own():
    names = ("sgd", "adam")
    one = row("epochs", "test_loss", ["within"] * 3)
    trends = [("epochs", "test_loss", each, "") for each in ("supported", "contradicted")]
    trends = [(*trend, name) for trend, name in zip(trends, names, strict=True)]
    rows = [{**cell, "optimizer": name} for name in names for cell in one]
    drawing = MATRIX.draw(frame_of(rows, trends))
    assert titles(drawing) == ["SGD", "Adam"]
    for axes, better in zip(drawing.axes, ("larger", "smaller"), strict=True):
        assert f"{better} is better" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(("count", "lines"), [(8, 2), (9, 1), (15, 0)])
def test_many_batch_sizes_leave_room_for_less(count, lines):
    one = row("epochs", "test_loss", ["within"] * 3)[1]
    given = [{**one, "batch_size": 2**power} for power in range(count)]
    (axes,) = MATRIX.draw(frame_of(given)).axes
    shown = [text.get_text() for text in axes.texts if text.get_text().startswith("+0.02")]
    assert len(shown) == (count if lines else 0)
    assert all(len(text.split("\n")) == lines for text in shown)


def test_colours_differ_in_grey():
    """The luminance of the fills of cells that could be mistaken, and a hatch beside it."""
    weights = (0.299, 0.587, 0.114)
    grey = {name: np.dot(weights, to_rgb(look["facecolor"])) for name, look in _LOOKS.items()}
    assert grey["not_resolved"] - grey["within"] > 0.1
    assert grey["within"] - grey["beyond"] > 0.05 and "hatch" in _LOOKS["beyond"]


LIMIT = {
    **dict.fromkeys(timing_columns.FIRST),
    **{"machine": "laptop", "sweep": "s", "loop": "graph", "memory_limit_mb": 2000.0},
    **{"max_batch_size": 900, "max_batch_size_bound": "resolved", "noise_floor": 1.03},
    **{"knee_fitted": 23.6, "knee_batch_size": 24, "still_rising": False},
}


def limits(rows, **knee):
    """Returns the labels and numbers of the figure of limits, and what it says."""
    columns = [*timing_columns.FIRST, *timing_columns.COLUMNS["sweeps.csv"]]
    table = pandas.DataFrame([{**LIMIT, **knee}], columns=columns)
    frame = LIMITS.select(figures.Tables(comparisons=pandas.DataFrame(rows), limits=table))
    drawing = LIMITS.draw(frame)
    (axes,) = drawing.axes
    labels = [text.get_text().replace("\n", " ") for text in reversed(axes.get_yticklabels())]
    return labels, [text.get_text() for text in axes.texts], LIMITS.found(frame)


def test_limits_of_machine_and_outcome_stand_on_one_axis():
    rows = [
        *row("end", "test_accuracy", ("within", "within", "beyond"), (0.002, 0.001, -0.1)),
        *row("end", "test_loss", ["not_resolved"] * 3),
        *row("epochs", "test_loss", ["within"] * 3),
    ]
    labels, numbers, found = limits(rows)
    assert labels == [
        *("fits into 2000 MB", "90 % of the plateau"),
        *("test accuracy within 1.0 points", "test loss within 0.05"),
    ]
    assert numbers == ["900", "23.6", "32"]
    assert "32 (from 16 on; 64 is beyond it: " in found and "No batch size is shown" in found
    nothing = dict.fromkeys(("knee_fitted", "knee_batch_size", "still_rising"), math.nan)
    few = row("end", "test_loss", ["provisional"] * 3)
    assert limits(few, **nothing, noise_floor=8.1)[1] == ["900", "too noisy to tell"]
    assert limits(few, knee_fitted=NAN, knee_batch_size=NAN)[1] == ["900", "none"]
    rising = {"knee_fitted": NAN, "knee_batch_size": NAN, "still_rising": True}
    assert limits(few, **rising)[1] == ["900", "beyond what was timed"]
