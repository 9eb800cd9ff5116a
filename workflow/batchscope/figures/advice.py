"""Which batch sizes to use, on one axis: how each stands before every limit, and the range."""

from __future__ import annotations

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.analysis.advice import MEMORY, Item
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, verdict_marks

RANGE = "range"
_NOTHING = ("fewer than three batch sizes", "no finished run")  # rows where there is no advice
_COLUMNS = ("row", "batch_size", "low", "high", "shown")
_LABELS = {
    MEMORY: "fits into memory",
    "knee": "90 % of the throughput",
    "critical_batch_size": "critical batch size",
    "seconds": "time to target",
    RANGE: "recommended",
}
_ROW = 0.3  # inches
_MOST_SERIES = 6
_RECOMMENDED, _OTHER = canvas.COLOURS[2], canvas.COLOURS[3]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series, limit and batch size, and one per series for the range.

    `shown` is what `verdict_marks` draws; `low` and `high` are the ends of an interval or of the
    range. Without any, `row` says why there is no advice.
    """
    advice = tables.advice
    factors = [name for name in run_series.varying(advice) if name != "learning_rate"]
    rows = advice[advice["item"].isin([Item.LIMIT, Item.RECOMMENDATION])].astype(object)
    found = []
    for row in rows.to_dict("records"):
        own = {name: row[name] for name in factors}
        entry = {"row": row["name"], "batch_size": row["batch_size"]}
        if row["item"] == Item.RECOMMENDATION:
            entry = {"row": RANGE, "low": row["smallest"], "high": row["largest"]}
        elif pandas.notna(row["verdict"]):
            entry["shown"] = verdict_marks.shown(row["verdict"], row["reason"])
        else:
            high = row["largest"] if row["name"] == MEMORY else row["high"]
            entry |= {"batch_size": row["estimate"], "low": row["low"], "high": high}
        found.append({**own, **entry})
    trained = (tables.runs["status"] == canvas.FINISHED).any() if len(tables.runs) else False
    found = found or [{"row": _NOTHING[0 if trained else 1]}]
    return pandas.DataFrame(found, columns=[*factors, *_COLUMNS])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per series."""
    series = _series(frame)
    shown = series[:_MOST_SERIES]
    rows = [list(dict.fromkeys(each.frame["row"]))[::-1] for each in shown]
    heights = [max(len(each), 2) for each in rows]
    figure = Figure(figsize=(7.2, 0.75 + sum(_ROW * each + 0.45 for each in heights)))
    figure.set_layout_engine("constrained", w_pad=0.07)
    grid = figure.subplots(
        max(len(shown), 1), 1, squeeze=False, sharex=True, height_ratios=heights or None
    )[:, 0]
    tried = sorted({int(size) for size in frame.loc[frame["shown"].notna(), "batch_size"]})
    for axes, each, labels in zip(grid, shown, rows, strict=False):
        _draw_series(axes, each.frame, labels)
        axes.set_title(wording.capital(each.label) or "Which batch sizes to use")
    if not series:
        grid[0].set_title("Which batch sizes to use")
        canvas.empty(grid[0], str(frame["row"].iloc[0]))
    canvas.batch_size_axis(grid[-1], tried)
    for axes in grid[:-1]:
        axes.set_xlabel("")
    handles, words = verdict_marks.legend(frame["shown"].dropna())
    if (frame["row"] == RANGE).any():
        handles, words = [*handles, Patch(color=_RECOMMENDED, alpha=0.5)], [*words, "recommended"]
    canvas.legend(figure, handles, words)
    rest = len(series) - len(shown)
    canvas.write(figure, f"And {rest} more series in the table." if rest else "")
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the range of each series in a sentence; nothing without any series."""
    parts = []
    for series in _series(frame)[:_MOST_SERIES]:
        ends = series.frame.loc[series.frame["row"] == RANGE, ["low", "high"]].to_numpy().ravel()
        use = " to ".join(dict.fromkeys(map(wording.batch_size, ends))) or "none"
        parts.append(f"{series.label}: {use}" if series.label else use)
    return f"Recommended: {'; '.join(parts)}." if parts else ""


def _series(frame: pandas.DataFrame) -> list[run_series.Series]:
    entries = frame[~frame["row"].isin(_NOTHING)]
    return run_series.series(entries.assign(seed=0)) if len(entries) else []


def _draw_series(axes: Axes, frame: pandas.DataFrame, rows: list[str]) -> None:
    for height, row in enumerate(rows):
        for entry in frame[frame["row"] == row].to_dict("records"):
            if pandas.notna(entry["shown"]):
                look = verdict_marks.look(entry["shown"])
                axes.plot(np.log2(float(entry["batch_size"])), height, **look, zorder=3)
            else:
                _draw_limit(axes, entry, height)
    axes.set_yticks(range(len(rows)), [_LABELS.get(row, row.replace("_", " ")) for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)


def _draw_limit(axes: Axes, entry: dict, height: int) -> None:
    """Draws a limit with its interval, or the range, without widening the axis for it."""
    ends = [float(entry[end]) for end in ("low", "high") if pandas.notna(entry[end])]
    at = [float(entry["batch_size"])] if pandas.notna(entry["batch_size"]) else []
    colour, width = (_RECOMMENDED, 7) if entry["row"] == RANGE else (_OTHER, 2)
    axes.plot(np.log2(ends), [height] * len(ends), color=colour, linewidth=width, zorder=2)
    if entry["row"] == RANGE:
        low, high = np.log2(ends)
        axes.axvspan(low - 0.12, high + 0.12, color=colour, alpha=0.12, linewidth=0, zorder=0)
    for value in at or ends[-1:]:
        axes.plot(np.log2(value), height, "D", color=colour, markersize=6, zorder=3)
        text = wording.batch_size(value)
        canvas.annotate(axes, text, (np.log2(value), height), (8, 4), fontsize=8, color=colour)
