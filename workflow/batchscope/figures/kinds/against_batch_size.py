"""Outcomes against batch size: every seed a small point, means with 95 % t-intervals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path

from batchscope import wording
from batchscope.analysis import intervals, run_series
from batchscope.analysis.run_series import Series
from batchscope.catalogue import entries
from batchscope.catalogue.entries import Panel, Scale
from batchscope.catalogue.tables import clipped
from batchscope.figures import rows
from batchscope.figures.drawing import canvas

_SLOT = 0.62  # share of the distance between two batch sizes that all series take together
_MOST_SERIES = 5  # in one panel; of more, those that have something in common
_MOST_PARTS, _MOST_PANELS = 6, 24
_FACETS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALL = "all runs"  # the line, beside several, of what a factor does not change
# An arrow that points upwards from a point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


class Place(NamedTuple):
    """Where a series stands: its offset in doublings, and how many stand beside each other."""

    offset: float
    count: int


@dataclass(frozen=True)
class Cell:
    """What one pair of axes shows: a panel of these series, with what they have in common."""

    panel: Panel
    title: str
    lines: list[Series]

    @property
    def frame(self) -> pandas.DataFrame:
        """The rows of all its series."""
        return pandas.concat([line.frame for line in self.lines])

    @property
    def values(self) -> np.ndarray:
        """All values that it draws."""
        return rows.finished(self.frame)[self.panel.column].to_numpy(float)


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: a row of panels for each part of the series, where they are many."""
    every, columns = cells(frame, spec)
    shown = every[:_MOST_PANELS]
    labels = list(dict.fromkeys(line.label for cell in shown for line in cell.lines))
    looks = dict(zip(labels, canvas.series_styles(len(labels)), strict=True))
    small = {"width": 2.6, "height": 2.2} if columns > 3 else {}
    wide = {"width": 4.8} if columns == 1 else {}
    figure, grid = canvas.some_panels(len(shown), columns, **small, **wide)
    _share(grid, shown, bool(spec.facets))
    for axes, cell in zip(grid, shown, strict=True):
        draw_cell(axes, cell, looks)
    for axes, cell in zip(grid, shown, strict=True):
        alike = [cell] if spec.facets else shown
        alike = [each for each in alike if each.panel.label == cell.panel.label]
        values = np.concatenate([each.values for each in alike])
        if cell.panel.scale == Scale.ZERO and np.isfinite(values).any():
            axes.set_ylim(bottom=0)  # so that heights compare as they do
        canvas.keep_possible(axes, cell.panel.column, values)
        if not axes.get_subplotspec().is_first_col() and shown[0].panel.label == cell.panel.label:
            axes.set_ylabel("")
            axes.tick_params(labelleft=not axes.get_shared_y_axes().joined(axes, grid[0]))
    canvas.legend(figure, [(Line2D([], [], **looks[one]), one or _ALL) for one in labels], least=2)
    more = canvas.first_note(len(shown), len(every), "panels")
    means = "Means over seeds with a 95 % interval (Student's t); small: single runs."
    canvas.notes(figure, rows.runs(frame), more, means if frame["seed"].nunique() > 1 else "")
    return figure


def cells(frame: pandas.DataFrame, spec: entries.Figure) -> tuple[list[Cell], int]:
    """Returns what every pair of axes shows, in order, and how many stand in a row."""
    found, groups = rows.panels(frame, spec), canvas.present(frame)
    if spec.facets:
        (panel,) = found
        kept = frame[frame[spec.facets].notna()]
        # A run that failed has no value of it, and is marked in every panel.
        failed = frame[frame[spec.facets].isna()]
        parts = [
            (str(value), canvas.present(pandas.concat([own, failed])))
            for value, own in kept.groupby(spec.facets, sort=False)
        ]
        return [Cell(panel, title, lines) for title, lines in parts], min(4, len(parts))
    if spec.lines:
        every = [
            Cell(panel, wording.capital(group.label) or panel.title, _lines(group, spec.lines))
            for group in groups
            for panel in found
        ]
        return every, min(2, len(every))
    every = []
    parts = facets(groups)
    for title, group in parts:
        for panel in found:
            lines = _independent(group, panel.column)
            shared = _in_common(panel, title, frame)
            every.append(Cell(panel, shared, lines))
    return every, len(found) if len(parts) > 1 else 2 if len(found) == 4 else min(len(found), 3)


