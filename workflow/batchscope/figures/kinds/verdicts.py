"""Verdicts on the batch sizes: a matrix of what wins at which budget, or all limits on one axis.

Both draw a verdict, or the reason where there is none, in the same look.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series, step_cost
from batchscope.analysis.advice import MEMORY, Item
from batchscope.catalogue import entries, tasks
from batchscope.catalogue.budget_kinds import END, SECONDS, TAKEN
from batchscope.catalogue.decision_columns import COMPARISONS
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.catalogue.run_factors import TIMING_ONLY_FACTORS
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas


class Look(NamedTuple):
    """How a verdict, or the reason where there is none, is drawn, and its words in a legend."""

    marker: str
    filled: bool
    colour: str  # of a marker
    ground: str  # of a cell
    label: str

    @property
    def line(self) -> dict[str, Any]:
        fill = self.colour if self.filled else canvas.PAPER
        marker = {"marker": self.marker, "markeredgecolor": self.colour, "markerfacecolor": fill}
        return {"linestyle": "none", "markersize": 7, "markeredgewidth": 1.2, **marker}


_GREY = "#ededed"
LOOKS: dict[str, Look] = {
    Verdict.WITHIN: Look("o", True, "#0072B2", "#bfe0f2", "within the margin"),
    Verdict.NOT_RESOLVED: Look("o", False, canvas.INK, canvas.PAPER, "not resolved"),
    Verdict.BEYOND: Look("X", True, "#D55E00", "#f4b183", "worse than the margin allows"),
    Reason.FAILED: Look("x", True, canvas.FAILED_COLOUR, _GREY, "a run failed"),
    Reason.NOT_REACHED: Look("v", False, canvas.FAILED_COLOUR, _GREY, "target not reached"),
    Verdict.PROVISIONAL: Look(".", True, canvas.INK, canvas.PAPER, "provisional: few seeds"),
    Verdict.ONE_SEED: Look(".", False, canvas.INK, canvas.PAPER, "one seed"),
    Reason.ALONE: Look("s", False, canvas.MUTED, _GREY, "no other to compare it with"),
    Reason.NO_VALUE: Look("_", True, canvas.MUTED, _GREY, "no value"),
}
_CELL, _CELL_HEIGHT, _CELL_LABELS = 0.8, 0.27, 1.7  # inches
_NARROW, _WIDE = 4.0, 9.0  # inches of all cells together
_MOST_CELLS, _MOST_WRITTEN = 60, 12  # rows, and batch sizes whose cells have a number
_RANGE, _KNEE = "range", "knee"
_COLUMNS = ("limit", "batch_size", "low", "high", "shown")
_LABELS = {
    MEMORY: "fits into memory",
    _KNEE: "90 % of the throughput",
    "critical_batch_size": "critical batch size",
    "seconds": "time to target",
    _RANGE: "recommended",
}
_ROW, _MOST_ROWS, _LABEL = 0.3, 40, 44  # inches, rows, letters in a line
_RECOMMENDED = "#009E73"


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns a row per series, budget, outcome and batch size, or per limit and batch size.

    `shown` is what is drawn of a limit's verdict; `low` and `high` are the ends of an interval or
    of the recommended range. Without advice limits are those of the machine and of the outcomes at
    the end of the trainings.
    """
    if spec.table == "comparisons":
        found = tables.comparisons
        found = found[found["budget"] != END] if len(found) else found
        columns = [*run_series.varying(found), *(name for name in COMPARISONS if name in found)]
        found = found[list(dict.fromkeys(columns))].reset_index(drop=True)
        return found if len(found) and found["estimate"].notna().any() else found.iloc[:0]
    rows = [*_of_advice(tables.advice)] or [*_of_ends(tables.comparisons, tables.limits)]
    names = [name for row in rows for name in row if name not in _COLUMNS]
    frame = pandas.DataFrame(rows, columns=[*dict.fromkeys(names), *_COLUMNS])
    return frame if frame["shown"].notna().any() else frame.iloc[:0]


