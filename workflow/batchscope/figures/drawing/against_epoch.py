"""Panels of outcomes against epoch: every run a thin line, means with 95 % t-intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, canvas, marks
from batchscope.store import records

_MOST_POINTS = 2700  # of all lines in one figure: keeps an SVG under about 150 kB
_MOST_BANDS = 8  # in one panel: more hide the lines
_LEAST_POINTS, _LONGEST_LINE = 11, 120  # of one line
_MOST_SINGLE = 200  # runs, whose lines are drawn over other axes than epochs too: pages stay small
# Column -> label of its axis.
_LABELS = {"epoch": "epoch", "updates": "updates", "examples": "examples", "seconds": "time (s)"}
_SHORT = 0.05  # share of what was used by which ends may differ unsaid
_MADE = {"updates": "updates", "examples": "examples", "seconds": "s"}


def select(tables: Tables, columns: list[str], along: str = "epoch") -> pandas.DataFrame:
    """Returns one row per run and epoch: factors, status and these columns of the history.

    And what was used by the epoch's end: `updates`, `examples` or `seconds`, where `along` says so.
    """
    history = against_batch_size.with_absent(tables.history, tables.runs)
    history = history.rename(columns={"step": "updates"})
    for name in ("epoch", "updates", "examples"):
        history[name] = history[name].astype("Int64")
    axes = list(dict.fromkeys(["epoch", along]))
    columns = [*against_batch_size.factor_columns(history), *axes, *columns]
    return history[columns].reset_index(drop=True)


def along(frame: pandas.DataFrame) -> str:
    """Returns the horizontal axis of what `select` returned."""
    return next((name for name in _MADE if name in frame), "epoch")


def at_equal(frame: pandas.DataFrame) -> tuple[str, pandas.DataFrame]:
    """Returns what every finished run used, and one row per run: its last epoch within that.

    Batch sizes at which some run has no epoch's end by then have no rows. A run that did not finish
    has its first row. The words are empty where nothing is known.
    """
    axis, finished = along(frame), frame["status"] == canvas.FINISHED
    keys = _keys(frame)
    cells = keys[:-1]
    lasts = frame[finished].groupby(keys, dropna=False)[axis].max()
    if lasts.empty or lasts.isna().any():
        return "", runs(frame)
    within = frame[finished & frame[axis].astype(float).le(float(lasts.min()))]
    kept = within.sort_values("epoch").drop_duplicates(keys, keep="last")
    seeds, all_seeds = (
        rows.groupby(cells, dropna=False)["seed"].transform("nunique")
        for rows in (kept, frame[finished])
    )
    kept = kept[seeds == all_seeds[kept.index]]
    used = f"{wording.grouped(float(lasts.min()))} {_MADE[axis]}"
    return used, pandas.concat([kept.sort_index(), runs(frame[~finished])])


def earliest(rows: pandas.DataFrame) -> str:
    """Returns a sentence on the least that was used at the epochs' ends that `at_equal` found.

    Empty where no end lies more than 5 % short of the last one.
    """
    axis = along(rows)
    ends = rows.loc[rows["status"] == canvas.FINISHED, axis].dropna().astype(float)
    if ends.empty or ends.min() >= (1 - _SHORT) * ends.max():
        return ""
    least, most = (wording.grouped(float(end)) for end in (ends.min(), ends.max()))
    return f" These epochs end at {least} to {most} {_MADE[axis]}."


def last_shared(frame: pandas.DataFrame) -> tuple[int, pandas.DataFrame]:
    """Returns the last epoch that all finished runs have, and one row per run: that epoch's.

    Later ones would compare short trainings with long ones. A run that did not finish has its
    first row; the epoch is 0 where none finished.
    """
    finished = frame["status"] == canvas.FINISHED
    lasts = frame[finished].groupby(_keys(frame), dropna=False)["epoch"].max().dropna()
    epoch = int(lasts.min()) if len(lasts) else 0
    at_epoch = frame["epoch"].eq(epoch).fillna(False).astype(bool)
    return epoch, runs(frame[~finished | at_epoch])


def styles(frame: pandas.DataFrame) -> dict[int, dict[str, Any]]:
    """Returns batch size -> colour and line style, in order of batch size."""
    return canvas.ordered_styles(sorted(frame["batch_size"].unique().tolist()))


def legend(figure: Figure, drawn: dict[int, dict[str, Any]]) -> None:
    """Draws the legend of batch sizes, without those that stand too close to others."""
    named = canvas.spread(list(drawn))
    lines = [Line2D([], [], **drawn[size]) for size in named]
    canvas.legend(figure, lines, [str(size) for size in named], "batch size")


def points(lines: int) -> int:
    """Returns how many points each of so many lines may have."""
    return int(np.clip(_MOST_POINTS // max(lines, 1), _LEAST_POINTS, _LONGEST_LINE))


def runs(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns one row per run."""
    return frame.drop_duplicates(_keys(frame))


