"""What a question asks for, and the sentences of findings that answer it."""

from __future__ import annotations

import dataclasses

import pytest

import synthetic
from batchscope.catalogue.figures import FIGURES
from batchscope.report import experiment_answer, topics
from batchscope.report.content import Figure

STEP = Figure(
    "Time per step",
    "",
    name="step_time",
    found=(
        "The fixed cost per step was 2 ms. The cost per example was 0.1 ms. "
        "With pieces of 16 a step at batch size 64 takes 3 times as long as with whole batches."
    ),
)
SPEED = Figure(
    "Throughput",
    "",
    name="throughput",
    found=(
        "Batch size 4 takes 7 times as long as 512 for the same examples. "
        "Throughput tends to a plateau of 8810 examples/s."
    ),
)
LARGEST = Figure("Largest", "", name="max_batch_size", found="The largest that fits is 512.")
NOISE = Figure("Noise", "", name="noise_scale", found="The noise scale was 78 [68, 91].")
SHARP = Figure("Sharpness", "", name="sharpness", found="Sharpness was 2 at 8.")


def relevant(question, figures, **more):
    found = experiment_answer.relevant(question, figures, True, **more)
    return [each.found for each in found]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How much longer does an update take in pieces?", ["step_time"]),
        (
            "How large a batch fits, and when does throughput rise?",
            ["max_batch_size", "throughput"],
        ),
        ("Is it sharper, and closer to its start?", ["sharpness", "weight_distance"]),
        ("Up to which size does accuracy stay within 5 points?", ["batch_size_limits"]),
        ("Does accuracy stay high?", ["accuracy"]),
        ("What?", []),
    ],
)
def test_topics_are_asked_for_in_the_order_of_the_question(question, names):
    assert [topic.figures[0] for topic in topics.asked(question)] == names


def test_a_topic_stands_in_the_entry_of_its_figure():
    (own,) = FIGURES["max_batch_size"].topics
    assert topics.asked("How large a batch fits?") == [
        dataclasses.replace(own, figures=("max_batch_size",))
    ]
    assert all(topic.figures and {*topic.figures} <= {*FIGURES} for topic in topics.TOPICS)


def test_the_sentence_that_is_asked_for_answers():
    question = "How large a batch fits, and from which on does throughput level off?"
    assert relevant(question, [SPEED, LARGEST, STEP]) == [
        "The largest that fits is 512.",
        "Throughput tends to a plateau of 8810 examples/s.",
    ]
    assert relevant("How much longer does an update take in pieces?", [SPEED, STEP]) == [
        STEP.found.partition("0.1 ms. ")[2]
    ]


def test_what_is_not_asked_for_is_not_reported():
    assert relevant("Is the minimum sharper?", [NOISE, SHARP]) == ["Sharpness was 2 at 8."]


def test_sentences_about_series_keep_their_series():
    found = "Eager: batch size 4 takes 7 times as long as 8. Throughput tends to a plateau of 3."
    figure = Figure("Throughput", "", name="throughput", found=f"{found} By series: a plateau.")
    assert relevant("From where on does throughput stay?", [figure]) == [
        "Eager: throughput tends to a plateau of 3."
    ]


def test_a_critical_batch_size_is_reported_from_another_experiment():
    other = Figure(
        "C", "", name="critical_batch_size", found="To 2.6 the critical batch size is 11."
    )
    question = "Is the noise scale of the order of the critical batch size?"
    beside = [("Which pays?", other), ("Which pays?", SHARP)]
    assert relevant(question, [NOISE], elsewhere=beside) == [
        NOISE.found,
        "In \u201cWhich pays?\u201d: to 2.6 the critical batch size is 11.",
    ]
    assert relevant("Is it sharper, and how noisy?", [NOISE], elsewhere=beside) == [NOISE.found]


def test_a_factor_in_the_question_asks_for_a_comparison():
    factors = ["learning_rate_scaling", "base_batch_size"]
    assert experiment_answer.compares("Does the scaling rule help?", factors)
    assert not experiment_answer.compares("Which batch size is best?", factors)


def test_a_factor_with_its_interval_is_reported_with_its_verdict():
    rises = synthetic.answer("supported")
    shown = Figure("A", "", found="A factor of 2 (95 % interval 1 to 3).", csv=b"test_accuracy")
    assert experiment_answer.sentences([rises], [shown]) == [("Rises", shown.found)]
    held = dataclasses.replace(rises, held="at equal epochs (10)")
    assert experiment_answer.sentences([held], [shown]) == [
        ("Rises, at equal epochs (10)", shown.found)
    ]
    series = [synthetic.answer("supported", series=name) for name in "ab"]
    (verdict,) = experiment_answer.sentences(series, [shown])
    assert verdict[0] == "As the batch size grows"
    assert experiment_answer.sentences(series, [shown], compared=True) == [("", shown.found)]


def test_a_question_of_stairs_gets_the_times_beside_a_multiple():
    times = "Step times: t(17) / t(16) = 1.08 for 1.06 times the images."
    figure = Figure("Throughput", "", name="throughput", found=f"It rises. {times}")
    question = "Is the 17th image as expensive as 16, so that multiples of 16 are best?"
    assert relevant(question, [figure]) == [times]