def _in_common(panel: Panel, part: str, frame: pandas.DataFrame) -> str:
    """Returns a panel's heading with what its series have in common, and what shares are of."""
    title = wording.titled(panel.title, part) if panel.title else wording.capital(part)
    counts = frame[panel.counted_on].dropna().unique() if panel.counted_on in frame else ()
    return f"{title} ({int(counts[0]):,} examples)" if len(counts) == 1 else title


def _lines(group: Series, column: str) -> list[Series]:
    """Returns a line of a series for each value of a column."""
    failed = group.frame[group.frame[column].isna()]
    noun = "epoch" if column == "at_epoch" else column.replace("_", " ")
    return [
        Series(wording.count(int(value), noun), {}, pandas.concat([own, failed]))
        for value, own in group.frame.groupby(column)
    ]


def _independent(groups: list[Series], column: str) -> list[Series]:
    """Returns series, without those of a factor that this column does not depend on."""
    frame = pandas.concat([group.frame for group in groups])
    kept = rows.without_idle(frame, column)
    if kept.columns.equals(frame.columns):
        return groups
    return run_series.series(kept)


def facets(groups: list[Series]) -> list[tuple[str, list[Series]]]:
    """Returns the series in parts of few: by a factor that all have, by two, or all in one.

    Where none gives parts of few, by those whose largest part is smallest. A series is named by
    what its part does not say.
    """
    found, largest = [("", groups)], len(groups)
    there = [name for name in _FACETS if all(name in group.factors for group in groups)]
    for names in [*itertools.combinations(there, 1), *itertools.combinations(there, 2)]:
        if largest <= _MOST_SERIES:
            break
        parts: dict[tuple, list[Series]] = {}
        for group in groups:
            rest = {name: one for name, one in group.factors.items() if name not in names}
            labelled = replace(group, label=run_series.describe(rest))
            parts.setdefault(tuple(group.factors[name] for name in names), []).append(labelled)
        most = max(map(len, parts.values()))
        if len(parts) <= _MOST_PARTS and most < largest:
            largest = most
            found = [
                (run_series.describe(dict(zip(names, key, strict=True))), part)
                for key, part in parts.items()
            ]
    return found


def _share(grid: list[Axes], every: list[Cell], apart: bool) -> None:
    """Gives panels of one column, and all of shares, one vertical axis, and like ones one scale.

    Those of facets stay `apart`: layers are of different sizes.
    """
    first: dict[str, Axes] = {}
    alike: dict[str, list[tuple[Axes, Cell]]] = {}
    for axes, cell in zip(grid, every, strict=True):
        panel = cell.panel
        shared = panel.label if panel.scale == Scale.PERCENT else panel.column
        if first.setdefault(shared, axes) is not axes and not apart:
            axes.sharey(first[shared])
        alike.setdefault(panel.label, []).append((axes, cell))
    for found in alike.values():
        scale = found[0][1].panel.scale
        if scale == Scale.LOG:
            found[0][0].set_yscale("log")
        elif scale == Scale.AUTO:
            canvas.alike_scales([axes for axes, _ in found], [cell.values for _, cell in found])


def draw_cell(axes: Axes, cell: Cell, looks: dict[str, dict[str, Any]]) -> None:
    """Draws the series of a pair of axes."""
    panel, frame = cell.panel, cell.frame
    sizes = sorted(frame["batch_size"].unique().tolist())
    ends = []
    for index, line in enumerate(cell.lines):
        place = Place(dodge(index, len(cell.lines), sizes), len(cell.lines))
        ends.append(_draw_line(axes, line.frame, panel, looks[line.label], place))
    if np.isfinite(cell.values).any():
        canvas.value_axis(axes, cell.values, np.concatenate(ends), panel.scale)
    else:
        canvas.empty(axes)
    canvas.batch_size_axis(axes, sizes)
    axes.set_ylabel(panel.label)
    canvas.mark_failures(axes, rows.runs(frame), cell.title)


