"""Outcomes by batch size: means with 95 % intervals, and a small point for each seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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
from batchscope.figures import FigureTables, deciding_outcome, rows
from batchscope.figures.drawing import canvas, document_points
from batchscope.store import records
from batchscope.study import specifications, tasks
from batchscope.study.budget_kinds import TAKEN
from batchscope.study.outcomes import LEAST_WITH_INTERVAL
from batchscope.study.specifications import Panel, Scale
from batchscope.study.tables import clipped, possible

_SLOT = 0.62  # share of the distance between two batch sizes for all series together
_MOST_SERIES = 5  # in a panel; more series are divided by a factor
_MOST_PARTS, _MOST_PANELS, _MOST_OUTCOMES = 6, 24, 6
_FACETS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALL = "all runs"  # label of a line that a factor does not change
_TIMES = "training_times"  # table with a row per timing job
_OUTCOME = "comparisons"  # table with the outcome that decides
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
_RECOMMENDED = "#009E73"
_REFERENCE = {"color": canvas.MUTED, "zorder": 1}
# An arrow that points upwards from a point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


class Cell(NamedTuple):
    """Content of one pair of axes: the series of a panel."""

    panel: Panel
    title: str
    lines: list[Series]
    document: tuple[document_points.Line, ...] = ()

    @property
    def frame(self) -> pandas.DataFrame:
        return pandas.concat([line.frame for line in self.lines])

    @property
    def values(self) -> np.ndarray:
        finished = rows.finished(self.frame)
        columns = [name for name in (self.panel.column, "mean") if name in finished]
        values = finished[columns].to_numpy(float).ravel()
        return np.concatenate([values, *(line.values for line in self.document)])


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    if spec.table == _OUTCOME:
        return deciding_outcome.select(tables, spec)
    if _in_doublings(spec):
        return _doublings(tables.runs, spec)
    return _times(tables, spec) if spec.table == _TIMES else rows.select(tables, spec)


def _in_doublings(spec: specifications.Figure) -> bool:
    return bool(spec.panels) and spec.panels[0].scale == Scale.DOUBLINGS


def _doublings(runs: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Return each column in doublings from the smallest batch size, the last one as their sum."""
    *parts, whole = (panel.column for panel in spec.panels)
    if not {*parts} <= {*runs}:
        return pandas.DataFrame()
    frame = rows.only(runs, parts)
    frames = [run_series.doublings(each.frame, parts, whole) for each in run_series.series(frame)]
    if pandas.concat(frames)["batch_size"].nunique() < 2:
        return pandas.DataFrame()
    failed = frame[frame["status"] != records.FINISHED].copy()
    failed[[*parts, whole]] = np.nan
    kept = pandas.concat([part for part in (*frames, failed) if len(part)])
    return rows.shown(kept.sort_index().reset_index(drop=True), spec)


