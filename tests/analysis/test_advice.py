"""The advice: ranges of hand-made evidence, each limit binding once, and rates of error."""

from dataclasses import replace

import numpy as np
import pytest

from batchscope.analysis import (
    advice,
    advice_tables,
    advice_words,
    critical_batch_size,
    seeds_wanted,
)
from batchscope.analysis.advice import Edge, TriedRates
from costs import draws
from made_advice import ACCURATE, SIZES, changed, evidence, noise


def found(given):
    result = advice.advise(given)
    return result.smallest, result.largest


def reasons(given):
    return [each.reason for each in advice.advise(given).missing]


def card_of(given):
    return advice_words.card(advice.advise(given))


def with_seconds(place, values, **more):
    """The usual evidence, of whose seconds, shape (sizes, seeds), some are multiplied."""
    given = evidence(**more)
    seconds = np.array(given.to_target.seconds)
    seconds[place] *= values
    return changed(given, seconds=seconds)


def test_nothing_binds_where_all_sizes_are_equal():
    result = advice.advise(evidence())
    assert (result.smallest, result.largest) == (16, 256)
    assert all(reach.above is None and reach.below is None for reach in result.reaches)
    card = advice_words.card(result)
    assert card.headline == "Use 16 to 256 (small_cnn on digits)."
    assert "16 is the smallest size tried: a smaller one may do as well." in card.limits
    assert "256 is the largest size tried: a larger one may do as well." in card.limits


def test_the_time_binds_on_both_sides():
    result = advice.advise(evidence([1.4, 1.0, 1.02, 1.01, 1.5]))
    assert (result.smallest, result.largest) == (32, 128)
    first = result.reaches[0]
    assert first.limit == advice.SECONDS
    assert (first.below.batch_size, first.above.batch_size) == (16, 256)
    assert first.below.verdict == first.above.verdict == "beyond"
    limits = advice_words.card(result).limits
    assert "Below 32 a validation loss of 0.2 takes more than 10 % longer (16: 39 %" in limits
    assert "Above 128 a validation loss of 0.2 takes more than 10 % longer (256: 50 %" in limits
    assert "At each training's lowest validation loss, test accuracy stays within 1 point" in limits
    assert "1 point up to 256, the largest size tried." in limits


@pytest.mark.parametrize(
    ("critical", "given", "known", "above"),
    [
        (95, {}, "critical batch size 95", True),
        (500, {}, "Critical batch size 500", False),  # 128 still saves updates
        (95, {"critical_batch_size": np.nan}, "Critical batch size beyond these sizes", False),
        (95, {"low": np.nan}, "Critical batch size 95, at most", False),
    ],
)
def test_the_critical_batch_size_is_a_cause_only_of_sizes_above_it(critical, given, known, above):
    updates = (1 + critical / np.array(SIZES))[:, None] * np.exp(noise(5, 6, 0.02, 2))
    fit = replace(critical_batch_size.fit(SIZES, updates), **given)
    fit = replace(fit, high=np.nan) if np.isnan(fit.critical_batch_size) else fit
    limits = card_of(evidence([1.0, 1.01, 1.02, 1.6, 3.0], critical=fit)).limits
    assert limits.count(known) == 1
    assert ("Above 64 more data per update stops paying (critical" in limits) == above
    plain = "Above 64 a validation loss of 0.2 takes more than 10 % longer (128: "
    assert (plain in limits) != above


@pytest.mark.parametrize(
    ("given", "limit", "text"),
    [
        (
            {"accuracy": [0.95, 0.951, 0.95, 0.92, 0.90]},
            advice.OUTCOME,
            "Above 64 test accuracy is worse by more than 1 point (128: test",
        ),
        ({"memory": 100}, advice.MEMORY, "Above 64 a batch does not fit into memory."),
    ],
)
def test_another_limit_binds(given, limit, text):
    result = advice.advise(evidence(**given))
    assert (result.smallest, result.largest) == (16, 64)
    assert result.reaches[0].limit == limit
    assert text in advice_words.card(result).limits


def test_memory_beyond_what_was_tried_is_reported_and_binds_nothing():
    result = advice.advise(evidence([1.4, 1.0, 1.02, 1.01, 1.5], memory=4096))
    assert [reach.limit for reach in result.reaches] == ["seconds", "memory", "outcome"]
    assert "Memory allows 4096; at each training" in advice_words.card(result).limits
    largest_tried = evidence(memory=4096, memory_open=True)
    assert "Memory allows 4096 or more" in card_of(largest_tried).limits
    assert "Memory was not measured; every batch size" in card_of(evidence()).limits
    # One whose end was not found ends nothing.
    assert found(evidence(memory=64, memory_open=True)) == (16, 256)


