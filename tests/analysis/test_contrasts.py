"""Statements of paired replicates: known answers, and verdicts that agree with their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import contrasts
from batchscope.analysis.contrasts import Contrast, Statement
from batchscope.study import stages
from batchscope.study.outcomes import LEVEL, Reason, Verdict

SIX = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def one(values, **bounds):
    (found,) = contrasts.judge([Statement((Contrast(np.array(values, float), **bounds),))])
    return found


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


def test_an_open_end_supports_nothing():
    assert one(SIX, low=0.0, open_low=True).verdict == Verdict.NOT_RESOLVED
    assert math.isnan(one(SIX, low=0.0, open_low=True).estimate.low)
    assert one(SIX, low=0.0, open_high=True).verdict == Verdict.SUPPORTED
    assert one(-SIX, low=0.0, open_high=True).verdict == Verdict.NOT_RESOLVED


def test_the_weakest_contrast_decides_and_the_contrary_takes_bonferroni():
    strong, weak = Contrast(SIX + 10, low=0.0), Contrast(SIX - 1, low=0.0)
    (found,) = contrasts.judge([Statement((strong, weak))])
    assert (found.verdict, found.deciding) == (Verdict.SUPPORTED, weak)
    statement = Statement((strong, Contrast(-SIX, low=0.0)))
    (found,) = contrasts.judge([statement])
    assert found.verdict == Verdict.CONTRADICTED
    assert statement.p[1] == pytest.approx(2 * statement.contrasts[1].p_against)
    assert found.level == pytest.approx(LEVEL / 2 / 2)  # of two tests one is rejected, of two parts


def test_one_of_several_rivals_supports_a_statement():
    best, rival = Contrast(SIX, low=0.0), Contrast(-SIX, low=0.0)
    groups = {"supported_by": ((0,), (1,)), "contradicted_by": ((0, 1),)}
    (found,) = contrasts.judge([Statement((best, rival), **groups)])
    assert (found.verdict, found.deciding) == (Verdict.SUPPORTED, best)
    (found,) = contrasts.judge([Statement((rival, rival), **groups)])
    assert found.verdict == Verdict.CONTRADICTED


def test_the_level_of_a_family_is_that_of_benjamini_and_hochberg():
    p = np.array([0.001, 0.008, 0.012, 0.04, 0.2, 0.9, 0.8, 0.7])
    level = contrasts.family_level(p)
    assert level == pytest.approx(3 * LEVEL / 8)
    rejected = stats.false_discovery_control(p) <= LEVEL
    assert ((p <= level) == rejected).all()
    assert contrasts.family_level([0.5, 0.6]) == pytest.approx(LEVEL / 2)


def test_few_replicates_stand_outside_the_family():
    few = Statement((Contrast(SIX[:5], low=0.0),))
    whole = Statement((Contrast(SIX, low=0.0),))
    alone, *_ = contrasts.judge([whole])
    beside, provisional = contrasts.judge([whole, few])
    assert alone.level == beside.level
    assert provisional.level == LEVEL and provisional.seeds_to_resolve == 6


def test_statements_of_the_same_numbers_count_once():
    sure, doubtful = (Statement((Contrast(values, low=0.0),)) for values in (SIX, SIX - 2.3))
    (alone, _), (beside, *_) = (
        contrasts.judge([sure, doubtful]),
        contrasts.judge([sure, doubtful, *[Statement((Contrast(SIX.copy(), low=0.0),))] * 5]),
    )
    assert alone.level == beside.level


def test_a_trend_is_the_mean_slope_of_the_seeds():
    values = np.outer(SIX, [0.0, 1.0, 2.0]) + [[5.0], [1.0], [0.0], [2.0], [9.0], [3.0]]
    statement = contrasts.trend(values, [3, 4, 5], rises=True)
    assert statement.contrasts[0].values == pytest.approx(SIX)
    (found,) = contrasts.judge([statement])
    assert found.verdict == Verdict.SUPPORTED and found.reason == Reason.NONE
    assert contrasts.judge([contrasts.trend(values, [3, 4, 5], rises=False)])[0].verdict == (
        Verdict.CONTRADICTED
    )


def test_a_curve_that_turns_back_slowly_is_found_between_sizes_that_are_no_neighbours():
    noise = 0.1 * np.random.default_rng(2).normal(size=(6, 6))
    values = np.array([0.0, 2.0, 4.0, 3.9, 3.8, 3.7]) + noise
    statement = contrasts.trend(values, range(6), rises=True)
    assert len(statement.steps) == 15
    (found,) = contrasts.judge([statement])
    assert (found.verdict, found.reason) == (Verdict.SUPPORTED, Reason.NOT_AT_EVERY_STEP)


def random_statement(rng, planned=()):
    """Returns a statement of random contrasts: few or many, of two bounds or one, open or not."""
    seen = stages.seen(int(rng.integers(1, 33 if planned else 9)), planned)
    looks = [[] for _ in seen]
    for _ in range(int(rng.integers(1, 5))):
        bounds = [{"low": 0.0}, {"high": 0.5}, {"low": -1.0, "high": 1.0}][int(rng.integers(3))]
        ends = {name: bool(rng.random() < 0.1) for name in ("open_low", "open_high", "tuned")}
        values = rng.normal(rng.normal(0, 2), 1, seen[-1][0])
        for look, (count, _) in zip(looks, seen, strict=True):
            look.append(Contrast(values[:count], **bounds, **ends))
    statements = [Statement(tuple(parts)) for parts in looks]
    return contrasts.staged(statements, [share for _, share in seen])


def read_off(judged):
    """Returns the verdict that anybody reads off the printed interval and the bounds."""
    _, low, high, n = judged.estimate
    if n < 6:
        return Verdict.ONE_SEED if n == 1 else Verdict.PROVISIONAL
    bounds = judged.deciding
    inside = (low > bounds.low or bounds.low == -math.inf) and (
        high < bounds.high or bounds.high == math.inf
    )
    outside = high < bounds.low or low > bounds.high
    return (
        Verdict.SUPPORTED if inside else Verdict.CONTRADICTED if outside else Verdict.NOT_RESOLVED
    )


@pytest.mark.parametrize("planned", [(), stages.looks(28)])
def test_verdict_and_interval_never_disagree(planned):
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        for judged in contrasts.judge([random_statement(rng, planned) for _ in range(5)]):
            assert judged.verdict == read_off(judged), judged
            seen.add(judged.verdict)
    assert len(seen) == 5


def with_p(p, n):
    """Returns a contrast of n replicates whose one-sided p, that the mean is above 0, is p."""
    values = np.resize([-1.0, 1.0], n) - np.resize([-1.0, 1.0], n).mean()
    return Contrast(values + stats.t.isf(p, n - 1) * values.std(ddof=1) / math.sqrt(n), low=0.0)


def test_the_p_after_a_look_is_the_smallest_over_its_share():
    """p .03, .004, .0004 after 6, 9, 13 of 28 seeds: .0028, at 1/7 of 28."""
    found = [with_p(p, n) for p, n in ((0.03, 6), (0.004, 9), (0.0004, 13))]
    shares = stages.weights(stages.looks(28))
    assert stages.looks(28) == (6, 9, 13, 19, 28) and sum(shares) == pytest.approx(1)
    statement = contrasts.staged([Statement((each,)) for each in found], shares[:3])
    assert statement.p[0] == pytest.approx(0.0028)
    first = contrasts.staged([Statement((found[0],))], shares[:1])
    assert first.p[0] == pytest.approx(0.03 * 28 / 6)
    (contrast,) = statement.contrasts
    ends = [
        each.mean - stats.t.isf(0.05 * share, each.n - 1) * each.deviation / math.sqrt(each.n)
        for each, share in zip(found, shares, strict=False)
    ]
    assert contrast.interval(0.05).low == pytest.approx(max(ends))
    assert (contrast.mean, contrast.n) == (found[-1].mean, 13)


def test_a_look_without_more_replicates_spends_nothing():
    """Other statements may have more seeds by then; at the last look these six are no new ones."""
    one = Statement((Contrast([*SIX, math.nan], low=0.0),))
    found = contrasts.staged([Statement((Contrast(SIX, low=0.0),)), one, one], (0.2, 0.2, 0.6))
    assert found.contrasts[0].share == 0.2 and found.contrasts[0].earlier == ()
    assert found.p[0] == pytest.approx(Contrast(SIX, low=0.0).p / 0.2)


def test_a_look_at_other_contrasts_is_left_out():
    one, two = (Contrast(SIX, low=0.0, cells={"batch_size": size}) for size in (8, 16))
    found = contrasts.staged([Statement((one,)), Statement((one, two))], (0.5, 0.5))
    assert [each.earlier for each in found.contrasts] == [(), ()]
    assert found.contrasts[0].p == pytest.approx(2 * one.p)
