"""Best validation loss against learning rate by batch size, and the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.analysis.best_learning_rates import CHOSEN_ON
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, canvas, marks, words
from batchscope.store import records

NO_CHOICE = "Every batch size was trained at one learning rate: there is none to choose."
_RATE = "effective_learning_rate"
_MOST_ROWS = 6
_ROOM = 0.09  # share of an axis between two labelled rates, and
_LETTER = 0.022  # at least so much for every letter of the longest along a horizontal one
_LEGEND = 4.2  # inches: width of a legend, as of the panels below it


def select(tables: Tables, *more: str) -> pandas.DataFrame:
    """Returns factors, status, effective learning rate and best validation loss of every run.

    Args:
        more: Further columns of runs.csv.
    """
    runs = tables.runs.assign(**{_RATE: best_learning_rates.effective(tables.runs)})
    columns = [*against_batch_size.factor_columns(runs), "learning_rate", _RATE, CHOSEN_ON, *more]
    return runs[list(dict.fromkeys(columns))].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per series, all rates in each."""
    groups = best_learning_rates.series(frame)
    shown = groups[:_MOST_ROWS]
    figure, grid = canvas.panels(len(shown), 2, width=4.2, height=2.9, sharey=True)
    sizes = sorted(frame["batch_size"].unique().tolist())
    rates = sorted(frame[_RATE].unique().tolist())
    of_sizes, of_rates = (canvas.ordered_styles(each, markers=True) for each in (sizes, rates))
    finished = frame.loc[frame["status"] == canvas.FINISHED, CHOSEN_ON].to_numpy(float)
    canvas.value_scale(grid[0, 0], finished)
    for row, group in zip(grid, shown, strict=True):
        row[0].set_title(wording.titled("Against the learning rate", group.label))
        row[1].set_title(wording.titled("Against the batch size", group.label))
        _draw_panel(row[0], group.frame, _RATE, "batch_size", of_sizes)
        _ring_best(row[0], group.frame, of_sizes)
        rate_axis(row[0], rates)
        _draw_panel(row[1], group.frame, "batch_size", _RATE, of_rates)
        canvas.batch_size_axis(row[1], sizes)
        row[0].set_ylabel("best validation loss (nats)")
    values = finished[np.isfinite(finished)]
    if len(values):
        canvas.value_axis(grid[0, 0], values)
        if grid[0, 0].get_yscale() == "linear":
            # Wide intervals of few seeds must not squeeze what was measured.
            margin = 0.12 * float(np.ptp(values)) or 0.05 * abs(float(values[0])) or 1.0
            grid[0, 0].set_ylim(values.min() - margin, values.max() + margin)
    _legends(figure, of_sizes, of_rates)
    canvas.notes(figure, frame, _note(frame), canvas.first_note(_MOST_ROWS, len(groups)))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the best rate and its loss at the smallest and the largest batch size."""
    parts = [
        f"{group.label}: {_best(best, group)}" if group.label else _best(best, group)
        for group, best in best_learning_rates.chosen(frame)
    ]
    if not parts:
        return ""
    shown = [*parts[:2], *words.further(len(parts) - 2)]
    return f"Lowest mean of the best validation loss: {'; '.join(shown)}."


def _best(best: list[best_learning_rates.Choice], group: run_series.Series) -> str:
    ends = best if len(best) < 2 else [best[0], best[-1]]
    parts = [
        f"{wording.number(choice.rows(group.frame)[CHOSEN_ON].mean())} at learning rate "
        f"{wording.number(choice.rate)} for batch size {choice.batch_size}"
        for choice in ends
    ]
    seeds = group.frame["seed"].nunique()
    return f"{wording.listed(parts)} ({words.seeds(*((end.runs, seeds) for end in ends))})"


def rate_axis(axes: Axes, rates: list[float], which: str = "x") -> None:
    """Turns an axis, in log2(rate), into learning rates as plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    longest = max((len(wording.number(rate)) for rate in rates), default=0)
    shown = _labelled(rates, max(_ROOM, _LETTER * longest) if which == "x" else _ROOM)
    labels = {float(np.log2(rate)): wording.number(rate) for rate in shown}
    axis.set_major_locator(FixedLocator(list(labels)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda at, _: labels.get(float(at), "")))
    if which == "x":
        positions = np.log2(rates)
        margin = max(0.45 * canvas.spacing(rates), 0.04 * float(np.ptp(positions)))
        axes.set_xlim(positions.min() - margin, positions.max() + margin)
        axes.set_xlabel("learning rate")