def _keys(frame: pandas.DataFrame) -> list[str]:
    return [*run_series.varying(frame), "batch_size", "seed"]


def horizontal_axis(axes: Axes, frame: pandas.DataFrame) -> None:
    """Labels the horizontal axis: whole epochs, or a logarithmic one of what was used."""
    axis = along(frame)
    axes.set_xlabel(_LABELS[axis])
    if axis == "epoch":
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        if frame[axis].nunique() == 1:  # points, with a whole number below them
            only = float(frame[axis].dropna().iloc[0])
            axes.set_xlim(only - 0.5, only + 0.5)
            axes.set_xticks([only])
    else:
        used_axis(axes, frame[axis].dropna().astype(float))


def used_axis(axes: Axes, values: pandas.Series) -> None:
    """Makes a horizontal axis of updates, examples or seconds logarithmic."""
    values = values[values > 0]  # an evaluation before the first update has no place
    if len(values):
        axes.set_xscale("log", nonpositive="mask")
        canvas.few_log_labels(axes.xaxis, values.max() / values.min(), crowded=30)


def value_axis(axes: Axes, frame: pandas.DataFrame, column: str) -> None:
    """Scales by finished runs, where there are any: what diverged leaves the panel."""
    values = scaled_by(frame, column)
    if values.notna().any():
        canvas.value_axis(axes, values)
        if axes.get_yscale() == "linear":
            low, high = values.min(), values.max()
            margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
            axes.set_ylim(low - margin, high + margin)


def scaled_by(frame: pandas.DataFrame, column: str) -> pandas.Series:
    """Returns the values of finished runs, or of all where none finished."""
    finished = frame.loc[frame["status"] == canvas.FINISHED, column]
    return finished if finished.notna().any() else frame[column]


