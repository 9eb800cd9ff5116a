"""Rows and columns of tables that figures show, and their panels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.figures import FigureTables
from batchscope.study import columns, specifications
from batchscope.study.specifications import Panel

RUN = ("machine", "run")
_SETTING = r"(?P<\1>[a-z0-9.-]+)"  # stands for a setting in a column's name


def select(
    tables: FigureTables, spec: specifications.Figure, best_rate: bool = False
) -> pandas.DataFrame:
    """Return the rows and columns of a figure's table that it shows, with its factors.

    Tables with several rows per run get a row for each absent run, so that failures are counted.
    The frame is empty if there is no value, or one batch size of one series.

    Args:
        best_rate: Whether to keep only the best learning rate of each batch size.
    """
    runs = at_best_rates(tables.runs) if best_rate else tables.runs
    found = runs if spec.table == "runs" else _with_absent(getattr(tables, spec.table), runs)
    found = found.rename(columns={"step": "updates"}) if spec.over else found
    drawn = [panel for frame in (runs, found) for panel in filled(frame, spec)]
    wanted = [spec.lines, spec.facet, *spec.over, *spec.columns]
    wanted += [name for panel in drawn for name in panel.columns]
    of_runs = [name for name in dict.fromkeys(wanted) if name not in found and name in runs]
    if of_runs:
        keys = [name for name in RUN if name in found]
        found = found.merge(run_series.own(runs)[[*keys, *of_runs]], how="left", on=keys)
    return shown(only(found, wanted), spec)


def only(found: pandas.DataFrame, wanted: Iterable[str]) -> pandas.DataFrame:
    names = [*run_series.varying(found), "batch_size", "seed", "status", *wanted]
    kept = [name for name in dict.fromkeys(names) if name in found]
    return found[kept].reset_index(drop=True)


def shown(frame: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the frame, without rows if its figure would show nothing."""
    if frame.empty or not panels(frame, spec):
        return frame.iloc[:0]
    known = finished(frame)
    lines = known[spec.lines].nunique() if spec.lines else len(run_series.series(frame))
    alone = known["batch_size"].nunique() < 2 and lines < 2
    return frame.iloc[:0] if alone and not spec.over else frame


def panels(frame: pandas.DataFrame, spec: specifications.Figure) -> list[Panel]:
    """Return the panels with finite values, one for each column of a pattern."""
    known, found = finished(frame), []
    for panel in filled(frame, spec):
        values = known[panel.column].astype(float)
        if panel.unless in known:
            values = values[values != known[panel.unless].astype(float)]
        if np.isfinite(values).any():
            found.append(panel)
    return found


def filled(frame: pandas.DataFrame, spec: specifications.Figure) -> Iterator[Panel]:
    """Yield the panels with a column in a frame, the settings of a pattern in title and label."""
    for panel in spec.panels:
        pattern = re.sub(r"\\\{(\w+)\\\}", _SETTING, re.escape(panel.column))
        entry = columns.COLUMNS.get(panel.column)
        words = entry.words if entry else {}
        for match in filter(None, (re.fullmatch(pattern, name) for name in frame)):
            texts = {key: words.get(text, text) for key, text in match.groupdict().items()}
            title, label = panel.title, panel.label
            if texts:
                title = wording.capital(title.format(**texts))
                label = label.format(**texts)
            yield replace(panel, column=match[0], title=title, label=label)


def finished(frame: pandas.DataFrame) -> pandas.DataFrame:
    return run_series.finished(frame) if "status" in frame else frame


def runs(frame: pandas.DataFrame) -> pandas.DataFrame:
    keys = [*run_series.varying(frame), "batch_size", "seed"]
    return frame.drop_duplicates([name for name in keys if name in frame])


def parts(frame: pandas.DataFrame, by: str) -> list[tuple[str, pandas.DataFrame]]:
    """Return label and rows of every series and value of a column."""
    name = f"{by.replace('_', ' ')} {{}}" if frame[by].nunique() > 1 else ""
    return [
        (", ".join(filter(None, [group.label, name.format(value)])), rows)
        for group in run_series.series(frame)
        for value, rows in group.frame.groupby(by)
    ]


def _with_absent(long: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of `runs` in a long table, with a row for each run without one."""
    if long.empty or "run" not in long:
        return long
    keys = [name for name in RUN if name in long]
    runs = runs if "machine" in keys else run_series.own(runs)
    places, wanted = (pandas.MultiIndex.from_frame(each[keys]) for each in (long, runs))
    absent = runs[~wanted.isin(places)].reindex(columns=long.columns)
    kept = long[places.isin(wanted)]
    return pandas.concat([kept, absent], ignore_index=True) if len(absent) else kept


def at_best_rates(runs: pandas.DataFrame) -> pandas.DataFrame:
    """Return the runs at the best learning rate of their series and batch size.

    It has the lowest mean validation loss, or the most finished runs if there is no loss.
    """
    if not best_learning_rates.several(runs):
        return runs
    kept = []
    for group in best_learning_rates.series(runs):
        for choice in best_learning_rates.choices(group.frame):
            own = group.frame[group.frame["batch_size"] == choice.batch_size]
            ended = own["status"].eq("finished").groupby(own["learning_rate"]).sum()
            rate = choice.learning_rate if choice.learning_rate > 0 else ended.idxmax()
            kept.append(own[own["learning_rate"] == rate])
    return pandas.concat(kept).sort_index()


def without_idle(frame: pandas.DataFrame, column: str) -> pandas.DataFrame:
    """Merge the rows of all values of a factor that a column does not depend on.

    The time of an epoch, for example, has one line for all learning rates.
    """
    for factor in run_series.varying(frame):
        keys = [name for name in run_series.varying(frame) if name != factor]
        keys += ["batch_size", "seed"]
        cells = frame.groupby(keys, dropna=False)[column]
        if cells.size().max() > 1 and (cells.nunique() <= 1).all():
            known = frame.sort_values(column, na_position="last", kind="stable")
            frame = known.drop_duplicates(keys).sort_index().drop(columns=factor)
    return frame