def test_a_size_that_is_not_resolved_ends_the_range_and_is_named():
    slower = 1.048 * np.exp([0.06, -0.06, 0.05, -0.05, 0.055, -0.055])
    result = advice.advise(with_seconds(3, slower, seed_seconds=120.0))
    assert (result.smallest, result.largest) == (16, 64)
    (judged,) = result.open
    assert (judged.limit, judged.batch_size, judged.more.equal) == ("seconds", 128, True)
    assert 0 < judged.more.low < judged.more.high
    card = advice_words.card(result)
    text = "to a validation loss of 0.2 it takes 5 % longer than 64 (90 % interval "
    assert f"Above it, 128 is not resolved: {text}" in card.limits
    assert card.unknown.startswith("Not known: 128 against ")
    low, high, _ = judged.more
    minutes = f"(about {2 * low} min to {2 * high} min of one core)"
    assert f"for the time: {low} to {high} more seeds {minutes} would tell" in card.unknown
    assert "alone" not in card.limits
    slower = judged._replace(difference=judged.difference._replace(low=0.2, high=0.9))
    interval = advice_words._interval(slower, 0.1)
    assert interval == "90 % interval 22 to 146 % for these two alone; not shown among all sizes"
    assert result.apart == (256,)
    assert "256 keeps every limit too" in card.limits


def test_the_longest_of_several_runs_is_the_range_and_may_be_a_size_alone():
    assert found(evidence([1.0, 2.0, 1.0, 1.0, 1.01])) == (64, 256)
    given = evidence([3.0, 2.0, 1.0, 2.0, 3.0])
    assert found(given) == (64, 64)
    assert card_of(given).headline == "Use 64 (small_cnn on digits)."


def test_a_training_that_never_got_there_ends_the_range():
    given = with_seconds((4, 2), np.inf)
    assert found(given) == (16, 128)
    assert "At 256 not every training reached a validation loss of 0.2." in card_of(given).limits


def test_no_range_below_six_seeds_but_what_is_missing():
    result = advice.advise(evidence(seeds=4, seed_seconds=90.0))
    assert result.smallest is None
    assert result.missing == ((advice.TOO_FEW, 2, 180.0),)
    assert all(reasons(evidence(seeds=seeds)) == [advice.TOO_FEW] for seeds in (1, 2, 5))
    assert result.more == (2, 2, False)
    assert advice_words.card(result).headline == (
        "No advice (small_cnn on digits), because 4 seeds are too few for a verdict, which takes "
        "6: 2 more are needed (about 3 min of one core)."
    )


def test_no_range_where_a_rate_lies_on_the_edge_of_its_grid():
    edges = (Edge(16, 0.1, False), Edge(128, 0.8, True), Edge(256, 0.8, True))
    result = advice.advise(evidence(rates=TriedRates(4, edges=edges, seconds=30.0)))
    assert result.smallest is None
    assert result.missing == ((advice.RATE_ON_EDGE, 2, 60.0),)
    assert advice_words.card(result).headline == (
        "No advice (small_cnn on digits), because a better learning rate may lie beyond those "
        "tried: 0.1, the lowest, is the best for the time at 16 and 0.8, the highest, is the best "
        "for the time at 128 and 256 (2 more rates, about 60 s of one core)."
    )


def test_no_range_without_seconds_but_what_is_known():
    fit = critical_batch_size.fit([16, 32, 64, 128, 256], 30 * (1 + 95 / np.array(SIZES)))
    given = changed(evidence(), seconds=None, critical=fit)
    assert found(given) == (None, None)
    card = card_of(given)
    assert "no seconds were measured (add time_epoch to measure)" in card.headline
    text = "critical batch size 95 [95, 95]; test accuracy within 1 point at 16, 32, 64, 128 and"
    assert text in card.limits


def test_no_range_without_an_outcome_or_a_target():
    assert reasons(replace(evidence(), outcomes=())) == [advice.NO_OUTCOME]
    assert reasons(changed(evidence(), target="", seconds=None)) == [advice.NO_TARGET]


