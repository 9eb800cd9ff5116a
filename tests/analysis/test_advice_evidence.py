"""The evidence of an advice, from tables of trainings whose numbers are known."""

import functools
import math

import numpy as np
import pandas
import pytest

import made_trainings
from batchscope.analysis import (
    advice,
    advice_evidence,
    advice_tables,
    advice_words,
    largest_within_margin,
    to_target_tables,
    verdict_matrix,
)
from batchscope.analysis.advice_evidence import EvidenceTables
from batchscope.analysis.updates_to_target import Target
from batchscope.study.plan import Trainings

FACTORS = {"model": "small_cnn", "dataset": "digits", "optimizer": "sgd", "device": "cpu"}
NONE = pandas.DataFrame()
SIZES = [8, 16, 32, 64, 128]


def advised(trajectories, runs, limits=NONE, matrix=NONE, price=lambda _: (1.0, 1.0), **stated):
    """The advice of the only series."""
    tables = EvidenceTables(runs, trajectories, limits, matrix)
    (found,) = advice_evidence.series_advice(tables, Trainings(**stated), price)
    return found


def advice_of(rates=(0.1, 0.2, 0.8), seeds=range(6), limits=NONE, matrix=NONE, **given):
    """The advice of one series; every training is worth the same in the end."""
    stated = {name: given.pop(name, {}) for name in ("budgets", "margins")}
    # A batch size of which seed 0 diverges at every rate, and seeds 1 to 3 at all but the highest.
    failing = given.pop("failing", None)
    trajectories, runs = made_trainings.tables(rates=rates, seeds=seeds, **FACTORS, **given)
    for name, value in (("test_accuracy", 0.95), ("test_loss", 0.2), ("validation_accuracy", 0.9)):
        noise = 1e-4 * np.cos(trajectories["seed"] * 7.0 + trajectories["batch_size"])
        trajectories[name] = value + noise
    trajectories["epoch"] = trajectories["examples"] / 1000
    for frame in (runs, trajectories):
        inner = (frame["learning_rate"] < max(rates)) & (frame["seed"] < 4)
        failed = (frame["batch_size"] == failing) & (inner | (frame["seed"] == 0))
        frame["status"] = np.where(failed, "diverged", frame["status"])
    given = (limits, matrix, lambda runs: (float(len(runs)), 7.0))
    return advised(trajectories, runs, *given, **stated).advice


few = functools.partial(advice_of, seeds=range(2))  # where no number of seeds matters


@functools.cache
def usual():
    return advice_of()


def test_times_are_those_at_the_chosen_rate():
    result = usual()
    evidence = result.evidence
    assert list(evidence.batch_sizes) == SIZES and list(evidence.seeds) == list(range(6))
    # .1 takes twice as long and .8 diverges once: .2 it is, and inside of its grid.
    assert evidence.rates.tuned == 3 and not evidence.rates.edges
    critical = evidence.to_target.critical.critical_batch_size
    assert critical == pytest.approx(made_trainings.CRITICAL, rel=0.05)
    step = made_trainings.FIXED + made_trainings.PER_IMAGE * np.array(SIZES)
    updates = 1 + made_trainings.CRITICAL / np.array(SIZES)
    means = np.exp(np.log(evidence.to_target.seconds).mean(axis=1))
    assert means / means[0] == pytest.approx(updates * step / (updates * step)[0], rel=0.02)
    assert evidence.to_target.target.startswith("a validation loss of ")
    assert evidence.scope == "small_cnn on digits, SGD at the best of 3 learning rates, this CPU"


def test_the_range_holds_the_fastest_size():
    result = usual()
    means = np.exp(np.log(result.evidence.to_target.seconds).mean(axis=1))
    assert result.smallest is not None
    fast = [size for size, mean in zip(SIZES, means, strict=True) if mean < 1.09 * means.min()]
    assert [size for size in SIZES if result.smallest <= size <= result.largest] == fast


def test_a_rate_on_the_edge_leaves_no_range():
    result = advice_of(rates=(0.1, 0.2))
    assert [each.reason for each in result.missing] == [advice.RATE_ON_EDGE]
    edges = [edge for edge in result.evidence.rates.edges if edge.limit == "seconds"]
    assert {(edge.rate, edge.highest) for edge in edges} == {(0.2, True)}
    # 5 sizes, 2 rates, 6 seeds are 60 runs, which the price counts; one rate is half of them.
    assert result.evidence.rates.seconds == 60 * 6 / 2


