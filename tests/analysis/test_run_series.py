"""The series of a table, words for their factors, and how far batch sizes are apart."""

import pandas

from batchscope.analysis import run_series


def test_words_of_factors_have_their_values_and_units():
    words = run_series.describe({"delay_seconds": 0.05, "alpha": -0.25, "threads": 2.0})
    assert all(value in words for value in ("50 ms", "\N{MINUS SIGN}0.25", "2 threads"))


def test_series_are_in_the_order_of_numbers_and_of_the_appearance_of_words():
    cells = [("sgd", 0.3), ("adam", 0.1), ("adam", 0.04), ("sgd", 0.1), ("sgd", 0.3)]
    frame = pandas.DataFrame(cells, columns=["optimizer", "learning_rate"])
    found = run_series.split_series(frame.assign(batch_size=[8, 8, 8, 8, 16]))
    values = [tuple(series.factors.values()) for series in found]
    assert values == [(0.1, "sgd"), (0.3, "sgd"), (0.04, "adam"), (0.1, "adam")]
    assert found[1].frame.index.tolist() == [0, 4]


def test_the_base_batch_size_is_named_where_a_rule_reads_it():
    columns = ["batch_size", "learning_rate_scaling", "base_batch_size"]
    frame = pandas.DataFrame([(16, "none", 32), (16, "sqrt", 64)], columns=columns)
    found = run_series.split_series(frame)
    labels = [group.label for group in found]
    assert labels == ["no scaling", "square-root scaling, base batch size 64"]
    for group in found:
        assert run_series.rows_with_factors(frame, group.factors).equals(group.frame)


def test_a_factor_that_follows_from_the_batch_size_splits_nothing():
    frame = pandas.DataFrame({"batch_size": [16, 32, 16, 32], "learning_rate": [0.1, 0.2] * 2})
    frame["optimizer"] = ["adam", "adam", None, None]
    assert run_series.series_factors(frame) == ["optimizer"]
    _, unknown = run_series.split_series(frame)
    assert len(run_series.rows_with_factors(frame, unknown.factors)) == 2
    assert run_series.coupled_factors(frame) == {"learning_rate": [0.1, 0.2]}


def test_parts_add_up_to_the_whole_of_seeds_that_have_both_ends():
    frame = pandas.DataFrame({"batch_size": [16, 16, 64, 64, 64], "seed": [0, 1, 0, 1, 2]})
    frame["status"] = ["finished", "diverged", *["finished"] * 3]
    frame = frame.assign(updates=[64.0, 64, 16, 16, 16], norm=[1.0, 1, 8, 8, 8])
    found = run_series.log_ratios_to_smallest(frame, ["updates", "norm"], "whole")
    assert found[["batch_size", "seed"]].to_numpy().tolist() == [[16, 0], [64, 0]]
    assert found[["updates", "norm", "whole"]].to_numpy().tolist() == [[0, 0, 0], [-2, 3, 1]]


def test_runs_that_nothing_stopped_are_told_from_those_whose_epochs_were_chosen():
    runs = pandas.DataFrame({"epochs_run": [30, 100, 100, 100], "patience": [10, 10, 10, 0]})
    runs = runs.assign(epochs=100, target_train_loss=0.0, status="finished")
    runs.loc[2, "status"] = "diverged"
    assert run_series.reached_all_epochs(runs).tolist() == [False, True, False, False]
    at_loss = runs.assign(target_train_loss=0.3)
    assert run_series.reached_all_epochs(at_loss).tolist() == [False, True, False, True]
