"""Values by batch size: rows of a table -> panels with a line of means for each series.

Panels in `Scale.DOUBLINGS` show factors between batch sizes, which add up to the last one. The
table `training_times` has a line for each number of epochs. Other tables have several rows of
panels if there are many series. Other kinds use `draw_contents` or `draw_panel`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path

from batchscope.analysis import intervals, run_series
from batchscope.analysis.run_series import Series
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.store import records
from batchscope.study import specifications
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL
from batchscope.study.specifications import Panel, Scale
from batchscope.study.table_entries import clipped_to_range
from batchscope.tables.published import MACHINE_COLUMNS, series_factors

_MAX_SERIES = 5  # More series in a panel are divided by one or two of `_FACTORS`.
_MAX_DIVISIONS, _MAX_PANELS = 6, 24
_FACTORS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALL_RUNS = "all runs"  # label of a line that no factor changes
_TIMES = "training_times"
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
_REFERENCE = {"color": canvas.MUTED, "zorder": 1}
# All series together, and all seeds together, take these shares of the distance of two batch sizes.
_SERIES_WIDTH, _SEED_WIDTH = 0.62, 0.3
_STAR = canvas.points("*", 9, markerfacecolor=canvas.PAPER, markeredgewidth=0.9, linewidth=0.7)
# An arrow that points upwards from a point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


class PanelContent(NamedTuple):
    """What one pair of axes shows: measured series, and published values of the same column."""

    panel: Panel
    title: str
    lines: list[Series]
    # Index of the measured series of the same factors, None if several have them; and the values.
    published: Sequence[tuple[int | None, pandas.DataFrame]] = ()

    @property
    def frame(self) -> pandas.DataFrame:
        return pandas.concat([line.frame for line in self.lines])

    @property
    def values(self) -> np.ndarray:
        finished = figure_rows.finished(self.frame)
        columns = [name for name in (self.panel.column, "mean") if name in finished]
        values = finished[columns].to_numpy(float).ravel()
        return np.concatenate([values, *(line["value"] for _, line in self.published)])


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    if _has_doublings(spec):
        return _select_doublings(tables.runs, spec)
    if spec.table == _TIMES:
        return _select_times(tables.training_times, spec)
    return figure_rows.select(tables, spec)


def _has_doublings(spec: specifications.Figure) -> bool:
    return spec.panels[0].scale == Scale.DOUBLINGS


def _select_doublings(runs: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Return each column in doublings from the smallest batch size, the last one as their sum."""
    *parts, total = (panel.column for panel in spec.panels)
    if not {*parts} <= {*runs}:
        return pandas.DataFrame()
    frame = figure_rows.with_factors(runs, parts)
    series = run_series.split_series(frame)
    frames = [run_series.log_ratios_to_smallest(group.frame, parts, total) for group in series]
    if pandas.concat(frames)["batch_size"].nunique() < 2:
        return pandas.DataFrame()
    failed = frame[frame["status"] != records.FINISHED]
    frames.append(failed.assign(**dict.fromkeys([*parts, total], np.nan)))
    frame = pandas.concat([frame for frame in frames if len(frame)]).sort_index()
    return figure_rows.if_drawable(frame.reset_index(drop=True), spec)


def _select_times(times: pandas.DataFrame, spec: specifications.Figure) -> pandas.DataFrame:
    """Return the times of trainings with the quartiles over the timing jobs."""
    ((time, *ends),) = (panel.columns for panel in spec.panels)
    if times.empty:
        return times
    times = times.dropna(subset=time).astype({"batch_size": int, "at_epoch": int})
    times[ends] = times[_QUARTILES].astype(float).mul(times["at_epoch"], axis=0)
    keys = [*run_series.varying_factors(times), "batch_size", "at_epoch"]
    times = times.sort_values(keys, kind="stable").assign(seed=0, status=records.FINISHED)
    return figure_rows.if_drawable(figure_rows.with_factors(times, ["at_epoch", time, *ends]), spec)


