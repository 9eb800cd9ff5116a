"""Training and validation loss by epoch, one colour per batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import frames, statistics
from batchscope.figures import Tables, against_batch_size, canvas

_PANELS = {"train_loss": "Training loss", "validation_loss": "Validation loss"}
_MOST_POINTS = 3000  # of all lines in one figure: keeps an SVG under about 150 kB
_LEAST_POINTS, _LONGEST_LINE = 12, 120  # of one line


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run and epoch: factors, status and both losses."""
    history = against_batch_size.with_absent(tables.history, tables.runs)
    history["epoch"] = history["epoch"].astype("Int64")
    columns = [*against_batch_size.factor_columns(history), "epoch", *_PANELS]
    return history[columns].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per series."""
    groups = frames.series(frame)
    height = 2.75 if len(groups) < 4 else 2.0
    figure, grid = canvas.panels(
        len(groups), len(_PANELS), width=4.2, height=height, sharex=True, sharey="col"
    )
    sizes = sorted(frame["batch_size"].unique().tolist())
    styles = dict(zip(sizes, canvas.ordered_styles(len(sizes)), strict=True))
    points = _points(len(_PANELS) * len(_runs(frame)))
    mean_points = _points(len(_PANELS) * len(groups) * len(sizes))
    for row, group in zip(grid, groups, strict=True):
        for axes, (column, title) in zip(row, _PANELS.items(), strict=True):
            _draw_panel(axes, group.frame, column, styles, points, mean_points)
            axes.set_title(f"{title}, {group.label}" if group.label else title)
            axes.set_ylabel("loss (nats)")
    for axes in grid[-1]:
        axes.set_xlabel("epoch")
    for column, name in enumerate(_PANELS):
        _value_axis(grid[0, column], frame, name)
    named = canvas.spread(sizes)
    lines = [Line2D([], [], **styles[size]) for size in named]
    canvas.legend(figure, lines, [str(size) for size in named], "batch size")
    canvas.notes(figure, _runs(frame), _band_note(frame))
    return figure


def _points(lines: int) -> int:
    """Returns how many points each of so many lines may have."""
    return int(np.clip(_MOST_POINTS // max(lines, 1), _LEAST_POINTS, _LONGEST_LINE))


def _runs(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns one row per run."""
    return frame.drop_duplicates([*frames.varying(frame), "batch_size", "seed"])


def _value_axis(axes: Axes, frame: pandas.DataFrame, column: str) -> None:
    """Scales by finished runs, where there are any: what diverged leaves the panel."""
    finished = frame.loc[frame["status"] == canvas.FINISHED, column]
    values = finished if finished.notna().any() else frame[column]
    if values.notna().any():
        canvas.value_axis(axes, values)
        if axes.get_yscale() == "linear":
            low, high = values.min(), values.max()
            margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
            axes.set_ylim(low - margin, high + margin)


def _draw_panel(
    axes: Axes,
    rows: pandas.DataFrame,
    column: str,
    styles: dict[int, dict],
    points: int,
    mean_points: int,
) -> None:
    """Draws single runs thin and their mean with a band."""
    for size, style in styles.items():
        chosen = rows[rows["batch_size"] == size]
        for _, run in chosen.groupby("seed"):
            _draw_run(axes, run, column, style["color"], points)
        finished = chosen[chosen["status"] == canvas.FINISHED]
        if len(finished):
            _draw_mean(axes, finished, column, style, mean_points)
    if rows[column].isna().all():
        canvas.empty(axes, "no run")


def _draw_run(axes: Axes, run: pandas.DataFrame, column: str, colour: str, points: int) -> None:
    run = run[np.isfinite(run[column].astype(float))]
    kept = run.iloc[_thinned(len(run), points)]
    axes.plot(kept["epoch"], kept[column], color=colour, linewidth=0.5, alpha=0.35)
    if len(run) and run["status"].iloc[0] == "diverged":
        # At the upper edge: its loss has left the panel.
        axes.plot(
            run["epoch"].iloc[-1],
            0.97,
            transform=axes.get_xaxis_transform(),
            marker="x",
            color=colour,
        )


def _draw_mean(
    axes: Axes, rows: pandas.DataFrame, column: str, style: dict[str, Any], points: int
) -> None:
    """Draws the mean over the runs that are still training, with its t-interval."""
    table = rows.pivot_table(column, "epoch", "seed")
    table = table.iloc[_thinned(len(table), points)]
    epochs = table.index.to_numpy(int)
    mean, low, high, _ = statistics.t_intervals(table.to_numpy(float))
    if np.isfinite(low).any():
        axes.fill_between(epochs, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(epochs, mean, **style)


def _thinned(length: int, points: int) -> np.ndarray:
    """Returns at most `points` indices, evenly spread, first and last among them."""
    if length <= points:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, points).round().astype(int))


def _band_note(frame: pandas.DataFrame) -> str:
    if frame["seed"].nunique() < 2:
        return ""
    note = "Thick: mean over the runs that still train, with its 95 % t-interval. Thin: every run."
    return note + (" ×: diverged." if (frame["status"] == "diverged").any() else "")
