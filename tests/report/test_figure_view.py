"""What the page shows of a figure: its runs, its finding, and figures that differ in their axis."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace

import pytest

import small_study
import synthetic
from batchscope import wording
from batchscope.report import content, experiment_answer, figure_view
from batchscope.study import planner
from batchscope.study.plan import Experiment

ROWS = [
    {"run": "a", "batch_size": "8", "learning_rate": "0.1", "seed": "0"},
    {"run": "b", "batch_size": "8", "learning_rate": "0.2", "seed": "0"},
    {"run": "c", "batch_size": "16", "learning_rate": "0.1", "seed": "1"},
]
RESULTS = content.ExperimentResults(Experiment("e", "", "", vary={}), ROWS)


def test_runs_are_found_by_what_a_figure_says_of_them():
    find = figure_view.Finder(ROWS, {"a": 4, "b": 5, "c": 6})
    assert find("learning_rate=0.2 batch_size=8 seed=0") == (5, "0")
    assert find("batch_size=16 seed=1 unknown_factor=3") == (6, "1")
    assert find("batch_size=8 seed=0") == (None, "0")  # two runs: which is not stated
    assert find("batch_size=32 seed=0") == (None, "0")
    assert find("batch_size=8") is None


def test_figures_that_differ_in_their_axis_stand_together():
    given = [{"of": "loss_curves", "n": 1}, {"of": "time", "n": 2}, {"of": "loss_curves", "n": 3}]
    found = figure_view.blocks(given)
    assert [[each["n"] for each in block] for block in found] == [[1, 3], [2]]


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("One. Two. Three.", "One.", "Two. Three."),
        ("", "", ""),
        ("Eager: it cost 2 ms. tf.function: 1 ms.", "Eager: it cost 2 ms.", "tf.function: 1 ms."),
    ],
)
def test_the_first_sentence_of_a_finding_stands_alone(text, first, rest):
    assert experiment_answer.first(text) == (first, rest)


def test_an_answer_is_about_what_the_figures_show():
    accuracy = synthetic.answer("not_resolved", (0.5, 0.4, 0.6), "Test accuracy")
    loss = synthetic.answer("supported", (0.5, 0.4, 0.6), "Loss")
    timed = content.Figure("Time", "", found="An epoch takes 2 s.", csv=b"seconds")
    shown = content.Figure("Loss", "", csv=loss.outcome.column.encode())
    assert content.Figure("Loss", "").columns == []
    assert experiment_answer.asked([accuracy, loss], [shown]) == [
        each for each in (accuracy, loss) if each.outcome.column == loss.outcome.column
    ]
    assert experiment_answer.asked([accuracy, loss], [timed]) == [accuracy, loss]
    sentences = experiment_answer.sentences([], [timed])
    assert sentences == [("", "An epoch takes 2 s.")]
    assert experiment_answer.sentences([loss], [timed], ["Use 32."]) == [("", "Use 32.")]
    both = experiment_answer.sentences([loss], [shown, timed])
    assert both[0][0] == "As the batch size grows" and both[1][1] == "An epoch takes 2 s."


def test_what_belongs_to_an_answer_has_its_place_in_it():
    shown = [content.Figure(name, "", found=f"{name}.") for name in ("A", "B", "C")]
    advised = experiment_answer.sentences([], shown, ["Use 32.", "See.", "Say."], ["On 2 GPUs."])
    assert [text for _, text in advised] == ["Use 32.", "See.", "On 2 GPUs."]
    sentences = experiment_answer.sentences([], shown, more=["On 2 GPUs.", "Not on 4."])
    assert [text for _, text in sentences] == ["A.", "On 2 GPUs.", "Not on 4."]


@pytest.mark.parametrize(
    ("name", "finding", "expected"),
    [
        ("best_losses", "Mean best validation loss was 3.", True),
        ("best_losses", "Mean best training loss was 2.", False),  # no slope is of it
        ("accuracy_by_epochs", "Mean best validation loss after 1 epoch was 3.", False),
        ("best_losses", "Mean best validation loss was 3 [2, 4].", False),
    ],
)
def test_a_slope_stands_beside_its_own_outcome_alone(name, finding, expected):
    answer = synthetic.answer("supported", (0.5, 0.4, 0.6), "Best validation loss")
    figure = content.Figure("F", "", name=name, found=finding, csv=answer.outcome.column.encode())
    shown = figure_view.build(1, figure, replace(RESULTS, answers=[answer]), [], str)
    assert shown["finding"].endswith(" per doubling.") == expected


def test_a_figure_of_small_texts_takes_the_whole_row():
    def span(name, width):
        figure = content.Figure("F", "", name, picture=content.Picture(width=width))
        return figure_view.build(1, figure, RESULTS, [], str)["span"]

    assert [span("accuracy", width) for width in (558, 700, 900)] == ["narrow", "medium", "wide"]
    assert {span("verdict_matrix", width) for width in (558, 700, 900)} == {"wide"}


def test_of_all_figures_those_answer_whose_names_stand_in_the_question():
    loss, sharp, size = (content.Figure(title, "") for title in ("Losses", "Sharpness", "Batch"))
    question = "Which batch size ends at a sharper minimum?"
    assert experiment_answer.relevant(question, [loss, sharp, size], named=False) == [sharp]
    assert experiment_answer.relevant(question, [loss, size], named=False) == [loss, size]
    # Of those that are named too, the one that is asked for comes first.
    assert experiment_answer.relevant(question, [loss, sharp], named=True) == [sharp, loss]
    assert experiment_answer.relevant("What?", [loss, sharp], named=True) == [loss, sharp]


def test_too_few_seeds_are_reported_with_what_was_measured():
    few = synthetic.answer("provisional", n=2)
    shown = content.Figure("A", "", found="It was 1 at 8.", csv=few.outcome.column.encode())
    sentences = experiment_answer.sentences([few], [shown])
    assert sentences == [("", "It was 1 at 8. Provisional, 2 of 6 seeds.")]


def test_what_is_not_resolved_is_reported_with_its_values():
    found = [synthetic.answer("not_resolved")]
    shown = content.Figure("A", "", found="It was 1 at 8.", csv=b"test_accuracy")
    sentences = experiment_answer.sentences(found, [shown])
    assert sentences == [("", "It was 1 at 8. These seeds do not resolve a trend.")]


def test_an_advice_answers_with_its_headline_and_the_fastest_size():
    soonest = content.Figure("F", "", name="fastest_batch_size", found="32 was first. More.")
    assert experiment_answer.advised("Use 32", [soonest]) == ["Use 32.", "32 was first."]
    assert experiment_answer.advised("Use 32", []) == ["Use 32."]


def test_many_series_are_counted():
    verdicts = {"a": "supported", "b": "supported", "c": "not_resolved", "d": "supported"}
    found = [synthetic.answer(verdict, series=name) for name, verdict in verdicts.items()]
    shown = content.Figure("A", "", found="Long.", csv=b"test_accuracy")
    sentences = experiment_answer.sentences(found, [shown])
    assert sentences == [("Test accuracy", "rises in 3, not resolved in 1 of 4 series.")]


def test_a_table_travels_packed():
    packed = base64.b64decode(content.packed(b"a,b\n1,2\n" * 50))
    assert zlib.decompress(packed, -zlib.MAX_WBITS) == b"a,b\n1,2\n" * 50
    assert content.packed(b"") == ""


def test_a_figure_says_what_was_measured():
    def measured(figure, rows=({"train_examples": "1087"}, {"train_examples": ""}), **measures):
        asked = {"vary": {"batch_size": [16]}, "seeds": 1, "measure": measures}
        experiment = planner.make(small_study.config(experiment=asked)).experiments["a"]
        return figure_view._measured(figure, content.ExperimentResults(experiment, rows))

    few = {"sharpness": {"weights": "best", "examples": 500}, "weight_distance": None}
    text = measured("sharpness", **few)
    assert text == "Measured of: best weights, 500 of 1,087 training examples."
    assert measured("weight_distance", **few) == "Measured of: final weights."
    assert measured("epoch_distance", **few) == measured("loss_curves", **few) == ""
    # Usually 2,000, or as many as there are.
    assert "all 1,087 training examples" in measured("sharpness", sharpness=None)
    assert "2,000 training examples or all" in measured("sharpness", (), sharpness=None)


def stated(verdict, sentence):
    empty = ("unit_shown", "figure", "decides", "missing", "cells", "survivors")
    return {
        **dict.fromkeys(empty, ""),
        "verdict": verdict,
        "word": verdict.capitalize(),
        "sentence": sentence,
        "estimate": wording.Estimate("1.2", "1.1", "1.3"),
        **{"effect": "ratio", "coverage": "90 %"},
    }


def test_what_few_others_state_answers_first():
    """Three are about frameworks; the question's own word stands in one."""
    rows = [
        stated("supported", "TensorFlow and MXNet are busier."),
        stated("supported", "PyTorch and MXNet idle."),
        stated("contradicted", "Memory rises in TensorFlow."),
    ]
    question = "Does memory rise, in TensorFlow, PyTorch and MXNet?"
    assert experiment_answer.decided(rows, question) == [rows[2]]
    assert experiment_answer.decided(rows, "PyTorch or MXNet?") == [rows[1]]


