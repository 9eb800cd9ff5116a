"""One panel of a figure by batch size: series -> means with 95 % intervals, a point per seed.

`PanelContent` holds the series and the published values of a panel, which are hollow stars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.path import Path

from batchscope.analysis import intervals, run_series
from batchscope.analysis.run_series import Series
from batchscope.figures import axis_scales, canvas, figure_rows
from batchscope.study.specifications import Panel, Scale
from batchscope.study.tables import clipped_to_range
from batchscope.tables.published import MACHINE_COLUMNS, series_factors

_SERIES_WIDTH = 0.62  # All series together take this share of the distance of two batch sizes.
_STAR = {"marker": "*", "markersize": 9, "markerfacecolor": canvas.PAPER, "markeredgewidth": 0.9}
_STAR |= {"linewidth": 0.7, "zorder": 5, "color": canvas.INK, "linestyle": "none"}
# An arrow that points upwards from a point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


class PublishedLine(NamedTuple):
    """Published values of a series, with the index of the measured series of the same factors."""

    index: int | None  # None if several series have these factors
    sizes: pandas.Series
    values: pandas.Series


class PanelContent(NamedTuple):
    """What one pair of axes shows: measured series, and published values of the same column."""

    panel: Panel
    title: str
    lines: list[Series]
    published: tuple[PublishedLine, ...] = ()

    @property
    def frame(self) -> pandas.DataFrame:
        return pandas.concat([line.frame for line in self.lines])

    @property
    def values(self) -> np.ndarray:
        finished = figure_rows.finished(self.frame)
        columns = [name for name in (self.panel.column, "mean") if name in finished]
        values = finished[columns].to_numpy(float).ravel()
        return np.concatenate([values, *(line.values for line in self.published)])


def with_published(content: PanelContent, published: pandas.DataFrame | None) -> PanelContent:
    """Add the published values of the column, if a series has their factors."""
    if published is None:
        return content
    columns = [MACHINE_COLUMNS.get(name, (name,)) for name in published["column"]]
    published = published[[content.panel.column in names for names in columns]]
    lines = []
    for _, line in published.groupby("series", sort=False, dropna=False):
        factors = series_factors(line.iloc[0]).items()
        series_indices = [
            index
            for index, measured in enumerate(content.lines)
            if all(measured.factors.get(name, value) == value for name, value in factors)
        ]
        if series_indices:
            line = line.sort_values("batch_size").astype({"value": float})
            index = series_indices[0] if len(series_indices) == 1 else None
            lines.append(PublishedLine(index, line["batch_size"], line["value"]))
    return content._replace(published=tuple(lines))


def published_entries(published: pandas.DataFrame | None) -> list[tuple[dict[str, Any], str]]:
    return [] if published is None else [(_STAR, f"document, {published['document'].iloc[0]}")]


def draw(axes: Axes, content: PanelContent, styles: dict[str, dict[str, Any]]) -> None:
    """Draw the series side by side at every batch size."""
    panel, frame, count = content.panel, content.frame, len(content.lines)
    sizes = set(frame["batch_size"].tolist()).union(*(line.sizes for line in content.published))
    sizes = sorted(map(int, sizes))
    width = _SERIES_WIDTH * min(axis_scales.min_doublings(sizes), 1.0) / count  # in doublings
    offsets = [(index - (count - 1) / 2) * width for index in range(count)]
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
    ends = [
        _draw_line(axes, line.frame, panel, styles[line.label], offset, count)
        for line, offset in zip(content.lines, offsets, strict=True)
    ]
    for index, x, values in content.published:
        offset, style = 0.0 if index is None else offsets[index], {}
        if index is not None and len(values) > 2:
            props = styles[content.lines[index].label]
            style = {"color": props["color"], "linestyle": props["linestyle"]}
        axes.plot(np.log2(x.astype(float)) + offset, values, **{**_STAR, **style})
    if np.isfinite(content.values).any():
        axis_scales.set_value_axis(axes, content.values, np.concatenate(ends), panel.scale)
    else:
        canvas.write_no_data(axes)
    axis_scales.set_batch_size_axis(axes, sizes)
    axes.set_ylabel(panel.label)
    canvas.mark_failures(axes, figure_rows.distinct_runs(frame), content.title)


def _draw_line(
    axes: Axes,
    runs: pandas.DataFrame,
    panel: Panel,
    props: dict[str, Any],
    offset: float,
    count: int,
) -> np.ndarray:
    """Draw seeds, means and bars of one of `count` series; return the ends of the bars.

    A bar is the interval over seeds, the error of a single seed, or the interval in `panel.ends`.
    """
    runs = figure_rows.finished(runs).dropna(subset=panel.column).astype({panel.column: float})
    seed_x = _draw_seeds(axes, runs, panel.column, props, offset, count)
    if panel.counted_on in runs:
        _draw_binomial(axes, runs, panel.column, props["color"], offset, count)
    table = runs.pivot_table(panel.column, "batch_size", "seed")
    mean, low, high, seeds = canvas.mean_intervals(axes, table.to_numpy(float))
    by_size = runs.groupby("batch_size")
    if "mean" in runs:
        mean = by_size["mean"].first().to_numpy(float)
    if panel.error:
        error = by_size[panel.error].first().to_numpy(float)
        low, high = np.where(seeds == 1, [mean - error, mean + error], [low, high])
    if panel.ends:
        low, high = by_size[list(panel.ends)].mean().to_numpy(float).T
    bar = {"markersize": 5.5 if len(table) < 17 else 3.5, "elinewidth": 1.2, "linewidth": 1.1}
    bar |= {"zorder": 3, **canvas.line_props(props, len(table))}
    x = np.log2(table.index.to_numpy(float)) + offset
    canvas.draw_error_bars(axes, x, mean, low, high, **bar)
    if panel.bounds and {"epochs", "epochs_run"} <= {*runs}:
        # A run that trained to its last epoch did not stop: its value is a lower bound.
        is_bound = run_series.reached_all_epochs(runs)
        _mark_lower_bounds(axes, seed_x[is_bound], runs.loc[is_bound, panel.column], props)
    return np.concatenate([low, high])


def _draw_seeds(
    axes: Axes,
    runs: pandas.DataFrame,
    column: str,
    props: dict[str, Any],
    offset: float,
    count: int,
) -> pandas.Series:
    """Draw a small point per run and return the positions; a seed has one shift at all sizes."""
    x = np.log2(runs["batch_size"].astype(float)) + offset
    seed = runs["seed"].rank(method="dense") - 1
    if seed.max() > 0:
        room = 0.3 * min(axis_scales.min_doublings(runs["batch_size"].tolist()), 1.0) / count
        x += room * (seed / seed.max() - 0.5)
        point = {"color": props["color"], "marker": props["marker"], "linestyle": "none"}
        axes.plot(x, runs[column], markersize=2.6, markeredgewidth=0, alpha=0.4, **point)
    return x


def _mark_lower_bounds(
    axes: Axes, x: pandas.Series, values: pandas.Series, props: dict[str, Any]
) -> None:
    # Marks are outside the layout, so that panels keep their size.
    mark = {"linestyle": "none", "color": props["color"], "markeredgewidth": 0.7}
    mark |= {"zorder": 2.5, "clip_on": False, "in_layout": False}
    hollow = {"marker": props["marker"], "markersize": 3.5, "markerfacecolor": canvas.PAPER}
    for style in ({"marker": _ARROW, "markersize": 24, "fillstyle": "none"}, hollow):
        axes.plot(x, values, **style, **mark)


def _draw_binomial(
    axes: Axes, runs: pandas.DataFrame, column: str, colour: str, offset: float, count: int
) -> None:
    """Draw the 95 % error of a share of counted examples as a broad pale bar."""
    props = {"color": colour, "alpha": 0.15, "solid_capstyle": "butt", "zorder": 1}
    props["linewidth"] = float(np.clip(9 / count, 2.0, 7.0))
    errors = intervals.binomial(runs, column, ["batch_size"]).dropna()
    for size, mean, error in errors.itertuples(name=None):
        ends = clipped_to_range(column, (mean - error, mean + error))
        axes.plot([np.log2(size) + offset] * 2, ends, **props)
