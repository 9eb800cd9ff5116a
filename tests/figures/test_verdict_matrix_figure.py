"""The matrix of verdicts: its cells, its words at the right, what it says in a sentence."""

import numpy as np
import pandas
import pytest
from matplotlib.colors import to_rgb

from batchscope import figures, wording
from batchscope.catalogue import decision_columns
from batchscope.figures.verdict_matrix import _LOOKS
from drawing import note, texts, titles

FIGURE = figures.FIGURES["verdict_matrix"]
SIZES = (16, 32, 64)


def row(budget, outcome, verdicts, trend="none", no_trend="", differences=(0.0, 0.02, 0.1), **rest):
    """Returns the rows of one outcome at one budget; the first size is the best."""
    value = {"epochs": 40.0, "updates": 900.0, "target": 0.2}.get(budget)
    return [
        {
            **dict.fromkeys(decision_columns.BUDGETS),
            "machine": "laptop",
            "budget": budget,
            "budget_value": value,
            "budget_column": "validation_loss" if budget == "target" else "",
            "stated": 0,
            "outcome": outcome,
            "margin": {"accuracy": 0.01, "loss": 0.05}.get(outcome.rpartition("_")[2], 0.1),
            "batch_size": size,
            "learning_rate": 0.1,
            "on_edge": 0,
            "still_falling": 0,
            "seeds": 6,
            "reached": 6,
            "mean": 0.9,
            "difference": difference,
            "difference_low": None if difference == 0 else difference - 0.01,
            "difference_high": None if difference == 0 else difference + 0.01,
            "verdict": verdict,
            "trend": trend,
            "no_trend": no_trend or ("" if trend != "none" else "not_resolved"),
            **rest,
        }
        for size, verdict, difference in zip(SIZES, verdicts, differences, strict=True)
    ]


def frame_of(rows):
    """Returns what the figure is drawn from, of rows of budgets.csv."""
    table = pandas.DataFrame(rows)
    numbers = [name for name in table if name.startswith("difference")]
    table[numbers] = table[numbers].astype(float)
    return FIGURE.select(figures.Tables(budgets=table))


CROSSING = [
    *row("epochs", "test_loss", ("within", "not_resolved", "beyond"), "smaller"),
    *row("updates", "test_loss", ("beyond", "not_resolved", "within"), "larger"),
    *row("target", "updates", ("within", "not_resolved", "beyond"), "smaller"),
]


def test_every_cell_has_the_colour_of_its_verdict_and_its_difference():
    drawing = FIGURE.draw(frame_of(CROSSING))
    (axes,) = drawing.axes
    colours = [patch.get_facecolor() for patch in axes.patches]
    assert len(colours) == 9
    assert len(set(colours)) == 3
    hatched = [bool(patch.get_hatch()) for patch in axes.patches]
    assert hatched == [False, False, True, True, False, False, False, False, True]
    found = texts(drawing)
    assert "+0.02\n[+0.01, +0.03]" in found and "best\n0.9" in found
    assert "\N{MULTIPLICATION SIGN}1.10\n[1.09, 1.11]" in found
    trends = [text.get_text() for text in axes.texts if text.get_text().endswith("is better")]
    assert trends == ["smaller is better", "larger is better", "smaller is better"]
    heads = [tick for tick in axes.xaxis.get_major_ticks() if tick.label2.get_visible()]
    assert [tick.label2.get_text() for tick in heads] == ["16", "32", "64"]
    assert all(tick.label1.get_visible() for tick in heads)  # below them as well
    heads = ["At equal epochs (40)", "At equal updates (900)", "To a validation loss of 0.2"]
    assert set(heads) < set(found)


def test_no_digit_of_a_small_difference_is_lost_beside_a_large_one():
    found = row("epochs", "test_loss", ("within", "beyond", "beyond"), differences=(0.0, 0.02, 1.4))
    drawn = texts(FIGURE.draw(frame_of(found)))
    assert {"+0.02\n[+0.01, +0.03]", "+1.40\n[+1.39, +1.41]"} <= set(drawn)


def test_accuracies_are_in_points():
    given = row("epochs", "test_accuracy", ["within"] * 3, differences=(0.0, -0.004, -0.05))
    found = texts(FIGURE.draw(frame_of(given)))
    minus = "\N{MINUS SIGN}"
    assert f"{minus}0.4\n[{minus}1.4, +0.6]" in found and "best\n90.0 %" in found


def test_a_rate_on_the_edge_is_marked_and_explained():
    given = row("epochs", "test_loss", ["within"] * 3, no_trend="edge")
    given[2]["on_edge"] = 1
    found = texts(FIGURE.draw(frame_of(given)))
    assert sum("\N{DAGGER}" in text for text in found) == 3  # the cell, the row, the note
    assert "no verdict (\N{DAGGER} decides)" in found


