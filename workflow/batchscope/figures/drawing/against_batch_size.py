"""Panels of outcomes against batch size: every seed a point, means with 95 % t-intervals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, marks, words

_SLOT = 0.62  # share of the distance between two batch sizes that all series take together
_MOST_SERIES = 5  # in one panel; of more, those that have something in common
_MOST_PARTS = 6
_FACETS = ("optimizer", "method", "augmentation", "model", "dataset", "learning_rate", "epochs")
_ALONE = 4.8  # inches: width of the panels where there is one in a row


@dataclass(frozen=True)
class Panel:
    """One outcome: its column, heading, and label (with the unit) of the vertical axis."""

    column: str
    title: str
    label: str


class Facet(NamedTuple):
    """Series that stand in panels of their own: what they have in common, and they."""

    title: str
    groups: list[run_series.Series]

    def titled(self, panel: Panel) -> Panel:
        """Returns a panel with what its series have in common."""
        return replace(panel, title=wording.titled(panel.title, self.title))


@dataclass(frozen=True)
class Columns:
    """A figure that its entry describes: columns of runs.csv, one panel each."""

    columns: dict[str, tuple[str, str]]  # column -> heading and label of the axis

    def select(self, tables: Tables) -> pandas.DataFrame:
        """Returns factors, status and the columns of every run."""
        return select(tables.runs, list(self.columns))

    def draw(self, frame: pandas.DataFrame) -> Figure:
        """Returns the figure."""
        return draw(frame, [Panel(name, *words) for name, words in self.columns.items()])

    def found(self, frame: pandas.DataFrame) -> str:
        """Returns the means at the ends of the batch sizes."""
        sentences = (
            words.sentence(frame, name, f"Mean {wording.lower(title)}")
            for name, (title, _) in self.columns.items()
        )
        return " ".join(filter(None, sentences))


class Place(NamedTuple):
    """Where a series stands: its offset in doublings, and how many stand beside each other."""

    offset: float
    count: int


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    """Returns the columns that a figure's CSV needs to distinguish runs and series."""
    return [*run_series.varying(frame), "batch_size", "seed", "status"]


def select(runs: pandas.DataFrame, columns: list[str]) -> pandas.DataFrame:
    """Returns factors, status and these columns of every run."""
    return runs[factor_columns(runs) + columns].reset_index(drop=True)


