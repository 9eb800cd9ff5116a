"""Tables and a figure's specification in, the rows, columns and panels that the figure shows out.

`select` is for tables of runs, `usable_timings` for tables of timings. A new rule goes here if
several kinds of figures need it, and otherwise into the kind's module in `kinds`.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas

from batchscope.analysis import best_learning_rates, run_series
from batchscope.core import display
from batchscope.figures import FigureTables
from batchscope.host import requirements
from batchscope.store.records import FINISHED
from batchscope.study import specifications
from batchscope.study.specifications import Panel
from batchscope.study.table_entries import RUNS, value_range

RUN_KEYS = ("machine", "run")


def select(
    tables: FigureTables, spec: specifications.Figure, best_rate: bool = False
) -> pandas.DataFrame:
    """Return the rows and columns of its table that a figure shows, with the factors that vary.

    Tables with several rows per run get a row for each missing run, so that failures are counted.
    The frame is empty if no panel has a value, or if it has a single point.

    Args:
        best_rate: Whether to keep only the best learning rate of each batch size.
    """
    runs = _at_best_rates(tables.runs) if best_rate else tables.runs
    frame = runs if spec.table == "runs" else _with_missing_runs(getattr(tables, spec.table), runs)
    # The updates so far are the column `step` in history.csv, `updates` in trajectories.csv.
    frame = frame.rename(columns={"step": "updates"}) if spec.x_columns else frame
    names = [spec.lines, spec.facet, *spec.x_columns, *spec.columns]
    # A panel of a long table may show a column of runs.csv, which is merged below.
    for table in (runs, frame):
        names += [name for panel in panels_of_columns(table, spec) for name in panel.columns]
    run_columns = [name for name in dict.fromkeys(names) if name not in frame and name in runs]
    if run_columns:
        keys = [name for name in RUN_KEYS if name in frame]
        frame = frame.merge(
            run_series.of_this_machine(runs)[[*keys, *run_columns]], how="left", on=keys
        )
    return if_drawable(with_factors(frame, names), spec)


def with_factors(frame: pandas.DataFrame, names: Iterable[str]) -> pandas.DataFrame:
    """Return the columns of a frame that vary or are named, with batch size, seed and status."""
    names = dict.fromkeys(
        [*run_series.varying_factors(frame), "batch_size", "seed", "status", *names]
    )
    return frame[[name for name in names if name in frame]].reset_index(drop=True)


def if_drawable(frame: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the frame, without rows if its figure would show nothing."""
    if frame.empty or not panels_with_values(frame, spec):
        return frame.iloc[:0]
    runs = finished(frame)
    lines = runs[spec.lines].nunique() if spec.lines else len(run_series.split_series(frame))
    is_single_point = runs["batch_size"].nunique() < 2 and lines < 2 and not spec.x_columns
    return frame.iloc[:0] if is_single_point else frame


def panels_with_values(frame: pandas.DataFrame, spec: specifications.Figure) -> list[Panel]:
    """Return the panels whose column has a finite value in a finished run."""
    runs, with_values = finished(frame), []
    for panel in panels_of_columns(frame, spec):
        values = runs[panel.column].astype(float)
        if panel.unless in runs:
            values = values[values != runs[panel.unless].astype(float)]
        if np.isfinite(values).any():
            with_values.append(panel)
    return with_values


def panels_of_columns(frame: pandas.DataFrame, spec: specifications.Figure) -> Iterator[Panel]:
    r"""Yield the panels with a column of the frame, one for each column that matches a pattern.

    A pattern has a setting in braces, `\{rhos\}`. Its value replaces it in title and label.
    """
    for panel in spec.panels:
        pattern, entry = specifications.column_pattern(panel.column), RUNS.get(panel.column)
        words = entry.words if entry else {}
        for match in filter(None, map(pattern.fullmatch, frame)):
            texts = {key: words.get(text, text) for key, text in match.groupdict().items()}
            title, label = panel.title, panel.label
            if texts:
                title = display.capital(title.format(**texts))
                label = label.format(**texts)
            yield replace(panel, column=match[0], title=title, label=label)


def finished(frame: pandas.DataFrame) -> pandas.DataFrame:
    return run_series.finished_runs(frame) if "status" in frame else frame


def runnable_series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return the series that this machine can run in part or as a whole, or else all series."""
    groups, left_out = run_series.split_series(frame), requirements.LABELS
    runnable = [group for group in groups if not group.frame["status"].isin(left_out).all()]
    return runnable or groups


def distinct_runs(frame: pandas.DataFrame) -> pandas.DataFrame:
    keys = [*run_series.varying_factors(frame), "batch_size", "seed"]
    return frame.drop_duplicates([name for name in keys if name in frame])


def usable_timings(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows without missing requirements, with utilisations limited to 100 %.

    Short samples can be above 100 %.
    """
    rows = rows[~rows["status"].isin(requirements.LABELS)] if "status" in rows else rows
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*value_range(name)) for name in shares})


def sweep_series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return a series for each sweep on a machine, with its rows in order of batch size.

    A factor that changes with the batch size also distinguishes sweeps, because each has its fit.
    """
    frame = frame.reset_index(drop=True)
    return [
        replace(group, frame=frame.loc[group.frame.index].sort_values("batch_size", kind="stable"))
        for group in run_series.split_series(frame.assign(batch_size=0))
    ]


def first_value(rows: pandas.DataFrame, column: str) -> float:
    """Return the first number of a column; NaN without a number. The rows of a series share it."""
    values = rows[column].dropna() if column in rows else ()
    return float(values.iloc[0]) if len(values) else math.nan


def _with_missing_runs(table: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of `runs` in a long table, and an empty row for each run without rows."""
    if table.empty or "run" not in table:
        return table
    keys = [name for name in RUN_KEYS if name in table]
    runs = runs if "machine" in keys else run_series.of_this_machine(runs)
    row_keys, run_keys = (pandas.MultiIndex.from_frame(frame[keys]) for frame in (table, runs))
    missing_runs = runs[~run_keys.isin(row_keys)].reindex(columns=table.columns)
    rows = table[row_keys.isin(run_keys)]
    return pandas.concat([rows, missing_runs], ignore_index=True) if len(missing_runs) else rows


def _at_best_rates(runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the runs at the best learning rate of their series and batch size.

    It has the lowest mean validation loss, or the most finished runs if there is no loss.
    """
    if not best_learning_rates.has_choice(runs):
        return runs
    best_runs = []
    for group in best_learning_rates.series_over_rates(runs):
        for choice in best_learning_rates.best_rates(group.frame):
            rows = group.frame[group.frame["batch_size"] == choice.batch_size]
            finished_counts = rows["status"].eq(FINISHED).groupby(rows["learning_rate"]).sum()
            rate = choice.learning_rate if choice.learning_rate > 0 else finished_counts.idxmax()
            best_runs.append(rows[rows["learning_rate"] == rate])
    return pandas.concat(best_runs).sort_index()
