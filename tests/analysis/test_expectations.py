"""What a training gives at one batch size and rate: known answers from hand-made evaluations."""

import dataclasses
import itertools
import math

import pandas
import pytest

from batchscope.analysis import expectations
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables, from_tables
from made_advice import FACTORS, rows

SEEDS = (0, 1, 2)
# Epoch of the lowest validation loss, by seed, and the accuracy there.
LOWEST, ACCURACY = (2, 3, 4), (0.90, 0.92, 0.94)
CONVERGED = {"batch_size": 16, "learning_rate": 0.1, "key": "convergence"}


def trained(rates=(0.1, 0.3), lost=0.0, seeds=SEEDS):
    """Returns runs of three batch sizes, and their evaluations after five epochs of 2 s each.

    The accuracy is lower by `lost` at the second rate, and 0.5 at the end of every training.
    """
    made, evaluated = [], []
    for size, (at, rate), seed in itertools.product((16, 32, 64), enumerate(rates), seeds):
        run = {**FACTORS, "run": f"{size} {rate} {seed}", "batch_size": size}
        run |= {"learning_rate": rate, "seed": seed, "status": "finished"}
        made.append({**run, "epochs": 5, "train_seconds": 10.0, "test_accuracy": 0.5})
        for epoch in range(1, 6):
            best = epoch == LOWEST[seed]
            more = {"updates": 10 * epoch, "epoch": epoch, "seconds": 2.0 * epoch}
            more |= {"validation_loss": 0.1 if best else 1 + epoch / 10}
            more["test_accuracy"] = ACCURACY[seed] - lost * at if best else 0.5
            evaluated.append({**run, **more})
    return pandas.DataFrame(made), pandas.DataFrame(evaluated)


def series(made, evaluated=None, frame=None, **asked):
    """Returns the one series of some runs, compared by the accuracy at convergence alone."""
    if frame is None:
        frame = pandas.DataFrame(rows("test_accuracy", "www", [0.92] * 3, len(SEEDS)))
        frame["learning_rate"] = 0.1
    evaluated = pandas.DataFrame() if evaluated is None else evaluated
    tables = AdviceTables(frame, made, trajectories=evaluated)
    (found,) = from_tables(tables, AdviceRequest({"test_accuracy": 0.02}, **asked))
    return found


def expected(found, size=16):
    """Returns the expectations of a batch size by name."""
    return {
        row["name"]: row
        for row in expectations.expectation_rows(found)
        if row["batch_size"] == size
    }


def test_every_number_is_of_one_batch_size_rate_and_epoch():
    by_name = expected(series(*trained()))
    assert {*by_name} == {"epochs", "test_accuracy", "seconds", "patience"}
    assert all(row | CONVERGED == row for row in by_name.values())
    epochs = by_name["epochs"]
    assert (epochs["estimate"], epochs["low"], epochs["high"], epochs["n"]) == (3, 2, 4, 3)
    accuracy = by_name["test_accuracy"]
    numbers = [accuracy[name] for name in ("estimate", "low", "high")]
    assert numbers == pytest.approx([0.92, 0.91, 0.93])  # the interval is that of the comparison
    assert by_name["seconds"]["estimate"] == 6
    assert by_name["patience"]["high"] == 3  # the lowest loss comes three epochs after the first


def test_below_three_seeds_the_ends_are_those_of_the_values():
    accuracy = expected(series(*trained(seeds=(0, 1))))["test_accuracy"]
    numbers = [accuracy[name] for name in ("estimate", "low", "high", "n")]
    assert numbers == pytest.approx([0.91, 0.90, 0.92, 2])


@pytest.mark.parametrize(("compared", "mean"), [(0.97, 0.97), (math.nan, 0.92)])
def test_the_mean_is_that_of_the_comparison_whose_interval_it_has(compared, mean):
    """Seeds may be compared at the rates that the others choose, or not at all."""
    frame = rows("test_accuracy", "www", [compared, 0.92, 0.92], 3, learning_rate=0.1)
    accuracy = expected(series(*trained(), pandas.DataFrame(frame)))["test_accuracy"]
    assert accuracy["estimate"] == pytest.approx(mean)
    assert accuracy["low"] == pytest.approx(compared - 0.01, nan_ok=True)


def test_an_interval_of_times_is_that_of_their_seeds():
    made, evaluated = trained()
    evaluated["seconds"] = evaluated["epoch"] * (2.0 + evaluated["seed"] / 10)  # 4, 6.3 and 8.8
    seconds = expected(series(made, evaluated))["seconds"]
    half = 4.302652729696 * 2.4006943 / math.sqrt(3)  # Student's t with two degrees of freedom
    mean, factor = 19.1 / 3, math.exp(half / (19.1 / 3))  # of the logarithm: no time is negative
    numbers = [seconds[name] for name in ("estimate", "low", "high")]
    assert numbers == pytest.approx([mean, mean / factor, mean * factor])


