"""Words for the factors of optimizers, pieces and schedules in labels of series."""

import pandas
import pytest

from batchscope.analysis import run_series
from batchscope.catalogue.optimizer_constants import DEFAULT


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({"beta_2": DEFAULT}, "default beta 2"),
        ({"beta_2": 0.95, "weight_decay": DEFAULT}, "beta 2 0.95, default weight decay"),
        ({"micro_batch_size": 0}, "whole batches"),
        ({"micro_batch_size": 16}, "pieces of 16"),
        ({"beta_scaling": "half_life"}, "beta scaling half-life"),
        ({"beta_scaling": "none"}, "no beta scaling"),
        ({"threads": 2.0, "replicas": "none"}, "2 threads, none replicas"),
        ({"threads": "none", "inner_steps": "none"}, "none threads, none inner steps"),
        ({"delay_seconds": 0.05}, "delay of 50 ms"),
        ({"delay_seconds": "none"}, "no delay seconds"),
        ({"alpha": -0.25}, "alpha \N{MINUS SIGN}0.25"),
        (
            {"schedule": "cosine", "precision": "mixed_float16"},
            "schedule cosine, precision mixed float16",
        ),
    ],
)
def test_of_a_series(factors, words):
    assert run_series.describe(factors) == words


def test_the_base_batch_size_is_named_where_a_rule_reads_it():
    columns = ["batch_size", "learning_rate_scaling", "base_batch_size"]
    frame = pandas.DataFrame([(16, "none", 32), (16, "sqrt", 64)], columns=columns)
    labels = [group.label for group in run_series.series(frame)]
    assert labels == ["no scaling", "square-root scaling, base batch size 64"]


@pytest.mark.parametrize(
    ("factor", "value", "words"),
    [
        ("optimizer", "adam", "Adam"),
        ("device", "cpu", "CPU"),
        ("framework", "mxnet", "MXNet"),
        ("beta_scaling", "half_life", "half-life"),
        ("model", "small_cnn", "small_cnn"),
        ("micro_batch_size", "0", "none (whole batches)"),
        ("micro_batch_size", 16, "16"),
        ("threads", "0", "all"),
        ("seed", "0", "0"),
    ],
)
def test_of_a_value(factor, value, words):
    assert run_series.value_words(factor, value) == words


def test_summaries_of_sweeps_have_series_without_a_batch_size():
    frame = pandas.DataFrame({"loop": ["graph", "eager"], "threads": [1, 1]})
    assert [one.label for one in run_series.series(frame)] == ["loop in the graph", "eager"]
