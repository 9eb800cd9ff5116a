"""Columns of tasks with their ranges, and the figures of another task than classification."""

from math import inf, isnan, nan

import pytest

from batchscope.study import checks, figures, tasks
from batchscope.study.experiments import TrainingExperiment
from batchscope.study.specifications import Scale
from batchscope.study.table_entries import clipped_to_range, value_range

CLASSES, NUMBERS, LABELS = ("classification",), ("regression",), ("multi_label",)


@pytest.mark.parametrize(
    ("column", "name", "higher", "lower", "words"),
    [
        ("validation_r2", "r2", True, False, "validation R²"),
        ("train_mae", "mae", False, True, "train mean absolute error"),
        ("accuracy", "accuracy", False, False, "accuracy"),
        ("generalisation_gap_f1", "f1", False, False, "generalisation gap micro-F1"),
        ("test_loss", None, False, True, "test loss"),
        ("own_f1", None, False, False, "own f1"),  # a user-defined column
    ],
)
def test_a_column_of_a_metric(column, name, higher, lower, words):
    found = tasks.metric(column, ())
    assert (found and found.name) == name
    assert tasks.higher_is_better(column, ()) == higher
    assert tasks.lower_is_better(column, ()) == lower
    assert tasks.column_words(column) == words


def test_columns_say_what_is_learned():
    names = ["run", "train_loss", "test_accuracy", "test_r2", "test_mse", "test_f1", "own_mae"]
    assert tasks.from_columns(names[:2]) == CLASSES
    assert tasks.from_columns(names) == (*CLASSES, *NUMBERS, *LABELS)
    expected = ["run", "train_loss", "test_r2", "test_mse", "own_mae"]
    assert tasks.columns_of_tasks(names, NUMBERS) == expected
    units = [tasks.unit_for_tasks(unit, NUMBERS) for unit in ("nats^2", "s")]
    assert units == ["", "s"] and tasks.unit_for_tasks("nats^2", LABELS) == "nats^2"


def test_figures_have_the_panels_labels_and_words_of_a_task():
    loss, *_ = figures.for_tasks("loss_curves", NUMBERS).panels
    assert loss.label == "loss" and figures.FIGURES["loss_curves"].panels[0].label == "loss (nats)"
    quality = figures.for_tasks("accuracy", NUMBERS)
    assert [panel.column for panel in quality.panels[:4]] == [
        *("train_r2", "validation_r2", "test_r2", "train_mse")
    ]
    assert {panel.scale for panel in quality.panels} == {Scale.LINEAR, Scale.AUTO}
    assert not any(panel.counted_on for panel in quality.panels)
    labels = figures.for_tasks("accuracy", LABELS)
    assert {(each.label, each.scale) for each in labels.panels} == {("micro-F1 (%)", Scale.PERCENT)}
    both = figures.for_tasks("generalisation_gap", (*CLASSES, *NUMBERS))
    assert [each.label for each in both.panels[2:]] == [
        *("training − test accuracy (points)", "training − test R²")
    ]
    assert figures.for_tasks("line", NUMBERS).shows("r2") and not quality.shows("test_loss")


@pytest.mark.parametrize(
    ("column", "value", "allowed"),
    [
        *(("validation_f1", 1, True), ("validation_f1", 0, False), ("validation_f1", 1.1, False)),
        *(("validation_r2", -2, True), ("test_mse", 4000, True)),
    ],
)
def test_which_value_a_target_may_have(column, value, allowed):
    keys = {"seeds": 6, "budgets": {"target": {column: value}}}
    problems = list(checks.invalid_target((), TrainingExperiment.model_validate(keys)))
    assert allowed == (not problems)


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        *(("test_accuracy", (0, 1)), ("sharpness_subspace_0.0005", (0, inf))),
        *(("process_percent_q3", (0, 100)), ("own_something", (-inf, inf))),
    ],
)
def test_ends_of_a_column(column, ends):
    assert value_range(column) == ends


def test_values_are_clipped_to_the_range_of_their_column():
    assert clipped_to_range("test_accuracy", (-0.8, 1.87)) == [0, 1]
    low, high = clipped_to_range("fixed_seconds", (-0.5, nan))
    assert low == 0 and isnan(high)
