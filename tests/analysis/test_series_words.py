"""Words for the factors of series in labels, and the series of a table."""

import pandas
import pytest

from batchscope.analysis import run_series
from batchscope.catalogue import factor_words
from batchscope.catalogue.optimizer_constants import DEFAULT


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({"beta_2": 0.95, "weight_decay": DEFAULT}, "beta 2 0.95, default weight decay"),
        ({"micro_batch_size": 0}, "whole batches"),
        ({"micro_batch_size": 16, "beta_scaling": "none"}, "pieces of 16, no beta scaling"),
        ({"threads": 2.0, "replicas": "none"}, "2 threads, none replicas"),
        ({"delay_seconds": 0.05, "alpha": -0.25}, "delay of 50 ms, alpha \N{MINUS SIGN}0.25"),
        ({"delay_seconds": 0.0, "warmup_epochs": 0}, "no delay, no warmup"),
        ({"optimizer": "rmsprop", "device": "gpu"}, "RMSprop, GPU"),
        ({"precision": "mixed_float16"}, "precision mixed float16"),
    ],
)
def test_of_a_series(factors, words):
    assert factor_words.describe(factors) == words


def test_the_base_batch_size_is_named_where_a_rule_reads_it():
    columns = ["batch_size", "learning_rate_scaling", "base_batch_size"]
    frame = pandas.DataFrame([(16, "none", 32), (16, "sqrt", 64)], columns=columns)
    found = run_series.series(frame)
    labels = [group.label for group in found]
    assert labels == ["no scaling", "square-root scaling, base batch size 64"]
    for group in found:
        assert run_series.of(frame, group.factors).equals(group.frame)


def test_a_factor_that_follows_from_the_batch_size_splits_nothing():
    frame = pandas.DataFrame({"batch_size": [16, 32, 16, 32], "learning_rate": [0.1, 0.2] * 2})
    frame["optimizer"] = ["adam", "adam", None, None]
    assert run_series.series_factors(frame) == ["optimizer"]
    _, unknown = run_series.series(frame)
    assert len(run_series.of(frame, unknown.factors)) == 2
    assert run_series.coupled_factors(frame) == {"learning_rate": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("factor", "value", "words"),
    [
        ("framework", "mxnet", "MXNet"),
        ("beta_scaling", "half_life", "half-life"),
        ("model", "small_cnn", "small_cnn"),
        ("micro_batch_size", "0", "none (whole batches)"),
        ("threads", "0", "all"),
    ],
)
def test_of_a_value(factor, value, words):
    assert factor_words.value_words(factor, value) == words


def test_summaries_of_sweeps_have_series_without_a_batch_size():
    frame = pandas.DataFrame({"loop": ["graph", "eager"], "threads": [1, 1]})
    assert [one.label for one in run_series.series(frame)] == ["loop in the graph", "eager"]


def test_a_summary_without_batch_sizes_has_nothing_that_changes_along_them():
    assert run_series.coupled_factors(pandas.DataFrame({"status": ["finished"]})) == {}
