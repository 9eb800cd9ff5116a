"""The best learning rate of every batch size, its exponent, and what it gives on test data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.analysis.best_learning_rates import Choice, Exponent
from batchscope.figures import Tables, learning_rate
from batchscope.figures.drawing import against_batch_size, canvas, marks, words
from batchscope.figures.drawing.against_batch_size import Panel

_PANELS = [
    Panel("test_loss", "Test loss at the best rate", "loss (nats)"),
    Panel("test_accuracy", "Test accuracy at the best rate", "accuracy (%)"),
]
_RULES = {1.0: "linear rule (k = 1)", 0.5: "square root rule (k = 1/2)"}
_RULE_COLOUR = "#999999"
# Each with its offset in points.
_ARROWS = {best_learning_rates.LOW: ("↓", -9), best_learning_rates.HIGH: ("↑", 9)}
_MOST_SERIES = 4  # described below the figure


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, rates and losses of every run, and whether its rate is the best."""
    frame = learning_rate.select(tables, *(panel.column for panel in _PANELS))
    chosen = pandas.Series(False, index=frame.index)
    for group in best_learning_rates.series(frame):
        choices = best_learning_rates.choices(group.frame)
        best = {choice.batch_size: choice.learning_rate for choice in choices}
        at = group.frame["batch_size"].map(best) == group.frame["learning_rate"]
        chosen |= at.reindex(frame.index, fill_value=False)
    return frame.assign(chosen=chosen)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: best rates, then loss and accuracy on test data at those rates."""
    figure, grid = canvas.panels(1, 1 + len(_PANELS), width=3.4, height=3.0)
    groups = best_learning_rates.series(frame)
    best = [best_learning_rates.choices(group.frame) for group in groups]
    sizes = sorted(frame["batch_size"].unique().tolist())
    reported = frame[frame["chosen"].astype(bool)]
    rates = frame.assign(effective_learning_rate=best_learning_rates.effective(frame))
    tried = [rates.loc[group.frame.index] for group in groups]
    handles = _draw_rates(grid[0, 0], tried, best, sizes)
    canvas.lift_title(grid[0, 0], reported)
    parts = [
        replace(group, frame=group.frame[group.frame["chosen"].astype(bool)]) for group in groups
    ]
    for axes, panel in zip(grid[0, 1:], _PANELS, strict=True):
        if reported[panel.column].notna().any():
            against_batch_size.draw_panel(axes, reported, panel, parts)
        else:
            canvas.empty(axes, "no test data" if len(reported) else "no finished run")
            axes.set_title(panel.title)
            axes.set_ylabel(panel.label)
        canvas.batch_size_axis(axes, sizes)
    grid[0, 2].yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    labels = [group.label or "best rate" for group in groups]
    rules = _RULES if len(sizes) > 1 else {}
    lines = [_rule_line(rule) for rule in rules]
    canvas.legend(figure, [*handles, *lines], [*labels, *rules.values()])
    notes = [learning_rate.NO_CHOICE]
    if best_learning_rates.several(frame):
        notes = _notes(groups, best)
    canvas.notes(figure, frame, *notes)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the best rates at both ends, what they give on test data, and the exponent."""
    texts = [_found(group, best) for group, best in best_learning_rates.chosen(frame)]
    return "; ".join([*texts[:1], *words.further(len(texts) - 1)]) + "." if texts else ""


def _found(group: run_series.Series, best: list[Choice]) -> str:
    parts = []
    for choice in best if len(best) < 2 else [best[0], best[-1]]:
        edge = f", the {choice.edge} tried," if choice.edge else ""
        where = f"{edge} at batch size {choice.batch_size}{_test(choice.rows(group.frame))}"
        parts.append(f"{wording.number(choice.rate)}{where}")
    of = wording.aside(group.label)
    text = f"Chosen on validation data, the best learning rate{of} was {wording.listed(parts)}"
    if fit := best_learning_rates.exponent(best):
        text += f". Fitted per seed, the rate goes as batch size to the power {_exponent(fit)}"
    return text


def _test(rows: pandas.DataFrame) -> str:
    """Returns what a rate gives on test data: ` (mean test accuracy 93.1 %, 3 seeds)`."""
    for what, write in (("accuracy", wording.percent), ("loss", wording.number)):
        values = rows[f"test_{what}"].astype(float).dropna()
        if len(values):
            count = wording.count(len(values), "seed")
            return f" (mean test {what} {write(values.mean())}, {count})"
    return ""


def _exponent(fit: Exponent) -> str:
    """Returns an exponent with its interval, its seeds, and what makes it a bound."""
    unbounded = fit.bound == best_learning_rates.UNBOUNDED
    bound = f"{fit.bound} " if fit.bound and not unbounded else ""
    mean, low, high, n = fit.interval
    rounded, steps = wording.estimate(mean, low, high), f"±{wording.fixed(fit.resolution, 2)}"
    if rounded.low:
        value, bounds = rounded.value, f"95 % interval {rounded.low} to {rounded.high}"
        parts = [f"{bounds} with the {steps} of the grid's steps"]
    else:
        value, parts = wording.fixed(mean, 2), [f"the grid's steps alone leave {steps}"]
    parts.append(wording.count(n, "seed"))
    if fit.on_edge:
        parts.append(f"{fit.on_edge} of {fit.points} best rates on an edge of the grid")
    if unbounded:
        parts.append("which leave it open both ways")
    return f"{bound}{value} ({', '.join(parts)})"


