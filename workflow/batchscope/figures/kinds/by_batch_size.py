"""Values by batch size: rows of a table -> panels with a line of means for each series.

A specification asks for one of four variants, which `select` and `draw` distinguish:

- panels in `Scale.DOUBLINGS`: factors between batch sizes, which add up to the last one;
- table `training_times`: times of trainings, with a line for each number of epochs;
- table `comparisons`: the outcome that decides, with the recommended batch sizes shaded;
- any other table: its columns, in several rows of panels if there are many series.

`batch_size_panel` draws the panels of all variants.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope.analysis import run_series
from batchscope.analysis.run_series import Series
from batchscope.core import display
from batchscope.figures import (
    FigureTables,
    axis_scales,
    batch_size_panel,
    canvas,
    deciding_outcome,
    figure_rows,
)
from batchscope.figures.batch_size_panel import PanelContent
from batchscope.store import records
from batchscope.study import specifications
from batchscope.study.budget_kinds import COSTS
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL
from batchscope.study.specifications import Panel, Scale
from batchscope.study.tables import value_range

Contents = list[PanelContent]
_MAX_SERIES = 5  # More series in a panel are divided by one or two of `_FACTORS`.
_MAX_DIVISIONS, _MAX_PANELS = 6, 24
_FACTORS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALL_RUNS = "all runs"  # label of a line that no factor changes
_TIMES, _OUTCOME = "training_times", "comparisons"
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
_RECOMMENDED = {"color": "#009E73", "alpha": 0.18, "lw": 0, "zorder": 0}
_REFERENCE = {"color": canvas.MUTED, "zorder": 1}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    if spec.table == _OUTCOME:
        return deciding_outcome.select(tables, spec)
    if _has_doublings(spec):
        return _select_doublings(tables.runs, spec)
    if spec.table == _TIMES:
        return _select_times(tables.training_times, spec)
    return figure_rows.select(tables, spec)


def _has_doublings(spec: specifications.Figure) -> bool:
    return bool(spec.panels) and spec.panels[0].scale == Scale.DOUBLINGS


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
    if spec.table == _OUTCOME:
        frame = _with_drawn_ends(frame)
    contents, columns = _contents(frame, spec)
    contents, note = canvas.first_items(contents, _MAX_PANELS, "panels")
    contents = [batch_size_panel.with_published(content, published) for content in contents]
    labels = list(dict.fromkeys(line.label for content in contents for line in content.lines))
    styles = dict(zip(labels, canvas.series_styles(len(labels)), strict=True))
    size = {"width": 2.6, "height": 2.2} if columns > 3 else {"width": 4.8} if columns == 1 else {}
    figure, grid = canvas.panels(len(contents), columns, **size)
    _share_axes(grid, contents, bool(spec.facet))
    for axes, content in zip(grid, contents, strict=True):
        batch_size_panel.draw(axes, content, styles)
    for axes, content in zip(grid, contents, strict=True):
        if content.panel.scale == Scale.ZERO:
            axes.set_ylim(bottom=0)  # Heights can be compared only from 0.
        axis_scales.limit_to_possible_values(axes, content.panel.column)
        same_label = contents[0].panel.label == content.panel.label
        if same_label and not axes.get_subplotspec().is_first_col():
            axes.set_ylabel("")
            axes.tick_params(labelleft=not axes.get_shared_y_axes().joined(axes, grid[0]))
    _draw_references(grid, contents, frame, spec)
    entries = [(styles[label], label or _ALL_RUNS) for label in labels] if len(labels) > 1 else []
    if any(content.published for content in contents):
        entries += batch_size_panel.published_entries(published)
    canvas.draw_legend(figure, entries)
    seeds = frame["seed"].nunique()
    bars = " and 95 % interval" if seeds >= MIN_SEEDS_FOR_INTERVAL else ""
    means = f"Mean{bars}; small points: single runs."
    canvas.write_notes(figure, figure_rows.distinct_runs(frame), note, means if seeds > 1 else "")
    return figure


def _draw_references(
    grid: np.ndarray, contents: Contents, frame: pandas.DataFrame, spec: specifications.Figure
) -> None:
    """Draw what values are compared with: no doubling, the shortest training, or the advice."""
    ends = [axes.dataLim.intervaly for axes in grid]
    for axes, content in zip(grid, contents, strict=True):
        if _has_doublings(spec):
            # All panels have the same axis, because the factors add up.
            axis_scales.limit_to_values(axes, ends, 0.06)
            axes.axhline(0.0, linewidth=0.8, **_REFERENCE)
        elif spec.table == _TIMES:
            fewest = content.frame.sort_values(["at_epoch", "batch_size"]).iloc[0]
            props = {"linewidth": 1.0, "linestyle": canvas.LINE_STYLES[2], **_REFERENCE}
            axes.axhline(float(fewest[content.panel.column]), **props)
        elif spec.table == _OUTCOME:
            inside = content.frame.loc[content.frame["recommended"].eq(1), "batch_size"]
            half = axis_scales.min_doublings(content.frame["batch_size"].tolist()) / 2
            if len(inside):
                ends = np.log2([inside.min(), inside.max()]) + [-half, half]
                axes.axvspan(*ends, **_RECOMMENDED)


def _with_drawn_ends(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows of the deciding outcome with intervals within the possible values.

    Intervals of few seeds are left out. A mean without values of seeds becomes a point.
    """
    few = frame["seeds"] < MIN_SEEDS_FOR_INTERVAL
    least, largest = np.array([value_range(outcome) for outcome in frame["outcome"]]).T
    ends = {name: frame[name].clip(least, largest).mask(few) for name in deciding_outcome.MEAN_ENDS}
    value, seed = frame["value"].fillna(frame["mean"]), frame["seed"].fillna(0)
    return frame.assign(**ends, value=value, seed=seed, status=records.FINISHED)


