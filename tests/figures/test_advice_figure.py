"""The figure of the advice: what its rows are, and what it shows."""

import pandas

from batchscope import figures
from drawing import texts
from made_advice import advised, comparisons

FIGURE = figures.FIGURES["advice"]
LIMITS = pandas.DataFrame({"max_batch_size": [200.0], "max_batch_size_bound": ["fits"]})


def select(*frames):
    """The figure's rows of some series, distinguished by their optimizer."""
    named = zip(("sgd", "adam"), frames, strict=False)
    return FIGURE.select(
        figures.Tables(advice=pandas.concat(frame.assign(optimizer=name) for name, frame in named))
    )


def test_a_row_for_every_limit_and_the_range():
    frame = select(advised(limits=LIMITS))
    assert list(dict.fromkeys(frame["row"])) == ["range", "seconds", "test_accuracy", "memory"]
    row = frame[frame["row"] == "range"].iloc[0]
    assert (row["low"], row["high"]) == (32, 128)
    seconds = frame[frame["row"] == "seconds"].set_index("batch_size")["shown"]
    within = dict.fromkeys((32, 64, 128), "within")
    assert seconds.to_dict() == {16: "beyond", **within, 256: "beyond"}


def test_every_verdict_is_drawn_on_one_axis():
    drawing = FIGURE.draw(select(advised(comparisons("bnwfa", "0wwww"), limits=LIMITS)))
    (axes,) = drawing.axes
    assert axes.get_xlabel() == "batch size" and "200" in texts(drawing)
    assert {line.get_marker() for line in axes.lines} >= {"X", "o", "x", "s", "_", "D"}


def test_series_stand_below_each_other_and_are_named():
    frame = select(advised(), advised(comparisons("fffff", "")))
    assert len(FIGURE.draw(frame).axes) == 2
    assert FIGURE.found(frame) == "Recommended: SGD: 32 to 128; Adam: none."


def test_without_advice_the_figure_says_so():
    frame = select(advised(comparisons().iloc[:0]))
    assert len(frame) == 1 and FIGURE.found(frame) == ""
    assert frame["row"].iloc[0] in texts(FIGURE.draw(frame))