@pytest.mark.parametrize("status", ["missing", "no_gpu"])
def test_the_edge_is_that_of_the_rates_that_ran(status):
    """At 64 the rate .4 has not run yet: there .2 is the highest of those tried."""
    trajectories, runs = made_trainings.tables(rates=(0.1, 0.2, 0.4), seeds=range(6), **FACTORS)
    gone = runs.loc[(runs["batch_size"] == 64) & (runs["learning_rate"] == 0.4), "run"]
    runs["status"] = runs["status"].mask(runs["run"].isin(gone), status)
    trajectories = trajectories[~trajectories["run"].isin(gone)]
    trajectories = trajectories.assign(epoch=1.0, test_accuracy=0.9)
    rates = advised(trajectories, runs).advice.evidence.rates
    edges = [edge for edge in rates.edges if edge.batch_size == 64]
    assert {(edge.rate, edge.highest) for edge in edges} == {(0.2, True)}


def test_one_rate_is_no_choice():
    result = advice_of(rates=(0.2,))
    assert result.evidence.rates.tuned == 0 and not result.evidence.rates.edges
    assert "SGD at learning rate 0.2, this CPU" in result.evidence.scope
    assert result.smallest is not None


def test_a_size_that_failed_at_every_rate_is_excluded_and_asks_for_no_further_rate():
    result = advice_of(failing=128)
    assert not result.evidence.rates.edges
    assert 128 not in result.candidates and result.largest == usual().largest


def test_times_known_as_upper_bounds_give_no_range():
    """Evaluated at ends of epochs of 1,000 examples, three sizes are there by the first of them."""
    given = {"budgets": {"target": {"validation_loss": 0.5}}, "rates": (0.2,)}
    often = advice_of(**given)
    assert often.smallest == 16 and not often.evidence.to_target.bounded
    found = advice_of(every=1000, **given)
    assert found.evidence.to_target.bounded == (8, 16, 32)
    assert found.smallest is None
    assert [each.verdict for each in found.judged["seconds"]][:3] == ["not_resolved"] * 3
    assert not [each for each in found.questions if each.limit == "seconds"]
    limits = advice_words.card(found).limits
    assert (
        "At 8, 16 and 32 a training is at a validation loss of 0.5 by its first evaluation"
        in limits
    )


def test_few_seeds_and_no_seconds():
    assert [each.reason for each in advice_of(seeds=range(3)).missing] == [advice.TOO_FEW]
    assert [each.reason for each in advice_of(timed=False).missing] == [advice.NO_SECONDS]


def test_margin_and_target_are_the_stated_ones():
    (default,) = usual().evidence.outcomes
    assert (default.name, default.margin, default.stated) == ("test_accuracy", 0.01, False)
    margins = {"test_loss": 0.02, "test_accuracy": 0.03, "train_loss": 1}
    found = few(margins=margins, budgets={"target": {"validation_loss": 0.5}}).evidence
    assert found.to_target.target == "a validation loss of 0.5"
    assert [(each.name, each.margin, each.stated) for each in found.outcomes] == [
        ("test_loss", 0.02, True),
        ("test_accuracy", 0.03, True),
    ]


def test_memory_and_knee_come_from_the_limits_of_the_same_model():
    row = {
        **{"machine": "local", "dataset": "digits", "model": "small_cnn", "device": "cpu"},
        **{"max_batch_size": 64, "max_batch_size_bound": "resolved", "noise_floor": 1.01},
        **{"knee_fitted": 90.0, "knee_batch_size": 128},
    }
    other = {**row, "model": "wide", "max_batch_size": 16, "knee_fitted": 20.0}
    most = {**row, "max_batch_size_bound": "most_fits", "knee_fitted": math.nan}
    half_precision = {**row, "max_batch_size": 128, "knee_fitted": 200.0, "precision": "float16"}
    for limits, factors, expected in (
        ([other, row], {}, (64, False, 90.0)),
        ([most], {}, (64, True, 128.0)),
        (
            [half_precision, {**row, "precision": "float32"}],
            {"precision": "float32"},
            (64, False, 90),
        ),
    ):
        evidence = few(limits=pandas.DataFrame(limits), **factors).evidence
        assert evidence.limits == expected
    line = usual().evidence.limits
    assert line.memory is None
    half = made_trainings.FIXED / made_trainings.PER_IMAGE
    assert line.knee == pytest.approx(9 * half, rel=1e-6)


def test_trends_are_those_of_the_matrix():
    rows = [
        ("epochs", "test_accuracy", "smaller"),
        ("updates", "test_accuracy", "larger"),
        ("updates", "test_loss", "none"),
    ]
    matrix = pandas.DataFrame(rows, columns=["budget", "outcome", "trend"])
    assert few(matrix=matrix).evidence.trends == {"epochs": "smaller", "updates": "larger"}


