"""A table of an experiment in, its series out; and other selections of rows by their factors.

A *series* is one line of a figure against batch size: the runs that share every factor except
batch size and seed. Statistics and figures distinguish the same series.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from batchscope.store import records
from batchscope.study import factor_maps, log_format, run_factors
from batchscope.study.factor_maps import describe
from batchscope.study.run_factors import Affects
from batchscope.study.specifications import Column

STOP_FACTORS = run_factors.factors_affecting(Affects.END)  # they stop a run if above 0
_AXES = ("batch_size", "seed")  # factors that vary within a series


@dataclass(frozen=True)
class Series:
    """One series: its label in a legend, the factors that distinguish it, and its rows."""

    label: str
    factors: dict[str, Any]
    frame: pandas.DataFrame


def table(
    rows: list[dict[str, Any]] | pandas.DataFrame,
    columns: Mapping[str, Column],
    factors: Iterable[str] = (),
) -> pandas.DataFrame:
    return with_integer_columns(pandas.DataFrame(rows, columns=[*factors, *columns]), columns)


def with_integer_columns(
    frame: pandas.DataFrame, columns: Mapping[str, Column], errors: str = "raise"
) -> pandas.DataFrame:
    """Return a table with integers in the integer columns; with `ignore`, fractions stay."""
    integers = [name for name in frame if name in columns and columns[name].kind == "int"]
    return frame.astype(dict.fromkeys(integers, "Int64"), errors=errors)


def of_this_machine(runs: pandas.DataFrame) -> pandas.DataFrame:
    if "machine" not in runs or runs.empty:
        return runs
    return runs[runs["machine"] == runs["machine"].iloc[0]]


def finished_runs(runs: pandas.DataFrame) -> pandas.DataFrame:
    return runs[runs["status"] == records.FINISHED]


def reached_all_epochs(runs: pandas.DataFrame) -> pandas.Series:
    """Return whether each run trained for all its epochs although a criterion might stop it."""
    ran_all = (runs["epochs_run"] == runs["epochs"]).fillna(False)
    may_stop = (runs[[name for name in STOP_FACTORS if name in runs]] > 0).any(axis=1)
    return ran_all & may_stop & runs["status"].eq(records.FINISHED)


def rates_after_scaling(runs: pandas.DataFrame) -> dict[tuple[int, float], float]:
    """Return batch size and learning rate -> the learning rate after scaling, where it is known."""
    rates = runs.reindex(columns=["batch_size", "learning_rate", "effective_learning_rate"])
    return {(size, rate): scaled for size, rate, scaled in rates.dropna().to_numpy(float).tolist()}


def log_ratios_to_smallest(
    rows: pandas.DataFrame, parts: Sequence[str], product: str
) -> pandas.DataFrame:
    """Return log2 of the ratios of positive columns, and of their product, to the smallest size.

    Seeds without a finished run at that batch size are left out. `product` is a new column.
    """
    logs = finished_runs(rows).astype(dict.fromkeys(parts, float))
    logs = logs[(logs[parts] > 0).all(axis=1)]
    logs[parts] = np.log2(logs[parts])
    first = logs[logs["batch_size"] == logs["batch_size"].min()].set_index("seed")[parts]
    logs = logs[logs["seed"].isin(first.index)]
    logs[parts] -= first.loc[logs["seed"]].to_numpy()
    return logs.assign(**{product: logs[parts].sum(axis=1)})


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    """Return the factors of a frame, the machine and user-defined columns (`own_...`).

    Batch size and seed are not among them.
    """
    factors = [name for name in factor_maps.SERIES_FACTORS if name not in _AXES and name in frame]
    return [*factors, *filter(log_format.is_user_defined, frame)]


def varying_factors(frame: pandas.DataFrame, names: Iterable[str] | None = None) -> list[str]:
    """Return the factors, or the columns of `names`, with more than one value."""
    names = factor_columns(frame) if names is None else names
    return [name for name in names if frame[name].nunique(dropna=False) > 1]


def series_factors(frame: pandas.DataFrame, names: Iterable[str] | None = None) -> list[str]:
    """Return the fewest factors that distinguish the series, in the registry's order.

    A factor that follows from batch size and the other factors (such as a learning rate that grows
    with the batch size) distinguishes no series and is left out.
    """
    kept = varying_factors(frame, names)
    # Summaries of sweeps have no batch sizes.
    sizes = [name for name in ("batch_size",) if name in frame]

    def is_number(name: str) -> bool:
        factor = factor_maps.SERIES_FACTORS.get(name)
        return factor.kind in ("int", "float") if factor else has_numbers(frame[name])

    # Of two factors that follow from each other, the text is kept: numbers are dropped first.
    for factor in sorted(kept, key=is_number, reverse=True):
        remaining = [*sizes, *(name for name in kept if name != factor)]
        distinct = frame[[*remaining, factor]].drop_duplicates()
        if remaining and not distinct.duplicated(remaining).any():
            kept.remove(factor)
    return kept


def has_numbers(column: pandas.Series) -> bool:
    return column.dtype.kind in "iuf"


def constant_factors(frame: pandas.DataFrame) -> dict[str, Any]:
    """Return the value of each factor of a frame; None if it has several values."""
    names = factor_columns(frame)
    single = frame[names].nunique(dropna=False) == 1
    return {name: frame[name].iloc[0] if single[name] else None for name in names}


def coupled_factors(frame: pandas.DataFrame) -> dict[str, list[Any]]:
    """Return factors that change within a series, with their values in order of batch size."""
    groups = split_series(frame)
    coupled = [
        factor
        for factor in varying_factors(frame)
        if any(group.frame[factor].nunique() > 1 for group in groups)
    ]
    # A summary without batch sizes has no coupled factors.
    ordered = frame.sort_values("batch_size", kind="stable") if coupled else frame
    return {factor: list(ordered[factor].drop_duplicates()) for factor in coupled}


def split_series(frame: pandas.DataFrame, names: Iterable[str] | None = None) -> list[Series]:
    """Return the series by factors, or by `names`: texts as they appear, numbers ascending."""
    names = factor_columns(frame) if names is None else [*names]
    factors, varying = series_factors(frame, names), varying_factors(frame, names)
    if not factors:
        return [Series("", {}, frame)]
    result = []
    numbers_last = sorted(factors, key=lambda name: has_numbers(frame[name]))
    ordered = frame.sort_values(numbers_last, key=_rank, kind="stable")
    for key, rows in ordered.groupby(factors, sort=False, dropna=False):
        values = dict(zip(factors, map(factor_maps.plain_value, key), strict=True))
        # The label has all factors that vary in the frame but not in the series.
        constant = [name for name in varying if rows[name].nunique() == 1]
        constant = [name for name in constant if run_factors.is_used(name, rows)]
        label = describe({name: rows[name].iloc[0] for name in constant})
        result.append(Series(label, values, rows))
    return result


def _rank(column: pandas.Series) -> np.ndarray:
    """Return the rank of each value: numbers ascend, texts keep their order of appearance."""
    return pandas.factorize(column, sort=has_numbers(column), use_na_sentinel=False)[0]


def rows_with_factors(frame: pandas.DataFrame, factors: Mapping[str, Any]) -> pandas.DataFrame:
    for name, value in factors.items():
        frame = frame[frame[name].isna() if pandas.isna(value) else frame[name] == value]
    return frame


def follows_horizon(frame: pandas.DataFrame) -> bool:
    names = [name for name in run_factors.factors_affecting(Affects.HORIZON) if name in frame]
    return any((frame[name].dropna() != run_factors.CONSTANT).any() for name in names)
