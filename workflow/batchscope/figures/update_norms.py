"""The distribution of the updates' norms by batch size, and its median against batch size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, words
from batchscope.figures.drawing.against_batch_size import Panel

_MEDIAN = Panel("update_norm_median", "Median", "median ‖update‖")
_BINS = ["low", "high", "count", "share"]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run and bin: factors, status, the run's median, and the bin's share."""
    medians = run_series.own(tables.runs).set_index("run")[_MEDIAN.column]
    updates = against_batch_size.with_absent(tables.updates, tables.runs)
    updates = updates.assign(**{_MEDIAN.column: updates["run"].map(medians)})
    columns = against_batch_size.factor_columns(updates)
    return updates[[*columns, _MEDIAN.column, *_BINS]].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: for each series, distributions beside medians."""
    groups = run_series.series(frame)
    height = 2.75 if len(groups) < 4 else 2.4
    figure, grid = canvas.panels(len(groups), 2, width=4.2, height=height)
    styles = against_epoch.styles(frame)
    for (left, right), group in zip(grid, groups, strict=True):
        _draw_distributions(left, group.frame, styles)
        left.set_title(wording.titled("Distribution", group.label))
        runs = against_epoch.runs(group.frame)
        canvas.lift_title(left, runs)  # beside the other
        panel = replace(_MEDIAN, title=wording.titled(_MEDIAN.title, group.label))
        against_batch_size.draw_panel(right, runs, panel, [run_series.Series("", {}, runs)])
    against_epoch.legend(figure, styles)
    several = ", means over seeds" if frame["seed"].nunique() > 1 else ""
    canvas.notes(figure, against_epoch.runs(frame), f"Triangles: medians{several}.")
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the medians at the ends of the batch sizes, and their ratio."""
    runs = against_epoch.runs(frame)
    return words.sentence(runs, _MEDIAN.column, "Mean over seeds of the median norm of an update")


def _draw_distributions(
    axes: Axes, rows: pandas.DataFrame, styles: dict[int, dict[str, Any]]
) -> None:
    """Draws one outline per batch size: each bin's share of a run's updates, mean over seeds.

    On it the mean of the seeds' medians.
    """
    binned = rows[(rows["status"] == canvas.FINISHED) & rows["low"].notna()]
    if binned.empty:
        canvas.empty(axes)
        return
    for size, style in styles.items():
        chosen = binned[binned["batch_size"] == size]
        if len(chosen):
            edges, shares = _mean_shares(chosen)
            axes.stairs(shares, edges, linewidth=1.2, **style)
            median = chosen.drop_duplicates("seed")[_MEDIAN.column].mean()
            if edges[0] <= median < edges[-1]:
                height = shares[np.searchsorted(edges, median, side="right") - 1]
                colour = style["color"]
                axes.plot([median] * 2, [0, height], color=colour, linewidth=0.8, alpha=0.7)
                mark = {"marker": "v", "color": colour, "markeredgecolor": "white"}
                axes.plot(median, height, zorder=4, **mark)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    canvas.few_log_labels(axes.xaxis, high / low)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    axes.set_xlabel("‖update‖")
    axes.set_ylabel("updates per bin (%)")


def _mean_shares(rows: pandas.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bins' edges and shares; a bin that a run does not list holds none of its own.

    All runs have the same bins, of equal width on a logarithmic axis, and list a range of them.
    """
    low, high = (np.log10(rows[name].to_numpy(float)) for name in ("low", "high"))
    width = np.median(high - low)
    index = np.round(low / width).astype(int)
    totals = np.bincount(index - index.min(), weights=rows["share"].to_numpy(float))
    edges = 10 ** (width * np.arange(index.min(), index.max() + 2))
    return edges, totals / rows["seed"].nunique()