def test_a_loss_that_still_fell_is_marked_and_explained():
    given = row("convergence", "test_loss", ["within"] * 3)
    given[2]["still_falling"] = 1
    found = texts(FIGURE.draw(frame_of(given)))
    assert sum("\N{DOUBLE DAGGER}" in text for text in found) == 2  # the cell and the note
    words = "\N{DOUBLE DAGGER} The validation loss still fell when most trainings ended."
    assert any(words in text for text in found)


def test_what_failed_is_counted():
    differences = (0.0, 0.1, float("nan"))
    given = row("target", "updates", ["within", "within", "failed"], differences=differences)
    given[2]["reached"] = 4
    assert "4 of 6\ngot there" in texts(FIGURE.draw(frame_of(given)))
    given[2] |= {"reached": float("nan"), "verdict": "no_value"}  # its first evaluation comes later
    assert "no value" in texts(FIGURE.draw(frame_of(given)))


def test_a_size_alone_is_the_best_of_none():
    differences = (0.0, float("nan"), float("nan"))
    given = row("target", "updates", ["alone", "failed", "failed"], differences=differences)
    found = texts(FIGURE.draw(frame_of(given)))
    assert {"0.9", "no other to compare it with"} <= found and "best\n0.9" not in found


def test_validation_data_are_named():
    given = row("epochs", "validation_loss", ["within"] * 3, "smaller")
    frame = frame_of(given)
    said = note(FIGURE.draw(frame))
    assert said.startswith("Margins:") and "along a training are of validation data." in said
    assert FIGURE.found(frame) == "At equal epochs (40) smaller is better on validation data."


def test_the_sentence_states_every_budget():
    assert FIGURE.found(frame_of(CROSSING)) == (
        "At equal epochs (40) smaller is better; at equal updates (900) larger is better; "
        "to a validation loss of 0.2 smaller is better in updates."
    )
    both = [
        *row("epochs", "test_accuracy", ["not_resolved"] * 3),
        *row("epochs", "test_loss", ["within"] * 3, "smaller"),
        *row("convergence", "test_loss", ["not_resolved"] * 3),
    ]
    assert FIGURE.found(frame_of(both)) == (
        "At equal epochs (40) smaller is better by test loss; no verdict at each training's lowest "
        "validation loss."
    )
    target = [
        *row("target", "updates", ["within"] * 3, "larger"),
        *row("target", "examples", ["within"] * 3, "smaller"),
        *row("target", "seconds", ["within"] * 3),
    ]
    assert FIGURE.found(frame_of(target)) == (
        "To a validation loss of 0.2 larger is better in updates, smaller is better in examples "
        "and no verdict in seconds."
    )
    few = row("epochs", "test_loss", ["few_seeds"] * 3, no_trend="few_seeds")
    assert FIGURE.found(frame_of(few)).startswith("No verdict at any budget: it needs 6 seeds")


def test_one_matrix_per_series():
    names = ("sgd", "adam", "rmsprop", "adagrad")
    frame = frame_of([{**one, "optimizer": name} for name in names for one in CROSSING])
    drawing = FIGURE.draw(frame)
    assert titles(drawing) == ["SGD", "Adam", "RMSprop", "Adagrad"]
    # No wider than one: the page would make the texts of a wider figure smaller.
    assert drawing.get_figwidth() == FIGURE.draw(frame_of(CROSSING)).get_figwidth()
    finding = FIGURE.found(frame_of(CROSSING))
    assert FIGURE.found(frame) == f"In all 4 series: {wording.lower(finding)}"


def test_series_with_the_same_verdicts_are_reported_together():
    trends = {"sgd": "smaller", "adam": "smaller", "rmsprop": "larger", "adagrad": "none"}
    given = [
        {**one, "optimizer": name, "trend": trend}
        for name, trend in trends.items()
        for one in row("epochs", "test_loss", ("within", "within", "beyond"), "smaller")
    ]
    assert FIGURE.found(frame_of(given)) == (
        "SGD and Adam: at equal epochs (40) smaller is better. RMSprop: at equal epochs (40) "
        "larger is better. Adagrad: no verdict at equal epochs (40)."
    )


@pytest.mark.parametrize(("count", "lines"), [(8, 2), (9, 1), (15, 0)])
def test_many_batch_sizes_leave_room_for_less(count, lines):
    one = row("epochs", "test_loss", ("within", "within", "within"))[1]
    given = [{**one, "batch_size": 2**power} for power in range(count)]
    (axes,) = FIGURE.draw(frame_of(given)).axes
    shown = [text.get_text() for text in axes.texts if text.get_text().startswith("+0.02")]
    assert len(shown) == (count if lines else 0)
    assert all(len(text.split("\n")) == lines for text in shown)


def test_colours_differ_in_grey():
    """The luminance of the fills of cells that could be mistaken, and a hatch beside it."""
    weights = (0.299, 0.587, 0.114)
    grey = {name: np.dot(weights, to_rgb(look["facecolor"])) for name, look in _LOOKS.items()}
    assert grey["not_resolved"] - grey["within"] > 0.1
    assert grey["within"] - grey["beyond"] > 0.05 and "hatch" in _LOOKS["beyond"]
