"""Captions say nothing of what a figure does not show."""

from __future__ import annotations

import dataclasses

from batchscope import figures
from batchscope.analysis import best_learning_rates
from batchscope.catalogue.figures import FIGURES
from batchscope.report import content, reading


def _read(name: str, *texts: str) -> str:
    return reading.caption(content.Figure("", FIGURES[name].caption, texts=texts))


def test_a_ceiling_is_explained_where_there_is_one():
    assert "is the ceiling" in _read("throughput", "Throughput", "ceiling, above the panel")
    without = _read("throughput", "Throughput", "90 % of the plateau")
    assert "is the ceiling" not in without and "dashed line is 90 %" in without
    assert without.startswith("Left: training steps per second")


def test_times_are_explained_where_there_are_some():
    assert "Times are examples over" in _read("progress", "By training time", "time (s)")
    assert "Times are examples over" not in _read("progress", "By updates", "No run was timed.")


def test_marks_of_what_failed_are_explained_where_something_did():
    assert "A cross marks where a run diverged." in _read("loss_curves", "2 div.")
    assert "cross" not in _read("loss_curves", "Training loss")


def test_single_runs_are_explained_where_they_are_drawn():
    name = "loss_curves_by_updates"
    assert "Thin lines are single runs." in _read(name, "Thick: mean. Thin: every run.")
    assert "single runs" not in _read(name, "Thick: mean.")


def test_colours_of_the_matrix_are_those_that_it_has():
    text = _read("verdict_matrix", "another is better by more than the margin", "best")
    assert "Orange, hatched" in text and "hollow circle" not in text
    assert "edge of those tried" not in text
    assert "edge of those tried" in _read("verdict_matrix", "best\N{DAGGER}")


def test_logarithmic_axes_are_explained_where_there_are_some():
    about_intervals = "On a logarithmic axis an interval is that of the mean's logarithm."
    assert "ogarithm" not in _read("best_losses", "loss (nats)")
    text = _read("best_losses", "loss (nats)", "logarithmic axis: loss")
    assert text.endswith(f"{about_intervals} Logarithmic scale: loss.")
    # Of progress the axis of updates always is; intervals are drawn along the other.
    along = ("validation loss (nats)", "logarithmic axis: updates", "logarithmic axis: examples")
    text = _read("progress", *along)
    assert about_intervals not in text and text.endswith("Logarithmic scale: updates and examples.")
    assert "the floor at the left" not in _read("step_time", "time per step (ms)")
    assert "the floor at the left" in _read("step_time", "logarithmic axis: time per step")


def test_one_panel_alone_is_at_no_side():
    assert _read("time", "Total training time").startswith("Left: time per epoch")
    alone = _read("time", "Time per epoch")
    assert alone.startswith("Time per epoch in a timing job") and "Right:" not in alone


def test_a_caption_stays_whole_where_nothing_is_known():
    assert _read("throughput") == FIGURES["throughput"].caption


def test_every_rule_is_about_a_sentence_of_a_caption():
    sentences = [
        sentence
        for figure in figures.FIGURES.values()
        for sentence in reading._SENTENCES.split(figure.entry.caption)
    ]
    for about, _ in reading._ONLY_WITH:
        for part in about.split("|"):
            assert any(reading.re.search(part, sentence) for sentence in sentences), part


def test_the_choice_of_rates_is_explained_where_a_finding_has_it():
    found = f"Mean loss, {best_learning_rates.AT_BEST}, was 1."
    figure = content.Figure("Losses", "Means.", found=found)
    assert reading.caption(figure).startswith("Means. Where the finding gives each batch size")
    assert reading.caption(dataclasses.replace(figure, found="Mean loss was 1.")) == "Means."