def slow_seed():
    trajectories, runs = made_trainings.slow_seed(**FACTORS)
    # Replicates that are not alike in all differences, and no better end than another.
    trajectories["seconds"] *= 1 + 0.01 * np.cos(trajectories["seed"] * trajectories["batch_size"])
    given = {"test_accuracy": 0.95, "epoch": trajectories["examples"] / 1000}
    return trajectories.assign(**given), runs


@pytest.mark.slow
def test_card_matrix_and_margins_report_the_same_ratio_of_the_same_pair():
    trajectories, runs = slow_seed()
    to, pair = made_trainings.TARGET, [16, 32]
    stated = {"target": {"validation_loss": to}}
    cells = verdict_matrix.table(runs, trajectories, stated, {})
    cells = cells[cells["outcome"] == "seconds"].set_index("batch_size")
    sizes = advice_tables.sizes([advised(trajectories, runs, budgets=stated)])
    card = sizes[sizes["limit"] == "seconds"].set_index("batch_size")
    scalings = to_target_tables.of_study(trajectories, runs, [Target("validation_loss", to)])
    read = to_target_tables.trainings(scalings)
    read = read.assign(log=np.log(read["seconds"]), status="finished")
    margins, independent = (
        largest_within_margin.find(read, "log", math.log(1.1), differing).sizes[1]
        for differing in ([16], [])
    )
    assert cells["difference"][32] == 0 and card["against"][16] == margins.deciding == 32
    assert card["difference"][16] == pytest.approx(cells["difference"][16])
    assert math.expm1(margins.difference.mean) == pytest.approx(cells["difference"][16])
    # Seeds are read at different rates there, which all three intervals know of.
    assert card["difference_low"][16] == pytest.approx(cells["difference_low"][16])
    assert math.expm1(margins.difference.low) == pytest.approx(cells["difference_low"][16])
    assert margins.difference.low < independent.difference.low
    # The rate that updates choose gives another ratio.
    assert cells["learning_rate"][pair].tolist() == [0.4, 0.2]
    assert read["chosen_learning_rate"][read["batch_size"] == 16].unique().tolist() == [0.2]
    at = trajectories[trajectories["learning_rate"] == 0.2]
    times = [
        [Target("validation_loss", to).crossing(run, "seconds") for _, run in rows.groupby("seed")]
        for _, rows in at[at["batch_size"].isin(pair)].groupby("batch_size")
    ]
    by_updates = math.expm1(np.diff(np.log(times[::-1]), axis=0).mean())
    assert by_updates != pytest.approx(cells["difference"][16], rel=0.02)


def test_seconds_have_rates_of_their_own():
    trajectories, runs = slow_seed()
    target = Target("validation_loss", made_trainings.TARGET)
    (found,) = to_target_tables.of_study(trajectories, runs, [target])
    assert found.rates["seconds"].chosen.tolist() == [0.2, 0.4, 0.2, 0.2, 0.2]
    assert found.rates["updates"].chosen.tolist() == [0.2] * 5
    # Without seed 0 all others choose .2, which it alone is read at.
    assert found.differ("seconds").tolist() == [False, True, False, False, False]
    assert not found.differ("updates").any()


def test_without_validation_losses_there_is_no_outcome():
    """Neither the evaluation to read nor the rate to read it at is known."""
    trajectories, runs = made_trainings.tables(rates=(0.1, 0.2, 0.8), seeds=range(6), **FACTORS)
    trajectories = trajectories.rename(columns={"validation_loss": "train_loss"})
    known = {"test_accuracy": 1 - trajectories["train_loss"] / 3}
    trajectories = trajectories.assign(validation_loss=math.nan, epoch=math.nan, **known)
    found = advised(trajectories, runs, budgets={"target": {"train_loss": 0.5}})
    assert found.advice.evidence.outcomes == ()
    assert [each.reason for each in found.advice.missing] == [advice.NO_OUTCOME]


def test_without_seconds_a_rate_on_the_edge_is_the_best_for_the_updates():
    result = advice_of(rates=(0.1, 0.2), timed=False)
    limits = {edge.limit for edge in result.evidence.rates.edges}
    assert advice.UPDATES in limits and advice.SECONDS not in limits
    assert "is the best for the updates to the target at" in advice_words.card(result).headline


def test_rates_that_a_file_does_not_tell_are_not_said_to_be_untuned():
    assert usual().evidence.rates.known
    assert not few(rates=(math.nan,)).evidence.rates.known