@dataclass(frozen=True)
class Lines:
    """How single runs and their means are drawn.

    Attributes:
        along: The horizontal axis, logarithmic unless it is the epoch: a column whose rows are
            the same for all seeds of a batch size, or seconds, of which each seed has its own.
        styles: Batch size -> colour and line style.
        points: How many the line of a run may have, and that of a mean.
        singles: Whether finished runs too have a line each.
    """

    along: str
    styles: dict[int, dict[str, Any]]
    points: int
    mean_points: int
    singles: bool

    @classmethod
    def of(cls, frame: pandas.DataFrame, panels: int, series: int) -> Lines:
        """Returns the lines of a figure with so many panels for each of so many series."""
        axis, looks, count = along(frame), styles(frame), len(runs(frame))
        most = map(points, (panels * count, panels * series * len(looks)))
        return cls(axis, looks, *most, singles=axis == "epoch" or count <= _MOST_SINGLE)

    def draw(self, axes: Axes, rows: pandas.DataFrame, column: str) -> None:
        """Draws single runs thin and their mean with a band."""
        if len(rows) and rows[self.along].isna().all() and rows[column].notna().any():
            canvas.empty(axes, "not timed" if self.along == "seconds" else "not known")
            return
        for index, (size, style) in enumerate(self.styles.items()):
            chosen = rows[rows["batch_size"] == size]
            with marks.series(axes, index):
                for _, run in chosen.groupby("seed"):
                    if self.singles or run["status"].iloc[0] != canvas.FINISHED:
                        self._draw_run(axes, run, column, style["color"])
                finished = chosen[chosen["status"] == canvas.FINISHED]
                if len(finished):
                    self._draw_mean(axes, finished, column, style)
        if rows[column].isna().all():
            canvas.empty(axes, "no run")

    def _draw_run(self, axes: Axes, run: pandas.DataFrame, column: str, colour: str) -> None:
        run = run[np.isfinite(run[column].astype(float))]
        kept = run.iloc[thinned(len(run), self.points, self.along)]
        look = {"marker": ".", "markersize": 4} if len(kept) == 1 else {}
        style = {"color": colour, "linewidth": 0.5, "alpha": 0.35, **look}
        (drawn,) = axes.plot(kept[self.along], kept[column], **style)
        if len(kept):
            marks.line(drawn, kept)
        if len(run) and run["status"].iloc[0] == records.DIVERGED:
            # At the upper edge: its loss has left the panel.
            at_edge = {"transform": axes.get_xaxis_transform(), "marker": "x", "color": colour}
            axes.plot(run[self.along].iloc[-1], 0.97, **at_edge)

    def _draw_mean(
        self, axes: Axes, rows: pandas.DataFrame, column: str, style: dict[str, Any]
    ) -> None:
        """Draws the mean over the runs that are still training, and as a band its t-interval.

        Over seconds it is of rows after as many updates, at the mean of the seeds' times.
        """
        along, band = self.along, len(self.styles) <= _MOST_BANDS
        alike = along if along != "seconds" else "epoch" if "epoch" in rows else "updates"
        table = rows.pivot_table(column, alike, "seed")
        # Where one stopped early between two rows of the others, these have no value.
        table = table[~(table.isna() & table.bfill().notna()).any(axis=1)]
        table = table.iloc[thinned(len(table), self.mean_points, along)]
        at = rows.groupby(alike)[along].mean()[table.index].to_numpy(float)
        mean, low, high, _ = canvas.mean_intervals(axes, table.to_numpy(float))
        if band and np.isfinite(low).any():
            axes.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)
        if len(at) == 1:  # no line: a point, with its interval where that is drawn
            halves = np.nan_to_num(high - mean) if band else np.zeros(1)
            axes.errorbar(at, mean, yerr=halves, marker="o", markersize=5, **style)
            return
        axes.plot(at, mean, **style)


def thinned(length: int, points: int, along: str = "epoch") -> np.ndarray:
    """Returns at most `points` indices, first and last among them.

    Evenly spread along epochs, and in equal ratios along axes that are logarithmic.
    """
    if length <= points:
        return np.arange(length)
    if along != "epoch":
        return np.unique(np.geomspace(1, length, points).round().astype(int)) - 1
    return np.unique(np.linspace(0, length - 1, points).round().astype(int))


def band_note(frame: pandas.DataFrame, singles: bool = True) -> str:
    """Returns what thick and thin lines are, and crosses; empty where there is one seed."""
    if frame["seed"].nunique() < 2:
        return ""
    banded = frame["batch_size"].nunique() <= _MOST_BANDS
    interval = ", with its 95 % t-interval" if banded else ""
    note = f"Thick: mean over the runs that still train{interval}."
    if singles:
        note += " Thin: every run."
    elif (frame["status"] != canvas.FINISHED).any():
        note += " Thin: runs that did not finish."
    return note + (" ×: diverged." if (frame["status"] == records.DIVERGED).any() else "")
