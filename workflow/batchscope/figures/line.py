"""Loss and accuracy along the straight line between two trained models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import run_factors
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, marks, words
from batchscope.store import records

_SPLITS = {"train": "training", "validation": "validation", "test": "test"}
_OUTCOMES = {"loss": "Loss", "accuracy": "Accuracy"}
_ENDS = {"small": 0.0, "large": 1.0}  # column with the factor's value -> its place on the line
_PAIR = ["factor", *_ENDS]
_MOST_ROWS = 6  # of panels


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per pair of runs, position and split: factors, loss and accuracy.

    The factors and the status are those of the small run; a pair of which either run failed has
    one row, with the status of the one that did.
    """
    columns = [*_PAIR, "alpha", "split", *_OUTCOMES]
    if tables.lines.empty:
        lines = against_batch_size.with_absent(tables.lines, tables.runs)
    else:
        constant = {name: tables.lines[name].iloc[0] for name in _PAIR}
        pairs = _pairs(tables.runs, *constant.values())
        lines = against_batch_size.with_absent(tables.lines, pairs).assign(**constant)
    return lines[against_batch_size.factor_columns(lines) + columns].reset_index(drop=True)


def _pairs(runs: pandas.DataFrame, factor: str, small: Any, large: Any) -> pandas.DataFrame:
    """Returns the small run of every pair, with the status of the pair."""
    rest = [name for name in run_factors.FACTORS if name != factor]
    others = runs.loc[runs[factor] == large, [*rest, "status"]]
    pairs = runs[runs[factor] == small].merge(others, on=rest, suffixes=("", "_large"))
    finished = pairs["status"] == canvas.FINISHED
    status = pairs["status"].where(~finished, pairs.pop("status_large"))
    # Two finished runs without a line between them: the measure itself is missing.
    return pairs.assign(status=status.replace(canvas.FINISHED, records.MISSING))


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per pair of values, loss beside accuracy."""
    groups = _groups(frame)
    shown = groups[:_MOST_ROWS]
    height = 2.9 if len(shown) < 3 else 2.3
    figure, grid = canvas.panels(
        len(shown), len(_OUTCOMES), width=4.2, height=height, sharex=True, sharey="col"
    )
    canvas.value_scale(grid[0, 0], frame.loc[frame["status"] == canvas.FINISHED, "loss"])
    for row, (label, rows) in zip(grid, shown, strict=True):
        for axes, (column, title) in zip(row, _OUTCOMES.items(), strict=True):
            _draw_panel(axes, rows, column)
            axes.set_title(wording.titled(title, label), pad=17)
    for axes in grid[-1]:
        axes.set_xlabel("position α on the line")
    _scale(grid, frame)
    present = [split for split in _SPLITS if (frame["split"] == split).any()]
    handles = [Line2D([], [], **_style(split)) for split in present]
    canvas.legend(figure, handles, [f"{_SPLITS[split]} data" for split in present])
    pairs = against_epoch.runs(frame)
    failed = canvas.failure_note(pairs).replace("runs", "pairs of runs")
    finished = pairs[pairs["status"] == canvas.FINISHED]
    band = "Thick: mean over seeds, with its 95 % t-interval. Thin: every seed."
    band = band if frame["seed"].nunique() > 1 else ""
    cut = canvas.first_note(_MOST_ROWS, len(groups), "pairs of values")
    canvas.notes(figure, finished, band, cut, failed)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean losses at both ends of the line, between them and beyond them."""
    for label, rows in _groups(frame):
        finished = rows[(rows["status"] == canvas.FINISHED) & (rows["split"] == "train")]
        mean = finished.groupby("alpha")["loss"].mean()
        along = mean[(mean.index >= 0) & (mean.index <= 1)].dropna()
        between = along.iloc[1:-1]
        if between.empty:
            continue
        ends = [
            f"{wording.number(along.iloc[at])} at {_end_name(rows, column)}"
            for at, column in ((0, "small"), (-1, "large"))
        ]
        count = words.seeds((finished["seed"].nunique(), rows["seed"].nunique()))
        of = wording.aside(label)
        at = wording.tick(between.idxmax())
        return (
            f"Along the line{of} the mean training loss was {ends[0]} and {ends[1]}, and at most "
            f"{wording.number(between.max())} between them (α = {at}; {count})."
            f"{_beyond(mean.dropna(), rows)}"
        )
    return ""