def _of_advice(advice: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    factors = [name for name in run_series.varying(advice) if name != "learning_rate"]
    for row in advice.to_dict("records"):
        own = {name: row[name] for name in factors}
        if row["item"] == Item.RECOMMENDATION and pandas.notna(row["smallest"]):
            yield {**own, "limit": _RANGE, "low": row["smallest"], "high": row["largest"]}
        elif row["item"] == Item.LIMIT and pandas.notna(row["verdict"]):
            yield {**own, **_cell(row, row["name"])}
        elif row["item"] == Item.LIMIT:
            high = row["largest"] if row["name"] == MEMORY else row["high"]
            ends = {"batch_size": row["estimate"], "low": row["low"], "high": high}
            yield {**own, "limit": row["name"], **ends}


def _of_ends(comparisons: pandas.DataFrame, limits: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    if comparisons.empty:
        return
    ends = comparisons[comparisons["budget"] == END]
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
    shown = _shown(row["verdict"], row["reason"])
    return {"limit": limit, "batch_size": row["batch_size"], "shown": shown}


def _shown(verdict: str, reason: str) -> str:
    """Returns what is drawn of a cell: its verdict, or why it has none."""
    if verdict != Verdict.NOT_TESTABLE:
        return verdict
    return reason if reason in LOOKS else Reason.FAILED


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    matrix = spec.table == "comparisons"
    return _draw_matrix(frame, spec.title) if matrix else _draw_limits(frame, spec.title)


def _draw_matrix(frame: pandas.DataFrame, title: str) -> Figure:
    """Returns budgets and outcomes down, batch sizes across, in colours of their verdicts."""
    sizes = sorted(frame["batch_size"].unique().tolist())
    rows = _matrix_rows(frame)
    width = min(max(_CELL * len(sizes), _NARROW), _WIDE)
    size = {"width": _CELL_LABELS + width, "height": 0.8 + _CELL_HEIGHT * len(rows)}
    figure, (axes,) = canvas.panels(1, **size)
    alike: dict[str, list[str]] = {}  # ground -> the words of all verdicts that have it
    shown = {*map(_shown, frame["verdict"], frame["reason"])}
    for name in filter(shown.__contains__, LOOKS):
        alike.setdefault(LOOKS[name].ground, []).append(LOOKS[name].label)
    for at, (label, cells) in enumerate(rows):
        if cells is None:
            look = {"va": "center", "fontsize": 8, "fontweight": "bold", "annotation_clip": False}
            look |= {"xycoords": axes.get_yaxis_transform(), "in_layout": False}
            canvas.annotate(axes, label, (0, at + 0.5), (-72 * _CELL_LABELS, 0), **look)
            continue
        for cell in cells.to_dict("records"):
            ground = LOOKS[_shown(cell["verdict"], cell["reason"])].ground
            left = sizes.index(cell["batch_size"])
            edge = {"edgecolor": canvas.GRID, "linewidth": 0.6}
            axes.add_patch(Rectangle((left, at), 1, 1, facecolor=ground, **edge))
            if len(sizes) <= _MOST_WRITTEN:
                # On a colour it stays black, whatever a page makes of ink.
                look = {"color": canvas.INK if ground == canvas.PAPER else "#000000"}
                look |= {"ha": "center", "va": "center", "fontsize": 7.5}
                axes.text(left + 0.5, at + 0.5, _number(cell), **look)
    axes.set(xlim=(0, len(sizes)), ylim=(len(rows), 0), xlabel="batch size", title=title)
    labels = ["" if cells is None else label for label, cells in rows]
    axes.set_yticks(np.arange(len(rows)) + 0.5, labels, fontsize=8)
    axes.set_xticks(np.arange(len(sizes)) + 0.5, map(str, sizes))
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    patches = [Patch(facecolor=ground, edgecolor=canvas.GRID) for ground in alike]
    canvas.legend(figure, [*zip(patches, map(", ".join, alike.values()), strict=True)])
    return figure


def _matrix_rows(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame | None]]:
    """Returns label and cells of each row with a value; one that heads a series has none."""
    found: list[tuple[str, pandas.DataFrame | None]] = []
    for group in best_learning_rates.series(frame):
        found += [(wording.capital(group.label), None)] if group.label else []
        for (budget, outcome), cells in group.frame.groupby(["budget", "outcome"], sort=False):
            if cells["estimate"].notna().any():
                value = float(cells["budget_value"].iloc[0])
                known = "" if math.isnan(value) else f" {wording.number(value)}"
                unit = " s" if budget == SECONDS else ""
                found.append((f"{budget}{known}{unit}: {tasks.words(outcome)}", cells))
    return found[:_MOST_CELLS]


def _number(cell: dict[str, Any]) -> str:
    """Returns a cell's difference from the best of the others; of a target the ratio."""
    value = cell["estimate"]
    if math.isnan(value):
        return ""
    if cell["outcome"] in TAKEN:
        return f"\N{MULTIPLICATION SIGN}{wording.number(value)}"
    share = tasks.is_share(cell["outcome"])
    text = wording.fixed(100 * value, 1) if share else wording.number(value, 2)
    return f"{'+' * (value > 0)}{text}"


def _draw_limits(frame: pandas.DataFrame, title: str) -> Figure:
    """Returns one row for each limit of each series, those of the machine first."""
    rows = _limit_rows(frame)[::-1]
    figure, (axes,) = canvas.panels(1, width=7.2, height=0.9 + _ROW * max(len(rows), 2))
    tried = {int(size) for size in frame.loc[frame["shown"].notna(), "batch_size"]}
    alone = frame["batch_size"].fillna(frame["high"]).fillna(frame["low"])
    alone = alone[frame["limit"] != _RANGE]
    canvas.batch_size_axis(axes, sorted({*tried, max(*tried, int(alone.astype(float).max()))}))
    ranges = frame.loc[frame["limit"] == _RANGE, ["low", "high"]].astype(float)
    if len(ranges) == 1:
        low, high = np.log2(ranges.iloc[0])
        axes.axvspan(low - 0.12, high + 0.12, color=_RECOMMENDED, alpha=0.15, zorder=0)
    ends = axes.get_xlim()
    for height, (_, entries_) in enumerate(rows):
        for entry in entries_.to_dict("records"):
            _draw_limit(axes, entry, height)
    axes.set_xlim(ends)
    axes.set_yticks(range(len(rows)), [textwrap.fill(label, _LABEL) for label, _ in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_title(title)
    handles: list[tuple[Any, str]] = [
        (look.line, look.label) for name, look in LOOKS.items() if (frame["shown"] == name).any()
    ]
    if len(ranges):
        handles.append((Patch(color=_RECOMMENDED, alpha=0.5), _LABELS[_RANGE]))
    canvas.legend(figure, handles)
    return figure


def _limit_rows(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    """Returns the label and the entries of each row: what tells it from the others."""
    varied = run_series.varying(frame)
    own = frame[varied].notna().any(axis=1) if varied else pandas.Series(True, frame.index)
    machine = frame[~own].groupby("limit", sort=False)
    found = [(wording.capital(str(limit)), rows) for limit, rows in machine]
    one = frame.loc[own, "limit"].nunique() == 1
    for group in run_series.series(frame[own].assign(seed=0)):
        for limit, rows in group.frame.groupby("limit", sort=False):
            name = _LABELS.get(limit, tasks.words(limit))
            parts = [group.label, "" if one and group.label else name]
            found.append((wording.capital(": ".join(filter(None, parts))), rows))
    return found[:_MOST_ROWS]


def _draw_limit(axes: Axes, row: dict[str, Any], height: int) -> None:
    """Draws a verdict, a limit by itself with its interval, or the recommended range."""
    if pandas.notna(row["shown"]):
        at = np.log2(float(row["batch_size"]))
        axes.plot(at, height, zorder=3, **LOOKS[row["shown"]].line)
        return
    look, colour = {"color": canvas.MUTED, "linewidth": 2}, canvas.INK
    if row["limit"] == _RANGE:
        look = {"color": _RECOMMENDED, "linewidth": 7, "solid_capstyle": "butt"}
        colour = _RECOMMENDED
    ends = np.log2([float(row[end]) for end in ("low", "high") if pandas.notna(row[end])])
    axes.plot(ends, [height] * len(ends), zorder=2, **look)
    value = row["batch_size"] if pandas.notna(row["batch_size"]) else row["high"]
    marker, text = "D", ""
    if pandas.isna(value):  # of a fit with an open end
        value, marker, text = row["low"], ">", "≥ "
    if pandas.notna(value):
        place, text = (np.log2(float(value)), height), text + wording.batch_size(value)
        axes.plot(*place, marker, color=colour, markersize=6, zorder=3)
        canvas.annotate(axes, text, place, (8, 4), fontsize=8, color=colour)
