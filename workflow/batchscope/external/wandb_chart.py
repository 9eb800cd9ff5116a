"""Read charts exported from Weights & Biases: a column per run and metric, `RUN - METRIC`."""

from __future__ import annotations

from dataclasses import replace

from batchscope.external.log_files import Log

_AXES = ("Step", "Relative Time (Process)", "Relative Time (Wall)", "Wall Time")
_RUN_METRIC_SEPARATOR = " - "
# Suffixes of the columns that W&B adds for the spread over grouped runs.
_SPREAD_SUFFIXES = ("__MIN", "__MAX")


def is_chart(log: Log) -> bool:
    axis, *curves = log.rows.columns
    return axis in _AXES and any(_RUN_METRIC_SEPARATOR in name for name in curves)


def read(log: Log) -> Log:
    """Return the chart as one row per run and step, without empty cells and spread columns."""
    import pandas

    axis, *curves = log.rows.columns
    parts = []
    for column in curves:
        run, _, metric = column.rpartition(_RUN_METRIC_SEPARATOR)
        if run and not column.endswith(_SPREAD_SUFFIXES):
            rows = log.rows[log.rows[column] != ""]
            parts.append(pandas.DataFrame({axis: rows[axis], "run": run, metric: rows[column]}))
    return replace(log, format="Weights & Biases chart", rows=pandas.concat(parts).fillna(""))
