"""Which batch size is better at which budget: budgets down, batch sizes across, a matrix a series.

A colour, and beside it a mark and a hatch for grey print, says what the tests say of a cell; the
words at the right what they say of its row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue import own_columns
from batchscope.catalogue.budget_kinds import CONVERGENCE, END, SECONDS, TAKEN, TARGET
from batchscope.catalogue.decision_columns import COMPARISONS
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, verdict_marks

_EDGE, _FALLING, _TIMES = "\N{DAGGER}", "\N{DOUBLE DAGGER}", "\N{MULTIPLICATION SIGN}"
_LOOKS: dict[str, dict[str, Any]] = {
    Verdict.WITHIN: {"facecolor": "#BFE0F2"},
    Verdict.BEYOND: {"facecolor": "#F4B183", "hatch": "////"},
    Verdict.NOT_RESOLVED: {"facecolor": "white"},
    Reason.FAILED: {"facecolor": "#DDDDDD", "hatch": "xxxx"},
    Verdict.PROVISIONAL: {"facecolor": "#F7F7F7"},
    Verdict.ONE_SEED: {"facecolor": "#F7F7F7"},
    Reason.ALONE: {"facecolor": "#EDEDED"},
    Reason.NO_VALUE: {"facecolor": "#EDEDED", "hatch": "...."},
}
_MARKED = (Verdict.WITHIN, Verdict.BEYOND, Verdict.NOT_RESOLVED, Reason.ALONE)
# At a budget the direction that is asked is the one in which larger batch sizes are better.
_BETTER = {Verdict.SUPPORTED: "larger", Verdict.CONTRADICTED: "smaller"}
_HATCH = "#9A5B2B"
_ROW, _HEAD, _COLUMN = 0.31, 0.22, 0.92  # inches
_LABELS, _VERDICTS = 1.45, 1.6  # inches left and right of the cells
_CELL_POINTS = 8.0  # size of a cell's text, less where a line of it is too long
_EM = 0.60  # width of a character, of its size: those of numbers and their signs, on average
_MOST_WITH_INTERVAL, _MOST_WITH_TEXT = 8, 14  # batch sizes
_MOST_SHOWN = 3  # series described one by one
_TREND, _WHY = "trend", "no_trend"
_TITLE = "Which batch size is better, by what is held equal"


def select(tables: Tables) -> pandas.DataFrame:
    """Returns a row per series, budget, outcome and batch size, with the trend of its row."""
    found = tables.comparisons[tables.comparisons["budget"] != END]
    elsewhere = "machine" in found and found["machine"].eq(own_columns.ELSEWHERE).any()
    machine = ["machine"] if elsewhere else []  # whose seconds they are
    columns = [*machine, *run_series.varying(found), *COMPARISONS]
    found = found[list(dict.fromkeys(columns))]
    trends = tables.trends
    trends = trends[trends["budget"] != END] if len(trends) else trends
    keys = [name for name in run_series.varying(trends) if name in found and name != RATE]
    keys += ["budget", "outcome"]
    trends = trends.reindex(columns=[*keys, "verdict", "reason"])
    trends = trends.rename(columns={"verdict": _TREND, "reason": _WHY})
    found = found.merge(trends.astype({"budget": str, "outcome": str}), "left", on=keys)
    texts = {"reason": "", _TREND: Verdict.NOT_TESTABLE, _WHY: ""}
    return found.astype(dict.fromkeys(texts, object)).fillna(texts)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one matrix per series, below each other so that texts are legible."""
    groups = best_learning_rates.series(frame) if len(frame) else []
    sizes = frame["batch_size"].nunique()
    width = _LABELS + max(sizes, 3) * _column(sizes) + _VERDICTS
    heights = [_height(group.frame) for group in groups] or [1.5]
    figure, grid = canvas.panels(max(len(groups), 1), 1, width, max(heights) + 0.75)
    for axes, group in zip(grid.ravel(), groups, strict=False):
        _draw_matrix(axes, group.frame)
        axes.set_title(wording.capital(group.label) or _TITLE)
    if not groups:
        grid[0, 0].set_title(_TITLE)
        canvas.empty(grid[0, 0])
        grid[0, 0].set_xticks([])
    cells = frame[["verdict", "reason"]].itertuples(index=False, name=None)
    kinds = {verdict_marks.shown(*cell) for cell in cells}
    kinds = [name for name in verdict_marks.WORDS if name in kinds]
    handles = [_handle(name) for name in kinds]
    canvas.legend(figure, handles, [verdict_marks.WORDS[name] for name in kinds])
    canvas.write(figure, *_notes(frame))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns which way every budget points, for every series."""
    if frame.empty:
        return ""
    groups = best_learning_rates.series(frame)
    alike: dict[str, list[str]] = {}
    for group in groups:
        alike.setdefault(_verdict_words(group), []).append(group.label)
    sentences, rest = [], len(groups)
    for text, labels in [*alike.items()][:_MOST_SHOWN]:
        of = f"{wording.listed(labels)}: " if labels[0] else ""
        if len(labels) == len(groups) > 1:
            of = f"in {wording.every(len(groups), 'series')}: "
        sentences.append(wording.capital(f"{of}{text}."))
        rest -= len(labels)
    if rest:
        sentences.append(f"{rest} further series in the figure.")
    return " ".join(sentences)


def _verdict_words(group: run_series.Series) -> str:
    """Returns `at equal epochs (40) smaller is better; no verdict at equal seconds (2 s)`."""
    clauses, none = [], []
    for kind, rows in group.frame.groupby("budget", sort=False):
        held = _budget(rows.iloc[0])
        if words := _trends(str(kind), rows):
            clauses.append(f"{held} {words}")
        else:
            none.append(held)
    if none:
        clauses.append(f"no verdict {wording.listed(none)}")
    return "; ".join(clauses)


def _trends(kind: str, rows: pandas.DataFrame) -> str:
    """Returns `smaller is better by test loss` of a budget; nothing without a verdict."""
    by_trend: dict[str, list[str]] = {}
    for outcome, cells in rows.groupby("outcome", sort=False):
        better = _BETTER.get(cells[_TREND].iloc[0], "")
        by_trend.setdefault(better, []).append(str(outcome).replace("_", " "))
    without = by_trend.pop("", [])
    parts = [
        f"{trend} is better{_by(named, len(by_trend) + bool(without), kind)}"
        for trend, named in by_trend.items()
    ]
    if parts and kind == TARGET and without:  # updates, examples and seconds are asked apart
        parts.append(f"no verdict in {wording.listed(without)}")
    return wording.listed(parts)


def _by(named: list[str], trends: int, kind: str) -> str:
    if kind == TARGET:
        return f" in {wording.listed(named)}"
    on_validation = {name.startswith("validation") for name in named}
    if trends > 1 or len(on_validation) > 1:
        return f" by {wording.listed(named)}"
    return " on validation data" if on_validation == {True} else ""


def _budget(row: pandas.Series | dict[str, Any]) -> str:
    """Returns what is held equal: `at equal epochs (40)`, `to a validation loss of 0.2`."""
    kind, value = row["budget"], row["budget_value"]
    if kind == CONVERGENCE:
        return "at each training's lowest validation loss"
    if kind == TARGET:
        known = isinstance(row["budget_column"], str) and row["budget_column"]
        return f"to {Target(*((known, value) if known else ())).words}"
    amount = f"{wording.number(value)} s" if kind == SECONDS else wording.number(value, 6)
    return f"at equal {kind} ({amount})"


def _column(sizes: int) -> float:
    """Returns how many inches wide the cells of so many batch sizes are."""
    return min(_COLUMN, 9.0 / max(sizes, 1))


def _height(rows: pandas.DataFrame) -> float:
    lines = rows[["budget", "outcome"]].drop_duplicates()
    return _ROW * len(lines) + _HEAD * rows["budget"].nunique()


def _lines(rows: pandas.DataFrame) -> Iterator[tuple[float, str, pandas.DataFrame | None]]:
    """Yields the middle of every line in inches from the top, its words, and its cells.

    A line that heads a budget has no cells.
    """
    at = 0.0
    for _, of_budget in rows.groupby("budget", sort=False):
        stated = ", as stated" if of_budget["stated"].iloc[0] else ""
        yield at + _HEAD / 2, f"{wording.capital(_budget(of_budget.iloc[0]))}{stated}", None
        at += _HEAD
        for outcome, cells in of_budget.groupby("outcome", sort=False):
            yield at + _ROW / 2, str(outcome).replace("_", " "), cells
            at += _ROW


def _draw_matrix(axes: Axes, rows: pandas.DataFrame) -> None:
    sizes = sorted(rows["batch_size"].unique().tolist())
    ticks, labels = [], []
    for at, words, cells in _lines(rows):
        if cells is None:
            _annotate(axes, words, (0, at), (-_LABELS * 72 + 10, -1), fontweight="bold")
            continue
        ticks.append(at)
        labels.append(words)
        texts = _texts(cells, len(sizes))
        longest = max(len(line) for text in texts for line in text.split("\n"))
        points = min(_CELL_POINTS, 72 * 0.94 * _column(len(sizes)) / (_EM * max(longest, 1)))
        for cell, text in zip(cells.to_dict("records"), texts, strict=True):
            _draw_cell(axes, cell, sizes.index(cell["batch_size"]), at, text, points)
        trend, why = cells[[_TREND, _WHY]].iloc[0]
        if trend in _BETTER:
            text, look = f"{_BETTER[trend]} is better", {"fontweight": "bold", "color": "black"}
        else:
            text, look = f"{trend}{wording.aside(why)}".replace("_", " "), {"color": "#666666"}
        _annotate(axes, text, (1, at), (6, 0), **look)
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_ylim(_height(rows), 0)
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.set_xticks(range(len(sizes)), [str(int(size)) for size in sizes])
    axes.tick_params(length=0, top=True, labeltop=True, pad=2)
    axes.grid(False)
    axes.set_xlabel("batch size")
    for side in axes.spines.values():
        side.set_visible(False)


def _texts(cells: pandas.DataFrame, sizes: int) -> list[str]:
    """Returns what the cells of a row say; less of it, the more batch sizes there are."""
    write, texts = _writer(cells), []
    for cell in cells.to_dict("records"):
        marks = _EDGE * int(cell["on_edge"]) + _FALLING * int(cell["still_falling"])
        first, *others = _cell_words(cell, write)
        lines = [first + marks, *(others if sizes <= _MOST_WITH_INTERVAL else [])]
        texts.append(marks if sizes > _MOST_WITH_TEXT else "\n".join(lines))
    return texts


def _draw_cell(
    axes: Axes, cell: dict[str, Any], column: int, at: float, text: str, points: float
) -> None:
    verdict = verdict_marks.shown(cell["verdict"], cell["reason"])
    corner = (column - 0.48, at - _ROW / 2 + 0.015)
    look = {"edgecolor": _HATCH if "hatch" in _LOOKS[verdict] else "#BBBBBB", "linewidth": 0.5}
    patch = Rectangle(corner, 0.96, _ROW - 0.03, **look, **_LOOKS[verdict])
    patch.set_hatch_linewidth(0.5)
    axes.add_patch(patch)
    if verdict in _MARKED:
        axes.plot(column - 0.42, at - _ROW / 2 + 0.065, **_marker(verdict), zorder=4)
    # The hatch must not run through the numbers.
    box = {"facecolor": _LOOKS[verdict]["facecolor"], "edgecolor": "none", "pad": 0.4}
    box = box if "hatch" in _LOOKS[verdict] else None
    place = {"ha": "center", "va": "center", "fontsize": points, "linespacing": 1.0}
    axes.text(column, at, text, **place, bbox=box, zorder=3)


def _cell_words(cell: dict[str, Any], write: Callable[[float], str]) -> list[str]:
    """Returns the lines of a cell: its difference from the best, and the interval."""
    kind = verdict_marks.shown(cell["verdict"], cell["reason"])
    if kind == Reason.NO_VALUE:
        return ["no value"]
    if kind == Reason.FAILED:
        what = "got there" if cell["budget"] == TARGET else "finished"
        return [f"{int(cell['reached'])} of {int(cell['seeds'])}", what]
    if kind == Reason.ALONE:
        return [_level(cell)]
    first, ends = write(cell["estimate"]), (cell["low"], cell["high"])
    if cell["n"] < 2:
        return [first]
    low, high = ("open" if math.isnan(end) else write(end) for end in ends)
    return [first, f"[{low}, {high}]".replace(_TIMES, "")]


def _level(cell: dict[str, Any]) -> str:
    if cell["outcome"].endswith("accuracy"):
        return wording.percent(cell["mean"])
    unit = " s" if cell["outcome"] == "seconds" else ""
    return wording.grouped(cell["mean"]) + unit


def _writer(cells: pandas.DataFrame) -> Callable[[float], str]:
    """Returns what writes the differences of a row, all with as many decimals."""
    outcome = cells["outcome"].iloc[0]
    if outcome in TAKEN:
        return _ratio
    if outcome.endswith("accuracy"):
        return functools.partial(_signed, scale=100, decimals=1)
    largest = cells["estimate"].abs().max()
    decimals = 1 - _power(largest) if largest > 0 else 2
    halves = (cells["high"] - cells["low"]) / 2
    if (known := halves[halves > 0]).size:  # one decimal more where a digit of it would be lost
        decimals = min(max(decimals, -_power(known.min())), decimals + 1)
    return functools.partial(_signed, scale=1, decimals=min(max(decimals, 0), 6))


def _power(value: float) -> int:
    """Returns the power of ten of a number's first digit."""
    return math.floor(math.log10(value))