def draw(
    frame: pandas.DataFrame, spec: specifications.Figure, published: pandas.DataFrame | None = None
) -> Figure:
    """Return the figure: panels in a row, or a row for each division if there are many series."""
    contents, columns = _contents(frame, spec)
    figure, grid = draw_contents(frame, contents, columns, published, bool(spec.facet))
    ends = [axes.dataLim.intervaly for axes in grid]
    for axes, content in zip(grid, contents, strict=False):
        if _has_doublings(spec):  # All panels have the same axis, because the factors add up.
            canvas.limit_to_values(axes, ends, 0.06)
            axes.axhline(0.0, linewidth=0.8, **_REFERENCE)
        elif spec.table == _TIMES:  # the fewest epochs at the smallest batch size
            shortest = content.frame.sort_values(["at_epoch", "batch_size"]).iloc[0]
            props = {"linewidth": 1.0, "linestyle": canvas.LINE_STYLES[2], **_REFERENCE}
            axes.axhline(float(shortest[content.panel.column]), **props)
    return figure


def draw_contents(
    frame: pandas.DataFrame,
    contents: list[PanelContent],
    columns: int,
    published: pandas.DataFrame | None = None,
    has_facets: bool = False,
) -> tuple[Figure, np.ndarray]:
    """Draw panels with their legend and notes, and return the figure with its axes.

    Args:
        frame: All rows of the figure, for the notes.
        columns: Number of panels in a row.
        has_facets: Whether the panels of a column have different vertical axes.
    """
    contents, note = canvas.first_items(contents, _MAX_PANELS, "panels")
    contents = [with_published(content, published) for content in contents]
    labels = list(dict.fromkeys(line.label for content in contents for line in content.lines))
    styles = dict(zip(labels, canvas.series_styles(len(labels)), strict=True))
    size = {"width": 2.6, "height": 2.2} if columns > 3 else {"width": 4.8} if columns == 1 else {}
    figure, grid = canvas.panels(len(contents), columns, **size)
    _share_axes(grid, contents, has_facets)
    ends = []
    for axes, content in zip(grid, contents, strict=True):
        draw_panel(axes, content, styles)
        ends.append(axes.get_ylim() if axes.get_yscale() == "log" else ())
    # A panel sets the ends of its logarithmic axis, which then must hold all panels that share it.
    for axes, panel_ends in zip(grid, ends, strict=True):
        if panel_ends:
            both = [*panel_ends, *axes.get_ylim()]
            axes.set_ylim(min(both), max(both))
    for axes, content in zip(grid, contents, strict=True):
        if content.panel.scale == Scale.ZERO and axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)  # Heights can be compared only from 0.
        canvas.limit_to_possible_values(axes, content.panel.column)
        same_label = contents[0].panel.label == content.panel.label
        if same_label and not axes.get_subplotspec().is_first_col():
            axes.set_ylabel("")
            axes.tick_params(labelleft=not axes.get_shared_y_axes().joined(axes, grid[0]))
    entries = [(styles[label], label or _ALL_RUNS) for label in labels] if len(labels) > 1 else []
    if any(content.published for content in contents):
        entries += published_entries(published)
    canvas.draw_legend(figure, entries)
    seeds = frame["seed"].nunique()
    bars = " and 95 % interval" if seeds >= MIN_SEEDS_FOR_INTERVAL else ""
    means = f"Mean{bars}; small points: single runs."
    canvas.write_notes(figure, figure_rows.distinct_runs(frame), note, means if seeds > 1 else "")
    return figure, grid


def _contents(
    frame: pandas.DataFrame, spec: specifications.Figure
) -> tuple[list[PanelContent], int]:
    """Return the contents of all panels in order, and the number of panels in a row."""
    groups, panels = figure_rows.runnable_series(frame), figure_rows.panels_with_values(frame, spec)
    if spec.facet:
        contents = [
            PanelContent(panels[0], str(value), figure_rows.runnable_series(rows))
            for value, rows in _rows_by_value(frame, spec.facet)
        ]
        return contents, min(4, len(contents))
    if spec.lines:
        noun = "epoch" if spec.lines == "at_epoch" else spec.lines.replace("_", " ")
        contents = []
        for group, panel in itertools.product(groups, panels):
            parts = _rows_by_value(group.frame, spec.lines, sort=True)
            lines = [Series(display.count(int(value), noun), {}, rows) for value, rows in parts]
            title = display.capital(group.label) or panel.title
            contents.append(PanelContent(panel, title, lines))
        return contents, min(2, len(contents))
    parts = divide_series(groups)
    contents = [
        PanelContent(panel, _heading(panel, title, frame), _merged_series(part, panel.column))
        for (title, part), panel in itertools.product(parts, panels)
    ]
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    return contents, len(panels) if len(parts) > 1 else columns


