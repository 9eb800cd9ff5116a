"""Curves over a position in the space of weights: means over seeds, and every seed thin.

Of random directions a curve is a batch size, on the mean over the directions of each run; of the
line between two minimisers it is a part of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import entries
from batchscope.catalogue.entries import Panel, Scale
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas

_SPLITS = {"train": "training data", "validation": "validation data", "test": "test data"}
_ENDS = {"small": 0.0, "large": 1.0}  # column with the factor's value -> its place on the line
_MOST_ROWS = 6


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per run and position, of lines also per split: factors and values."""
    table, (over,) = getattr(tables, spec.table), spec.over
    if table.empty:
        return table
    if spec.lines:
        names = [*run_series.varying(table), "batch_size", "seed", over, spec.lines, *spec.columns]
        names += [panel.column for panel in spec.panels]
        return table[list(dict.fromkeys(names))].reset_index(drop=True)
    lines = table[table["kind"] == "line"]
    at_zero = lines[lines[over] == 0].drop_duplicates(["run", "index"])
    foot = at_zero.set_index(["run", "index"])["loss"].rename("foot")
    lines = lines.join(foot, on=["run", "index"])
    lines["rise"] = lines["loss"] - lines["foot"]
    keys = [*run_series.varying(lines), "batch_size", "seed", over]
    means = lines.groupby(keys, sort=False, dropna=False)[["loss", "rise"]]
    return means.agg(lambda part: part.mean(skipna=False)).reset_index()


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: one row of panels per series, of lines per pair of values."""
    parts = [*_parts(frame, spec)][:_MOST_ROWS]
    across = len(spec.panels)
    shape = (len(parts), across) if across > 1 else (1, len(parts))
    figure, grid = canvas.panels(*shape, 4.2 if len(parts) < 3 else 3.4, 2.9, sharex=True)
    grid = grid.reshape(len(parts), across)
    if spec.lines:
        splits = [split for split in _SPLITS if (frame[spec.lines] == split).any()]
        looks = canvas.series_styles(len(splits))
        styles = {split: {**look, "marker": ""} for split, look in zip(splits, looks, strict=True)}
        handles = [(Line2D([], [], **styles[split]), _SPLITS[split]) for split in splits]
        canvas.legend(figure, handles)
    else:
        sizes = sorted(frame["batch_size"].unique().tolist())
        styles = {size: {**look, "marker": ""} for size, look in canvas.size_styles(sizes).items()}
        canvas.size_legend(figure, styles)
    for row, (label, rows) in zip(grid, parts, strict=True):
        for axes, panel in zip(row, spec.panels, strict=True):
            values = frame[panel.column].to_numpy(float)
            for value, style in styles.items():
                chosen = rows[rows[spec.lines or "batch_size"] == value]
                _draw_curve(axes, chosen, panel, spec, style)
            _finish(axes, panel, values[np.isfinite(values)])
            canvas.title(axes, wording.titled(panel.title, label), 11 if spec.lines else 0)
            axes.set_xlabel(f"position {spec.over[0]}")
            if spec.lines:
                _mark_ends(axes, rows)
    return figure


def _parts(frame: pandas.DataFrame, spec: entries.Figure) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yields label and rows of every row of panels."""
    if not spec.lines:
        yield from ((group.label, group.frame) for group in run_series.series(frame))
        return
    several = frame["batch_size"].nunique() > 1
    for size, rows in frame.groupby("batch_size"):
        for group in run_series.series(rows):
            parts = [f"batch size {size}" if several else "", group.label]
            yield ", ".join(filter(None, parts)), group.frame


def _draw_curve(
    axes: Axes, rows: pandas.DataFrame, panel: Panel, spec: entries.Figure, style: dict[str, Any]
) -> None:
    table = rows.pivot_table(panel.column, spec.over[0], "seed", dropna=False)
    if table.size:
        at, values = table.index.to_numpy(float), table.to_numpy(float)
        values = np.where(np.isfinite(values), values, np.nan)
        canvas.curve(axes, at, values, style, band=not spec.lines)
        if np.isfinite(values).sum(axis=1).max() > 1:
            axes.plot(at, values, color=style["color"], linewidth=0.5, alpha=0.5)


def _finish(axes: Axes, panel: Panel, values: np.ndarray) -> None:
    """Scales the vertical axis to the means and seeds: no wide interval squeezes them."""
    canvas.linear_ticks(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
    margin = 0.08 * (float(np.ptp(values)) or 1.0)
    axes.set_ylim(values.min() - margin, values.max() + margin)
    axes.set_ylabel(panel.label)
    if panel.scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(canvas.percent_tick)


def _mark_ends(axes: Axes, rows: pandas.DataFrame) -> None:
    """Marks both minimisers with the value of the factor in which they differ."""
    look = {"xycoords": axes.get_xaxis_transform(), "fontsize": 7.5, "color": canvas.INK}
    for column, at in _ENDS.items():
        value = rows[column].iloc[0]
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        name = run_series.describe({rows["factor"].iloc[0]: value})
        axes.axvline(at, color=canvas.MUTED, linewidth=0.8, zorder=1)
        canvas.annotate(axes, name, (at, 1.0), (0, 3), ha="center", annotation_clip=False, **look)