def _times(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the median time and quartiles over all timing jobs of a configuration."""
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
    """Return the figure: panels in a row, or a row for each part if there are many series."""
    if spec.table == _OUTCOME:
        frame = _with_drawn_ends(frame)
    every, columns = _cells(frame, spec)
    every = [with_document(cell, numbers) for cell in every]
    shown, more = canvas.first(every, _MOST_PANELS, "panels")
    labels = list(dict.fromkeys(line.label for cell in shown for line in cell.lines))
    looks = dict(zip(labels, canvas.series_styles(len(labels)), strict=True))
    size = {"width": 2.6, "height": 2.2} if columns > 3 else {"width": 4.8} if columns == 1 else {}
    figure, grid = canvas.panels(len(shown), columns, **size)
    _share(grid, shown, bool(spec.facet))
    for axes, cell in zip(grid, shown, strict=True):
        draw_cell(axes, cell, looks)
    for axes, cell in zip(grid, shown, strict=True):
        alike = [cell] if spec.facet else shown
        alike = [each for each in alike if each.panel.label == cell.panel.label]
        values = np.concatenate([each.values for each in alike])
        if cell.panel.scale == Scale.ZERO and np.isfinite(values).any():
            axes.set_ylim(bottom=0)  # so that heights can be compared
        canvas.keep_possible(axes, cell.panel.column, values)
        if not axes.get_subplotspec().is_first_col() and shown[0].panel.label == cell.panel.label:
            axes.set_ylabel("")
            axes.tick_params(labelleft=not axes.get_shared_y_axes().joined(axes, grid[0]))
    _draw_references(grid, shown, frame, spec)
    named = [(looks[label], label or _ALL) for label in labels] if len(labels) > 1 else []
    starred = numbers if any(cell.document for cell in shown) else None
    canvas.legend(figure, [*named, *document_points.entries(starred)])
    bars = " with a 95 % interval (Student's t)"
    seeds = frame["seed"].nunique()
    means = f"Means over seeds{bars if seeds >= LEAST_WITH_INTERVAL else ''}; small: single runs."
    canvas.notes(figure, rows.runs(frame), more, means if seeds > 1 else "")
    return figure


def _draw_references(
    grid: np.ndarray, cells: Sequence[Cell], frame: pandas.DataFrame, spec: specifications.Figure
) -> None:
    """Draw the line of no doubling, the time of the fewest epochs, or the recommended sizes."""
    if _in_doublings(spec):
        ends = [axes.dataLim.intervaly for axes in grid]
        for axes in grid:
            canvas.around(axes, ends, 0.06)  # on one axis, since the parts add up
            axes.axhline(0.0, linewidth=0.8, **_REFERENCE)
    elif spec.table == _TIMES:
        for axes, group in zip(grid, canvas.present(frame), strict=False):
            first = group.frame.sort_values(["at_epoch", "batch_size"]).iloc[0]
            height = float(first[spec.panels[0].column])
            axes.axhline(height, linewidth=1.0, linestyle=canvas.LINES[2], **_REFERENCE)
    elif spec.table == _OUTCOME:
        for axes, cell in zip(grid, cells, strict=True):
            sizes = sorted(cell.frame["batch_size"].unique())
            inside = cell.frame.loc[cell.frame["recommended"].eq(1), "batch_size"]
            if len(inside):
                half = canvas.spacing(sizes) / 2
                ends = np.log2([inside.min(), inside.max()]) + [-half, half]
                axes.axvspan(*ends, color=_RECOMMENDED, alpha=0.18, lw=0, zorder=0)


def _with_drawn_ends(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of the deciding outcome with the ends that are drawn.

    A mean without known seeds has a point of its own.
    """
    few, ends = frame["seeds"] < LEAST_WITH_INTERVAL, {}
    least, largest = np.array([possible(outcome) for outcome in frame["outcome"]]).T
    for name in deciding_outcome.ENDS:
        ends[name] = frame[name].clip(least, largest).mask(few)
    value, seed = frame["value"].fillna(frame["mean"]), frame["seed"].fillna(0)
    return frame.assign(**ends, value=value, seed=seed, status=records.FINISHED)


def _outcome_cell(group: Series) -> Cell:
    row = group.frame.iloc[0]
    outcome = row["outcome"]
    title = label = tasks.column_words(outcome)
    scale = Scale.AUTO
    if outcome in TAKEN:
        title, label = "To the target", f"{outcome} to {deciding_outcome.target_words(row)}"
        scale = Scale.LOG
    heading = wording.titled(wording.capital(title), group.label)
    panel = Panel("value", title, wording.lower(label), scale, ends=deciding_outcome.ENDS)
    return Cell(panel, heading, [replace(group, label="")])


def _cells(frame: pandas.DataFrame, spec: specifications.Figure) -> tuple[list[Cell], int]:
    """Return the cells in order, and their number in a row."""
    groups = canvas.present(frame)
    if spec.table == _OUTCOME:
        every = [_outcome_cell(group) for group in groups[:_MOST_OUTCOMES]]
        return every, min(2, len(every))
    found = rows.panels(frame, spec)
    if spec.facet:
        # A failed run has no value of the facet, and is marked in every panel.
        failed = frame[frame[spec.facet].isna()]
        every = [
            Cell(found[0], str(value), canvas.present(pandas.concat([own, failed])))
            for value, own in frame.groupby(spec.facet, sort=False)
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
    """Return a line for each value of a column."""
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
    """Divide many series by one or two common factors into parts with a title.

    The first factors with small parts are chosen, or else those with the smallest largest part.
    """
    common = [name for name in _FACETS if all(name in group.factors for group in groups)]
    choices = itertools.chain.from_iterable(itertools.combinations(common, n) for n in range(3))
    divided = [parts for names in choices if len(parts := _parts(groups, names)) <= _MOST_PARTS]
    return min(divided, key=lambda parts: max([_MOST_SERIES, *(len(part) for _, part in parts)]))


def _parts(groups: list[Series], names: Sequence[str]) -> list[tuple[str, list[Series]]]:
    """Divide series by the values of factors, which their labels then leave out."""
    parts: dict[str, list[Series]] = {}
    for group in groups:
        rest = {name: value for name, value in group.factors.items() if name not in names}
        title = run_series.describe({name: group.factors[name] for name in names})
        label = run_series.describe(rest) if names else group.label
        parts.setdefault(title, []).append(replace(group, label=label))
    return [*parts.items()]


def _share(grid: np.ndarray, every: list[Cell], apart: bool) -> None:
    """Let panels of a column, and all panels of shares, have a common vertical axis.

    Panels with one label have the same scale. Facets stay `apart`, since layers differ in size.
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
        if scale == Scale.AUTO:
            canvas.alike_scales(*zip(*found, strict=True))


def with_document(cell: Cell, numbers: pandas.DataFrame | None) -> Cell:
    """Return a cell with published values of its column and its series."""
    if numbers is None:
        return cell
    found = document_points.lines(numbers, cell.panel.column, cell.lines)
    return cell._replace(document=tuple(found))


def draw_cell(axes: Axes, cell: Cell, looks: dict[str, dict[str, Any]]) -> None:
    """Draw the series side by side at every batch size."""
    panel, frame, count = cell.panel, cell.frame, len(cell.lines)
    sizes = {*frame["batch_size"].tolist()}.union(*(line.sizes for line in cell.document))
    sizes = sorted(map(int, sizes))
    width = _SLOT * min(canvas.spacing(sizes), 1.0) / count  # in doublings
    offsets = [(index - (count - 1) / 2) * width for index in range(count)]
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
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
    """Draw seeds, means and intervals of one of `count` series; return the ends of its bars.

    A bar is the interval of the table or the interval over seeds, or the error of a single seed.
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
    if "mean" in known:
        mean = by_size["mean"].first().to_numpy(float)
    if panel.error:
        half = by_size[panel.error].first().to_numpy(float)
        low, high = np.where(n == 1, [mean - half, mean + half], [low, high])
    if panel.ends:
        low, high = by_size[[*panel.ends]].mean().to_numpy(float).T
    bar = {"markersize": 5.5 if len(table) < 17 else 3.5, "elinewidth": 1.2, "linewidth": 1.1}
    bar |= {"zorder": 3, **canvas.line_look(look, len(table))}
    canvas.error_bars(axes, np.log2(table.index.to_numpy(float)) + offset, mean, low, high, **bar)
    if panel.bounds and {"epochs", "epochs_run"} <= {*known}:
        ran = run_series.unstopped(known)  # to the last epoch: the value is a lower bound
        # Outside the layout, so that panels keep their size.
        mark = {"linestyle": "none", "color": look["color"], "markeredgewidth": 0.7}
        mark |= {"zorder": 2.5, "clip_on": False, "in_layout": False}
        hollow = {"marker": look["marker"], "markersize": 3.5, "markerfacecolor": canvas.PAPER}
        for style in ({"marker": _ARROW, "markersize": 24, "fillstyle": "none"}, hollow):
            axes.plot(at[ran], known.loc[ran, panel.column], **style, **mark)
    return np.concatenate([low, high])


def _draw_binomial(
    axes: Axes, known: pandas.DataFrame, column: str, colour: str, offset: float, count: int
) -> None:
    """Draw the 95 % error of a share of counted examples as a broad pale bar."""
    look = {"color": colour, "alpha": 0.15, "solid_capstyle": "butt", "zorder": 1}
    look["linewidth"] = float(np.clip(9 / count, 2.0, 7.0))
    errors = intervals.binomial(known, column, ["batch_size"]).dropna()
    for size, mean, half in errors.itertuples(name=None):
        ends = clipped(column, (mean - half, mean + half))
        axes.plot([np.log2(size) + offset] * 2, ends, **look)


def _positions(known: pandas.DataFrame, offset: float, count: int) -> pandas.Series:
    """Return the position of each run: its batch size, shifted by its seed."""
    seeds = sorted(known["seed"].unique().tolist())
    room = 0.3 * min(canvas.spacing(known["batch_size"].tolist()), 1.0) / count
    # A seed has the same shift at every batch size.
    places = np.linspace(-0.5, 0.5, len(seeds)) * room if len(seeds) > 1 else np.zeros(len(seeds))
    jitter = dict(zip(seeds, places, strict=True))
    return np.log2(known["batch_size"].astype(float)) + offset + known["seed"].map(jitter)