def test_limits_that_exclude_each_other_leave_none():
    given = evidence([3.0, 2.0, 1.5, 1.2, 1.0], [0.95, 0.93, 0.92, 0.91, 0.9])
    assert reasons(given) == [advice.NONE_HOLDS]
    card = card_of(given)
    assert card.headline.startswith("No advice (small_cnn on digits), because no batch size is")
    text = "time within 10 % of the fastest at 256; test accuracy within 1 point at 16"
    assert text in card.limits


def test_a_target_that_no_batch_size_reached_is_named():
    card = card_of(with_seconds(np.s_[:, 0], np.inf))
    why = "because no batch size reached a validation loss of 0.2 with every seed (train longer,"
    assert why in card.headline


def test_the_only_size_that_reaches_the_target_is_compared_with_none():
    given = with_seconds(np.s_[1:, 2], np.inf)
    result = advice.advise(given)
    verdicts = [each.verdict for each in result.judged[advice.SECONDS]]
    assert verdicts == ["alone", *["failed"] * 4]
    assert reasons(given) == [advice.NONE_SHOWN] and result.candidates == [16]
    card = advice_words.card(result)
    assert card.headline == (
        "No advice (small_cnn on digits), because only batch size 16 reached a validation loss of "
        "0.2 with every seed, and its time is compared with none (train longer, or state another "
        "target)."
    )
    assert card.limits.startswith("Candidate: 16. Every other size is shown to miss a limit. Known")
    worse = evidence(accuracy=[0.9, 0.95, 0.95, 0.95, 0.95])
    assert reasons(changed(worse, seconds=given.to_target.seconds)) == [advice.NONE_HOLDS]


def test_without_a_range_the_candidates_are_reported_and_their_question_once():
    gap = np.array([-1, 1, -1, 1, -1, 1]) * 0.15
    seconds = np.array([3.0, 1.0, 1.01, 3.0, 3.0])[:, None] * np.exp(noise(5, 6, 0.01))
    seconds[1] *= np.exp(gap)
    result = advice.advise(changed(evidence(), seconds=seconds))
    assert [each.reason for each in result.missing] == [advice.NONE_SHOWN]
    assert result.candidates == [32, 64]
    assert [each.batch_size for each in result.open] == [32, 64]
    assert len(result.questions) == 1
    card = advice_words.card(result)
    assert "Candidates: 32 and 64; 32 was the fastest measured. Every other" in card.limits
    assert "scatters" not in card.limits
    assert card.unknown.count("against") == 1
    sizes = advice_tables.sizes([advice_tables.SeriesAdvice({}, result)])
    assert sizes["question"].count() == 1


def test_a_size_that_leaves_the_others_open_is_named():
    seconds = np.exp(noise(5, 6, 0.01))
    seconds[2] *= np.exp(np.array([-1, 1, -1, 1, -1, 1]) * 0.4)
    result = advice.advise(changed(evidence(), seconds=seconds))
    assert result.smallest is None
    assert result.open_against == {64: [16, 32, 128, 256]}
    assert result.candidates == []  # none is excluded
    text = "Against batch size 64 16, 32, 128 and 256 are not resolved for the time."
    assert text in advice_words.card(result).limits


def test_nothing_is_shown_where_the_seeds_scatter():
    result = advice.advise(evidence(spread=0.5))
    assert [each.reason for each in result.missing] == [advice.NONE_SHOWN]
    assert "is shown both" in advice_words.card(result).headline
    assert result.more is not None


def test_seeds_for_a_difference_that_is_there():
    # 20 % slower, by 0.18 in logarithms, and the margin at 0.095: distinguished by the difference.
    given = evidence([1.0, 1.2], ACCURATE[:2], spread=0.08)
    slower = next(each for each in advice.advise(given).open if each.batch_size == 32)
    assert slower.more.equal is False
    differences = np.log(given.to_target.seconds[1] / given.to_target.seconds[0])
    effect = (differences.mean() - np.log(1.1)) / differences.std(ddof=1)
    # Two sizes, of which neither is beyond yet: Holm leaves half of the level to the first.
    assert slower.more.low == seeds_wanted.for_difference(effect, 0.025) - 6
    assert slower.more.high == seeds_wanted.for_difference(effect / 1.4613, 0.025) - 6


