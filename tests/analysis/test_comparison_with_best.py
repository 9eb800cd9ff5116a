"""Each batch size compared with the best of the others: known answers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from batchscope.analysis import verdicts
from batchscope.analysis.verdicts import ComparisonWithBest, Contrast
from batchscope.study import stages
from batchscope.study.outcomes import Verdict

NOISE = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])


def study(*means, noise=0.01):
    """Return sizes of six seeds whose differences scatter: the noise is rolled size by size."""
    return np.array([mean + noise * np.roll(NOISE, 2 * at) for at, mean in enumerate(means)])


def statement(values, at, margin):
    others = [other for other in range(len(values)) if other != at]
    contrasts = [
        Contrast(values[at] - values[other], low=-margin, cells={"against": other})
        for other in others
    ]
    return ComparisonWithBest.of_all(contrasts, pairs=len(values) * len(others) // 2)


def compare(analyses, margin=0.1, shares=(1.0,)):
    """Return the verdicts on every size, from its values at each analysis."""
    rows = []
    for at in np.flatnonzero(np.isfinite(analyses[-1]).any(axis=1)):
        statements = [statement(values, at, margin) for values in analyses]
        rows.append({"statement": verdicts.staged(statements, shares)})
    return [SimpleNamespace(**row) for row in verdicts.judge(rows)]


def test_two_sizes_are_a_paired_t_test_with_the_level_of_the_pair():
    values = study(1.0, 0.7)
    worse = compare([values])[1]
    differences = values[1] - values[0]
    low = stats.ttest_1samp(differences, 0, alternative="greater").confidence_interval(0.95).low
    # The margin is many standard errors wide: the pair has the whole 5 %.
    high = stats.ttest_1samp(differences, 0, alternative="less").confidence_interval(0.95).high
    assert (worse.estimate, worse.low, worse.high) == pytest.approx((differences.mean(), low, high))
    assert (worse.verdict, worse.against) == (Verdict.BEYOND, 0)


def test_two_sizes_are_compared_by_the_seeds_that_both_have():
    values = study(1.0, 0.7, 0.5)
    values[1, 0] = math.nan
    found = compare([values])
    assert [each.n for each in found] == [5, 5, 6]  # with the size that each is beside
    assert {each.verdict for each in found} == {Verdict.PROVISIONAL}  # a pair with fewer counts
    assert all(each.seeds_to_resolve == 6 for each in found)
    with_more = np.column_stack([values, np.full((3, 2), math.nan)])
    with_more[[0, 2], 6:] = study(1.0, 0.5)[:, :2]
    last = compare([with_more])[2]
    assert last.n == 8
    assert last.estimate == pytest.approx((with_more[2] - with_more[0])[[*range(8)]].mean())


@pytest.mark.parametrize(("worse", "printed"), [(0.4, 1), (3.0, 0)])
def test_the_first_analysis_that_decides_is_printed_else_the_last(worse, printed):
    """Of 28 seeds: the bounds of a pair are those of a t-test at w_i times 5 %."""
    rng = np.random.default_rng(3)
    values = rng.normal(0, 0.3, (2, 9)) - [[0.0], [worse]]
    shares, seeds = stages.weights(stages.looks(28))[:2], (6, 9)
    found = compare([values[:, :n] for n in seeds], 0.3, shares)[1]
    assert found.verdict == (Verdict.BEYOND if printed == 0 else Verdict.NOT_RESOLVED)
    differences = (values[1] - values[0])[: seeds[printed]]
    test = stats.ttest_1samp(differences, 0, alternative="greater")
    assert found.low == pytest.approx(test.confidence_interval(1 - 0.05 * shares[printed]).low)
    assert (found.estimate, found.n) == (pytest.approx(differences.mean()), seeds[printed])
    assert found.low < found.estimate < found.high


def test_a_size_without_seeds_at_an_analysis_leaves_it_undecided():
    """Two equal sizes are within the margin of each other, but not yet of the third one."""
    values = study(1.0, 1.0, 1.0, noise=1e-3)
    before = values.copy()
    before[2] = math.nan
    (first, *_) = compare([before], 0.1, (0.5,))
    assert (first.verdict, first.n) == (Verdict.PROVISIONAL, 6) and math.isnan(first.low)
    more = np.column_stack([values, values])
    (both, *_) = compare([before, more], 0.1, (0.5, 0.5))
    assert (both.verdict, both.n) == (Verdict.WITHIN, 12)


def test_the_seeds_that_would_settle_it_follow_the_tables_of_power():
    # Equal sizes, and a margin of .8 standard deviations: 15 seeds show them to be equal.
    spread = np.array([-1.0, -1, -1, 1, 1, 1]) * math.sqrt(5 / 6)
    found = compare([np.array([np.zeros(6), spread])], 0.8)
    assert found[0].seeds_to_resolve == 15


def test_a_difference_that_is_the_margin_is_not_decided_by_rounding():
    values = np.array([[0.3] * 6, [0.1 + 0.1] * 6])  # 0.3 - 0.2 is not 0.1 in binary
    assert compare([values])[1].verdict == Verdict.NOT_RESOLVED
