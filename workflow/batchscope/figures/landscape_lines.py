"""Loss along random directions through the trained weights, by batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from batchscope import wording
from batchscope.analysis import landscape_rises, run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, marks, words

_PANELS = {
    "rise": ("Rise, mean over directions", "f(a) − f(0) (nats)"),
    "loss": ("Loss, every direction", "f(a) (nats)"),
}
_MOST_POINTS = 4000  # of all thin lines in one figure: keeps an SVG under about 150 kB
_LEAST_POINTS, _LONGEST_LINE = 9, 101  # of one of them
_MOST_ROWS = 6


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run, direction and position: factors, status, loss and its rise."""
    lines = tables.landscapes[tables.landscapes["kind"] == "line"]
    lines = against_batch_size.with_absent(lines, tables.runs)
    at_zero = lines[lines["a"] == 0].drop_duplicates(["run", "index"])
    foot = at_zero.set_index(["run", "index"])["loss"].rename("foot")
    lines = lines.join(foot, on=["run", "index"])
    lines["rise"] = lines["loss"] - lines["foot"]
    columns = [*against_batch_size.factor_columns(lines), "index", "a", "loss", "rise"]
    return lines[columns].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per series."""
    groups = run_series.series(frame)
    shown = groups[:_MOST_ROWS]
    height = 2.75 if len(shown) < 4 else 2.1
    figure, grid = canvas.panels(
        len(shown), len(_PANELS), width=4.2, height=height, sharex=True, sharey="col"
    )
    styles = against_epoch.styles(frame)
    finished = _finished(frame)
    lines = max(int((finished["a"] == 0).sum()), 1)
    points = int(np.clip(_MOST_POINTS // lines, _LEAST_POINTS, _LONGEST_LINE))
    for row, group in zip(grid, shown, strict=True):
        for axes, (column, (title, label)) in zip(row, _PANELS.items(), strict=True):
            _draw_panel(axes, _finished(group.frame), column, styles, points)
            axes.set_title(wording.titled(title, group.label))
            axes.set_ylabel(label)
    for axes in grid[-1]:
        axes.set_xlabel("position a along the direction")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
    if len(finished):
        canvas.value_axis(grid[0, 1], finished["loss"])
    against_epoch.legend(figure, styles)
    notes = (_note(frame), canvas.first_note(_MOST_ROWS, len(groups)))
    canvas.notes(figure, against_epoch.runs(frame), *notes)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean rise half way along the lines and at their edge, by batch size."""
    finished = _finished(frame)
    if finished.empty:
        return ""
    keys = [*run_series.varying(frame), "batch_size", "seed", "status"]
    sentences = []
    for away in landscape_rises.half_and_edge(finished["a"]):
        at = finished[np.isclose(finished["a"].abs(), away)]
        rises = at.groupby(keys, as_index=False)["rise"].agg(lambda part: part.mean(skipna=False))
        every = frame[keys].drop_duplicates().merge(rises, how="left", on=keys)
        what = f"Mean rise of the training loss at |a| = {wording.number(away)}"
        sentences.append(words.sentence(every, "rise", what, wording.Unit(" nats")))
    return " ".join(filter(None, sentences))


def _finished(frame: pandas.DataFrame) -> pandas.DataFrame:
    return frame[(frame["status"] == canvas.FINISHED) & frame["a"].notna()]


def _draw_panel(
    axes: Axes, rows: pandas.DataFrame, column: str, styles: dict[int, dict[str, Any]], points: int
) -> None:
    if rows.empty:
        canvas.empty(axes)
    for size, style in styles.items():
        chosen = rows[rows["batch_size"] == size]
        if chosen.empty:
            continue
        if column == "loss":
            _draw_directions(axes, chosen, style["color"], points)
        # No loss is below 0, so that it cannot rise by less than minus what it is at the minimum.
        least = -chosen.loc[chosen["a"] == 0, "loss"].mean()
        table = landscape_rises.over_directions(chosen, column)
        _draw_mean(axes, table, style, least if column == "rise" else None)


def _draw_directions(axes: Axes, rows: pandas.DataFrame, colour: str, points: int) -> None:
    """Draws all directions of a run as one line with gaps: less to write than many."""
    for _, run in rows.groupby("seed"):
        parts = []
        for _, line in run.groupby("index"):
            kept = line.sort_values("a").iloc[_thinned(len(line), points)]
            parts += [kept[["a", "loss"]].to_numpy(float), [[np.nan, np.nan]]]
        style = {"color": colour, "linewidth": 0.4, "alpha": 0.35, "zorder": 1}
        (drawn,) = axes.plot(*np.concatenate(parts).T, **style)
        marks.line(drawn, run)


def _thinned(length: int, points: int) -> np.ndarray:
    """Returns at most so many indices, evenly spread: both ends and the middle among them."""
    if length <= points:
        return np.arange(length)
    half = np.linspace(0, (length - 1) / 2, (points + 1) // 2)
    return np.unique(np.append(half, length - 1 - half).round().astype(int))


def _draw_mean(
    axes: Axes, table: pandas.DataFrame, style: dict[str, Any], least: float | None
) -> None:
    """Draws the mean and, where its least possible value is given, its interval from there on."""
    positions = table.index.to_numpy(float)
    mean, low, high, _ = canvas.mean_intervals(axes, table.to_numpy(float))
    if least is not None and np.isfinite(low).any():
        low = np.maximum(low, least)
        axes.fill_between(positions, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(positions, mean, zorder=3, **style)


def _note(frame: pandas.DataFrame) -> str:
    if not (count := frame["index"].nunique()):
        return ""
    text = "mean over seeds, with its 95 % t-interval, cut where the loss would be below 0"
    left = f" Left: {text}." if frame["seed"].nunique() > 1 else ""
    return f"{wording.count(count, 'direction')} per run.{left}"