def test_a_difference_below_the_margin_is_shown_at_five_percent():
    given = evidence([1.0, 1.07], ACCURATE[:2], spread=0.04)
    (slower,) = advice.advise(given).judged[advice.SECONDS][1:]
    assert slower.verdict == "not_resolved" and slower.more.equal is False
    differences = np.log(given.to_target.seconds[1] / given.to_target.seconds[0])
    effect = (np.log(1.1) - differences.mean()) / differences.std(ddof=1)
    assert slower.more.low == max(seeds_wanted.for_difference(effect) - 6, 1)


@draws(200)
def test_seeds_stated_give_a_verdict_as_often_as_stated(draws):
    """Power .8 of the whole test, for a size 20 % slower than four equal ones."""
    means, spread = np.array([1.0, 1.0, 1.0, 1.0, 1.2]), 0.05
    given = evidence(means, spread=spread)
    random = np.random.default_rng(0)

    def shown(seeds):
        count = 0
        for _ in range(draws):
            drawn = means[:, None] * np.exp(random.normal(0, spread, (5, seeds)))
            made = changed(given, seconds=drawn, seeds=range(seeds), outcomes=())
            count += advice.advise(made).judged[advice.SECONDS][4].verdict == "beyond"
        return count / draws

    effect = (np.log(1.2) - np.log(1.1)) / (spread * np.sqrt(2))
    adjusted = seeds_wanted.for_difference(effect, 0.05 / 4 / 5)
    assert shown(adjusted) > 0.72
    assert shown(seeds_wanted.for_difference(effect)) < 0.72


def test_a_training_that_is_not_there_is_no_failure():
    for value, third, paired in ((1, "within", 8), (np.nan, "within", 7), (np.inf, "failed", 8)):
        given = with_seconds((2, 7), value, seeds=8)
        verdicts = [each.verdict for each in advice.advise(given).judged[advice.SECONDS]]
        assert verdicts[2] == third and set(verdicts) == {"within", third}
        assert given.paired == paired


def test_a_size_without_a_run_ends_the_range_and_is_not_excluded():
    seconds, accuracy = np.ones(5), np.full(5, 0.95)
    seconds[3] = accuracy[3] = np.nan
    result = advice.advise(evidence(seconds, accuracy))
    assert (result.smallest, result.largest, result.apart) == (16, 64, (256,))
    assert result.judged[advice.SECONDS][3].verdict == "no_value" and not result.excluded
    assert "At 128 no value is known yet." in advice_words.card(result).limits


def test_seeds_are_counted_that_every_batch_size_has():
    given = evidence(seeds=8)
    gone = np.array(given.to_target.seconds)
    gone[0, :2] = gone[1, 2:4] = np.nan
    result = advice.advise(changed(given, seconds=gone))
    assert [each[:2] for each in result.missing] == [(advice.TOO_FEW, 2)]
    why = "4 of 8 seeds have a training at every batch size, too few for a verdict, which takes 6: "
    assert f"{why}2 more are needed" in advice_words.card(result).headline


def test_what_ends_the_range_is_asked_first_and_an_excluded_size_never():
    seconds = np.exp(noise(5, 6, 0.01))
    seconds[3] *= np.exp(0.09 + noise(5, 6, 0.1, 4)[0])  # ends the range, and takes many seeds
    seconds[4] *= 2  # excluded
    loss = 0.2 + noise(5, 6, 0.001, 3)
    loss[4] += np.array([0.04, 0.05, 0.06, 0.05, 0.045, 0.058])  # not resolved, and cheap
    given = evidence(outcomes=(advice.Outcome("test_loss", 0.05, loss),))
    result = advice.advise(changed(given, seconds=seconds))
    assert (result.smallest, result.largest) == (16, 64)
    open_sizes = {(each.limit, each.batch_size) for each in result.open}
    assert open_sizes == {(advice.SECONDS, 128), (advice.OUTCOME, 256)}
    assert result.open[0].batch_size == 128
    assert [each.batch_size for each in result.questions] == [128]


@pytest.mark.parametrize("spread", [0.01, 0.5])
def test_trainings_that_still_improved_at_their_end_are_named(spread):
    limits = card_of(evidence(spread=spread, falling=(64, 128))).limits
    assert "At 64 and 128 the validation loss still fell when most trainings ended: " in limits