def _rows_by_value(
    frame: pandas.DataFrame, column: str, sort: bool = False
) -> list[tuple[Any, pandas.DataFrame]]:
    """Return the rows of each value of a column; all have the failed runs, which lack a value."""
    failed, groups = frame[frame[column].isna()], frame.groupby(column, sort=sort)
    return [(value, pandas.concat([rows, failed])) for value, rows in groups]


def _heading(panel: Panel, part: str, frame: pandas.DataFrame) -> str:
    title = display.titled(panel.title, part) if panel.title else display.capital(part)
    counts = frame[panel.counted_on].dropna().unique() if panel.counted_on in frame else ()
    return f"{title} ({int(counts[0]):,} examples)" if len(counts) == 1 else title


def _merged_series(groups: list[Series], column: str) -> list[Series]:
    """Merge the series of a factor that has no effect on a column.

    The time of an epoch, for example, has one line for all learning rates.
    """
    whole_frame = frame = pandas.concat([group.frame for group in groups])
    for factor in run_series.varying_factors(frame):
        keys = [name for name in run_series.varying_factors(frame) if name != factor]
        keys += ["batch_size", "seed"]
        values = frame.groupby(keys, dropna=False)[column]
        if values.size().max() > 1 and (values.nunique() <= 1).all():
            frame = frame.sort_values(column, na_position="last", kind="stable")
            frame = frame.drop_duplicates(keys).sort_index().drop(columns=factor)
    return groups if frame is whole_frame else run_series.split_series(frame)


def divide_series(groups: list[Series]) -> list[tuple[str, list[Series]]]:
    """Divide many series by up to two common factors into parts with a title.

    The first factors with parts that fit in a panel are chosen, or else those with the smallest.
    """
    common = [name for name in _FACTORS if all(name in group.factors for group in groups)]
    choices = itertools.chain.from_iterable(itertools.combinations(common, n) for n in range(3))
    divisions = [
        parts for names in choices if len(parts := _split(groups, names)) <= _MAX_DIVISIONS
    ]
    return min(divisions, key=lambda parts: max([_MAX_SERIES, *(len(part) for _, part in parts)]))


def _split(groups: list[Series], names: Sequence[str]) -> list[tuple[str, list[Series]]]:
    """Divide series by the values of factors, which their labels then leave out."""
    parts: dict[str, list[Series]] = {}
    for group in groups:
        factors = {name: value for name, value in group.factors.items() if name not in names}
        title = run_series.describe({name: group.factors[name] for name in names})
        label = run_series.describe(factors) if names else group.label
        parts.setdefault(title, []).append(replace(group, label=label))
    return list(parts.items())


def _share_axes(grid: np.ndarray, contents: list[PanelContent], has_facets: bool) -> None:
    """Let panels of a column, and all panels of shares, have a common vertical axis.

    Panels with one label have the same scale. Facets do not share an axis, because the values of
    layers differ in size.
    """
    first: dict[str, Axes] = {}
    scaled: dict[str, list[tuple[Axes, np.ndarray]]] = {}
    for axes, content in zip(grid, contents, strict=True):
        panel = content.panel
        shared = panel.label if panel.scale == Scale.PERCENT else panel.column
        if first.setdefault(shared, axes) is not axes and not has_facets:
            axes.sharey(first[shared])
        if panel.scale == Scale.AUTO or (panel.scale == Scale.ZERO and content.published):
            scaled.setdefault(panel.label, []).append((axes, content.values))
    for panels in scaled.values():
        canvas.set_value_scale(*zip(*panels, strict=True))


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
            index = series_indices[0] if len(series_indices) == 1 else None
            lines.append((index, line.sort_values("batch_size").astype({"value": float})))
    return content._replace(published=lines)


