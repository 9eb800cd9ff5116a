"""How far a batch can grow before an outcome falls: the batch sizes within a margin of every other.

The margin is written down before the runs. No best batch size is picked first: the runs that pick
it flatter it. A size is *within* the margin where every other one is shown to be better by less
than the margin: one-sided paired t-tests, each at 5 %, all of which must be significant (an
intersection-union test, which needs no adjustment for their number). It is *beyond* where some
other one is shown to be better by more than the margin: Bonferroni over the others, and Holm over
the sizes that are judged, so that a series without any such size shows one in 5 % at most.
A size that has no other to be compared with is neither: nothing was shown. Nor is one without any
value, such as a size whose runs are still missing.
"Not different" is never concluded from p > 0.05: that says as much of few seeds as of equal sizes.
A size of which a value is an upper bound (left-censored) is never beyond, and no other one is shown
to be within a margin of it: it may be better than it looks.

Sources: R. L. Berger, "Likelihood ratio tests and intersection-union tests", Institute of
Statistics Mimeo Series 2288, North Carolina State University (1996); D. J. Schuirmann, "A
comparison of the two one-sided tests procedure and the power approach for assessing the equivalence
of average bioavailability", J. Pharmacokinet. Biopharm. 15 (1987), on one-sided tests of a margin.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import dropwhile, takewhile
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import intervals, paired_tests, run_series
from batchscope.analysis.intervals import Interval
from batchscope.catalogue import outcomes
from batchscope.catalogue.decision_columns import MARGINS
from batchscope.store import records

WITHIN, BEYOND = "within", "beyond"
NOT_RESOLVED, FEW_SEEDS, FAILED = "not_resolved", "few_seeds", "failed"
ALONE = "alone"  # every other one has a failed run or no value: there is nothing to show
NO_VALUE = "no_value"  # of no run, and none failed


class Size(NamedTuple):
    """One batch size of a series against the others; NaN or None where there is none."""

    batch_size: int
    seeds: int
    mean: float
    verdict: str
    deciding: int | None = None
    difference: Interval = Interval()
    p_within: float = np.nan
    p_beyond: float = np.nan

    def columns(self) -> dict[str, Any]:
        """Returns the values of the columns that `MARGINS` and `BUDGETS` share."""
        return {
            "batch_size": self.batch_size,
            "seeds": self.seeds,
            "mean": self.mean,
            "deciding_batch_size": self.deciding,
            **intervals.columns("difference", self.difference[:3]),
            "p_within": self.p_within,
            "p_beyond": self.p_beyond,
            "verdict": self.verdict,
        }


class Found(NamedTuple):
    """Every batch size of a series in rising order, and the ends of the first range within."""

    sizes: tuple[Size, ...]
    smallest: int | None
    largest: int | None


def find(
    rows: pandas.DataFrame, outcome: str, margin: float, differing: Collection[int] = ()
) -> Found:
    """Judges every batch size of a series by every other one; see `compare`.

    Of an accuracy higher is better, of any other outcome lower. A size at which some run failed is
    compared with none. The margin is above 0.
    """
    values = rows[outcome].where(rows["status"] == records.FINISHED)
    values = values.mask(rows["status"].isin(records.UNSUCCESSFUL), math.inf)
    table = rows.assign(value=values).pivot(index="batch_size", columns="seed", values="value")
    of = (table.to_numpy(float), table.index.tolist(), margin, outcome.endswith("accuracy"))
    found = judge(compare(*of, differing))
    from_first = dropwhile(lambda size: size.verdict != WITHIN, found)
    within = list(takewhile(lambda size: size.verdict == WITHIN, from_first))
    ends = (within[0].batch_size, within[-1].batch_size) if within else (None, None)
    return Found(tuple(found), *ends)


def whole(values: np.ndarray, batch_sizes: Sequence[int]) -> list[int]:
    """Returns the batch sizes at which every seed with a run has a value.

    `values` has shape (sizes, seeds): NaN where there is no run, infinite where it failed.
    """
    return [
        size
        for size, row in zip(batch_sizes, values, strict=True)
        if not np.isnan(row).all() and not np.isinf(row).any()
    ]


def compare(
    values: np.ndarray,
    batch_sizes: Sequence[int],
    margin: float,
    rising: bool,
    differing: Collection[int] = (),
    bounded: Collection[int] = (),
) -> list[Size]:
    """Compares every batch size with every other one, by the seeds that all of them have.

    A size at which a run failed is compared with none. Returns them in order, for `judge` to make
    the verdicts; `p_beyond` is that of Bonferroni over the other sizes alone.

    Args:
        values: Shape (sizes, seeds): NaN where there is no run, infinite where it failed.
        margin: Largest loss that counts as negligible.
        differing: Batch sizes whose seeds are read at different rates, each at that which the
            others choose (see `intervals.correction`).
        bounded: Batch sizes of which some value is an upper bound, of what is better lower.
    """
    sign = 1.0 if rising else -1.0
    table = pandas.DataFrame(values.T, columns=batch_sizes)
    failed = np.isinf(table).any()
    table = table.where(np.isfinite(table))
    compared_sizes = whole(values, batch_sizes)
    compared = _compared(table[compared_sizes].dropna(), margin, sign, differing, bounded)
    found = []
    for size in table.columns:
        own = {"batch_size": size, "seeds": int(table[size].count()), "mean": table[size].mean()}
        verdict = FEW_SEEDS
        if size not in compared_sizes:
            verdict = FAILED if failed[size] else NO_VALUE
        elif len(compared_sizes) == 1 and own["seeds"] >= outcomes.LEAST_SEEDS:
            verdict = ALONE
        found.append(Size(**{**own, "verdict": verdict, **compared.get(size, {})}))
    return found


def judge(sizes: Sequence[Size], least: float = 0.0) -> list[Size]:
    """Returns what `compare` returned with verdicts, and with p adjusted by Holm over the sizes.

    Args:
        least: What p of being beyond is no less than: the least p of their row, if there is one.
    """
    adjusted = np.maximum(paired_tests.holm([size.p_beyond for size in sizes]), least)
    found = []
    for size, p in zip(sizes, adjusted.tolist(), strict=True):
        verdict = size.verdict
        if size.deciding is not None and size.seeds >= outcomes.LEAST_SEEDS:
            verdict = NOT_RESOLVED
            if size.p_within < outcomes.LEVEL:
                verdict = WITHIN
            elif p < outcomes.LEVEL:
                verdict = BEYOND
        found.append(size._replace(p_beyond=p, verdict=verdict))
    return found


def level_beyond(sizes: Sequence[Size]) -> float:
    """Returns the level of the pair's test that shows one more size of a series to be beyond.

    5 % over the other sizes, by Bonferroni, and over the sizes that are not beyond yet, by Holm.
    """
    compared = [size for size in sizes if size.deciding is not None]
    left = sum(size.verdict != BEYOND for size in compared)
    return outcomes.LEVEL / max((len(compared) - 1) * left, 1)


def _compared(
    table: pandas.DataFrame,
    margin: float,
    sign: float,
    differing: Collection[int],
    bounded: Collection[int],
) -> dict[int, dict[str, Any]]:
    """Returns batch size -> what its comparison with every other one says; see `Size`.

    `table` has no gap; `sign` is 1 where higher is better, else -1.
    """
    seeds, count = table.shape
    if min(seeds, count) < 2:
        return {}
    values = table.to_numpy(float)
    # By how much more than the margin the size of the last axis is better than that before it.
    excess = sign * (values[:, None, :] - values[:, :, None]) - margin
    # A difference that is the margin itself: rounding decides nothing.
    scale = np.maximum(np.abs(values[:, None, :]), np.abs(values[:, :, None])) + margin
    excess = paired_tests.unrounded(excess, scale)
    own = np.isin(table.columns, list(differing))
    either = own[:, None] | own
    within, beyond = (
        paired_tests.paired_t(excess, direction, either)
        for direction in (outcomes.FALLS, outcomes.RISES)
    )
    np.fill_diagonal(within, -np.inf)
    np.fill_diagonal(beyond, np.inf)
    # Both have their extreme at the same size; a p near 1 no longer distinguishes sizes.
    near = within.max(axis=1) <= 0.5
    decides = np.where(near, within.argmax(axis=1), beyond.argmin(axis=1)).tolist()
    censored = np.isin(table.columns, list(bounded))
    within[:, censored] = np.maximum(within[:, censored], 1.0)
    beyond[censored] = np.maximum(beyond[censored], 1.0)
    np.fill_diagonal(within, -np.inf)
    found = {}
    for index, (size, deciding) in enumerate(zip(table.columns, decides, strict=True)):
        p_within = float(within[index].max())
        differences = values[:, index] - values[:, deciding]
        pair = bool(either[index, deciding])
        found[int(size)] = {
            "seeds": seeds,
            "deciding": int(table.columns[deciding]),
            "difference": intervals.t_interval(differences, 1 - 2 * outcomes.LEVEL, differ=pair),
            "p_within": p_within,
            "p_beyond": min(float(beyond[index].min()) * (count - 1), 1.0),
        }
    return found


def table(runs: pandas.DataFrame, stated: dict[str, float]) -> pandas.DataFrame:
    """Returns one row per series, outcome with a stated margin, and batch size; see `MARGINS`."""
    factors = run_series.factor_columns(runs)
    rows: list[dict[str, Any]] = []
    # Trainings that are evaluated along the way alone are compared at budgets, not at their end.
    known = {name: stated[name] for name in stated if name in runs and runs[name].notna().any()}
    for outcome, margin in known.items():
        for series in run_series.series(runs):
            found = find(series.frame, outcome, margin)
            for size in found.sizes:
                own = series.frame[series.frame["batch_size"] == size.batch_size].iloc[0]
                row = {"outcome": outcome, "margin": margin, **size.columns()}
                ends = {"smallest_batch_size": found.smallest, "largest_batch_size": found.largest}
                rows.append({**{name: own[name] for name in factors}, **row, **ends})
    return run_series.table(rows, MARGINS, factors)