def _beyond(mean: pandas.Series, rows: pandas.DataFrame) -> str:
    """Returns how the mean loss changes from each end of the line to the outermost position."""
    parts = []
    for column, at in _ENDS.items():
        outer = mean.index[-1 if at else 0]
        if (outer > 1 if at else outer < 0) and at in mean.index:
            values = f"from {wording.number(mean[at])} to {wording.number(mean[outer])}"
            parts.append(f"{values} past {_end_name(rows, column)} (α = {wording.tick(outer)})")
    return f" Beyond its ends it went {wording.listed(parts)}." if parts else ""


def _groups(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    """Returns label and rows of every pair of values: the small run's series and batch size."""
    sizes = sorted(frame["batch_size"].unique().tolist())
    if frame["factor"].isna().all():  # no pair: nothing to distinguish
        return [("", frame)]
    if len(sizes) < 2:
        return [(group.label, group.frame) for group in run_series.series(frame)]
    return [
        (", ".join(filter(None, [f"batch size {size}", group.label])), group.frame)
        for size in sizes
        for group in run_series.series(frame[frame["batch_size"] == size])
    ]


def _style(split: str) -> dict[str, Any]:
    index = list(_SPLITS).index(split)
    return {"color": canvas.COLOURS[index], "linestyle": canvas.LINES[index]}


def _draw_panel(axes: Axes, rows: pandas.DataFrame, column: str) -> None:
    """Draws every seed thin, and the mean of each split with its t-interval."""
    finished = rows[(rows["status"] == canvas.FINISHED) & rows["alpha"].notna()]
    if finished.empty:
        canvas.empty(axes)
        return
    factor = rows["factor"].iloc[0]  # in which a pair differs
    for split in _SPLITS:
        of_split = finished[finished["split"] == split]
        table = of_split.pivot_table(column, "alpha", "seed", dropna=False)
        if table.size:
            lines = _draw_split(axes, table, _style(split))
            for seed, drawn in zip(table.columns, lines, strict=False):
                of_pair = finished[finished["seed"] == seed].drop(columns=factor, errors="ignore")
                marks.line(drawn, of_pair)
    _mark_ends(axes, rows)
    axes.set_ylabel("loss (nats)" if column == "loss" else "accuracy (%)")


def _draw_split(axes: Axes, table: pandas.DataFrame, style: dict[str, Any]) -> list[Line2D]:
    """Draws one split, from a table of positions by seeds; returns the lines of the seeds."""
    alphas, values = table.index.to_numpy(float), table.to_numpy(float)
    values = np.where(np.isfinite(values), values, np.nan)
    mean, low, high, n = canvas.mean_intervals(axes, values)
    whole = axes.plot(alphas, mean, zorder=3, **style)
    if n.max() < 2:
        return whole
    axes.fill_between(alphas, low, high, color=style["color"], alpha=0.15, linewidth=0)
    return axes.plot(alphas, values, linewidth=0.5, alpha=0.4, **style)


def _mark_ends(axes: Axes, rows: pandas.DataFrame) -> None:
    above = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
    above |= {"ha": "center", "va": "bottom", "fontsize": 7.5, "color": "#333333"}
    for column, at in _ENDS.items():
        axes.axvline(at, color="#666666", linewidth=0.8, zorder=1)
        name = _end_name(rows, column)
        axes.annotate(name, (at, 1.0), (0, 3), annotation_clip=False, **above)


def _end_name(rows: pandas.DataFrame, column: str) -> str:
    """Returns the factor and its value at one end: `batch size 32`."""
    value = rows[column].iloc[0]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return run_series.describe({rows["factor"].iloc[0]: value})


def _scale(grid: np.ndarray, frame: pandas.DataFrame) -> None:
    finished = frame[frame["status"] == canvas.FINISHED]
    losses = finished["loss"].to_numpy(float)
    if np.isfinite(losses).any():
        canvas.value_axis(grid[0, 0], losses)
    for axes in grid[:, 1]:
        axes.yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    if finished["accuracy"].notna().any():
        # Bands may reach beyond what a share can be.
        low, high = grid[0, 1].get_ylim()
        grid[0, 1].set_ylim(max(low, -0.03), min(high, 1.03))