def test_what_would_overturn_it():
    overturned = card_of(evidence()).overturned
    assert "another model, data set, machine or rate rule" in overturned
    assert "a learning rate that is tuned for each batch size, which these are not" in overturned
    unknown = card_of(evidence(rates=TriedRates(known=False))).overturned
    assert "tuned for each batch size, unless these are" in unknown
    given = evidence(rates=TriedRates(3))
    assert "tuned for each" not in card_of(given).overturned
    default = replace(given, outcomes=(replace(given.outcomes[0], stated=False),))
    assert "another margin than 1 point" in card_of(default).overturned


def test_every_margin_binds_and_has_its_own_largest_size():
    given = evidence(accuracy=[0.95, 0.951, 0.95, 0.94, 0.90])
    (accuracy,) = given.outcomes
    loss = 0.2 + np.array([0, 0, 0, 0.2, 0.2])[:, None] + noise(5, 6, 0.001, 3)
    accuracy = replace(accuracy, margin=0.02)
    both = (accuracy, advice.Outcome("test_loss", 0.05, loss))
    result = advice.advise(replace(given, outcomes=both))
    assert (result.smallest, result.largest) == (16, 64)
    assert found(replace(given, outcomes=(accuracy,))) == (16, 128)
    card = advice_words.card(result)
    assert "Above 64 test loss is worse by more than 0.05 (128: test loss 0.2 " in card.limits
    assert "est accuracy stays within 2 points up to 128" in card.limits
    series = [advice_tables.SeriesAdvice({}, result)]
    (row,) = advice_tables.summary(series).to_dict("records")
    assert (row["outcome"], row["margin"]) == ("test_accuracy test_loss", "0.02 0.05")
    sizes = advice_tables.sizes(series).dropna(subset="outcome")
    assert sizes.groupby("outcome")["margin"].unique().to_dict() == {
        "test_accuracy": [0.02],
        "test_loss": [0.05],
    }


def test_the_share_of_the_fastest_time_is_the_stated_one():
    given = evidence([1.4, 1.0, 1.02, 1.15, 1.5])
    assert found(given) == (32, 64)
    given = changed(given, slower=0.2)
    assert found(given) == (32, 128)
    assert "takes more than 20 % longer (16:" in card_of(given).limits


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (None, ""),
        (6, ""),
        (12, "12 seeds are planned and 6 are there: a verdict now is a look before the end"),
        (4, "4 seeds were planned and 6 are there: those added after a look at the data make"),
    ],
)
def test_other_seeds_than_planned_are_reported(planned, expected):
    card = card_of(evidence(planned=planned))
    assert card.look.startswith(expected) and bool(card.look) == bool(expected)
    assert card.look in advice_words.text(card)


@pytest.mark.parametrize(
    ("trends", "expected"),
    [
        (
            {"epochs": "smaller", "updates": "larger", "target": "larger"},
            "At equal epochs smaller looks better, at equal updates larger: see the matrix.",
        ),
        (
            {"epochs": "none", "updates": "none"},
            "At equal epochs and at equal updates no trend is resolved: see the matrix.",
        ),
        (
            {"epochs": "none", "updates": "larger"},
            "At equal epochs no trend is resolved, at equal updates larger looks better: "
            "see the matrix.",
        ),
        ({}, ""),
    ],
)
def test_other_budgets_are_reported(trends, expected):
    assert card_of(evidence(trends=trends)).budgets == expected


def simulated(means, count, spread, seeds=6):
    """Yields the verdicts on the seconds of independent studies."""
    given, generator = evidence(means, ACCURATE[: len(means)]), np.random.default_rng(7)
    given = replace(given, outcomes=())
    for _ in range(count):
        drawn = np.exp(generator.normal(scale=spread, size=(len(means), seeds)))
        result = advice.advise(changed(given, seconds=np.array(means)[:, None] * drawn))
        yield [each.verdict for each in result.judged[advice.SECONDS]]


@draws(150)
def test_equal_sizes_are_rarely_called_beyond(draws):
    shown = [("beyond" in verdicts) for verdicts in simulated([1.0] * 4, draws, 0.05)]
    assert np.mean(shown) <= 0.02


@draws(300)
def test_a_size_at_the_margin_is_called_within_or_beyond_in_five_percent_each(draws):
    # The second one takes exactly 10 % longer: both tests stand at their boundary.
    found = [verdicts[1] for verdicts in simulated([1.0, 1.1], draws, 0.02)]
    most = 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / draws)
    assert 0.01 < np.mean([each == "within" for each in found]) <= most
    assert np.mean([each == "beyond" for each in found]) <= most