def published_entries(published: pandas.DataFrame | None) -> list[tuple[dict[str, Any], str]]:
    return [] if published is None else [(_STAR, f"document, {published['document'].iloc[0]}")]


def draw_panel(axes: Axes, content: PanelContent, styles: dict[str, dict[str, Any]]) -> None:
    """Draw the series side by side at every batch size; published values are hollow stars."""
    panel, frame, count = content.panel, content.frame, len(content.lines)
    published_sizes = (line["batch_size"] for _, line in content.published)
    sizes = sorted(map(int, set(frame["batch_size"].tolist()).union(*published_sizes)))
    width = _SERIES_WIDTH * min(canvas.min_doublings(sizes), 1.0) / count  # in doublings
    offsets = [(index - (count - 1) / 2) * width for index in range(count)]
    if panel.scale == Scale.LOG:
        axes.set_yscale("log")
    ends = [
        _draw_series(axes, line.frame, panel, styles[line.label], offset, count)
        for line, offset in zip(content.lines, offsets, strict=True)
    ]
    for index, line in content.published:
        offset, style = 0.0 if index is None else offsets[index], {}
        if index is not None and len(line) > 2:
            props = styles[content.lines[index].label]
            style = {"color": props["color"], "linestyle": props["linestyle"]}
        x = np.log2(line["batch_size"].astype(float)) + offset
        axes.plot(x, line["value"], zorder=5, **{**_STAR, **style})
    if np.isfinite(content.values).any():
        canvas.set_value_axis(axes, content.values, np.concatenate(ends), panel.scale)
    else:
        canvas.write_no_data(axes)
    canvas.set_batch_size_axis(axes, sizes)
    axes.set_ylabel(panel.label)
    canvas.mark_failures(axes, figure_rows.distinct_runs(frame), content.title)


def _draw_series(
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
    column, colour = panel.column, {"color": props["color"]}
    runs = figure_rows.finished(runs).dropna(subset=column).astype({column: float})
    seed_x = np.log2(runs["batch_size"].astype(float)) + offset
    seed = runs["seed"].rank(method="dense") - 1
    if seed.max() > 0:  # A seed has one shift at all batch sizes.
        room = _SEED_WIDTH * min(canvas.min_doublings(runs["batch_size"].tolist()), 1.0) / count
        seed_x += room * (seed / seed.max() - 0.5)
        point = canvas.points(props["marker"], 2.6, props["color"], markeredgewidth=0, alpha=0.4)
        axes.plot(seed_x, runs[column], **point)
    if panel.counted_on in runs:  # The 95 % error of a share of counted examples is a pale bar.
        pale = {**colour, "alpha": 0.15, "solid_capstyle": "butt", "zorder": 1}
        pale["linewidth"] = float(np.clip(9 / count, 2.0, 7.0))
        errors = intervals.binomial(runs, column, ["batch_size"]).dropna()
        for size, mean, error in errors.itertuples(name=None):
            ends = clipped_to_range(column, (mean - error, mean + error))
            axes.plot([np.log2(size) + offset] * 2, ends, **pale)
    table, by_size = runs.pivot_table(column, "batch_size", "seed"), runs.groupby("batch_size")
    mean, low, high, seeds = canvas.mean_intervals(axes, table.to_numpy(float))
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
        # A run that trained to its last epoch did not stop: its value is a lower bound. The marks
        # are outside the layout, so that panels keep their size.
        is_bound = run_series.reached_all_epochs(runs)
        mark = {**colour, "linestyle": "none", "markeredgewidth": 0.7, "zorder": 2.5}
        mark |= {"clip_on": False, "in_layout": False}
        hollow = {"marker": props["marker"], "markersize": 3.5, "markerfacecolor": canvas.PAPER}
        for style in ({"marker": _ARROW, "markersize": 24, "fillstyle": "none"}, hollow):
            axes.plot(seed_x[is_bound], runs.loc[is_bound, column], **style, **mark)
    return np.concatenate([low, high])
