"""How much of a gradient's norm is left when b examples are averaged, by place in training."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, words

_PLACES = {"start": "start", "middle": "middle", "end": "end of training"}
_COLUMNS = ["place", "epoch", "examples", "norm", "ratio", "independent"]
_INDEPENDENT = {"linestyle": "-", "linewidth": 0.7, "zorder": 1}


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run, place and number of examples: factors, status, norm and ratio."""
    alignment = against_batch_size.with_absent(tables.alignment, tables.runs)
    columns = against_batch_size.factor_columns(alignment)
    return alignment[[*columns, *_COLUMNS]].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: for each series, smallest beside largest batch size."""
    groups = run_series.series(frame)
    columns = 2 if frame["batch_size"].nunique() > 1 else 1
    size = {"width": 4.2, "height": 2.75 if len(groups) < 4 else 2.4}
    figure, grid = canvas.panels(len(groups), columns, **size, sharex=True, sharey=True)
    grid[0, 0].set_yscale("log" if frame["examples"].notna().any() else "linear")
    for row, group in zip(grid, groups, strict=True):
        known = group.frame[group.frame["status"] == canvas.FINISHED].dropna(subset="ratio")
        sizes = sorted(known["batch_size"].unique().tolist())
        ends = dict.fromkeys([*sizes[:1], *sizes[-1:]])
        for axes, size in zip_longest(row, ends):
            _draw_panel(axes, group.frame, size)
            title = f"Batch size {size}" if size else "Batch size"
            axes.set_title(wording.titled(title, group.label))
        row[0].set_ylabel("‖mean of b‖ / mean ‖single‖")
    for axes in grid[-1]:
        axes.set_xlabel("examples b in a mean gradient")
    _scales(grid, frame)
    handles = [Line2D([], [], **_style(place)) for place in _PLACES]
    # Grey here alone: in the panels each has its place's colour.
    handles.append(Line2D([], [], color="#666666", **_INDEPENDENT))
    canvas.legend(figure, handles, [*_PLACES.values(), "the same gradients with random signs"])
    several = frame["seed"].nunique() > 1
    note = "Lines: means over seeds; bands: 95 % t-intervals." if several else ""
    canvas.notes(figure, against_epoch.runs(frame), note)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the ratio for the most examples, at the end of the training."""
    at_end = frame[frame["place"] == "end"]
    most = at_end["examples"].max()
    rows = at_end[at_end["examples"] == most]
    if rows.empty:
        return ""
    # Runs that did not finish count as seeds.
    runs, keys = against_epoch.runs(frame), [*run_series.varying(frame), "batch_size", "seed"]
    runs = runs.drop(columns=_COLUMNS).merge(rows[[*keys, "ratio"]], how="left", on=keys)
    what = f"Norm of the mean of {int(most)} gradients over the mean norm of single ones"
    text = words.sentence(runs, "ratio", what)
    if not text:
        return ""
    finished = rows[rows["status"] == canvas.FINISHED]
    means = finished.groupby("batch_size")["independent"].mean()
    ends = dict.fromkeys((means.index.min(), means.index.max()))
    values = wording.listed(wording.number(float(means[size])) for size in ends)
    return (
        f"At the end of training, the {wording.lower(text)} With random signs the same "
        f"gradients would give {values}."
    )


def _style(place: str) -> dict[str, Any]:
    return {**canvas.line_style(list(_PLACES).index(place)), "markersize": 4}


def _draw_panel(axes: Axes, rows: pandas.DataFrame, size: int | None) -> None:
    """Draws the mean ratio at every place, with its t-interval over seeds."""
    chosen = rows[(rows["batch_size"] == size) & (rows["status"] == canvas.FINISHED)]
    if size is None or chosen["ratio"].isna().all():
        finished = (rows["status"] == canvas.FINISHED).any()
        canvas.empty(axes, "no other batch size" if finished else "no finished run")
        return
    for place in _PLACES:
        at_place = chosen[chosen["place"] == place]
        table = at_place.pivot_table("ratio", "examples", "seed")
        if table.size == 0:
            continue
        examples, style = table.index.to_numpy(float), _style(place)
        mean, low, high, _ = canvas.mean_intervals(axes, table.to_numpy(float))
        if np.isfinite(low).any():
            axes.fill_between(examples, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.plot(examples, mean, markeredgecolor="white", markeredgewidth=0.5, **style)
        independent = at_place.groupby("examples")["independent"].mean()
        axes.plot(independent.index, independent, color=style["color"], **_INDEPENDENT)


def _scales(grid: np.ndarray, frame: pandas.DataFrame) -> None:
    """Makes both axes logarithmic, with the examples as ticks."""
    examples = sorted(frame["examples"].dropna().unique().tolist())
    if not examples:
        return
    axes = grid[0, 0]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(canvas.spread([int(b) for b in examples])))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))
    values = frame[["ratio", "independent"]].to_numpy(float)
    low = np.nanmin(values[values > 0])
    axes.set_ylim(low / 1.15, 1.3)
    canvas.few_log_labels(axes.yaxis, 1 / low)