def _ratio(ratio: float) -> str:
    return f"{_TIMES}{wording.fixed(ratio, 2) if ratio < 10 else wording.number(ratio)}"


def _signed(value: float, scale: int, decimals: int) -> str:
    rounded = round(scale * value, decimals)
    return f"{'+' * (rounded > 0)}{wording.fixed(rounded, decimals)}" if rounded else "0"


def _annotate(
    axes: Axes, text: str, at: tuple[float, float], away: tuple[float, float], **look: Any
) -> None:
    """Writes beside a matrix, at a share of its width and so many points away from there."""
    place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    axes.annotate(text, at, away, va="center", fontsize=8, **place, **look)


def _marker(verdict: str) -> dict[str, Any]:
    """Returns how a cell's verdict is marked, as arguments of a line; some have no mark."""
    if verdict not in _MARKED:
        return {"linestyle": "none"}
    look = {**verdict_marks.look(verdict), "markersize": 3.2, "markeredgewidth": 0.6}
    fill = "white" if look["markerfacecolor"] == "white" else "black"
    return {**look, "color": "black", "markerfacecolor": fill}


def _handle(verdict: str) -> tuple[Patch, Line2D]:
    patch = Patch(edgecolor=_HATCH, linewidth=0.5, **_LOOKS[verdict])
    patch.set_hatch_linewidth(0.5)
    return patch, Line2D([], [], **_marker(verdict))


