"""Comparison of each batch size with the best of the others; see `verdicts`.

Costs to a target are compared by their logarithms, so that differences are ratios. Rows have the
outcome's own direction: a negative estimate is a lower accuracy, or a lower loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas

from batchscope.analysis import chosen_rates, intervals, run_series, verdicts
from batchscope.analysis.readings import Reading
from batchscope.analysis.verdicts import ROUNDING, ComparisonWithBest, Contrast, Row
from batchscope.study.decision_columns import COMPARISONS
from batchscope.study.outcomes import LEAST_WITH_INTERVAL, Reason, Verdict
from batchscope.study.tables import clipped


def table(runs: pandas.DataFrame, readings: Iterable[Reading]) -> pandas.DataFrame:
    """Return one row per reading and batch size; see `COMPARISONS`."""
    factors = [name for name in run_series.factor_columns(runs) if name != chosen_rates.RATE]
    rows = [row for reading in readings for row in _rows(reading, factors)]
    return verdicts.table(rows, COMPARISONS, factors)


def higher_is_better(rows: pandas.DataFrame) -> pandas.Series:
    """Return whether higher values of each row's outcome are better, by the sign of its bound."""
    return rows["bound"].astype(float) < 0


def best(rows: pandas.DataFrame) -> int | None:
    """Return the batch size with the best paired difference to the best of the others.

    Means of batch sizes are not ranked: those with more seeds or timing jobs hold values that the
    others have no counterpart of. The only batch size with a value is the best one.

    Args:
        rows: Rows of comparisons.csv of one series, budget and outcome.
    """
    values = rows.set_index("batch_size")[["estimate", "mean"]].astype(float)
    for column in ("estimate", "mean"):
        ranked = values[column].dropna()
        if len(ranked):
            higher = higher_is_better(rows).iloc[0]
            return int(ranked.idxmax() if higher else ranked.idxmin())
    return None


def _rows(reading: Reading, factors: list[str]) -> Iterator[Row]:
    """Yield the rows of a reading, one per batch size."""
    bound = -reading.margin if reading.rises else reading.margin
    if reading.is_cost:
        bound = verdicts.exponential(math.log1p(reading.margin))
    firsts = reading.trainings.runs.drop_duplicates("batch_size").set_index("batch_size")[factors]
    means, not_compared = reading.means(), reasons(reading)
    compared = [at for at, reason in enumerate(not_compared) if not reason]
    statements = _statements(reading, compared)
    for at, size in enumerate(reading.batch_sizes):
        value, *ends = means[at][:3]
        interval = means[at].n >= LEAST_WITH_INTERVAL
        ends = clipped(reading.outcome, ends) if interval else [math.nan] * 2
        seeds, statement = int(reading.ran[at].sum()), statements.get(at)
        reason = not_compared[at] or (Reason.NONE if statement else Reason.ALONE)
        reached = int(np.isfinite(reading.values[at]).sum())
        yield {
            **firsts.loc[size].to_dict(),
            **reading.held_equal,
            "margin": reading.margin,
            "bound": bound,
            "batch_size": size,
            "learning_rate": reading.chosen.rates[at],
            "on_edge": int(reading.chosen.on_edge[at]),
            "still_falling": int(reading.falling[at]),
            "seeds": seeds,
            "epochs_run": reading.trainings.epochs_run.get(size),
            "reached": None if reason == Reason.NO_VALUE or not seeds else reached,
            **intervals.columns("mean", (value, *ends)),
            "verdict": Verdict.NOT_TESTABLE,
            "reason": reason,
            "n": 0,
            "statement": statement,
        }


def reasons(reading: Reading) -> list[Reason]:
    """Return the reason why each batch size is compared with none; empty if it is compared."""
    result = []
    for at, values in enumerate(reading.values):
        if reading.is_cost and (values <= 0).any():
            result.append(Reason.NOT_POSITIVE)  # a cost of 0 has no ratio
        elif np.isinf(values).any():
            result.append(Reason.NOT_REACHED if reading.not_reached[at] else Reason.FAILED)
        elif np.isnan(values).all():
            result.append(Reason.NO_BUDGET if reading.ended[at] else Reason.NO_VALUE)
        elif reading.rate_left[at]:
            result.append(Reason.RATE_LEFT)
        else:
            result.append(Reason.NONE)
    return result


def _statements(reading: Reading, kept: list[int]) -> dict[int, ComparisonWithBest]:
    """Return the statement of each batch size that shares a seed with another one."""
    margin = math.log1p(reading.margin) if reading.is_cost else reading.margin
    analyses = (*reading.earlier, reading)
    shares = [analysis.share for analysis in analyses]
    bounded = [Reason.AT_FIRST_EVALUATION if first else Reason.NONE for first in reading.at_first]
    statements = {}
    for at in kept if len(kept) > 1 else ():
        compared = [
            ComparisonWithBest.of_all(
                (
                    Contrast(
                        _differences(analysis, at, other, margin),
                        low=-margin,
                        tuned=bool(analysis.chosen.tuned[[at, other]].any()),
                        open_low=bounded[other],
                        open_high=bounded[at],
                        cells={"against": reading.batch_sizes[other]},
                    )
                    for other in kept
                    if other != at
                ),
                ratio=reading.is_cost,
                pairs=len(kept) * (len(kept) - 1) // 2,
                negative=reading.is_cost or not reading.rises,
            )
            for analysis in analyses
        ]
        statement = verdicts.staged(compared, shares)
        if any(contrast.n for contrast in statement.contrasts):
            statements[at] = statement
    return statements


def _differences(reading: Reading, at: int, other: int, margin: float) -> np.ndarray:
    """Return by how much one batch size is better than another one, by seed."""
    values = reading.values[[at, other]]
    if reading.is_cost:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = -np.log(values)
    elif not reading.rises:
        values = -values
    with np.errstate(invalid="ignore"):
        differences = values[0] - values[1]
    # Rounding must not move a difference across the margin.
    close = np.abs(differences + margin) <= ROUNDING * (np.abs(values).sum(axis=0) + margin)
    return np.where(close, -margin, differences)
