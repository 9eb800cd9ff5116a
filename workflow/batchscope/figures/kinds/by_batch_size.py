"""Outcomes by batch size: means with 95 % intervals, and a small point for each seed.

Published values of a document are hollow stars.
"""

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

from batchscope.analysis import intervals, run_series, timing_repeats
from batchscope.analysis.run_series import Series
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, deciding_outcome, rows
from batchscope.store import records
from batchscope.study import specifications, tasks
from batchscope.study.budget_kinds import COSTS
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL
from batchscope.study.specifications import Panel, Scale
from batchscope.study.tables import clipped, possible
from batchscope.tables import published

_SLOT = 0.62  # share of the distance between two batch sizes for all series together
_MAX_SERIES = 5  # in a panel; more series are divided by a factor
_MAX_PARTS, _MAX_PANELS = 6, 24
_FACETS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALL = "all runs"  # label of a line that a factor does not change
_TIMES = "training_times"  # table with a row per timing job
_OUTCOME = "comparisons"  # table with the outcome that decides
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
_RECOMMENDED = {"color": "#009E73", "alpha": 0.18, "lw": 0, "zorder": 0}
_REFERENCE = {"color": canvas.MUTED, "zorder": 1}
_STAR = {"marker": "*", "markersize": 9, "markerfacecolor": canvas.PAPER, "markeredgewidth": 0.9}
_STAR |= {"linewidth": 0.7, "zorder": 5, "color": canvas.INK, "linestyle": "none"}
# An arrow that points upwards from a point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


class PublishedLine(NamedTuple):
    """Published values of a series, with the index of the measured series of the same factors."""

    index: int | None  # None if several have them
    sizes: pandas.Series
    values: pandas.Series


class Cell(NamedTuple):
    """Content of one pair of axes: the series of a panel."""

    panel: Panel
    title: str
    lines: list[Series]
    published: tuple[PublishedLine, ...] = ()

    @property
    def frame(self) -> pandas.DataFrame:
        return pandas.concat([line.frame for line in self.lines])

    @property
    def values(self) -> np.ndarray:
        finished = rows.finished(self.frame)
        columns = [name for name in (self.panel.column, "mean") if name in finished]
        values = finished[columns].to_numpy(float).ravel()
        return np.concatenate([values, *(line.values for line in self.published)])


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
    *parts, total = (panel.column for panel in spec.panels)
    if not {*parts} <= {*runs}:
        return pandas.DataFrame()
    frame = rows.only(runs, parts)
    series = run_series.series(frame)
    frames = [run_series.doublings(group.frame, parts, total) for group in series]
    if pandas.concat(frames)["batch_size"].nunique() < 2:
        return pandas.DataFrame()
    failed = frame[frame["status"] != records.FINISHED].assign(
        **dict.fromkeys([*parts, total], np.nan)
    )
    frames = [frame for frame in (*frames, failed) if len(frame)]
    return rows.unless_blank(pandas.concat(frames).sort_index().reset_index(drop=True), spec)