def _draw_rates(
    axes: Axes, tried: list[pandas.DataFrame], best: list[list[Choice]], sizes: list[int]
) -> list:
    """Draws best rates of seeds and means, fits and rules; returns a handle per series.

    Args:
        tried: The runs of each series, with their effective rates.
    """
    handles = []
    reached = [[choice for choice in choices if choice.runs] for choices in best]
    room = against_batch_size.room(sizes) / len(best)
    _draw_rules(axes, reached[0])
    for index, (rows, choices) in enumerate(zip(tried, best, strict=True)):
        style = canvas.line_style(index)
        offset = against_batch_size.dodge(index, len(best), sizes)
        _draw_seeds(axes, rows, choices, style, offset, room)
        if fit := best_learning_rates.exponent(reached[index]):
            ends = np.log2([reached[index][0].batch_size, reached[index][-1].batch_size])
            look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.5}
            axes.plot(ends, np.log2(fit.factor) + fit.interval.mean * ends, zorder=3, **look)
        _draw_choices(axes, reached[index], style, offset, max(4.0, 8.0 - len(best)))
        handles.append(Line2D([], [], markersize=6, **style))
    if any(reached):
        rates = sorted({rate for choices in best for choice in choices for rate in choice.rates})
        learning_rate.rate_axis(axes, rates, "y")
        positions = np.log2(rates)
        margin = max(0.5, 0.12 * float(np.ptp(positions)))
        axes.set_ylim(positions.min() - margin, positions.max() + margin)
    else:
        canvas.empty(axes)
    canvas.batch_size_axis(axes, sizes)
    axes.set_title("Best learning rate")
    axes.set_ylabel("learning rate")
    return handles


def _draw_seeds(
    axes: Axes,
    rows: pandas.DataFrame,
    choices: list[Choice],
    style: dict[str, Any],
    offset: float,
    room: float,
) -> None:
    """Draws the rate that each seed alone would have chosen, to the right of the mean's."""
    look = {"marker": style["marker"], "color": style["color"], "alpha": 0.5, "markersize": 3}
    look |= {"linestyle": "none", "markeredgewidth": 0, "zorder": 2}
    for choice in choices:
        seeds = choice.by_seed
        places = dict(zip(seeds, np.linspace(0.16, 0.36, len(seeds)), strict=True))
        chosen = rows["seed"].map(seeds) == rows["effective_learning_rate"]
        runs = rows[chosen & (rows["batch_size"] == choice.batch_size)]
        at = np.log2(choice.batch_size) + offset + room * runs["seed"].map(places)
        (points,) = axes.plot(at, np.log2(runs["effective_learning_rate"]), **look)
        marks.points(points, runs, runs["effective_learning_rate"])


def _draw_choices(
    axes: Axes, choices: list[Choice], style: dict[str, Any], offset: float, markersize: float
) -> None:
    """Draws the rate with the lowest mean loss, hollow and with an arrow on an edge."""
    colour = style["color"]
    look = {"marker": style["marker"], "markersize": markersize, "markeredgecolor": colour}
    upright = {"ha": "center", "va": "center", "fontsize": 10, "color": colour, "zorder": 5}
    for choice in choices:
        at = (np.log2(choice.batch_size) + offset, np.log2(choice.rate))
        fill = "white" if choice.edge in _ARROWS else colour
        axes.plot(*at, markerfacecolor=fill, markeredgewidth=1.3, zorder=4, **look)
        if choice.edge in _ARROWS:
            arrow, away = _ARROWS[choice.edge]
            canvas.annotate(axes, arrow, at, (0, away), **upright)


def _rule_line(rule: float) -> Line2D:
    return Line2D([], [], color=_RULE_COLOUR, linewidth=1, linestyle="-" if rule == 1 else "--")


def _draw_rules(axes: Axes, choices: list[Choice]) -> None:
    if len(choices) < 2:
        return
    sizes = np.log2([choice.batch_size for choice in choices])
    middle = np.log2([choice.rate for choice in choices]).mean()
    for rule in _RULES:
        line = _rule_line(rule)
        line.set_data(sizes, middle + rule * (sizes - sizes.mean()))
        line.set_zorder(1)
        axes.add_line(line)


def _notes(groups: list[run_series.Series], best: list[list[Choice]]) -> list[str]:
    """Returns the exponents, then a warning for every series with a best rate on an edge."""
    fits, edges = [], []
    for group, choices in zip(groups, best, strict=True):
        if fit := best_learning_rates.exponent(choices):
            law = wording.titled("rate = c · (batch size)^k", group.label)
            fits.append(f"Fit of {law}: k = {_exponent(fit)}.")
        at = [
            f"{choice.batch_size} ({choice.edge}, {wording.number(choice.rate)})"
            for choice in choices
            if choice.edge
        ]
        if at:
            where = f"{f' of {group.label}' if group.label else ''} at batch size {', '.join(at)}"
            edges.append(f"On the edge of the grid{where}: a better rate may lie beyond.")
    return [*fits[:_MOST_SERIES], *edges[:_MOST_SERIES]]
