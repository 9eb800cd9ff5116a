"""What the page shows of a figure: its runs, its finding, and figures that differ in their axis."""

from __future__ import annotations

import base64
import zlib

import synthetic
from batchscope.report import content, experiment_answer, figure_view

ROWS = [
    {"run": "a", "batch_size": "8", "learning_rate": "0.1", "seed": "0"},
    {"run": "b", "batch_size": "8", "learning_rate": "0.2", "seed": "0"},
    {"run": "c", "batch_size": "16", "learning_rate": "0.1", "seed": "1"},
]


def test_runs_are_found_by_what_a_figure_says_of_them():
    find = figure_view.Finder(ROWS, [4, 5, 6])
    assert find("learning_rate=0.2 batch_size=8 seed=0") == (5, "0")
    assert find("batch_size=16 seed=1 unknown_factor=3") == (6, "1")
    assert find("batch_size=8 seed=0") == (None, "0")  # two runs: which is not said
    assert find("batch_size=32 seed=0") == (None, "0")
    assert find("batch_size=8") is None


def test_figures_that_differ_in_their_axis_stand_together():
    given = [{"of": "loss_curves", "n": 1}, {"of": "time", "n": 2}, {"of": "loss_curves", "n": 3}]
    found = figure_view.blocks(given)
    assert [[each["n"] for each in block] for block in found] == [[1, 3], [2]]


def test_the_finding_of_many_series_is_its_first_and_last():
    text = "Mean loss by series. A: 1; B: 2; C: 3. More. Even more."
    assert experiment_answer.first(text)[0] == "Mean loss by series. A: 1; …; C: 3."
    assert experiment_answer.first(text)[1] == text  # all of it is said below
    assert experiment_answer.first("Mean loss by series. A: 1; B: 2. More.") == (
        "Mean loss by series. A: 1; B: 2.",
        "More.",
    )
    assert experiment_answer.first("One. Two.") == ("One.", "Two.")
    assert experiment_answer.first("") == ("", "")


def test_an_answer_is_about_what_the_figures_show():
    accuracy = synthetic.answer("not resolved", (0.5, 0.4, 0.6), "Test accuracy")
    loss = synthetic.answer("rises", (0.5, 0.4, 0.6), "Loss", direction="rises")
    timed = content.Figure("Time", "", found="An epoch takes 2 s. More.", columns=("seconds",))
    shown = content.Figure("Loss", "", columns=(loss.outcome.column,))
    assert experiment_answer.asked([accuracy, loss], [shown]) == [
        each for each in (accuracy, loss) if each.outcome.column == loss.outcome.column
    ]
    assert experiment_answer.asked([accuracy, loss], [timed]) == [accuracy, loss]
    told = experiment_answer.sentences([], [timed])
    assert told == [("", "An epoch takes 2 s.")]
    assert experiment_answer.sentences([loss], [timed], ["Use 32."]) == [("", "Use 32.")]
    both = experiment_answer.sentences([loss], [shown, timed])
    assert both[0][0] == "As the batch size grows" and both[1][1] == "An epoch takes 2 s."


def test_a_table_travels_packed():
    packed = base64.b64decode(content.packed(b"a,b\n1,2\n" * 50))
    assert zlib.decompress(packed, -zlib.MAX_WBITS) == b"a,b\n1,2\n" * 50
    assert content.packed(b"") == ""