def _labelled(rates: list[float], room: float = _ROOM) -> list[float]:
    """Returns the rates with room for a label, the largest first."""
    width = float(np.ptp(np.log2(rates)))
    kept: list[float] = []
    for rate in sorted(rates, reverse=True):
        if all(abs(np.log2(rate / other)) >= room * width for other in kept):
            kept.append(rate)
    return sorted(kept)


def _draw_panel(
    axes: Axes, rows: pandas.DataFrame, across: str, by: str, styles: dict[Any, dict[str, Any]]
) -> None:
    """Draws one line per value of `by`, against log2 of `across`."""
    present = [value for value in styles if (rows[by] == value).any()]
    for index, value in enumerate(present):
        chosen = rows[rows[by] == value]
        positions = rows[across].unique().tolist()
        offset = 0.6 * against_batch_size.dodge(index, len(present), positions)
        finished = chosen[(chosen["status"] == canvas.FINISHED) & chosen[CHOSEN_ON].notna()]
        _draw_line(axes, finished, across, styles[value], offset)
        _mark_diverged(axes, chosen, across, styles[value]["color"], offset)
    if not (rows["status"] == canvas.FINISHED).any():
        canvas.empty(axes)


def _draw_line(
    axes: Axes, rows: pandas.DataFrame, across: str, style: dict[str, Any], offset: float
) -> None:
    point = {"marker": style["marker"], "color": style["color"], "alpha": 0.5, "markersize": 2.6}
    point |= {"linestyle": "none", "markeredgewidth": 0, "zorder": 2}
    at = np.log2(rows[across].astype(float)) + offset
    (runs,) = axes.plot(at, rows[CHOSEN_ON], **point)
    marks.points(runs, rows, rows[CHOSEN_ON])
    at, means, bars = against_batch_size.means(axes, rows, across, CHOSEN_ON)
    mean = {"markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.5}
    mean |= {"elinewidth": 0.9, "capsize": 2, "linewidth": 1.2, "zorder": 3}
    axes.errorbar(np.log2(at) + offset, means, yerr=bars, **mean, **style)


def _mark_diverged(
    axes: Axes, rows: pandas.DataFrame, across: str, colour: str, offset: float
) -> None:
    diverged = rows.loc[rows["status"] == records.DIVERGED, across]
    at = np.log2(diverged.unique().astype(float)) + offset
    look = {"linestyle": "none", "marker": "x", "markersize": 5, "color": colour}
    axes.plot(at, np.full(len(at), 0.98), transform=axes.get_xaxis_transform(), **look)


def _ring_best(axes: Axes, rows: pandas.DataFrame, styles: dict[Any, dict[str, Any]]) -> None:
    """Rings the best rate of every batch size, where there was a choice."""
    ring = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "markeredgewidth": 1.1}
    sizes = sorted(rows["batch_size"].unique().tolist())
    for choice in best_learning_rates.choices(rows):
        if not choice.runs or len(choice.rates) < 2:
            continue
        index = sizes.index(choice.batch_size)
        offset = 0.6 * against_batch_size.dodge(index, len(sizes), rows[_RATE].unique().tolist())
        at = (np.log2(choice.rate) + offset, choice.rows(rows)[CHOSEN_ON].mean())
        axes.plot(*at, markeredgecolor=styles[choice.batch_size]["color"], zorder=4, **ring)


def _legends(figure: Figure, of_sizes: dict, of_rates: dict) -> None:
    sizes = [(str(size), of_sizes[size]) for size in canvas.spread(list(of_sizes))]
    rates = [(wording.number(rate), of_rates[rate]) for rate in _labelled(list(of_rates))]
    rows = 0
    for title, entries, side in (("batch size", sizes, "left"), ("learning rate", rates, "right")):
        labels, styles = zip(*entries, strict=True)
        columns = min(len(labels), int(_LEGEND / (0.72 + 0.075 * max(map(len, labels)))))
        rows = max(rows, -(-len(labels) // columns))
        handles = [Line2D([], [], markersize=4.5, **style) for style in styles]
        place = {"loc": f"outside upper {side}", "ncols": columns, "alignment": "left"}
        figure.legend(handles, labels, title=title, **place)
    canvas.grow(figure, 0.3 + 0.18 * rows)


def _note(frame: pandas.DataFrame) -> str:
    if not best_learning_rates.several(frame):
        return NO_CHOICE
    cross = " ×: a run diverged there; such a rate is never the best."
    diverged = (frame["status"] == records.DIVERGED).any()
    return f"Rings: lowest mean of a batch size.{cross if diverged else ''}"
