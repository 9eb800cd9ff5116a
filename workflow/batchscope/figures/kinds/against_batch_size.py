"""Outcomes against batch size: every seed a small point, means with 95 % t-intervals."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path

from batchscope import wording
from batchscope.analysis import intervals, run_series, timing_repeats
from batchscope.analysis.run_series import Series
from batchscope.figures import FigureTables, rows
from batchscope.figures.drawing import canvas, document_points
from batchscope.store import records
from batchscope.study import specifications
from batchscope.study.outcomes import LEAST_WITH_INTERVAL
from batchscope.study.specifications import Panel, Scale
from batchscope.study.tables import clipped

_SLOT = 0.62  # share of the distance between two batch sizes that all series take together
_MOST_SERIES = 5  # in one panel; of more, those that have something in common
_MOST_PARTS, _MOST_PANELS = 6, 24
_FACETS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALL = "all runs"  # the line, beside several, of what a factor does not change
_TIMES = "training_times"  # the table whose rows are of all jobs of a configuration
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
_REFERENCE = {"color": canvas.MUTED, "zorder": 1}
# An arrow that points upwards from a point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


class Cell(NamedTuple):
    """What one pair of axes shows: a panel of these series, with what they have in common."""

    panel: Panel
    title: str
    lines: list[Series]
    document: tuple[document_points.Line, ...] = ()

    @property
    def frame(self) -> pandas.DataFrame:
        return pandas.concat([line.frame for line in self.lines])

    @property
    def values(self) -> np.ndarray:
        own = rows.finished(self.frame)[self.panel.column].to_numpy(float)
        return np.concatenate([own, *(line.values for line in self.document)])


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    if spec.doublings:
        return _doublings(tables.runs, spec)
    return _times(tables, spec) if spec.table == _TIMES else rows.select(tables, spec)


def _doublings(runs: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns each column in doublings from the smallest batch size, and their sum as the last."""
    *parts, whole = (panel.column for panel in spec.panels)
    if not {*parts} <= {*runs}:
        return pandas.DataFrame()
    frame = rows.only(runs, parts)
    found = [run_series.doublings(each.frame, parts, whole) for each in run_series.series(frame)]
    if pandas.concat(found)["batch_size"].nunique() < 2:
        return pandas.DataFrame()
    failed = frame[frame["status"] != records.FINISHED].copy()
    failed[[*parts, whole]] = np.nan
    kept = pandas.concat([each for each in (*found, failed) if len(each)])
    return rows.shown(kept.sort_index().reset_index(drop=True), spec)