def test_an_answer_begins_with_what_documents_state_and_the_runs_decide():
    rows = [
        stated("not_resolved", "Open."),
        stated("supported", "Small is better."),
        stated("contradicted", "Large is faster."),
        stated("supported", "A small one once more."),
        stated("supported", "With every batch it takes this size."),
    ]
    decided = experiment_answer.decided(rows, "Is small better, or large?")
    assert decided == rows[1:3]
    assert experiment_answer.decided(rows, "Which batch size is it?") == []  # none is asked for
    assert experiment_answer.decided(rows, "Is small better?") == rows[1:2]  # nothing new after it
    small = ("Supported", "Small is better (ratio 1.2 [1.1, 1.3], 90 % interval).")
    large = ("Contradicted", "Large is faster (ratio 1.2 [1.1, 1.3], 90 % interval).")
    assert experiment_answer.sentences([], [], ["A."], [], decided) == [small, large, ("", "A.")]
    spoken, more = ["A.", "B.", "C."], ["X.", "Y.", "Z."]
    sentences = experiment_answer.sentences([], [], spoken, [], decided)
    assert sentences == [small, large, ("", "A.")]  # no more than three
    sentences = experiment_answer.sentences([], [], spoken, more, decided)
    assert sentences == [small, *(("", text) for text in more)]