@pytest.mark.parametrize("best_weights", [False, True])
def test_an_outcome_without_evaluations_is_read_at_the_end(best_weights):
    """Unless the weights of the lowest validation loss were measured."""
    made, evaluated = trained()
    evaluated = evaluated.drop(columns="test_accuracy")
    frame = pandas.DataFrame(rows("test_accuracy", "www", [0.5] * 3, len(SEEDS), learning_rate=0.1))
    by_name = expected(series(made, evaluated, frame, best_weights=best_weights))
    assert by_name["test_accuracy"]["estimate"] == 0.5
    place = ("convergence", 3, 6) if best_weights else ("end", 5, 10)
    assert tuple(by_name["epochs"][name] for name in ("key", "estimate")) == place[:2]
    assert by_name["seconds"]["estimate"] == place[2]


@pytest.mark.parametrize(
    ("losses", "epochs", "patience"),
    [
        ([5, 4, 4.5, 4.6, 3, 3.5], [1, 2, 3, 4, 5, 6], 3),
        ([5, 4, 3, 2], [1, 2, 3, 4], 1),
        ([5, 4, 4.5, 4.6, 4.7, 3], [0.25, 0.5, 0.75, 1, 1.25, 1.75], 2),
        ([1, 2, 3], [1, 2, 3], 1),
    ],
)
def test_patience_is_the_longest_time_between_improvements(losses, epochs, patience):
    assert expectations.needed_patience(losses, epochs) == patience


def verdicts(found):
    return {row["learning_rate"]: row.get("verdict") for row in expectations.rate_rows(found)}


@pytest.mark.parametrize(
    ("lost", "verdict"), [(0.0, "within"), (0.019, "within"), (0.05, "beyond")]
)
def test_a_rate_does_as_well_where_it_is_within_the_margin(lost, verdict):
    assert verdicts(series(*trained(lost=lost))) == {0.1: "within", 0.3: verdict}


@pytest.mark.parametrize(("missed", "ends"), [(2, (2, 2, math.inf)), (3, (math.inf,) * 3)])
def test_the_cost_of_a_rate_is_infinite_if_most_seeds_never_reach_the_target(missed, ends):
    costs, chosen = pandas.Series([2.0] * (5 - missed) + [math.inf] * missed), [1.0] * 5
    row = expectations._difference_row("seconds", costs, pandas.Series(chosen), 1.1)
    assert tuple(row[name] for name in ("estimate", "low", "high")) == ends


def test_a_rate_that_left_the_race_is_worse():
    """It was shown to be worse with more seeds, or by its time to the target."""
    found = series(*trained((0.1, 0.3, 1.0)))
    race = [(16, 0.3, "left"), (16, 1.0, "in_race"), (32, 1.0, "left")]
    race = pandas.DataFrame(race, columns=["batch_size", "learning_rate", "status"])
    found = dataclasses.replace(found, tables=found.tables._replace(race=race))
    assert verdicts(found) == {0.1: "within", 0.3: "beyond", 1.0: "within"}
    (row,) = (row for row in expectations.rate_rows(found) if row["learning_rate"] == 0.3)
    assert not {"estimate", "low", "high"} & {*row}  # not the interval of another statement


def test_a_rate_whose_runs_fail_is_not_testable():
    made, evaluated = trained((0.1, 0.3, 1.0))
    made.loc[made["run"] == "16 1.0 2", "status"] = "diverged"
    found = {row["learning_rate"]: row for row in expectations.rate_rows(series(made, evaluated))}
    assert (found[1.0]["verdict"], found[1.0]["reason"]) == ("not_testable", "failed")
    assert found[0.3]["verdict"] == "within"


@pytest.mark.parametrize(
    ("target", "seeds", "verdict"),
    [
        (0.1, SEEDS, "within"),
        (0.05, SEEDS, "beyond"),
        (0.05, (0,), "beyond"),  # it left the race, and is compared by its own seeds
    ],
)
def test_a_rate_that_never_reaches_the_target_does_not_do_as_well(target, seeds, verdict):
    """The second rate has a lowest loss of 0.1, the first one of `target`."""
    made, evaluated = trained()
    first = (evaluated["learning_rate"] == 0.1) & (evaluated["validation_loss"] == 0.1)
    evaluated.loc[first, "validation_loss"] = target
    made, evaluated = (
        table[(table["learning_rate"] == 0.1) | table["seed"].isin(seeds)]
        for table in (made, evaluated)
    )
    seconds = rows("seconds", "wbb", [6.0, 9.0, 9.0], 3, budget_value=target)
    frame = pandas.DataFrame(seconds + rows("test_accuracy", "www", [0.92] * 3, 3))
    frame["learning_rate"] = 0.1
    assert verdicts(series(made, evaluated, frame)) == {0.1: "within", 0.3: verdict}
