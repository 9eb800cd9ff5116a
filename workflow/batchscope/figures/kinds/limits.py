"""Every limit of the batch size on one axis: the machine's, the target's and each outcome's."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import run_series, step_cost
from batchscope.analysis.advice import MEMORY, Item
from batchscope.catalogue import entries
from batchscope.catalogue.budget_kinds import END
from batchscope.catalogue.run_factors import TIMING_ONLY_FACTORS
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, verdict_marks

_RANGE, _KNEE = "range", "knee"
_COLUMNS = ("limit", "batch_size", "low", "high", "shown")
_LABELS = {
    MEMORY: "fits into memory",
    _KNEE: "90 % of the throughput",
    "critical_batch_size": "critical batch size",
    "seconds": "time to target",
    _RANGE: "recommended",
}
_ROW = 0.3  # inches
_MOST_ROWS = 40
_LABEL = 44  # letters in a line
_RECOMMENDED, _OTHER = "#009E73", canvas.MUTED


def select(tables: Tables, _: entries.Figure) -> pandas.DataFrame:
    """Returns one row per series, limit and batch size, and one per series for the range.

    `shown` is what is drawn of a verdict; `low` and `high` are the ends of an interval or of the
    range. Without advice they are the outcomes at the end of the trainings, and the machine.
    """
    found = [*_of_advice(tables.advice)] or [*_of_ends(tables.comparisons, tables.limits)]
    names = [name for row in found for name in row if name not in _COLUMNS]
    frame = pandas.DataFrame(found, columns=[*dict.fromkeys(names), *_COLUMNS])
    return frame if frame["shown"].notna().any() else frame.iloc[:0]


def _of_advice(advice: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    factors = [name for name in run_series.varying(advice) if name != "learning_rate"]
    for row in advice.to_dict("records"):
        own = {name: row[name] for name in factors}
        if row["item"] == Item.RECOMMENDATION:
            yield {**own, "limit": _RANGE, "low": row["smallest"], "high": row["largest"]}
        elif row["item"] == Item.LIMIT and pandas.notna(row["verdict"]):
            yield {**own, **_cell(row, row["name"])}
        elif row["item"] == Item.LIMIT:
            high = row["largest"] if row["name"] == MEMORY else row["high"]
            ends = {"batch_size": row["estimate"], "low": row["low"], "high": high}
            yield {**own, "limit": row["name"], **ends}


def _of_ends(comparisons: pandas.DataFrame, limits: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    ends = comparisons[comparisons["budget"] == END] if len(comparisons) else comparisons
    factors = [name for name in run_series.varying(ends) if name != "learning_rate"]
    machine = [name for name in run_series.varying(limits) if name not in TIMING_ONLY_FACTORS]
    seen = set()
    for row in limits.to_dict("records") if len(ends) else ():
        where = wording.aside(run_series.describe({name: row[name] for name in machine}))
        noisy = step_cost.too_noisy(row["noise_floor"])
        knee = row["knee_batch_size"] if pandas.isna(row["knee_fitted"]) else row["knee_fitted"]
        knee = np.nan if noisy or row["still_rising"] else knee
        for limit, size in ((MEMORY, row["max_batch_size"]), (_KNEE, knee)):
            if pandas.notna(size) and (limit, where, size) not in seen:
                seen.add((limit, where, size))
                yield {"limit": f"{_LABELS[limit]}{where}", "high": size}
    for row in ends.to_dict("records"):
        yield {**{name: row[name] for name in factors}, **_cell(row, row["outcome"])}


def _cell(row: dict[str, Any], limit: str) -> dict[str, Any]:
    shown = verdict_marks.shown(row["verdict"], row["reason"])
    return {"limit": limit, "batch_size": row["batch_size"], "shown": shown}


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: one row for each limit of each series, those of the machine first."""
    rows = _rows(frame)
    figure, grid = canvas.panels(1, 1, 7.2, 0.9 + _ROW * max(len(rows), 2))
    axes = grid[0, 0]
    tried = {int(size) for size in frame.loc[frame["shown"].notna(), "batch_size"]}
    alone = frame["batch_size"].fillna(frame["high"])[frame["limit"] != _RANGE]
    highest = alone.astype(float).max()
    canvas.batch_size_axis(axes, sorted({*tried, max(*tried, int(highest))}))
    ranges = frame.loc[frame["limit"] == _RANGE, ["low", "high"]].astype(float)
    if len(ranges) == 1:
        low, high = np.log2(ranges.iloc[0])
        axes.axvspan(low - 0.12, high + 0.12, color=_RECOMMENDED, alpha=0.15, zorder=0)
    left, right = axes.get_xlim()
    for height, (_, entry) in enumerate(rows[::-1]):
        _draw_row(axes, entry, height)
    axes.set_xlim(left, right)
    axes.set_yticks(range(len(rows)), [textwrap.fill(label, _LABEL) for label, _ in rows[::-1]])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_title(spec.title)
    kinds = [verdict for verdict in verdict_marks.LOOKS if (frame["shown"] == verdict).any()]
    handles: list[tuple[Any, str]] = [
        (Line2D([], [], **verdict_marks.style(each)), verdict_marks.LOOKS[each].label)
        for each in kinds
    ]
    if (frame["limit"] == _RANGE).any():
        handles.append((Patch(color=_RECOMMENDED, alpha=0.5), _LABELS[_RANGE]))
    canvas.legend(figure, handles)
    return figure


def _rows(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    """Returns the label and the entries of each row: what tells it from the others."""
    varied = run_series.varying(frame)
    own = frame[varied].notna().any(axis=1) if varied else pandas.Series(True, frame.index)
    machine = frame[~own].groupby("limit", sort=False)
    found = [(wording.capital(str(limit)), rows) for limit, rows in machine]
    groups = run_series.series(frame[own].assign(seed=0))
    one = frame.loc[own, "limit"].nunique() == 1
    for group in groups:
        for limit, rows in group.frame.groupby("limit", sort=False):
            name = _LABELS.get(limit, limit.replace("_", " "))
            parts = [group.label, "" if one and group.label else name]
            found.append((wording.capital(": ".join(filter(None, parts))), rows))
    return found[:_MOST_ROWS]


def _draw_row(axes: Axes, frame: pandas.DataFrame, height: int) -> None:
    """Draws verdicts, limits by themselves with their intervals, and the recommended range."""
    for row in frame.to_dict("records"):
        if pandas.notna(row["shown"]):
            at = np.log2(float(row["batch_size"]))
            axes.plot(at, height, zorder=3, **verdict_marks.style(row["shown"]))
            continue
        look: dict[str, Any] = {"color": _OTHER, "linewidth": 2}
        colour = canvas.INK
        if row["limit"] == _RANGE:
            look = {"color": _RECOMMENDED, "linewidth": 7, "solid_capstyle": "butt"}
            colour = _RECOMMENDED
        ends = np.log2([float(row[end]) for end in ("low", "high") if pandas.notna(row[end])])
        axes.plot(ends, [height] * len(ends), zorder=2, **look)
        value = row["batch_size"] if pandas.notna(row["batch_size"]) else row["high"]
        place = (np.log2(float(value)), height)
        axes.plot(*place, "D", color=colour, markersize=6, zorder=3)
        canvas.annotate(axes, wording.batch_size(value), place, (8, 4), fontsize=8, color=colour)