def _times(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns the median time and quartiles over all timing jobs, once for all that it is alike."""
    found, ((time, *ends),) = tables.training_times, (panel.columns for panel in spec.panels)
    if found.empty:
        runs = run_series.own(tables.runs)
        if not {*_QUARTILES} <= {*runs} or tables.at_epochs.empty:
            return pandas.DataFrame()
        keys = [name for name in rows.RUN if name in tables.at_epochs]
        found = tables.at_epochs.merge(runs[[*keys, *_QUARTILES]], how="left", on=keys)
    found = run_series.timed_factors(rows.finished(found)).dropna(subset=time)
    keys = [*run_series.varying(found), "batch_size", "at_epoch"]
    found = found.astype(dict.fromkeys((time, *_QUARTILES, "at_epoch"), float))
    found[ends] = found[_QUARTILES].mul(found["at_epoch"], axis=0)
    combined = timing_repeats.combined(found[[*keys, time, *ends]], keys)
    frame = combined.sort_values(keys, kind="stable").assign(seed=0, status=records.FINISHED)
    frame = frame.astype({"batch_size": int, "at_epoch": int})
    return rows.shown(rows.only(frame, ["at_epoch", time, *ends]), spec)


def draw(
    frame: pandas.DataFrame, spec: specifications.Figure, numbers: pandas.DataFrame | None = None
) -> Figure:
    """Returns the figure: a row of panels for each part of the series, where they are many."""
    every, columns = _cells(frame, spec)
    every = [with_document(cell, numbers) for cell in every]
    shown, more = canvas.first(every, _MOST_PANELS, "panels")
    labels = list(dict.fromkeys(line.label for cell in shown for line in cell.lines))
    looks = dict(zip(labels, canvas.series_styles(len(labels)), strict=True))
    size = {"width": 2.6, "height": 2.2} if columns > 3 else {"width": 4.8} if columns == 1 else {}
    figure, grid = canvas.panels(len(shown), columns, **size)
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
    _draw_references(grid, frame, spec)
    named = [(looks[one], one or _ALL) for one in labels] if len(labels) > 1 else []
    starred = numbers if any(cell.document for cell in shown) else None
    canvas.legend(figure, [*named, *document_points.entries(starred)])
    bars = " with a 95 % interval (Student's t)"
    seeds = frame["seed"].nunique()
    means = f"Means over seeds{bars if seeds >= LEAST_WITH_INTERVAL else ''}; small: single runs."
    canvas.notes(figure, rows.runs(frame), more, means if seeds > 1 else "")
    return figure


def _draw_references(
    grid: np.ndarray, frame: pandas.DataFrame, spec: specifications.Figure
) -> None:
    """Draws no doubling, on one axis for all as they add up, or the time of the fewest epochs."""
    if spec.doublings:
        ends = [axes.dataLim.intervaly for axes in grid]
        for axes in grid:
            canvas.around(axes, ends, 0.06)
            axes.axhline(0.0, linewidth=0.8, **_REFERENCE)
    elif spec.table == _TIMES:
        for axes, group in zip(grid, canvas.present(frame), strict=False):
            first = group.frame.sort_values(["at_epoch", "batch_size"]).iloc[0]
            height = float(first[spec.panels[0].column])
            axes.axhline(height, linewidth=1.0, linestyle=canvas.LINES[2], **_REFERENCE)


def _cells(frame: pandas.DataFrame, spec: specifications.Figure) -> tuple[list[Cell], int]:
    """Returns what every pair of axes shows, in order, and how many stand in a row."""
    found, groups = rows.panels(frame, spec), canvas.present(frame)
    if spec.facets:
        # A run that failed has no value of the facet, and is marked in every panel.
        failed = frame[frame[spec.facets].isna()]
        every = [
            Cell(found[0], str(value), canvas.present(pandas.concat([own, failed])))
            for value, own in frame.groupby(spec.facets, sort=False)
        ]
        return every, min(4, len(every))
    if spec.lines:
        every = [
            Cell(panel, wording.capital(group.label) or panel.title, _lines(group, spec.lines))
            for group, panel in itertools.product(groups, found)
        ]
        return every, min(2, len(every))
    parts = facets(groups)
    every = [
        Cell(panel, _heading(panel, title, frame), _independent(part, panel.column))
        for (title, part), panel in itertools.product(parts, found)
    ]
    return every, len(found) if len(parts) > 1 else 2 if len(found) == 4 else min(len(found), 3)


def _heading(panel: Panel, part: str, frame: pandas.DataFrame) -> str:
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
    frame = pandas.concat([group.frame for group in groups])
    kept = rows.without_idle(frame, column)
    return groups if kept.columns.equals(frame.columns) else run_series.series(kept)


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
        parts: dict[str, list[Series]] = {}
        for group in groups:
            rest = {name: one for name, one in group.factors.items() if name not in names}
            title = run_series.describe({name: group.factors[name] for name in names})
            labelled = replace(group, label=run_series.describe(rest))
            parts.setdefault(title, []).append(labelled)
        most = max(map(len, parts.values()))
        if len(parts) <= _MOST_PARTS and most < largest:
            found, largest = [*parts.items()], most
    return found


def _share(grid: np.ndarray, every: list[Cell], apart: bool) -> None:
    """Gives panels of one column, and all of shares, one vertical axis, and like ones one scale.

    Those of facets stay `apart`: layers are of different sizes.
    """
    first: dict[str, Axes] = {}
    alike: dict[tuple[str, Scale], list[tuple[Axes, np.ndarray]]] = {}
    for axes, cell in zip(grid, every, strict=True):
        panel = cell.panel
        shared = panel.label if panel.scale == Scale.PERCENT else panel.column
        if first.setdefault(shared, axes) is not axes and not apart:
            axes.sharey(first[shared])
        alike.setdefault((panel.label, panel.scale), []).append((axes, cell.values))
    for (_, scale), found in alike.items():
        if scale == Scale.LOG:
            found[0][0].set_yscale("log")
        elif scale == Scale.AUTO:
            canvas.alike_scales(*zip(*found, strict=True))


def with_document(cell: Cell, numbers: pandas.DataFrame | None) -> Cell:
    """Returns a cell with a document's numbers of its column, where its series are of them."""
    if numbers is None:
        return cell
    found = document_points.lines(numbers, cell.panel.column, cell.lines)
    return cell._replace(document=tuple(found))


def draw_cell(axes: Axes, cell: Cell, looks: dict[str, dict[str, Any]]) -> None:
    """Draws the series of a pair of axes, beside each other at every batch size."""
    panel, frame, count = cell.panel, cell.frame, len(cell.lines)
    sizes = {*frame["batch_size"].tolist()}.union(*(line.sizes for line in cell.document))
    sizes = sorted(map(int, sizes))
    width = _SLOT * min(canvas.spacing(sizes), 1.0) / count  # in doublings
    offsets = [(index - (count - 1) / 2) * width for index in range(count)]
    ends = [
        _draw_line(axes, line.frame, panel, looks[line.label], offset, count)
        for line, offset in zip(cell.lines, offsets, strict=True)
    ]
    for place, at, values in cell.document:
        beside = 0.0 if place is None else offsets[place]
        look = None if place is None else looks[cell.lines[place].label]
        document_points.draw(axes, np.log2(at.astype(float)) + beside, values, look)
    if np.isfinite(cell.values).any():
        canvas.value_axis(axes, cell.values, np.concatenate(ends), panel.scale)
    else:
        canvas.empty(axes)
    canvas.batch_size_axis(axes, sizes)
    axes.set_ylabel(panel.label)
    canvas.mark_failures(axes, rows.runs(frame), cell.title)


def _draw_line(
    axes: Axes, own: pandas.DataFrame, panel: Panel, look: dict[str, Any], offset: float, count: int
) -> np.ndarray:
    """Draws seeds, means and intervals of one of so many series; returns the ends of its bars.

    Bars are ends of the table, or the interval over seeds, or of one seed its own error.
    """
    known = rows.finished(own).dropna(subset=panel.column).astype({panel.column: float})
    at = _positions(known, offset, count)
    if known["seed"].nunique() > 1:
        seeds = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
        axes.plot(at, known[panel.column], markersize=2.6, markeredgewidth=0, alpha=0.4, **seeds)
    if panel.counted_on in known:
        _draw_binomial(axes, known, panel.column, look["color"], offset, count)
    table = known.pivot_table(panel.column, "batch_size", "seed")
    mean, low, high, n = canvas.mean_intervals(axes, table.to_numpy(float))
    by_size = known.groupby("batch_size")
    if panel.error:
        half = by_size[panel.error].first().to_numpy(float)
        low, high = np.where(n == 1, [mean - half, mean + half], [low, high])
    if panel.ends:
        low, high = by_size[[*panel.ends]].mean().to_numpy(float).T
    bar = {"markersize": 5.5 if len(table) < 17 else 3.5, "elinewidth": 1.2, "linewidth": 1.1}
    bar |= {"zorder": 3, **canvas.line_look(look, len(table))}
    canvas.error_bars(axes, np.log2(table.index.to_numpy(float)) + offset, mean, low, high, **bar)
    if panel.bounds and {"epochs", "epochs_run"} <= {*known}:
        _draw_bounds(axes, known[panel.column], at, run_series.unstopped(known), look)
    return np.concatenate([low, high])


def _draw_binomial(
    axes: Axes, known: pandas.DataFrame, column: str, colour: str, offset: float, count: int
) -> None:
    """Draws the 95 % error of a share counted on so many examples as a broad pale bar."""
    look = {"color": colour, "alpha": 0.15, "solid_capstyle": "butt", "zorder": 1}
    look["linewidth"] = float(np.clip(9 / count, 2.0, 7.0))
    errors = intervals.binomial(known, column, ["batch_size"]).dropna()
    for size, mean, half in errors.itertuples(name=None):
        ends = clipped(column, (mean - half, mean + half))
        axes.plot([np.log2(size) + offset] * 2, ends, **look)


def _draw_bounds(
    axes: Axes, values: pandas.Series, at: pandas.Series, ran: pandas.Series, look: dict[str, Any]
) -> None:
    """Marks runs that nothing stopped, whose values are lower bounds: hollow, with an arrow."""
    marks = {"linestyle": "none", "color": look["color"], "zorder": 2.5, "markeredgewidth": 0.7}
    marks |= {"clip_on": False, "in_layout": False}  # panels keep their size
    axes.plot(at[ran], values[ran], marker=_ARROW, markersize=24, fillstyle="none", **marks)
    hollow = {"marker": look["marker"], "markersize": 3.5, "markerfacecolor": canvas.PAPER}
    axes.plot(at[ran], values[ran], **hollow, **marks)


def _positions(known: pandas.DataFrame, offset: float, count: int) -> pandas.Series:
    """Returns where each run of a series stands: its batch size, with a place for every seed."""
    seeds = sorted(known["seed"].unique().tolist())
    room = 0.3 * min(canvas.spacing(known["batch_size"].tolist()), 1.0) / count
    # The same seed stands at the same place everywhere.
    places = np.linspace(-0.5, 0.5, len(seeds)) * room if len(seeds) > 1 else np.zeros(len(seeds))
    jitter = dict(zip(seeds, places, strict=True))
    return np.log2(known["batch_size"].astype(float)) + offset + known["seed"].map(jitter)
