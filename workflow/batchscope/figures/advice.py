"""Which batch sizes to use, on one axis: every limit of a series, and the range between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import largest_within_margin, run_series
from batchscope.analysis.advice_words import amount, span
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, verdict_marks

MEMORY, KNEE, CRITICAL, FASTEST = "memory", "knee", "critical_batch_size", "fastest_batch_size"
SECONDS, OUTCOME, RANGE = "seconds", "outcome", "range"  # an outcome's row has its name
NOTHING = "nothing"
# In the order of the rows, from above; those of outcomes stand between the last two.
_ROWS = (MEMORY, KNEE, CRITICAL, FASTEST, SECONDS)
_COLUMNS = ("row", "label", "batch_size", "low", "high", "verdict")
_ROW = 0.3  # inches
_MOST_SERIES = 6
_NEAR_END = 0.86  # share of the axis from which there is no room for a number on the right
_VERDICTS = {
    largest_within_margin.WITHIN: "within the margin",
    largest_within_margin.NOT_RESOLVED: "not resolved",
    largest_within_margin.BEYOND: "beyond it",
    largest_within_margin.FAILED: "a run failed or never got there",
    largest_within_margin.FEW_SEEDS: "fewer than 6 seeds: no verdict",
    largest_within_margin.ALONE: "no other to compare it with",
    largest_within_margin.NO_VALUE: "no run, or no value",
}
_MACHINE, _FITTED = canvas.COLOURS[1], canvas.COLOURS[3]
_RECOMMENDED = canvas.COLOURS[2]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and limit, and of those that are tested per batch size.

    `row` is the limit, of an outcome its name, or `range`, or `nothing` where there is no advice;
    `low` and `high` are the ends of an interval or of the range.
    """
    summary, sizes = tables.advice, tables.advice_sizes
    factors = run_series.varying(summary)
    found: list[dict[str, Any]] = []
    for row in summary.to_dict("records"):
        own = {name: row[name] for name in factors}
        rows = sizes[(sizes[factors] == pandas.Series(own)).all(axis=1)] if factors else sizes
        found += [{**own, **entry} for entry in _entries(row, rows)]
    if not found:
        trained = (tables.runs["status"] == canvas.FINISHED).any()
        label = "fewer than three batch sizes" if trained else "no finished run"
        found = [{"row": NOTHING, "label": label}]
    return pandas.DataFrame(found, columns=[*factors, *_COLUMNS])


