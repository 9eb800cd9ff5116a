"""Rows of timing tables that figures show, their factors, and one series per sweep."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas

from batchscope.analysis import run_series
from batchscope.host import requirements
from batchscope.study.tables import value_range


def usable_rows(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows without missing requirements, with utilisations limited to 100 %.

    Short samples can be above 100 %.
    """
    rows = rows[~rows["status"].isin(requirements.LABELS)] if "status" in rows else rows
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*value_range(name)) for name in shares})


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    return list(dict.fromkeys(["machine", *run_series.varying_factors(frame)]))


def sweep_series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return a series for each sweep on a machine, with its rows in order of batch size.

    A factor that changes with the batch size also distinguishes sweeps, because each has its fit.
    """
    frame = frame.reset_index(drop=True)
    return [
        replace(group, frame=frame.loc[group.frame.index].sort_values("batch_size", kind="stable"))
        for group in run_series.split_series(frame.assign(batch_size=0))
    ]


def constant_value(rows: pandas.DataFrame, column: str) -> float:
    """Return the number that all rows of a series share; NaN without a number."""
    values = rows[column].dropna() if column in rows else ()
    return float(values.iloc[0]) if len(values) else math.nan
