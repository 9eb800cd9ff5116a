"""The figure of the advice: what its rows are, and what it shows."""

from dataclasses import replace

import pandas
import pytest

from batchscope import figures
from batchscope.analysis import advice, advice_tables, critical_batch_size, fastest_batch_size
from drawing import texts
from made_advice import SIZES, changed, evidence

FIGURE = figures.FIGURES["advice"]


def select(*given):
    """The figure's rows of some series, distinguished by their optimizer."""
    names = ("sgd", "adam", "rmsprop")
    series = [
        advice_tables.SeriesAdvice({"optimizer": name}, advice.advise(each))
        for name, each in zip(names, given, strict=False)
    ]
    made = {"advice": advice_tables.summary(series), "advice_sizes": advice_tables.sizes(series)}
    return FIGURE.select(figures.Tables(**made))


def full():
    """Evidence with every limit known."""
    fit = critical_batch_size.fit(SIZES, [30 * (1 + 95 / size) for size in SIZES])
    best = fastest_batch_size.fastest(fit.updates_min, fit.examples_min, 2e-3, 1e-4, 0.2)
    more = {"critical": fit, "fastest": best, "knee": 180.0, "memory": 4096}
    return evidence([1.4, 1.0, 1.02, 1.01, 1.5], **more)


def test_a_row_for_every_limit_and_the_range():
    frame = select(full())
    assert list(dict.fromkeys(frame["row"])) == [
        *("memory", "knee", "critical_batch_size", "fastest_batch_size"),
        *("seconds", "test_accuracy", "range"),
    ]
    last = frame.iloc[-1]
    assert (last["low"], last["high"]) == (32, 128)
    seconds = frame[frame["row"] == "seconds"].set_index("batch_size")["verdict"]
    within = dict.fromkeys((32, 64, 128), "within")
    assert seconds.to_dict() == {16: "beyond", **within, 256: "beyond"}
    assert FIGURE.found(frame) == "Recommended: 32 to 128."


def test_the_drawing_shows_every_limit_on_one_axis():
    drawing = FIGURE.draw(select(full()))
    (axes,) = drawing.axes
    shown = texts(drawing)
    for label in ("fits into memory", "time to target within 10 %", "test accuracy within 1 point"):
        assert label in shown
    assert {"4096", "180", "95", "32 to 128"} <= set(shown)
    assert axes.get_xlabel() == "batch size"
    (bar,) = [line for line in axes.lines if line.get_linewidth() == 7]
    assert bar.get_xdata().tolist() == [5.0, 7.0]
    # A range of one size has no length: its marks show it.
    (axes,) = FIGURE.draw(select(evidence([3.0, 2.0, 1.0, 2.0, 3.0]))).axes
    (bar,) = [line for line in axes.lines if line.get_linewidth() == 7]
    assert bar.get_xdata().tolist() == [6.0, 6.0] and bar.get_marker() == "o"


@pytest.mark.parametrize("knee", [2.0, 180.0, 600.0, 123_456.0])
@pytest.mark.parametrize("sizes", [3, 5])
def test_a_number_covers_no_mark(knee, sizes):
    given = evidence([1.4, 1.0, 1.02, 1.01, 1.5][:sizes], [0.95] * sizes)
    drawing = FIGURE.draw(select(changed(given, knee=knee, memory=600)))
    (axes,) = drawing.axes
    drawing.draw_without_rendering()
    heights = [label.get_text() for label in axes.get_yticklabels()]
    for row, text in (("90 % of the throughput", f"{knee:.0f}"), ("fits into memory", "600")):
        at = heights.index(row)
        (number,) = (one for one in axes.texts if one.get_text() == text and one.xy[1] == at)
        box = number.get_window_extent()
        assert box.x1 <= axes.bbox.x1
        marks = [line for line in axes.lines if list(line.get_ydata()) == [at]]
        for line in marks if at == heights.index("90 % of the throughput") else ():
            [(x, _)] = axes.transData.transform([(line.get_xdata()[0], at)])
            half = line.get_markersize() / 2 * drawing.dpi / 72 if line.get_marker() != "|" else 1
            assert box.x1 <= x - half or box.x0 >= x + half


def test_every_margin_has_a_row():
    given = full()
    (accuracy,) = given.outcomes
    loss = replace(accuracy, name="test_loss", margin=0.05, values=1 - accuracy.values)
    drawing = FIGURE.draw(select(changed(given, outcomes=(accuracy, loss), slower=0.2)))
    labels = [label.get_text() for label in drawing.axes[0].get_yticklabels()]
    assert labels[:4] == [
        "recommended",
        "test loss within 0.05",
        "test accuracy within 1 point",
        "time to target within 20 %",
    ]


def test_a_panel_for_every_series_and_none_recommended():
    frame = select(full(), evidence(seeds=3))
    drawing = FIGURE.draw(frame)
    assert [axes.get_title("left") for axes in drawing.axes] == ["SGD", "Adam"]
    assert "no recommendation" in texts(drawing)
    assert "fewer than 6 seeds: no verdict" in texts(drawing)
    assert FIGURE.found(frame) == "Recommended: SGD: 32 to 128; Adam: none of 5 batch sizes."


@pytest.mark.parametrize(
    ("status", "words"),
    [("finished", "fewer than three batch sizes"), ("diverged", "no finished run")],
)
def test_it_says_why_there_is_nothing(status, words):
    empty = {"advice": advice_tables.summary([]), "advice_sizes": advice_tables.sizes([])}
    frame = FIGURE.select(figures.Tables(runs=pandas.DataFrame({"status": [status]}), **empty))
    assert words in texts(FIGURE.draw(frame))
    assert FIGURE.found(frame) == ""
