"""Rows and columns of tables that figures show, their panels, and the series of timings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas

from batchscope.analysis import best_learning_rates, run_series
from batchscope.core import display
from batchscope.figures import FigureTables
from batchscope.host import requirements
from batchscope.study import columns, specifications
from batchscope.study.specifications import Panel
from batchscope.study.tables import possible

RUN = ("machine", "run")


def select(
    tables: FigureTables, spec: specifications.Figure, best_rate: bool = False
) -> pandas.DataFrame:
    """Return the rows and columns of a figure's table that it shows, with its factors.

    Tables with several rows per run get a row for each absent run, so that failures are counted.
    The frame is empty if there is no value, or one batch size of one series.

    Args:
        best_rate: Whether to keep only the best learning rate of each batch size.
    """
    runs = _at_best_rates(tables.runs) if best_rate else tables.runs
    frame = runs if spec.table == "runs" else _with_absent(getattr(tables, spec.table), runs)
    frame = frame.rename(columns={"step": "updates"}) if spec.over else frame
    names = [spec.lines, spec.facet, *spec.over, *spec.columns]
    for table in (runs, frame):
        names += [name for panel in filled(table, spec) for name in panel.columns]
    of_runs = [name for name in dict.fromkeys(names) if name not in frame and name in runs]
    if of_runs:
        keys = [name for name in RUN if name in frame]
        frame = frame.merge(run_series.local(runs)[[*keys, *of_runs]], how="left", on=keys)
    return unless_blank(only(frame, names), spec)


def only(frame: pandas.DataFrame, names: Iterable[str]) -> pandas.DataFrame:
    """Return the factors that vary, batch size, seed, status and some columns."""
    names = dict.fromkeys([*run_series.varying(frame), "batch_size", "seed", "status", *names])
    return frame[[name for name in names if name in frame]].reset_index(drop=True)


def unless_blank(frame: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the frame, without rows if its figure would show nothing."""
    if frame.empty or not panels(frame, spec):
        return frame.iloc[:0]
    runs = finished(frame)
    lines = runs[spec.lines].nunique() if spec.lines else len(run_series.series(frame))
    is_point = runs["batch_size"].nunique() < 2 and lines < 2 and not spec.over
    return frame.iloc[:0] if is_point else frame


def panels(frame: pandas.DataFrame, spec: specifications.Figure) -> list[Panel]:
    """Return the panels with finite values, one for each column of a pattern."""
    runs, panels = finished(frame), []
    for panel in filled(frame, spec):
        values = runs[panel.column].astype(float)
        if panel.unless in runs:
            values = values[values != runs[panel.unless].astype(float)]
        if np.isfinite(values).any():
            panels.append(panel)
    return panels


def filled(frame: pandas.DataFrame, spec: specifications.Figure) -> Iterator[Panel]:
    """Yield the panels with a column in a frame, the settings of a pattern in title and label."""
    for panel in spec.panels:
        # A setting's place in the column, `\{rhos\}`, matches its value.
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[a-z0-9.-]+)", re.escape(panel.column))
        entry = columns.COLUMNS.get(panel.column)
        words = entry.words if entry else {}
        for match in filter(None, (re.fullmatch(pattern, name) for name in frame)):
            texts = {key: words.get(text, text) for key, text in match.groupdict().items()}
            title, label = panel.title, panel.label
            if texts:
                title = display.capital(title.format(**texts))
                label = label.format(**texts)
            yield replace(panel, column=match[0], title=title, label=label)


def finished(frame: pandas.DataFrame) -> pandas.DataFrame:
    return run_series.finished(frame) if "status" in frame else frame


def runs(frame: pandas.DataFrame) -> pandas.DataFrame:
    keys = [*run_series.varying(frame), "batch_size", "seed"]
    return frame.drop_duplicates([name for name in keys if name in frame])


def parts(frame: pandas.DataFrame, column: str) -> list[tuple[str, pandas.DataFrame]]:
    """Return label and rows of every series and value of a column."""
    name = f"{column.replace('_', ' ')} {{}}" if frame[column].nunique() > 1 else ""
    return [
        (", ".join(filter(None, [group.label, name.format(value)])), rows)
        for group in run_series.series(frame)
        for value, rows in group.frame.groupby(column)
    ]


def _with_absent(table: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of `runs` in a long table, with a row for each run without one."""
    if table.empty or "run" not in table:
        return table
    keys = [name for name in RUN if name in table]
    runs = runs if "machine" in keys else run_series.local(runs)
    of_rows, of_runs = (pandas.MultiIndex.from_frame(frame[keys]) for frame in (table, runs))
    absent = runs[~of_runs.isin(of_rows)].reindex(columns=table.columns)
    rows = table[of_rows.isin(of_runs)]
    return pandas.concat([rows, absent], ignore_index=True) if len(absent) else rows


def _at_best_rates(runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the runs at the best learning rate of their series and batch size.

    It has the lowest mean validation loss, or the most finished runs if there is no loss.
    """
    if not best_learning_rates.several(runs):
        return runs
    kept = []
    for group in best_learning_rates.series(runs):
        for choice in best_learning_rates.choices(group.frame):
            rows = group.frame[group.frame["batch_size"] == choice.batch_size]
            ended = rows["status"].eq("finished").groupby(rows["learning_rate"]).sum()
            rate = choice.learning_rate if choice.learning_rate > 0 else ended.idxmax()
            kept.append(rows[rows["learning_rate"] == rate])
    return pandas.concat(kept).sort_index()


def timing_rows(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows with met requirements, with utilisations of at most 100 %.

    Short samples can be above 100 %.
    """
    rows = rows[~rows["status"].isin(requirements.LABELS)] if "status" in rows else rows
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*possible(name)) for name in shares})


def timing_factors(frame: pandas.DataFrame) -> list[str]:
    return list(dict.fromkeys(["machine", *run_series.varying(frame)]))


def sweeps(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return a series for each sweep on a machine, with its rows in order of batch size.

    Two sweeps are distinguished by a factor that follows the batch size too, since they have
    different fits.
    """
    frame = frame.reset_index(drop=True)
    return [
        replace(group, frame=frame.loc[group.frame.index].sort_values("batch_size", kind="stable"))
        for group in run_series.series(frame.assign(batch_size=0))
    ]


def constant(rows: pandas.DataFrame, column: str) -> float:
    """Return the number that all rows of a series have, or NaN."""
    values = rows[column].dropna() if column in rows else ()
    return float(values.iloc[0]) if len(values) else math.nan
