"""How far a batch can grow before an outcome falls: the largest within a stated margin of the best.

The margin is written down before the runs. "Within" is claimed by two one-sided paired t-tests
(equivalence), never by a difference that was not found: p > 0.05 of an ordinary test says as much
of few seeds as of equal batch sizes. Batch sizes are tested one by one upwards from the best, and
the first that is not within the margin ends it, so that the level needs no adjustment for their
number. The best is chosen from the same runs, which flatters it: a claim errs to the safe side.

Source: D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power approach
for assessing the equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15 (1987).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope.analysis import paired_tests, run_series

BEST, WITHIN, BEYOND = "best", "within", "beyond"
NOT_RESOLVED, FEW_SEEDS, FAILED = "not_resolved", "few_seeds", "failed"
# Higher is better of these; of any other outcome (a loss) lower is.
_RISING = ("accuracy",)

# Columns of margins.csv beside the factors of a series.
COLUMNS: dict[str, str] = {
    "outcome": "The outcome: a column of runs.csv.",
    "margin": "Largest loss of it that counts as negligible, as the configuration states it.",
    "batch_size": "Examples per update.",
    "seeds": "Seeds with a finished run at this batch size and at the best one.",
    "mean": "Mean of the outcome over the finished runs.",
    "best_batch_size": "Batch size with the best mean among those without a failed run.",
    "difference": "Mean over the seeds of the outcome here less that at the best batch size.",
    "difference_low": "Lower end of its 90 % t-interval, which the two tests at 5 % compare with "
    "the margin.",
    "difference_high": "Upper end.",
    "p": "Larger of the two one-sided p-values that the difference lies within the margin.",
    "verdict": "best, within (the margin), beyond (it), not_resolved, few_seeds (fewer than 6 "
    "pairs) or failed (a run that did not finish).",
    "largest_batch_size": "Largest batch size up to which every one from the best on is within the "
    "margin: the same in all rows of a series; empty without 6 seeds.",
}


class Size(NamedTuple):
    """One batch size of a series against the best of them; NaN where there is none."""

    batch_size: int
    seeds: int
    mean: float
    difference: float
    low: float
    high: float
    p: float
    verdict: str


class Found(NamedTuple):
    """What a series says: every batch size in rising order, the best, and the largest within."""

    sizes: tuple[Size, ...]
    best: int | None
    largest: int | None


def find(rows: pandas.DataFrame, outcome: str, margin: float) -> Found:
    """Compares every batch size of a series with the best one.

    Args:
        rows: Runs of one series: batch_size, seed, status and the outcome.
        outcome: A column; of an accuracy higher is better, of anything else lower.
        margin: Largest loss of it that counts as negligible, above 0.

    Returns:
        The sizes; without a size at which every run finished there is no best one.
    """
    sign = 1.0 if outcome.endswith(_RISING) else -1.0
    finished = rows[rows["status"] == "finished"]
    table = finished.pivot_table(index="seed", columns="batch_size", values=outcome)
    sizes = sorted(rows["batch_size"].unique().tolist())
    lost = {
        size
        for size, chosen in rows.groupby("batch_size")
        if size not in table or table[size].count() < chosen["seed"].nunique()
    }
    whole = [size for size in sizes if size not in lost]
    best = max(whole, key=lambda size: sign * table[size].mean()) if whole else None
    found = tuple(_size(table, size, best, margin, sign, size in lost) for size in sizes)
    return Found(found, best, _largest(found, best))


def _size(
    table: pandas.DataFrame, size: int, best: int | None, margin: float, sign: float, lost: bool
) -> Size:
    mean = float(table[size].mean()) if size in table else np.nan
    if size not in table or best is None:
        seeds = int(table[size].count()) if size in table else 0
        return Size(size, seeds, mean, np.nan, np.nan, np.nan, np.nan, FAILED)
    differences = (table[size] - table[best]).to_numpy(float)
    tested = paired_tests.equivalence(differences, margin)
    interval = tested.interval
    numbers = (interval.n, mean, interval.mean, interval.low, interval.high)
    if size == best:
        verdict = BEST if interval.n >= paired_tests.LEAST_SEEDS else FEW_SEEDS
        return Size(size, interval.n, mean, 0.0, np.nan, np.nan, np.nan, verdict)
    if lost:
        return Size(size, *numbers, np.nan, FAILED)
    if interval.n < paired_tests.LEAST_SEEDS:
        return Size(size, *numbers, tested.p, FEW_SEEDS)
    if tested.equivalent:
        return Size(size, *numbers, tested.p, WITHIN)
    nearest = sign * (interval.high if sign > 0 else interval.low)
    return Size(size, *numbers, tested.p, BEYOND if nearest < -margin else NOT_RESOLVED)


def _largest(sizes: tuple[Size, ...], best: int | None) -> int | None:
    largest = None
    for size in sizes:
        if best is None or size.batch_size < best:
            continue
        if size.verdict not in (BEST, WITHIN):
            break
        largest = size.batch_size
    return largest


def table(runs: pandas.DataFrame, stated: dict[str, float]) -> pandas.DataFrame:
    """Returns one row per series, outcome and batch size; see `COLUMNS`.

    Args:
        runs: Runs of an experiment, with their factors.
        stated: Outcome -> margin.
    """
    factors = run_series.factor_columns(runs)
    rows: list[dict[str, Any]] = []
    for outcome, margin in stated.items():
        for series in run_series.series(runs):
            found = find(series.frame, outcome, margin)
            for size in found.sizes:
                own = series.frame[series.frame["batch_size"] == size.batch_size].iloc[0]
                rows.append(
                    {
                        **{name: own[name] for name in factors},
                        "outcome": outcome,
                        "margin": margin,
                        "batch_size": size.batch_size,
                        "seeds": size.seeds,
                        "mean": size.mean,
                        "best_batch_size": found.best,
                        "difference": size.difference,
                        "difference_low": size.low,
                        "difference_high": size.high,
                        "p": size.p,
                        "verdict": size.verdict,
                        "largest_batch_size": found.largest,
                    }
                )
    whole = dict.fromkeys(("batch_size", "seeds", "best_batch_size", "largest_batch_size"), "Int64")
    return pandas.DataFrame(rows, columns=[*factors, *COLUMNS]).astype(whole)