def with_absent(long: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Returns a long table with one more row for every run that is not in it.

    So that figure and CSV show what failed before it left anything.
    """
    keys = ["machine", "run"] if "machine" in long.columns else ["run"]
    runs = runs if "machine" in long.columns else run_series.own(runs)
    there = set(long[keys].itertuples(index=False, name=None))
    absent = runs[[key not in there for key in runs[keys].itertuples(index=False, name=None)]]
    shared = [name for name in long.columns if name in absent.columns]
    rows = absent[shared].reindex(columns=long.columns)
    return pandas.concat([long, rows], ignore_index=True) if len(rows) else long


def draw(
    frame: pandas.DataFrame,
    outcomes: list[Panel],
    columns: int = 3,
    same_scale: bool = False,
    extra: Callable[[Axes, Panel, run_series.Series, dict[str, Any], Place], None] | None = None,
    note: str = "",
) -> Figure:
    """Returns a figure with one panel per outcome.

    Args:
        outcomes: The panels, row by row; one without any value is left out beside others.
        extra: Called for each panel and series with its style and place, before its points.
    """
    outcomes = [each for each in outcomes if frame[each.column].notna().any()] or outcomes
    parts = facets(canvas.present(run_series.series(frame)))
    columns = len(outcomes) if len(parts) > 1 else min(columns, len(outcomes))
    width = canvas.PANEL_WIDTH if columns > 1 else _ALONE
    shared = same_scale or (len(parts) > 1 and "col")
    count = len(parts) * len(outcomes)
    figure, grid = canvas.some_panels(count, columns, width=width, sharey=shared)
    labels = list(dict.fromkeys(group.label for part in parts for group in part.groups))
    handles: dict[str, Any] = {}
    drawn = list(zip(grid, itertools.product(parts, outcomes), strict=True))
    for label in {panel.label for panel in outcomes}:
        alike = {axes: panel.column for axes, (_, panel) in drawn if panel.label == label}
        canvas.alike_scales(alike, [_finished(frame, column) for column in alike.values()])
    for axes, (part, panel) in drawn:
        looks = [labels.index(group.label) for group in part.groups]
        found = draw_panel(axes, frame, part.titled(panel), part.groups, extra, looks)
        handles |= zip((group.label for group in part.groups), found, strict=True)
    for axes, (_, panel) in drawn:
        names = [each.column for each in outcomes] if same_scale else [panel.column]
        keep_possible(axes, frame, names)
    canvas.legend(figure, [handles[label] for label in labels], labels)
    canvas.notes(figure, frame, note, canvas.cut_note(figure))
    return figure


def facets(groups: list[run_series.Series]) -> list[Facet]:
    """Returns the series in parts of few: by a factor that all have, by two, or all in one.

    Where none gives parts of few, by those whose largest part is smallest. A series is named by
    what its part does not say.
    """
    found, largest = [Facet("", groups)], len(groups)
    there = [name for name in _FACETS if all(name in group.factors for group in groups)]
    for names in [*itertools.combinations(there, 1), *itertools.combinations(there, 2)]:
        if largest <= _MOST_SERIES:
            break
        parts: dict[tuple, list[run_series.Series]] = {}
        for group in groups:
            rest = {name: one for name, one in group.factors.items() if name not in names}
            key = tuple(group.factors[name] for name in names)
            labelled = replace(group, label=run_series.describe(rest))
            parts.setdefault(key, []).append(labelled)
        most = max(map(len, parts.values()))
        if len(parts) <= _MOST_PARTS and most < largest:
            largest = most
            found = [
                Facet(run_series.describe(dict(zip(names, key, strict=True))), part)
                for key, part in parts.items()
            ]
    return found


def keep_possible(axes: Axes, frame: pandas.DataFrame, columns: list[str]) -> None:
    """Keeps a vertical axis to what its columns can be, once all that shares it is drawn."""
    values = frame.loc[frame["status"] == canvas.FINISHED, columns].to_numpy(float)
    if np.isfinite(values).any():
        canvas.keep_possible(axes, columns[0], values)


def draw_panel(
    axes: Axes,
    frame: pandas.DataFrame,
    panel: Panel,
    groups: list[run_series.Series],
    extra: Callable[..., None] | None = None,
    looks: list[int] | None = None,
) -> list:
    """Draws one outcome; returns one handle per series for a legend.

    Args:
        extra: As `draw` takes it.
        looks: Place of each series among the styles and in the legend; their order by default.
    """
    sizes = sorted(frame["batch_size"].unique().tolist())
    handles, ends = [], []
    values = _finished(frame, panel.column)
    canvas.value_scale(axes, values)
    for index, group in enumerate(groups):
        look = looks[index] if looks else index
        style = canvas.line_style(look)
        place = Place(dodge(index, len(groups), sizes), len(groups))
        with marks.series(axes, look):
            if extra:
                extra(axes, panel, group, style, place)
            handle, reached = draw_series(axes, group.frame, panel.column, style, place)
        handles.append(handle)
        ends.append(reached)
    finish(axes, panel, sizes, values, np.concatenate(ends))
    own = pandas.concat([group.frame for group in groups])
    canvas.mark_failures(axes, own if looks else frame)
    return handles


def _finished(frame: pandas.DataFrame, column: str) -> np.ndarray:
    return frame.loc[frame["status"] == canvas.FINISHED, column].to_numpy(float)


def finish(
    axes: Axes, panel: Panel, sizes: list[int], values: np.ndarray, ends: np.ndarray
) -> None:
    """Sets heading, labels and scales, given all values and the ends of intervals."""
    if np.isfinite(values).any():
        canvas.value_axis(axes, values, ends)
    else:
        canvas.empty(axes)
    canvas.batch_size_axis(axes, sizes)
    axes.set_title(panel.title)
    axes.set_ylabel(panel.label)


def room(batch_sizes: list[int]) -> float:
    """Returns the doublings that the series and seeds of a batch size may share.

    Never more than one, however far apart the sizes are: a point must not look like one of
    another size.
    """
    return min(canvas.spacing(batch_sizes), 1.0)


def dodge(index: int, count: int, batch_sizes: list[int]) -> float:
    """Returns the horizontal offset of a series, in doublings: they stand beside each other."""
    width = _SLOT * room(batch_sizes) / max(count, 1)
    return (index - (count - 1) / 2) * width if count > 1 else 0.0


def draw_series(
    axes: Axes, rows: pandas.DataFrame, column: str, style: dict[str, Any], place: Place
) -> tuple[Any, np.ndarray]:
    """Draws points and means of one series; returns its handle and its intervals' ends.

    Args:
        style: Colour, marker and line style, and what else the means may have.
    """
    finished = rows[(rows["status"] == canvas.FINISHED) & rows[column].notna()]
    at = positions(rows, place)[finished.index]
    look = {"linestyle": "none", "marker": style["marker"], "color": style["color"], "zorder": 2}
    look |= {"markersize": 3, "markeredgewidth": 0, "alpha": 0.45}
    (seeds,) = axes.plot(at, finished[column], **look)
    marks.points(seeds, finished, finished[column])
    sizes, centres, bars = means(axes, finished, "batch_size", column)
    handle = axes.errorbar(
        np.log2(sizes) + place.offset,
        centres,
        yerr=bars,
        zorder=3,
        **canvas.EDGED,
        **{"markersize": 5.5 if len(sizes) <= 16 else 3.5, "elinewidth": 1.2, **style},
    )
    return handle, np.concatenate([centres - bars[0], centres + bars[1]])


def means(
    axes: Axes, rows: pandas.DataFrame, by: str, column: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the values of `by`, the mean of a column at each, and its bars, shape (2, values).

    These are those of `canvas.mean_intervals`; 0 where one seed gives a mean without an interval.
    """
    parts = dict(list(rows.groupby(by)[column]))
    found = [canvas.mean_intervals(axes, part.to_numpy(float)[None]) for part in parts.values()]
    mean, low, high, _ = np.reshape(found, (-1, 4)).T
    return np.array([*parts], float), mean, np.nan_to_num([mean - low, high - mean])


def positions(rows: pandas.DataFrame, place: Place) -> pandas.Series:
    """Returns where each run of a series stands: its batch size, with a place for every seed."""
    seeds = sorted(rows["seed"].unique().tolist())
    width = 0.3 * room(rows["batch_size"].tolist()) / place.count
    # The same seed stands at the same place everywhere.
    places = np.linspace(-0.5, 0.5, len(seeds)) * width if len(seeds) > 1 else [0.0] * len(seeds)
    jitter = dict(zip(seeds, places, strict=True))
    return np.log2(rows["batch_size"].astype(float)) + place.offset + rows["seed"].map(jitter)
