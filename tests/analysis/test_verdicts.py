"""Statements of paired replicates: known answers, and verdicts that agree with their intervals."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import contrasts, verdicts
from batchscope.analysis.contrasts import Contrast, over_analyses
from batchscope.analysis.verdicts import Statement
from batchscope.study import stages
from batchscope.study.outcomes import LEVEL, Reason, Verdict

SIX = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def judge(statements):
    """Return the columns of the verdicts on statements of one family."""
    rows = verdicts.judge([{"statement": statement} for statement in statements])
    return [SimpleNamespace(**row) for row in rows]


def above(values):
    return Statement.all_hold([Contrast(values, low=0.0)])


def one(values, **bounds):
    (judged,) = judge([Statement.all_hold([Contrast(np.array(values, float), **bounds)])])
    return judged


@pytest.mark.parametrize(
    ("values", "bounds", "verdict"),
    [
        (SIX, {"low": 0.0}, Verdict.SUPPORTED),
        (SIX, {"high": 0.0}, Verdict.CONTRADICTED),
        (SIX - 3.5, {"low": 0.0}, Verdict.NOT_RESOLVED),
        (SIX, {"low": -20.0, "high": 20.0}, Verdict.SUPPORTED),
        (SIX, {"low": -20.0, "high": -10.0}, Verdict.CONTRADICTED),
        ([0.3] * 6, {"low": 0.1 + 0.2}, Verdict.NOT_RESOLVED),  # the bound itself, but for rounding
        ([0.3] * 6, {"low": 0.2}, Verdict.SUPPORTED),
        (SIX[:5], {"low": 0.0}, Verdict.PROVISIONAL),
        (SIX[:1], {"low": 0.0}, Verdict.ONE_SEED),
        ([math.nan, math.inf], {"low": 0.0}, Verdict.NOT_TESTABLE),
    ],
)
def test_a_verdict_of_one_contrast(values, bounds, verdict):
    assert one(values, **bounds).verdict == verdict


def test_an_open_end_supports_nothing_and_gives_its_reason():
    why = Reason.RATE_ON_EDGE
    judged = one(SIX, low=0.0, unbounded_low=why)
    assert (judged.verdict, judged.reason) == (Verdict.NOT_RESOLVED, why)
    assert math.isnan(judged.low)
    assert one(SIX, low=0.0, unbounded_high=why).verdict == Verdict.SUPPORTED
    assert one(-SIX, low=0.0, unbounded_high=why).reason == why
    # Closed, it is open too.
    assert one(SIX - 3.5, low=0.0, unbounded_low=why).reason == Reason.NONE
    assert one(-SIX, high=0.0, unbounded_high=why).reason == why
    assert one(SIX, high=0.0, unbounded_low=why).reason == why


def test_the_weakest_contrast_decides_and_the_contrary_takes_bonferroni():
    strong, weak = Contrast(SIX + 10, low=0.0), Contrast(SIX - 1, low=0.0)
    (found,) = judge([Statement.all_hold((strong, weak))])
    assert (found.verdict, found.deciding) == (Verdict.SUPPORTED, weak)
    statement = Statement.all_hold((strong, Contrast(-SIX, low=0.0)))
    (found,) = judge([statement])
    assert found.verdict == Verdict.CONTRADICTED
    assert statement.p[1] == pytest.approx(2 * statement.contrasts[1].p_contrary)
    assert found.level == pytest.approx(LEVEL / 2 / 2)  # of two tests one is rejected, of two parts


def test_n_is_that_of_the_estimate_and_a_verdict_has_six_replicates_at_its_analysis():
    parts = (Contrast(numbers, low=0.0) for numbers in (SIX + 50, [*SIX, *SIX]))
    (found,) = judge([Statement.all_hold(parts)])
    assert (found.n, found.estimate) == (12, 3.5)
    numbers = [*[math.nan] * 4, 1.0, 1.0001, *(SIX - 3.5)]  # two of the first six have a value
    analyses = zip((6, 12), (0.5, 0.5), strict=True)
    found = one(numbers, low=0.0)
    (staged,) = judge([Statement.all_hold([Contrast(numbers, low=0.0).at_analyses(analyses)])])
    assert staged.verdict == found.verdict == Verdict.NOT_RESOLVED
    assert (staged.n, staged.estimate) == (found.n, found.estimate) == (8, pytest.approx(0.2500125))


def test_one_of_several_rivals_supports_a_statement():
    best, rival = Contrast(SIX, low=0.0), Contrast(-SIX, low=0.0)
    (found,) = judge([Statement((((best,), (rival,)),))])
    assert (found.verdict, found.deciding) == (Verdict.SUPPORTED, best)
    (found,) = judge([Statement((((rival,), (rival,)),))])
    assert found.verdict == Verdict.CONTRADICTED


def test_the_level_of_a_family_is_that_of_benjamini_and_hochberg():
    p = np.array([0.001, 0.008, 0.012, 0.04, 0.2, 0.9, 0.8, 0.7])
    level = verdicts.family_level(p)
    assert level == pytest.approx(3 * LEVEL / 8)
    rejected = stats.false_discovery_control(p) <= LEVEL
    assert ((p <= level) == rejected).all()
    assert verdicts.family_level([0.5, 0.6]) == pytest.approx(LEVEL / 2)


def test_few_replicates_stand_outside_the_family():
    few = above(SIX[:5])
    whole = above(SIX)
    alone, *_ = judge([whole])
    beside, provisional = judge([whole, few])
    assert alone.level == beside.level
    assert provisional.level == LEVEL and provisional.seeds_to_resolve == 6


def test_statements_of_the_same_numbers_count_once():
    sure, doubtful = (above(values) for values in (SIX, SIX - 2.3))
    alone, _ = judge([sure, doubtful])
    beside, *_ = judge([sure, doubtful, *[above(SIX.copy())] * 5])
    assert alone.level == beside.level


def test_a_curve_that_turns_back_slowly_is_found_between_sizes_that_are_no_neighbours():
    noise = 0.1 * np.random.default_rng(2).normal(size=(6, 6))
    values = np.array([0.0, 2.0, 4.0, 3.9, 3.8, 3.7]) + noise
    statement = verdicts.trend([verdicts.trend_contrasts(values, range(6), rises=True)])
    assert len(statement.steps) == 15
    (found,) = judge([statement])
    assert (found.verdict, found.reason) == (Verdict.SUPPORTED, Reason.NOT_AT_EVERY_STEP)


def random_statement(rng, planned=()):
    """Return a statement of random contrasts: few or many, of two bounds or one, open or not."""
    seen = stages.analyses_so_far(int(rng.integers(1, 33 if planned else 9)), planned)
    parts = []
    for _ in range(int(rng.integers(1, 5))):
        bounds = [{"low": 0.0}, {"high": 0.5}, {"low": -1.0, "high": 1.0}][int(rng.integers(3))]
        ends = {
            name: Reason.RATE_ON_EDGE
            for name in ("unbounded_low", "unbounded_high")
            if rng.random() < 0.1
        }
        values = rng.normal(rng.normal(0, 2), 1, seen[-1][0])
        tuned = bool(rng.random() < 0.1)
        parts.append(Contrast(values, **bounds, **ends, tuned=tuned).at_analyses(seen))
    return Statement.all_hold(parts)


def read_off(judged):
    """Return the verdict that anybody reads off the printed interval and the bounds."""
    if judged.n < 6:
        return Verdict.ONE_SEED if judged.n == 1 else Verdict.PROVISIONAL
    bounds = judged.deciding
    inside = (judged.low > bounds.low or bounds.low == -math.inf) and (
        judged.high < bounds.high or bounds.high == math.inf
    )
    outside = judged.high < bounds.low or judged.low > bounds.high
    return (
        Verdict.SUPPORTED if inside else Verdict.CONTRADICTED if outside else Verdict.NOT_RESOLVED
    )


@pytest.mark.parametrize("planned", [(), stages.analysis_seeds(28)])
def test_verdict_and_interval_never_disagree_and_the_estimate_lies_inside(planned):
    rng = np.random.default_rng(0)
    seen, numbers = set(), set()
    for _ in range(120):
        for judged in judge([random_statement(rng, planned) for _ in range(5)]):
            assert judged.verdict == read_off(judged), judged
            assert not judged.estimate < judged.low and not judged.estimate > judged.high, judged
            seen.add(judged.verdict)
            numbers.add(judged.n)
    assert len(seen) == 5
    assert len(numbers) > 12 if planned else len(numbers) == 8


def with_p(p, n):
    """Returns a contrast of n replicates whose one-sided p, that the mean is above 0, is p."""
    values = np.resize([-1.0, 1.0], n) - np.resize([-1.0, 1.0], n).mean()
    return Contrast(values + stats.t.isf(p, n - 1) * values.std(ddof=1) / math.sqrt(n), low=0.0)


def staged(found, shares):
    """Returns the statement about a contrast at analyses with these shares of the level."""
    pairs = zip(found, shares, strict=True)
    return Statement.all_hold([over_analyses(replace(each, share=share) for each, share in pairs)])


def test_the_p_after_an_analysis_is_the_smallest_over_its_share():
    """p .03, .004, .0004 after 6, 9, 13 of 28 seeds: .0028, at 1/7 of 28."""
    found = [with_p(p, n) for p, n in ((0.03, 6), (0.004, 9), (0.0004, 13))]
    shares = stages.level_shares(stages.analysis_seeds(28))
    assert stages.analysis_seeds(28) == (6, 9, 13, 19, 28) and sum(shares) == pytest.approx(1)
    assert staged(found, shares[:3]).p[0] == pytest.approx(0.0028)
    assert staged(found[:1], shares[:1]).p[0] == pytest.approx(0.03 * 28 / 6)


@pytest.mark.parametrize(
    ("p_values", "printed"), [((0.03, 0.0004, 0.01), 1), ((0.03, 0.04, 0.05), 2)]
)
def test_estimate_interval_and_n_are_those_of_the_analysis_that_decides_else_of_the_last(
    p_values, printed
):
    found = [with_p(p, n) for p, n in zip(p_values, (6, 9, 13), strict=True)]
    shares = stages.level_shares(stages.analysis_seeds(28))[:3]
    (judged,) = judge([staged(found, shares)])
    assert judged.verdict == (Verdict.SUPPORTED if printed == 1 else Verdict.NOT_RESOLVED)
    contrast = found[printed]
    half = stats.t.isf(judged.level, contrast.n - 1) * contrast.error
    assert (judged.estimate, judged.n) == (contrast.mean, contrast.n)
    assert judged.level == pytest.approx(LEVEL / 2 * shares[printed])  # of two tests
    assert judged.low == pytest.approx(contrast.mean - half)
    assert judged.high == pytest.approx(contrast.mean + half)


def test_an_analysis_without_more_replicates_spends_nothing():
    """Other statements may have more seeds by then; at the last one these six are no new ones."""
    one = Contrast([*SIX, math.nan], low=0.0)
    found = staged([Contrast(SIX, low=0.0), one, one], (0.2, 0.2, 0.6))
    assert {analysis.share for analysis in found.contrasts[0].analyses} == {0.2}
    assert found.p[0] == pytest.approx(Contrast(SIX, low=0.0).p / 0.2)


def test_each_family_has_its_own_level_and_rows_without_a_statement_stay():
    rows = [
        {"name": "a", "statement": above(SIX)},
        {"name": "b", "statement": above(SIX - 3.5)},
        {"name": "b", "statement": None, "verdict": Verdict.NOT_TESTABLE},
    ]
    one, other, none = verdicts.judge(rows, "name")
    assert (one["level"], other["level"]) == (LEVEL / 2, LEVEL / 2) and none is rows[2]
    together = verdicts.judge(rows)
    assert {row["level"] for row in together[:2]} == {LEVEL / 4}


@pytest.mark.parametrize(
    ("of_test", "expected"),
    [
        (contrasts.difference_power, [27, 12, 8, 6, 5, 4]),
        (contrasts.equivalence_power, [36, 15, 11, 8, 6, 4]),
    ],
)
def test_seeds_of_a_difference_and_of_equivalence(of_test, expected):
    assert [
        contrasts.fewest_seeds(of_test, ratio) for ratio in (0.5, 0.8, 1, 1.25, 1.5, 2)
    ] == expected


@pytest.mark.parametrize(("mean", "margin"), [(0.0, 0.8), (0.1, 0.8), (0.3, 0.8)])
def test_seeds_that_show_a_mean_between_two_bounds(mean, margin):
    """By simulation: both tests succeed with power 0.8, also if the mean is not in the middle."""
    spread = np.array([-1.0, -1, -1, 1, 1, 1]) * math.sqrt(5 / 6)
    needed = Contrast(spread + mean, low=-margin, high=margin).replicates_to_resolve(LEVEL, LEVEL)
    values = np.random.default_rng(0).normal(mean, 1, (20_000, needed))
    half = stats.t.isf(LEVEL, needed - 1) * stats.sem(values, axis=1)
    inside = np.abs(values.mean(axis=1)) + half < margin
    assert inside.mean() == pytest.approx(0.81, abs=0.02)


def test_seeds_are_counted_at_the_level_of_the_verdict_that_they_would_show():
    bounds = {"low": -1.0, "high": 1.0}
    spread = np.array([-1.0, -1, -1, 1, 1, 1]) * math.sqrt(5 / 6)
    beyond = contrasts.fewest_seeds(contrasts.difference_power, 0.5, LEVEL / 2 / 2)
    assert one(spread + 1.5, **bounds).seeds_to_resolve == beyond
    parts = [Contrast(values, **bounds) for values in (spread + 0.3, *[spread / 100] * 5)]
    (found,) = judge([Statement.all_hold(parts)])  # all parts must hold, at the whole level
    assert found.seeds_to_resolve == parts[0].replicates_to_resolve(LEVEL / 2, LEVEL)