def _times(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the median time and quartiles over all timing jobs of a configuration."""
    times, ((time, *ends),) = tables.training_times, (panel.columns for panel in spec.panels)
    if times.empty:
        runs = run_series.local(tables.runs)
        if not {*_QUARTILES} <= {*runs} or tables.at_epochs.empty:
            return pandas.DataFrame()
        keys = [name for name in rows.RUN if name in tables.at_epochs]
        times = tables.at_epochs.merge(runs[[*keys, *_QUARTILES]], how="left", on=keys)
    times = run_series.timed_factors(rows.finished(times)).dropna(subset=time)
    keys = [*run_series.varying(times), "batch_size", "at_epoch"]
    times = times.astype(dict.fromkeys((time, *_QUARTILES, "at_epoch"), float))
    times[ends] = times[_QUARTILES].mul(times["at_epoch"], axis=0)
    combined = timing_repeats.combined(times[[*keys, time, *ends]], keys)
    frame = combined.sort_values(keys, kind="stable").assign(seed=0, status=records.FINISHED)
    frame = frame.astype({"batch_size": int, "at_epoch": int})
    return rows.unless_blank(rows.only(frame, ["at_epoch", time, *ends]), spec)


def draw(
    frame: pandas.DataFrame, spec: specifications.Figure, numbers: pandas.DataFrame | None = None
) -> Figure:
    """Return the figure: panels in a row, or a row for each part if there are many series."""
    if spec.table == _OUTCOME:
        frame = _with_drawn_ends(frame)
    cells, columns = _cells(frame, spec)
    cells, note = canvas.first(cells, _MAX_PANELS, "panels")
    cells = [with_published(cell, numbers) for cell in cells]
    labels = list(dict.fromkeys(line.label for cell in cells for line in cell.lines))
    styles = dict(zip(labels, canvas.series_styles(len(labels)), strict=True))
    size = {"width": 2.6, "height": 2.2} if columns > 3 else {"width": 4.8} if columns == 1 else {}
    figure, grid = canvas.panels(len(cells), columns, **size)
    _share_axes(grid, cells, bool(spec.facet))
    for axes, cell in zip(grid, cells, strict=True):
        draw_cell(axes, cell, styles)
    for axes, cell in zip(grid, cells, strict=True):
        if cell.panel.scale == Scale.ZERO:
            axes.set_ylim(bottom=0)  # so that heights can be compared
        canvas.keep_possible(axes, cell.panel.column)
        if not axes.get_subplotspec().is_first_col() and cells[0].panel.label == cell.panel.label:
            axes.set_ylabel("")
            axes.tick_params(labelleft=not axes.get_shared_y_axes().joined(axes, grid[0]))
    _draw_references(grid, cells, frame, spec)
    entries = [(styles[label], label or _ALL) for label in labels] if len(labels) > 1 else []
    entries += published_entries(numbers) if any(cell.published for cell in cells) else []
    canvas.legend(figure, entries)
    bars = " with a 95 % interval (Student's t)"
    seeds = frame["seed"].nunique()
    means = (
        f"Means over seeds{bars if seeds >= MIN_SEEDS_FOR_INTERVAL else ''}; small: single runs."
    )
    canvas.notes(figure, rows.runs(frame), note, means if seeds > 1 else "")
    return figure


def _draw_references(
    grid: np.ndarray, cells: Sequence[Cell], frame: pandas.DataFrame, spec: specifications.Figure
) -> None:
    """Draw the line of no doubling, the time of the fewest epochs, or the recommended sizes."""
    ends = [axes.dataLim.intervaly for axes in grid]
    for axes, cell in zip(grid, cells, strict=True):
        if _in_doublings(spec):
            canvas.around(axes, ends, 0.06)  # on one axis, since the parts add up
            axes.axhline(0.0, linewidth=0.8, **_REFERENCE)
        elif spec.table == _TIMES:
            fewest = cell.frame.sort_values(["at_epoch", "batch_size"]).iloc[0]
            props = {"linewidth": 1.0, "linestyle": canvas.LINES[2], **_REFERENCE}
            axes.axhline(float(fewest[cell.panel.column]), **props)
        elif spec.table == _OUTCOME:
            inside = cell.frame.loc[cell.frame["recommended"].eq(1), "batch_size"]
            half = canvas.spacing(cell.frame["batch_size"].tolist()) / 2
            if len(inside):
                ends = np.log2([inside.min(), inside.max()]) + [-half, half]
                axes.axvspan(*ends, **_RECOMMENDED)


def _with_drawn_ends(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of the deciding outcome with the ends that are drawn.

    A mean without values of seeds has a point of its own.
    """
    few, ends = frame["seeds"] < MIN_SEEDS_FOR_INTERVAL, {}
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
    if outcome in COSTS:
        title, label = "To the target", f"{outcome} to {deciding_outcome.target_words(row)}"
        scale = Scale.LOG
    heading = display.titled(display.capital(title), group.label)
    panel = Panel("value", title, display.lower(label), scale, ends=deciding_outcome.ENDS)
    return Cell(panel, heading, [replace(group, label="")])


def _cells(frame: pandas.DataFrame, spec: specifications.Figure) -> tuple[list[Cell], int]:
    """Return the cells in order, and their number in a row."""
    groups = canvas.present(frame)
    if spec.table == _OUTCOME:
        cells = [_outcome_cell(group) for group in groups[: canvas.MAX_SERIES]]
        return cells, min(2, len(cells))
    panels = rows.panels(frame, spec)
    if spec.facet:
        # A failed run has no value of the facet, and is marked in every panel.
        failed = frame[frame[spec.facet].isna()]
        cells = [
            Cell(panels[0], str(value), canvas.present(pandas.concat([part, failed])))
            for value, part in frame.groupby(spec.facet, sort=False)
        ]
        return cells, min(4, len(cells))
    if spec.lines:
        cells = [
            Cell(panel, display.capital(group.label) or panel.title, _lines(group, spec.lines))
            for group, panel in itertools.product(groups, panels)
        ]
        return cells, min(2, len(cells))
    parts = facets(groups)
    cells = [
        Cell(panel, _heading(panel, title, frame), _independent(part, panel.column))
        for (title, part), panel in itertools.product(parts, panels)
    ]
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    return cells, len(panels) if len(parts) > 1 else columns


def _heading(panel: Panel, part: str, frame: pandas.DataFrame) -> str:
    title = display.titled(panel.title, part) if panel.title else display.capital(part)
    counts = frame[panel.counted_on].dropna().unique() if panel.counted_on in frame else ()
    return f"{title} ({int(counts[0]):,} examples)" if len(counts) == 1 else title


def _lines(group: Series, column: str) -> list[Series]:
    """Return a line for each value of a column."""
    failed = group.frame[group.frame[column].isna()]
    noun = "epoch" if column == "at_epoch" else column.replace("_", " ")
    return [
        Series(display.count(int(value), noun), {}, pandas.concat([part, failed]))
        for value, part in group.frame.groupby(column)
    ]


def _independent(groups: list[Series], column: str) -> list[Series]:
    """Merge the series of all values of a factor that a column does not depend on.

    The time of an epoch, for example, has one line for all learning rates.
    """
    whole_frame = frame = pandas.concat([group.frame for group in groups])
    for factor in run_series.varying(frame):
        keys = [name for name in run_series.varying(frame) if name != factor]
        keys += ["batch_size", "seed"]
        values = frame.groupby(keys, dropna=False)[column]
        if values.size().max() > 1 and (values.nunique() <= 1).all():
            frame = frame.sort_values(column, na_position="last", kind="stable")
            frame = frame.drop_duplicates(keys).sort_index().drop(columns=factor)
    return groups if frame is whole_frame else run_series.series(frame)


def facets(groups: list[Series]) -> list[tuple[str, list[Series]]]:
    """Divide many series by one or two common factors into parts with a title.

    The first factors with small parts are chosen, or else those with the smallest largest part.
    """
    common = [name for name in _FACETS if all(name in group.factors for group in groups)]
    choices = itertools.chain.from_iterable(itertools.combinations(common, n) for n in range(3))
    divided = [parts for names in choices if len(parts := _parts(groups, names)) <= _MAX_PARTS]
    return min(divided, key=lambda parts: max([_MAX_SERIES, *(len(part) for _, part in parts)]))


def _parts(groups: list[Series], names: Sequence[str]) -> list[tuple[str, list[Series]]]:
    """Divide series by the values of factors, which their labels then leave out."""
    parts: dict[str, list[Series]] = {}
    for group in groups:
        factors = {name: value for name, value in group.factors.items() if name not in names}
        title = run_series.describe({name: group.factors[name] for name in names})
        label = run_series.describe(factors) if names else group.label
        parts.setdefault(title, []).append(replace(group, label=label))
    return list(parts.items())


def _share_axes(grid: np.ndarray, cells: list[Cell], has_facets: bool) -> None:
    """Let panels of a column, and all panels of shares, have a common vertical axis.

    Panels with one label have the same scale. Facets have their own axes, since layers differ in
    size.
    """
    first: dict[str, Axes] = {}
    scaled: dict[str, list[tuple[Axes, np.ndarray]]] = {}
    for axes, cell in zip(grid, cells, strict=True):
        panel = cell.panel
        shared = panel.label if panel.scale == Scale.PERCENT else panel.column
        if first.setdefault(shared, axes) is not axes and not has_facets:
            axes.sharey(first[shared])
        if panel.scale == Scale.AUTO:
            scaled.setdefault(panel.label, []).append((axes, cell.values))
    for panels in scaled.values():
        canvas.value_scale(*zip(*panels, strict=True))


def with_published(cell: Cell, numbers: pandas.DataFrame | None) -> Cell:
    """Return a cell with the published values of its column, if a series has their factors."""
    if numbers is None:
        return cell
    columns = [published.MACHINE_COLUMNS.get(name, (name,)) for name in numbers["column"]]
    numbers = numbers[[cell.panel.column in names for names in columns]]
    lines = []
    for _, line in numbers.groupby("series", sort=False, dropna=False):
        factors = published.factors_of(line.iloc[0]).items()
        same = [
            index
            for index, measured in enumerate(cell.lines)
            if all(measured.factors.get(name, value) == value for name, value in factors)
        ]
        if same:
            line = line.sort_values("batch_size").astype({"value": float})
            index = same[0] if len(same) == 1 else None
            lines.append(PublishedLine(index, line["batch_size"], line["value"]))
    return cell._replace(published=tuple(lines))


def published_entries(numbers: pandas.DataFrame | None) -> list[tuple[dict[str, Any], str]]:
    return [] if numbers is None else [(_STAR, f"document, {numbers['document'].iloc[0]}")]


def draw_cell(axes: Axes, cell: Cell, styles: dict[str, dict[str, Any]]) -> None:
    """Draw the series side by side at every batch size."""
    panel, frame, count = cell.panel, cell.frame, len(cell.lines)
    sizes = set(frame["batch_size"].tolist()).union(*(line.sizes for line in cell.published))
    sizes = sorted(map(int, sizes))
    width = _SLOT * min(canvas.spacing(sizes), 1.0) / count  # in doublings
    offsets = [(index - (count - 1) / 2) * width for index in range(count)]
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
    ends = [
        _draw_line(axes, line.frame, panel, styles[line.label], offset, count)
        for line, offset in zip(cell.lines, offsets, strict=True)
    ]
    for index, at, values in cell.published:
        offset, style = 0.0 if index is None else offsets[index], {}
        if index is not None and len(values) > 2:
            props = styles[cell.lines[index].label]
            style = {"color": props["color"], "linestyle": props["linestyle"]}
        axes.plot(np.log2(at.astype(float)) + offset, values, **{**_STAR, **style})
    if np.isfinite(cell.values).any():
        canvas.value_axis(axes, cell.values, np.concatenate(ends), panel.scale)
    else:
        canvas.empty(axes)
    canvas.batch_size_axis(axes, sizes)
    axes.set_ylabel(panel.label)
    canvas.mark_failures(axes, rows.runs(frame), cell.title)


def _draw_line(
    axes: Axes,
    runs: pandas.DataFrame,
    panel: Panel,
    props: dict[str, Any],
    offset: float,
    count: int,
) -> np.ndarray:
    """Draw seeds, means and intervals of one of `count` series; return the ends of its bars.

    A bar is the interval of the table or the interval over seeds, or the error of a single seed.
    """
    runs = rows.finished(runs).dropna(subset=panel.column).astype({panel.column: float})
    at = np.log2(runs["batch_size"].astype(float)) + offset
    seed = runs["seed"].rank(method="dense") - 1  # has the same shift at every batch size
    if seed.max() > 0:
        room = 0.3 * min(canvas.spacing(runs["batch_size"].tolist()), 1.0) / count
        at += room * (seed / seed.max() - 0.5)
        point = {"color": props["color"], "marker": props["marker"], "linestyle": "none"}
        axes.plot(at, runs[panel.column], markersize=2.6, markeredgewidth=0, alpha=0.4, **point)
    if panel.counted_on in runs:
        _draw_binomial(axes, runs, panel.column, props["color"], offset, count)
    table = runs.pivot_table(panel.column, "batch_size", "seed")
    mean, low, high, n = canvas.mean_intervals(axes, table.to_numpy(float))
    by_size = runs.groupby("batch_size")
    if "mean" in runs:
        mean = by_size["mean"].first().to_numpy(float)
    if panel.error:
        half = by_size[panel.error].first().to_numpy(float)
        low, high = np.where(n == 1, [mean - half, mean + half], [low, high])
    if panel.ends:
        low, high = by_size[list(panel.ends)].mean().to_numpy(float).T
    bar = {"markersize": 5.5 if len(table) < 17 else 3.5, "elinewidth": 1.2, "linewidth": 1.1}
    bar |= {"zorder": 3, **canvas.line_props(props, len(table))}
    canvas.error_bars(axes, np.log2(table.index.to_numpy(float)) + offset, mean, low, high, **bar)
    if panel.bounds and {"epochs", "epochs_run"} <= {*runs}:
        ran = run_series.unstopped(runs)  # to the last epoch: the value is a lower bound
        # Outside the layout, so that panels keep their size.
        mark = {"linestyle": "none", "color": props["color"], "markeredgewidth": 0.7}
        mark |= {"zorder": 2.5, "clip_on": False, "in_layout": False}
        hollow = {"marker": props["marker"], "markersize": 3.5, "markerfacecolor": canvas.PAPER}
        for style in ({"marker": _ARROW, "markersize": 24, "fillstyle": "none"}, hollow):
            axes.plot(at[ran], runs.loc[ran, panel.column], **style, **mark)
    return np.concatenate([low, high])


def _draw_binomial(
    axes: Axes, runs: pandas.DataFrame, column: str, colour: str, offset: float, count: int
) -> None:
    """Draw the 95 % error of a share of counted examples as a broad pale bar."""
    props = {"color": colour, "alpha": 0.15, "solid_capstyle": "butt", "zorder": 1}
    props["linewidth"] = float(np.clip(9 / count, 2.0, 7.0))
    errors = intervals.binomial(runs, column, ["batch_size"]).dropna()
    for size, mean, half in errors.itertuples(name=None):
        ends = clipped(column, (mean - half, mean + half))
        axes.plot([np.log2(size) + offset] * 2, ends, **props)