def _draw_line(
    axes: Axes, own: pandas.DataFrame, panel: Panel, look: dict[str, Any], place: Place
) -> np.ndarray:
    """Draws seeds, means and intervals of one series; returns the ends of its bars."""
    known = rows.finished(own).dropna(subset=panel.column)
    known = known.astype({panel.column: float})
    at = positions(known, place)
    if known["seed"].nunique() > 1:
        seeds = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
        axes.plot(at, known[panel.column], markersize=2.6, markeredgewidth=0, alpha=0.4, **seeds)
    if panel.counted_on in known:
        _draw_binomial(axes, known, panel, look, place)
    sizes, centres, bars = means(axes, known, panel)
    bar = {"markersize": 5.5 if len(sizes) < 17 else 3.5, "elinewidth": 1.2, "linewidth": 1.1}
    drawn = {**bar, **canvas.line_look(look, len(sizes))}
    axes.errorbar(np.log2(sizes) + place.offset, centres, yerr=bars, zorder=3, **drawn)
    if panel.bounds and {"epochs", "epochs_run"} <= {*known}:
        _draw_bounds(axes, known, at, panel, look)
    return np.concatenate([centres - bars[0], centres + bars[1]])


def means(axes: Axes, known: pandas.DataFrame, panel: Panel) -> tuple[np.ndarray, ...]:
    """Returns batch sizes, the mean of a panel's column at each, and its bars, shape (2, sizes).

    Bars are ends of the table, or the interval over seeds, or of one seed its own error; else 0.
    """
    found = []
    for _, part in known.groupby("batch_size"):
        values = part[panel.column].to_numpy(float)
        mean, low, high, _ = (each.item() for each in canvas.mean_intervals(axes, values[None]))
        if panel.error and len(values) == 1:
            half = float(part[panel.error].iloc[0])
            low, high = mean - half, mean + half
        if panel.ends:
            low, high = part[[*panel.ends]].astype(float).mean()
        found.append((mean, low, high))
    mean, low, high = np.reshape(found, (-1, 3)).T
    sizes = np.sort(known["batch_size"].unique()).astype(float)
    return sizes, mean, np.nan_to_num([mean - low, high - mean])


def _draw_binomial(
    axes: Axes, known: pandas.DataFrame, panel: Panel, look: dict[str, Any], place: Place
) -> None:
    """Draws the 95 % error of a share counted on so many examples as a broad pale bar."""
    look = {"color": look["color"], "alpha": 0.15, "solid_capstyle": "butt", "zorder": 1}
    look["linewidth"] = float(np.clip(9 / place.count, 2.0, 7.0))
    errors = intervals.binomial(known, panel.column, ["batch_size"]).dropna()
    for size, mean, half in errors.itertuples(name=None):
        ends = clipped(panel.column, (mean - half, mean + half))
        axes.plot([np.log2(size) + place.offset] * 2, ends, **look)


def _draw_bounds(
    axes: Axes, known: pandas.DataFrame, at: pandas.Series, panel: Panel, look: dict[str, Any]
) -> None:
    """Marks runs that nothing stopped, whose values are lower bounds: hollow, with an arrow."""
    ran = run_series.unstopped(known)
    marks = {"linestyle": "none", "color": look["color"], "zorder": 2.5, "markeredgewidth": 0.7}
    marks |= {"clip_on": False, "in_layout": False}  # panels keep their size
    values = known.loc[ran, panel.column]
    axes.plot(at[ran], values, marker=_ARROW, markersize=24, fillstyle="none", **marks)
    hollow = {"marker": look["marker"], "markersize": 3.5, "markerfacecolor": canvas.PAPER}
    axes.plot(at[ran], values, **hollow, **marks)


def room(batch_sizes: list[int]) -> float:
    """Returns the doublings that the series and seeds of a batch size may share: one at most."""
    return min(canvas.spacing(batch_sizes), 1.0)


def dodge(index: int, count: int, batch_sizes: list[int]) -> float:
    """Returns the horizontal offset of a series, in doublings: they stand beside each other."""
    width = _SLOT * room(batch_sizes) / max(count, 1)
    return (index - (count - 1) / 2) * width if count > 1 else 0.0


def positions(known: pandas.DataFrame, place: Place) -> pandas.Series:
    """Returns where each run of a series stands: its batch size, with a place for every seed."""
    seeds = sorted(known["seed"].unique().tolist())
    width = 0.3 * room(known["batch_size"].tolist()) / place.count if len(known) else 0.0
    # The same seed stands at the same place everywhere.
    places = np.linspace(-0.5, 0.5, len(seeds)) * width if len(seeds) > 1 else [0.0] * len(seeds)
    jitter = dict(zip(seeds, places, strict=True))
    return np.log2(known["batch_size"].astype(float)) + place.offset + known["seed"].map(jitter)