def _outcome_content(group: Series) -> PanelContent:
    row = group.frame.iloc[0]
    words = deciding_outcome.outcome_words(row)
    scale = Scale.LOG if row["outcome"] in COSTS else Scale.AUTO
    heading = display.titled(display.capital(words), group.label)
    panel = Panel("value", words, display.lower(words), scale, ends=deciding_outcome.MEAN_ENDS)
    return PanelContent(panel, heading, [replace(group, label="")])


def _contents(frame: pandas.DataFrame, spec: specifications.Figure) -> tuple[Contents, int]:
    """Return the contents of all panels in order, and the number of panels in a row."""
    groups = canvas.runnable_series(frame)
    if spec.table == _OUTCOME:
        contents = [_outcome_content(group) for group in groups[: canvas.MAX_SERIES]]
        return contents, min(2, len(contents))
    panels = figure_rows.panels_with_values(frame, spec)
    if spec.facet:
        # A failed run has no value of the facet, and is marked in every panel.
        failed = frame[frame[spec.facet].isna()]
        contents = [
            PanelContent(
                panels[0], str(value), canvas.runnable_series(pandas.concat([part, failed]))
            )
            for value, part in frame.groupby(spec.facet, sort=False)
        ]
        return contents, min(4, len(contents))
    if spec.lines:
        contents = [
            PanelContent(
                panel,
                display.capital(group.label) or panel.title,
                _series_by_value(group, spec.lines),
            )
            for group, panel in itertools.product(groups, panels)
        ]
        return contents, min(2, len(contents))
    parts = divide_series(groups)
    contents = [
        PanelContent(panel, _heading(panel, title, frame), _merged_series(part, panel.column))
        for (title, part), panel in itertools.product(parts, panels)
    ]
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    return contents, len(panels) if len(parts) > 1 else columns


def _heading(panel: Panel, part: str, frame: pandas.DataFrame) -> str:
    title = display.titled(panel.title, part) if panel.title else display.capital(part)
    counts = frame[panel.counted_on].dropna().unique() if panel.counted_on in frame else ()
    return f"{title} ({int(counts[0]):,} examples)" if len(counts) == 1 else title


def _series_by_value(group: Series, column: str) -> list[Series]:
    """Return a series for each value of a column, labelled with it."""
    failed = group.frame[group.frame[column].isna()]
    noun = "epoch" if column == "at_epoch" else column.replace("_", " ")
    return [
        Series(display.count(int(value), noun), {}, pandas.concat([part, failed]))
        for value, part in group.frame.groupby(column)
    ]


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


def _share_axes(grid: np.ndarray, contents: Contents, has_facets: bool) -> None:
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
        if panel.scale == Scale.AUTO:
            scaled.setdefault(panel.label, []).append((axes, content.values))
    for panels in scaled.values():
        axis_scales.set_value_scale(*zip(*panels, strict=True))