def _entries(row: dict[str, Any], sizes: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    if pandas.notna(row["max_batch_size"]):
        yield {"row": MEMORY, "label": "fits into memory", "high": row["max_batch_size"]}
    if pandas.notna(row["knee"]):
        yield {"row": KNEE, "label": "90 % of the throughput", "batch_size": row["knee"]}
    names = {CRITICAL: "critical batch size B_crit", FASTEST: "fastest in closed form B*"}
    for name, label in names.items():
        ends = {end: row[f"{name}_{end}"] for end in ("low", "high")}
        if pandas.notna([row[name], *ends.values()]).any():
            yield {"row": name, "label": label, "batch_size": row[name], **ends}
    slower = f"{wording.number(100 * row['slower'])} %"
    for each in sizes[sizes["limit"].isin([SECONDS, OUTCOME])].to_dict("records"):
        limit, label = SECONDS, f"time to target within {slower}"
        if each["limit"] == OUTCOME:
            if pandas.isna(each["outcome"]):
                continue
            limit = str(each["outcome"])
            label = f"{limit.replace('_', ' ')} within {amount(limit, float(each['margin']))}"
        entry = {"row": limit, "label": label, "verdict": each["verdict"]}
        yield {**entry, "batch_size": each["batch_size"]}
    label = "recommended" if pandas.notna(row["smallest"]) else "no recommendation"
    yield {"row": RANGE, "label": label, "low": row["smallest"], "high": row["largest"]}


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per series."""
    series = _series(frame)
    shown = series[:_MOST_SERIES]
    rows = [_rows(each.frame) for each in shown]
    heights = [max(len(each), 2) for each in rows]
    figure = Figure(figsize=(7.2, 0.75 + sum(_ROW * each + 0.45 for each in heights)))
    figure.set_layout_engine("constrained", w_pad=0.07)
    grid = figure.subplots(
        max(len(shown), 1), 1, squeeze=False, sharex=True, height_ratios=heights or None
    )[:, 0]
    tried = _tried(frame)
    ends = _ends(frame, tried)
    for axes, each, labels in zip(grid, shown, rows, strict=False):
        _draw_series(axes, each.frame, labels, ends)
        axes.set_title(wording.capital(each.label) or "Which batch sizes to use")
    if not series:
        grid[0].set_title("Which batch sizes to use")
        canvas.empty(grid[0], str(frame["label"].iloc[0]))
    canvas.batch_size_axis(grid[-1], tried, room=0.05)
    grid[-1].set_xlim(ends)
    for axes in grid[:-1]:
        axes.set_xlabel("")
    canvas.legend(figure, *_legend(frame))
    note = "Time and outcome: one-sided paired t-tests at 5 % against every other batch size."
    rest = len(series) - len(shown)
    more = f"And {wording.count(rest, 'series', 'series')} more in the table." if rest else ""
    canvas.write(figure, note if (frame["row"] == SECONDS).any() else "", more)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the range of each series in a sentence; nothing without any series."""
    parts = []
    for series in _series(frame)[:_MOST_SERIES]:
        row = series.frame[series.frame["row"] == RANGE].iloc[0]
        if pandas.isna(row["low"]):
            use = f"none of {wording.count(len(_tried(series.frame)), 'batch size')}"
        else:
            use = span(int(row["low"]), int(row["high"]))
        parts.append(f"{series.label}: {use}" if series.label else use)
    return f"Recommended: {'; '.join(parts)}." if parts else ""


def _series(frame: pandas.DataFrame) -> list[run_series.Series]:
    entries = frame[frame["row"] != NOTHING]
    return run_series.series(entries.assign(seed=0)) if len(entries) else []


def _rows(frame: pandas.DataFrame) -> list[str]:
    """Returns the rows of a series from below, as the axis counts them."""
    there = list(dict.fromkeys(frame["row"]))
    outcomes = [row for row in there if row not in (*_ROWS, RANGE)]
    return [row for row in (RANGE, *outcomes[::-1], *_ROWS[::-1]) if row in there]


def _tried(frame: pandas.DataFrame) -> list[int]:
    """Returns the batch sizes that were tried; without any, those of the limits."""
    tried = frame.loc[frame["verdict"].notna(), "batch_size"].dropna()
    found = tried if len(tried) else frame["batch_size"].dropna()
    return sorted({round(float(size)) for size in found})


def _ends(frame: pandas.DataFrame, tried: list[int]) -> tuple[float, float]:
    """Returns the ends of the axis: a limit far away must not squeeze what was tried."""
    if not tried:
        return 0.0, 1.0
    limits = frame.loc[frame["row"].isin([MEMORY, KNEE, CRITICAL, FASTEST]), ["batch_size", "high"]]
    values = pandas.to_numeric(limits.stack(), errors="coerce").dropna()
    low, high = min([*values, *tried]), max([*values, *tried])
    inner = np.log2([max(low, tried[0] / 2), min(high, 2 * tried[-1])])
    return float(inner[0]) - 0.5, float(inner[1]) + 0.5


def _draw_series(
    axes: Axes, frame: pandas.DataFrame, rows: list[str], ends: tuple[float, float]
) -> None:
    left, right = ends
    axes.set_xlim(ends)
    recommended = frame[frame["row"] == RANGE].iloc[0]
    if pandas.notna(recommended["low"]):
        low, high = np.log2([float(recommended["low"]), float(recommended["high"])])
        axes.axvspan(low - 0.12, high + 0.12, color=_RECOMMENDED, alpha=0.12, linewidth=0, zorder=0)
    for height, row in enumerate(rows):
        entries = frame[frame["row"] == row]
        if entries["verdict"].notna().any():
            for entry in entries[entries["verdict"].isin(_VERDICTS)].to_dict("records"):
                at = np.log2(float(entry["batch_size"]))
                axes.plot(at, height, **verdict_marks.look(entry["verdict"]), zorder=3)
        elif row == RANGE:
            _draw_range(axes, entries.iloc[0], height)
        else:
            _draw_limit(axes, entries.iloc[0], height, left, right)
    labels = [str(frame.loc[frame["row"] == row, "label"].iloc[0]) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)


def _draw_range(axes: Axes, entry: pandas.Series, height: int) -> None:
    if pandas.isna(entry["low"]):
        return
    low, high = int(entry["low"]), int(entry["high"])
    ends = np.log2([low, high])
    look = {"color": _RECOMMENDED, "linewidth": 7, "markersize": 8, "zorder": 2}
    axes.plot(ends, [height] * 2, "-o", **look)
    _beside(axes, span(low, high), ends[1], height, _RECOMMENDED)


def _draw_limit(axes: Axes, entry: pandas.Series, height: int, left: float, right: float) -> None:
    colour = _FITTED if entry["row"] in (CRITICAL, FASTEST) else _MACHINE
    if entry["row"] == MEMORY:
        at = float(np.log2(float(entry["high"])))
        ends = [left, min(at, right)]
        axes.plot(ends, [height] * 2, color=colour, linewidth=6, alpha=0.45, zorder=1)
        if at > right:
            at = right - 0.06
            axes.plot(at, height, ">", color=colour, markersize=9, zorder=2)
        _beside(axes, wording.batch_size(float(entry["high"])), at, height, colour)
        return
    low, high = (
        np.log2(float(entry[end])) if pandas.notna(entry[end]) else other
        for end, other in (("low", left), ("high", right))
    )
    value = entry["batch_size"]
    if entry["row"] != KNEE and pandas.notna([entry["low"], entry["high"]]).any():
        ends = np.clip([low, high], left, right)
        axes.plot(ends, [height] * 2, color=colour, linewidth=2.2, alpha=0.7, zorder=2)
        for end, at, arrow in (("low", left + 0.1, "<"), ("high", right - 0.1, ">")):
            if pandas.isna(entry[end]):
                axes.plot(at, height, arrow, color=colour)
    if pandas.notna(value):
        at = float(np.log2(float(value)))
        if left <= at <= right:
            mark, size = ("|", 14) if entry["row"] == KNEE else ("D", 6)
            axes.plot(at, height, mark, color=colour, markersize=size, markeredgewidth=2, zorder=3)
        else:
            at, arrow = (left + 0.06, "<") if at < left else (right - 0.06, ">")
            axes.plot(at, height, arrow, color=colour, markersize=8, zorder=3)
        _beside(axes, wording.batch_size(float(value)), at, height, colour)


def _beside(axes: Axes, text: str, at: float, height: int, colour: str) -> None:
    """Writes beside a mark: on its right, or on its left where the panel ends there."""
    left, right = axes.get_xlim()
    leftwards = at - left > _NEAR_END * (right - left)
    side, away = ("right", -9) if leftwards else ("left", 8)
    look = {"fontsize": 8, "fontweight": "bold", "color": colour, "zorder": 4, "ha": side}
    canvas.annotate(axes, text, (at, height), (away, 4), **look)


def _legend(frame: pandas.DataFrame) -> tuple[list[Any], list[str]]:
    handles: list[Any]
    handles, labels = verdict_marks.legend(frame["verdict"].dropna(), _VERDICTS)
    rows = set(frame["row"])
    if rows & {CRITICAL, FASTEST}:
        handles.append(Line2D([], [], color=_FITTED, marker="D", markersize=6))
        labels.append("fitted, 95 % interval")
    if rows & {MEMORY, KNEE}:
        handles.append(Line2D([], [], color=_MACHINE, linewidth=5, alpha=0.45))
        labels.append("limit of the machine")
    if frame.loc[frame["row"] == RANGE, "low"].notna().any():
        handles.append(Patch(color=_RECOMMENDED, alpha=0.5))
        labels.append("recommended")
    return handles, labels