def _notes(frame: pandas.DataFrame) -> Iterator[str]:
    if frame.empty:
        return
    margins = []
    for outcome, value in frame[["outcome", "margin"]].drop_duplicates().itertuples(index=False):
        kind = "a target" if outcome in TAKEN else outcome.replace("_", " ")
        amount = wording.percent(value, 0) if outcome in TAKEN else wording.number(value)
        if outcome.endswith("accuracy"):
            amount = wording.points(value)
        margins.append(f"{kind} {amount}")
    yield f"Margins: {', '.join(dict.fromkeys(margins))}."
    yield "Differences of accuracy are in percentage points, those of loss in nats."
    yield "A cell is compared with the best of the others, and its colour read off its interval."
    if frame["on_edge"].any():
        yield f"{_EDGE} The best rate is the first or last of those tried: others may be better."
    if frame["still_falling"].any():
        yield f"{_FALLING} The validation loss still fell when most trainings ended."
    if frame["outcome"].str.startswith("validation").any():
        text = "Losses and accuracies along a training are of validation data"
        on_test = frame.loc[frame["outcome"].str.startswith("test"), "budget"]
        measured = len(on_test) and on_test.eq(CONVERGENCE).all()
        yield f"{text}; the last rows are of test data." if measured else f"{text}."
    timed = frame["budget"].eq(SECONDS).any() or frame["outcome"].eq("seconds").any()
    seeds = wording.count(int(frame["seeds"].max()), "seed")
    whose = "those of the file" if "machine" in frame else "those of a timing job for each seed"
    yield f"{seeds}.{f' Seconds are {whose}.' if timed else ''}"
