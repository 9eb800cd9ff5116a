"""Charts exported from Weights & Biases: a column per run and metric, named `RUN - METRIC`."""

from __future__ import annotations

from dataclasses import replace

from batchscope.external.log_files import Log

_AXES = ("Step", "Relative Time (Process)", "Relative Time (Wall)", "Wall Time")
_BETWEEN = " - "
_SPREAD = ("__MIN", "__MAX")  # end the columns of the spread over grouped runs


def is_chart(log: Log) -> bool:
    axis, *curves = log.rows.columns
    return axis in _AXES and any(_BETWEEN in name for name in curves)


def read(log: Log) -> Log:
    """Return a chart with a row per run and step; the column `run` has the names of the runs."""
    import pandas

    axis, *curves = log.rows.columns
    parts = []
    for column in curves:
        run, _, metric = column.rpartition(_BETWEEN)
        if run and not column.endswith(_SPREAD):
            rows = log.rows[log.rows[column] != ""]
            parts.append(pandas.DataFrame({axis: rows[axis], "run": run, metric: rows[column]}))
    return replace(log, format="Weights & Biases chart", rows=pandas.concat(parts).fillna(""))
