"""A series of the advice in, rows of advice.csv out: expected results, and other learning rates.

`expectation_rows` has the results at each batch size and its rate, at the lowest validation loss if
the outcome was evaluated there, or else at the end of the trainings. A new result is one of its
`columns`. `rate_rows` compares the other rates of the recommended size.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import intervals, racing, run_series, verdicts
from batchscope.analysis.advice_series import RATE, AdviceSeries, Row
from batchscope.analysis.targets import Target
from batchscope.store.records import FAILED
from batchscope.study.outcomes import (
    CONVERGENCE,
    COSTS,
    END,
    EPOCHS,
    MIN_SEEDS_FOR_INTERVAL,
    SECONDS,
    TARGET,
    UPDATES,
    Reason,
    Verdict,
)
from batchscope.study.table_entries import clipped_to_range

PATIENCE, MEMORY_PEAK, EPOCH_SECONDS = "patience", "memory_peak_mb", "seconds_per_epoch"
COUNTED = (EPOCHS, UPDATES, PATIENCE)  # results that are summarised by their range over the seeds
_POSITIVE = (SECONDS, EPOCH_SECONDS, MEMORY_PEAK)
_LOSS = "validation_loss"
_MEAN = [f"mean{end}" for end in intervals.SUFFIXES]
_RUN_COLUMNS = ["batch_size", RATE, "seed", "train_seconds", EPOCH_SECONDS, MEMORY_PEAK]
_BEST_TO_WORST = [Verdict.WITHIN, Verdict.PROVISIONAL, Verdict.BEYOND]


def _runs(series: AdviceSeries, *columns: str) -> pandas.DataFrame:
    runs = series.run_columns("run", "status", *_RUN_COLUMNS, *columns).set_index("run")
    numbers = runs.drop(columns="status").apply(pandas.to_numeric, errors="coerce")
    return numbers.assign(status=runs["status"])


def _evaluations(series: AdviceSeries) -> pandas.DataFrame:
    """Return the evaluations of finished runs with a validation loss, in order of updates."""
    rows = series.tables.trajectories
    if rows.empty or _LOSS not in rows:
        return pandas.DataFrame(columns=["run", "batch_size", RATE, "seed", _LOSS])
    rows = run_series.finished_runs(rows.dropna(subset=_LOSS))
    return rows.sort_values(UPDATES, kind="stable", ignore_index=True)


def outcome_values(series: AdviceSeries, outcome: str) -> tuple[pandas.DataFrame, str]:
    """Return each finished run with its `value` of an outcome, and where it is read.

    The place is convergence or the end. `epochs`, `updates` and `seconds` are those used there.
    """
    runs, rows = run_series.finished_runs(_runs(series, outcome)), _evaluations(series)
    compared = series.limits.loc[series.limits["outcome"] == outcome, "budget"]
    is_evaluated = outcome in rows and bool(rows[outcome].notna().all())
    has_minimum = compared.eq(CONVERGENCE).any() and len(rows) > 0
    if has_minimum and (is_evaluated or series.request.best_weights):
        place, rows = CONVERGENCE, rows.loc[rows.groupby("run")[_LOSS].idxmin()]
    else:
        place, rows = END, rows.drop_duplicates("run", keep="last")
    columns = ["epoch", UPDATES, SECONDS, outcome]
    rows = rows.set_index("run").reindex(index=runs.index, columns=columns).astype(float)
    if place == END:
        rows[SECONDS] = runs["train_seconds"].fillna(rows[SECONDS])
    value = rows[outcome] if place == CONVERGENCE and is_evaluated else runs[outcome]
    return runs.join(rows[columns[:3]].rename(columns={"epoch": EPOCHS})).assign(value=value), place


def expectation_rows(series: AdviceSeries) -> Iterator[Row]:
    """Yield one row per batch size, at its learning rate, and result.

    Outcomes that were compared at another place than the first outcome are left out.
    """
    compared = series.limits.set_index(["outcome", "batch_size"])
    names = [name for name in series.outcomes if name in series.tables.runs]
    values = {name: outcome_values(series, name) for name in names}
    if not values:
        return
    runs, place = values[names[0]]
    used = EPOCHS if runs[EPOCHS].notna().any() else UPDATES
    columns = {used: runs[used]}
    columns |= {key: frame["value"] for key, (frame, where) in values.items() if where == place}
    columns |= {name: runs[name] for name in (SECONDS, EPOCH_SECONDS, MEMORY_PEAK)}
    if place == CONVERGENCE and used == EPOCHS:
        by_run = _evaluations(series).groupby("run")[[_LOSS, "epoch"]]
        patience = {run: needed_patience(*rows.to_numpy(float).T) for run, rows in by_run}
        columns[PATIENCE] = pandas.Series(patience).reindex(runs.index)
    for size in series.sizes:
        rate = series.rate_of_size(size)
        selected = (runs["batch_size"] == size) & (math.isnan(rate) | runs[RATE].eq(rate))
        for name, column in columns.items():
            if column[selected].isna().all():
                continue
            row = {"batch_size": size, RATE: rate, "key": place, "name": name}
            row |= _summary(name, column[selected].dropna())
            if name in values and row["n"] >= MIN_SEEDS_FOR_INTERVAL:
                # An outcome that chooses the rates is read at the rates that other seeds choose.
                mean, row["low"], row["high"] = compared.loc[(name, size), _MEAN]
                row["estimate"] = row["estimate"] if pandas.isna(mean) else mean
            yield row


def _summary(name: str, values: pandas.Series) -> Row:
    """Return a mean with its interval; counts and fewer than 3 values have their range instead."""
    mean, *ends, n = intervals.t_interval(values, logarithmic=name in _POSITIVE)
    ends = clipped_to_range(name, ends)
    if name in COUNTED or n < MIN_SEEDS_FOR_INTERVAL:
        ends = [values.min(), values.max()]
    return {"estimate": mean, "low": ends[0], "high": ends[1], "n": n}


def needed_patience(losses: Any, epochs: Any) -> float:
    """Return the longest time between two improvements of the loss, in whole epochs."""
    improved = np.diff(np.minimum.accumulate(losses), prepend=math.inf) < 0
    longest = np.diff(np.asarray(epochs)[improved]).max(initial=1)
    return float(math.ceil(longest - 1e-9))


def rate_rows(series: AdviceSeries) -> Iterator[Row]:
    """Yield one row per rate that was tried at the recommended size, against the recommended rate.

    It has the worst verdict on the outcomes and on the updates to the target. A rate that left the
    race was shown to be worse.
    """
    size, chosen = series.recommended_size, series.rate_of_size(series.recommended_size)
    runs = _runs(series)
    runs = runs[(runs["batch_size"] == size) & runs[RATE].notna()]
    failed = runs["status"].isin(FAILED).groupby(runs[RATE]).any()
    tables = dict(_values_by_rate(series, size))
    bounds = series.limits.drop_duplicates("outcome").set_index("outcome")["bound"]
    race = series.tables.race.reindex(columns=["batch_size", RATE, "status"])
    left_rates = {*race.loc[(race["batch_size"] == size) & (race["status"] == racing.LEFT), RATE]}
    for rate in failed.index:
        row: Row = {"batch_size": size, RATE: rate, "verdict": Verdict.WITHIN}
        if failed[rate]:
            row |= {"verdict": Verdict.NOT_TESTABLE, "reason": Reason.FAILED}
        elif rate != chosen:
            differences = [
                _difference_row(name, values[rate], values[chosen], float(bounds[name]))
                for name, values in tables.items()
                if {chosen, rate} <= {*values}
            ]
            differences.sort(key=lambda difference: _BEST_TO_WORST.index(difference["verdict"]))
            row |= differences[-1] if differences else {"verdict": Verdict.PROVISIONAL}
            if rate in left_rates and row["verdict"] != Verdict.BEYOND:
                # The race has the interval that decided; that of its few seeds here does not.
                verdict = {"verdict": Verdict.BEYOND, "reason": Reason.RATE_LEFT}
                row = {"batch_size": size, RATE: rate, **verdict}
        yield row


def _values_by_rate(series: AdviceSeries, size: int) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yield each limit with a table of seeds x rates; a cost has the updates to the target."""
    at_target = series.rows_at_budgets(TARGET)
    for name in series.limits["outcome"].unique():
        if name not in COSTS:
            values, _ = outcome_values(series, name)
            yield name, values[values["batch_size"] == size].pivot_table("value", "seed", RATE)
        elif len(at_target):
            column, value = at_target[["budget_column", "budget_value"]].iloc[0]
            rows = _evaluations(series)[lambda rows: rows["batch_size"] == size]
            target, metrics = Target(column, value), series.request.metrics
            updates = target.crossings(rows, UPDATES, ["seed", RATE], metrics)
            if len(updates):  # external runs may have no rate
                yield name, updates.unstack()


def _difference_row(name: str, values: pandas.Series, chosen: pandas.Series, bound: float) -> Row:
    """Return how values by seed differ from those at the chosen rate; the ratio of a cost."""
    if name in COSTS:
        mean, *ends, n = intervals.ratio_interval(values, chosen)
    else:
        mean, *ends, n = intervals.t_interval(values - chosen)
    ends = ends if n >= MIN_SEEDS_FOR_INTERVAL else [math.nan, math.nan]
    missed = np.isinf(values[np.isfinite(chosen) & values.notna()])
    if missed.mean() > 0.5:  # most runs never reached the target
        mean, ends = math.inf, [math.inf, math.inf]
    elif missed.any():
        ends[1] = math.inf
    row = {"name": name, "estimate": mean, "low": ends[0], "high": ends[1], "bound": bound, "n": n}
    compared = pandas.DataFrame([{**row, "verdict": Verdict.PROVISIONAL}])
    return {**row, "verdict": verdicts.verdicts_of_intervals(compared).iloc[0]}
