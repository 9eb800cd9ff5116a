"""Matrix and limits: each cell in the colour of its verdict, each size beside every limit."""

import pandas
import pytest
from matplotlib.colors import to_rgb

from batchscope import figures
from batchscope.catalogue import decision_columns, tables
from batchscope.figures.kinds import verdicts
from drawing import legend, texts
from made_advice import advised, comparisons

MATRIX, LIMITS, ADVICE = (
    figures.FIGURES[name] for name in ("verdict_matrix", "batch_size_limits", "advice")
)
SIZES = (16, 32, 64)
NAN = float("nan")
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"


def row(budget, outcome, verdicts, estimates=(-0.02, 0.02, 0.1), **rest):
    """Returns the rows of one outcome at one budget."""
    value = {"epochs": 40.0, "updates": 900.0, "target": 0.2}.get(budget, NAN)
    shared = {
        **dict.fromkeys(decision_columns.COMPARISONS),
        **{"machine": "laptop", "budget": budget, "budget_value": value, "outcome": outcome},
        **{"learning_rate": 0.1, "seeds": 6, "mean": 0.9, "against": 32, "n": 6, "reason": ""},
    }
    return [
        {**shared, "batch_size": size, "verdict": verdict, "estimate": estimate, **rest}
        for size, verdict, estimate in zip(SIZES, verdicts, estimates, strict=True)
    ]


def matrix_of(rows):
    return MATRIX.select(figures.Tables(comparisons=pandas.DataFrame(rows)))


CROSSING = [
    *row("epochs", "test_loss", ("within", "not_resolved", "beyond")),
    *row("updates", "test_accuracy", ("beyond", "not_resolved", "within")),
    *row("target", "updates", ("within", "not_resolved", "beyond"), (0.9, 1.1, 12.0)),
    *row("end", "test_loss", ["within"] * 3),
]


def test_every_cell_has_the_colour_of_its_verdict_and_its_difference():
    frame = matrix_of(CROSSING)
    drawing = MATRIX.draw(frame)
    (axes,) = drawing.axes
    colours = [to_rgb(patch.get_facecolor()) for patch in axes.patches]
    assert colours == [to_rgb(verdicts.LOOKS[each].ground) for each in frame["verdict"]]
    assert len(colours) == 9  # each at its own end is no budget
    cells = {f"{MINUS}0.02", "+0.1", "+10.0", f"{TIMES}1.1", f"{TIMES}12"}
    rows = {"epochs 40: test loss", "updates 900: test accuracy", "target 0.2: updates"}
    assert {*cells, *rows} <= texts(drawing)
    assert len(legend(drawing)) == 3


def test_series_have_headings_and_rows_without_a_difference_are_left_out():
    one = row("epochs", "test_loss", ["within"] * 3)
    none = row("updates", "test_loss", ["not_testable"] * 3, [NAN] * 3, reason="alone")
    rows = [{**cell, "optimizer": name} for name in ("sgd", "adam") for cell in (*one, *none)]
    drawing = MATRIX.draw(matrix_of(rows))
    assert {"SGD", "Adam"} <= texts(drawing) and len(drawing.axes[0].patches) == 6
    assert matrix_of(none).empty


LIMIT = {
    **dict.fromkeys(tables.FIRST),
    **{"machine": "laptop", "sweep": "s", "loop": "graph", "memory_limit_mb": 2000.0},
    **{"max_batch_size": 900, "max_batch_size_bound": "resolved", "noise_floor": 1.03},
    **{"knee_fitted": 23.6, "knee_batch_size": 24, "still_rising": False},
}


def limits(rows, **knee):
    """Returns the frame of the figure of limits without advice, its rows and its numbers."""
    columns = [*tables.FIRST, *tables.OF_TIMINGS["sweeps"].columns]
    table = pandas.DataFrame([{**LIMIT, **knee}], columns=columns)
    made = figures.Tables(
        comparisons=pandas.DataFrame(rows), limits=table, advice=advised(comparisons().iloc[:0])
    )
    frame = LIMITS.select(made)
    (axes,) = LIMITS.draw(frame).axes
    labels = [text.get_text().replace("\n", " ") for text in reversed(axes.get_yticklabels())]
    return frame, labels, [text.get_text() for text in axes.texts]


def test_limits_of_machine_and_outcome_stand_on_one_axis():
    rows = [
        *row("end", "test_accuracy", ("within", "within", "beyond"), (0.002, 0.001, -0.1)),
        *row("end", "test_loss", ["not_resolved"] * 3),
        *row("epochs", "test_loss", ["within"] * 3),
    ]
    frame, labels, numbers = limits(rows)
    expected = ["Fits into memory", "90 % of the throughput", "Test accuracy", "Test loss"]
    assert labels == expected and numbers == ["23.6", "900"]
    assert frame["shown"].dropna().tolist() == ["within", "within", "beyond", *["not_resolved"] * 3]
    for given in ({"noise_floor": 8.1}, {"still_rising": True}):
        assert limits(rows, **given)[2] == ["900"]
    series = [{**cell, "optimizer": name} for name in ("sgd", "adam") for cell in rows[:3]]
    assert limits(series)[1][2:] == ["SGD", "Adam"]


def select(*frames):
    """The rows of the advice for some series, distinguished by their optimizer."""
    named = zip(("sgd", "adam"), frames, strict=False)
    made = pandas.concat(frame.assign(optimizer=name) for name, frame in named)
    return ADVICE.select(figures.Tables(advice=made, comparisons=pandas.DataFrame(), limits=made))


FITS = pandas.DataFrame({"max_batch_size": [200.0], "max_batch_size_bound": ["fits"]})


def test_advice_has_a_row_for_every_limit_and_the_range():
    frame = select(advised(limits=FITS))
    assert list(dict.fromkeys(frame["limit"])) == ["range", "seconds", "test_accuracy", "memory"]
    found = frame[frame["limit"] == "range"].iloc[0]
    assert (found["low"], found["high"]) == (32, 128)
    seconds = frame[frame["limit"] == "seconds"].set_index("batch_size")["shown"]
    within = dict.fromkeys((32, 64, 128), "within")
    assert seconds.to_dict() == {16: "beyond", **within, 256: "beyond"}


def test_a_limit_with_an_open_end_is_drawn_at_the_end_that_is_known():
    fit = {"target_column": "validation_loss", "target_value": 0.2}
    fit |= {"critical_batch_size": NAN, "critical_batch_size_low": 6429.0}
    critical = pandas.DataFrame([{**fit, "critical_batch_size_high": NAN}])
    drawing = ADVICE.draw(select(advised(critical=critical)))
    assert "≥ 6429" in texts(drawing) and not {"nan"} & texts(drawing)
    assert ">" in {line.get_marker() for line in drawing.axes[0].lines}


@pytest.mark.parametrize("name", ["advice", "batch_size_limits"])
def test_every_verdict_is_drawn_on_one_axis(name):
    frame = select(advised(comparisons("bnwfa", "0wwww"), limits=FITS))
    drawing = figures.FIGURES[name].draw(frame)
    (axes,) = drawing.axes
    assert axes.get_xlabel() == "batch size" and "200" in texts(drawing)
    assert {line.get_marker() for line in axes.lines} >= {"X", "o", "x", "s", "_", "D"}
    assert 2 ** axes.get_xlim()[1] < 2 * 256
