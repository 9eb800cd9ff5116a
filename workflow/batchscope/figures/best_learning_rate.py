"""The best learning rate of every batch size, its exponent, and what it gives on test data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.analysis.best_learning_rates import CHOSEN_ON, Choice, Exponent
from batchscope.figures import Tables, learning_rate
from batchscope.figures.drawing import against_batch_size, canvas, marks
from batchscope.figures.drawing.against_batch_size import Panel

_PANELS = [
    Panel("test_loss", "Test loss at the best rate", "loss (nats)"),
    Panel("test_accuracy", "Test accuracy at the best rate", "accuracy (%)"),
]
_RULES = {1.0: "linear rule (k = 1)", 0.5: "square root rule (k = 1/2)"}
_RULE_COLOUR = "#999999"
_ARROWS = {
    best_learning_rates.LOW: ("↓", -9),
    best_learning_rates.HIGH: ("↑", 9),
}  # and its offset in points
_MOST_SERIES = 4  # described below the figure


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, rates and losses of every run, and whether its rate is the best."""
    runs = learning_rate.with_rates(tables.runs)
    columns = [*learning_rate.rate_columns(runs), CHOSEN_ON]
    frame = runs[[*columns, *(panel.column for panel in _PANELS)]].reset_index(drop=True)
    chosen = pandas.Series(False, index=frame.index)
    for group in best_learning_rates.series(frame):
        chosen |= _chosen(group.frame).reindex(frame.index, fill_value=False)
    return frame.assign(chosen=chosen)


def _chosen(rows: pandas.DataFrame) -> pandas.Series:
    """Returns which runs of a series have their batch size's best rate."""
    best = {choice.batch_size: choice.learning_rate for choice in best_learning_rates.choices(rows)}
    return rows["batch_size"].map(best) == rows["learning_rate"]


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
    for axes, panel in zip(grid[0, 1:], _PANELS, strict=True):
        parts = [
            run_series.Series(
                group.label, group.factors, group.frame[group.frame["chosen"].astype(bool)]
            )
            for group in groups
        ]
        _draw_reported(axes, reported, panel, parts, sizes)
    grid[0, 2].yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
    labels = [group.label or "best rate" for group in groups]
    rules = _rules(len(sizes))
    lines = [_rule_line(rule) for rule in rules]
    canvas.legend(figure, [*handles, *lines], [*labels, *rules.values()])
    notes = [learning_rate.NO_CHOICE]
    if best_learning_rates.several(frame):
        notes = [*_exponent_notes(groups, best), *_edge_notes(groups, best)]
    canvas.notes(figure, frame, *notes)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the best rates at both ends, what they give on test data, and the exponent."""
    texts = [_found(group, best) for group, best in best_learning_rates.chosen(frame)]
    more = f"; {len(texts) - 1} further series in the figure" if len(texts) > 1 else ""
    return f"{texts[0]}{more}." if texts else ""


def _found(group: run_series.Series, best: list[Choice]) -> str:
    parts = []
    for choice in best if len(best) < 2 else [best[0], best[-1]]:
        edge = f", the {choice.edge} tried," if choice.edge else ""
        parts.append(
            f"{wording.number(choice.rate)}{edge} at batch size {choice.batch_size}"
            f"{_test(choice.rows(group.frame))}"
        )
    of = f" ({group.label})" if group.label else ""
    text = f"Chosen on validation data, the best learning rate{of} was {wording.listed(parts)}"
    fit = best_learning_rates.exponent(best)
    if fit is None:
        return text
    return (
        f"{text}. Fitted per seed, the rate goes as batch size to the power {exponent_words(fit)}"
    )


def _test(rows: pandas.DataFrame) -> str:
    """Returns what a rate gives on test data: ` (mean test accuracy 93.1 %, 3 seeds)`."""
    for column, what, write in (
        ("test_accuracy", "accuracy", wording.percent),
        ("test_loss", "loss", wording.number),
    ):
        values = rows[column].astype(float).dropna()
        if len(values):
            count = wording.count(len(values), "seed")
            return f" (mean test {what} {write(values.mean())}, {count})"
    return ""


def exponent_words(fit: Exponent) -> str:
    """Returns an exponent with its interval, its seeds, and what makes it a bound."""
    value, low, high, n = fit.interval
    bound = (
        f"{fit.bound} "
        if fit.bound in (best_learning_rates.AT_LEAST, best_learning_rates.AT_MOST)
        else ""
    )
    parts, rounded = [], wording.estimate(value, low, high)
    if rounded.low:
        bounds = f"95 % interval {rounded.low} to {rounded.high}"
        parts.append(f"{bounds} with the ±{wording.fixed(fit.resolution, 2)} of the grid's steps")
    else:
        parts.append(f"the grid's steps alone leave ±{wording.fixed(fit.resolution, 2)}")
    parts.append(wording.count(n, "seed"))
    if fit.on_edge:
        parts.append(f"{fit.on_edge} of {fit.points} best rates on an edge of the grid")
    if fit.bound == best_learning_rates.UNBOUNDED:
        parts.append("which leave it open both ways")
    return (
        f"{bound}{rounded.value if rounded.low else wording.fixed(value, 2)} ({', '.join(parts)})"
    )


def _draw_rates(
    axes: Axes, tried: list[pandas.DataFrame], best: list[list[Choice]], sizes: list[int]
) -> list:
    """Draws best rates of seeds and means, fits and rules; returns a handle per series.

    Args:
        axes: The panel.
        tried: The runs of each series, with their effective rates.
        best: The best rates of each series.
        sizes: All batch sizes.
    """
    handles = []
    rates = sorted({rate for choices in best for choice in choices for rate in choice.rates})
    _draw_rules(axes, [choice for choice in best[0] if choice.runs])
    for index, (rows, choices) in enumerate(zip(tried, best, strict=True)):
        style = canvas.line_style(index)
        offset = against_batch_size.dodge(index, len(best), sizes)
        _draw_seeds(axes, rows, choices, style, offset, against_batch_size.room(sizes) / len(best))
        _draw_fit(axes, [choice for choice in choices if choice.runs], style)
        handles.append(_draw_choices(axes, choices, style, offset, max(4.0, 8.0 - len(best))))
    if not any(choice.runs for choices in best for choice in choices):
        canvas.empty(axes)
    else:
        learning_rate.rate_axis(axes, rates, "y")
        positions = np.log2(rates)
        margin = max(0.5, 0.12 * float(np.ptp(positions)))
        axes.set_ylim(positions.min() - margin, positions.max() + margin)
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
    for choice in choices:
        places = dict(
            zip(choice.by_seed, np.linspace(0.16, 0.36, len(choice.by_seed)), strict=True)
        )
        chosen = rows["seed"].map(choice.by_seed) == rows["effective_learning_rate"]
        runs = rows[chosen & (rows["batch_size"] == choice.batch_size)]
        (points,) = axes.plot(
            np.log2(choice.batch_size) + offset + room * runs["seed"].map(places),
            np.log2(runs["effective_learning_rate"]),
            linestyle="none",
            marker=style["marker"],
            markersize=3,
            color=style["color"],
            alpha=0.5,
            markeredgewidth=0,
            zorder=2,
        )
        marks.points(points, runs, runs["effective_learning_rate"])


def _draw_choices(
    axes: Axes, choices: list[Choice], style: dict[str, Any], offset: float, markersize: float
) -> Line2D:
    """Draws the rate with the lowest mean loss, hollow and with an arrow on an edge."""
    for choice in choices:
        if not choice.runs:
            continue
        at = (np.log2(choice.batch_size) + offset, np.log2(choice.rate))
        axes.plot(
            *at,
            marker=style["marker"],
            markersize=markersize,
            markerfacecolor="white" if choice.edge in _ARROWS else style["color"],
            markeredgecolor=style["color"],
            markeredgewidth=1.3,
            zorder=4,
        )
        if choice.edge in _ARROWS:
            axes.annotate(
                _ARROWS[choice.edge][0],
                at,
                (0, _ARROWS[choice.edge][1]),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=10,
                color=style["color"],
                zorder=5,
            )
    return Line2D([], [], markersize=6, **style)


def _draw_fit(axes: Axes, choices: list[Choice], style: dict[str, Any]) -> None:
    fit = best_learning_rates.exponent(choices)
    if fit is None:
        return
    ends = np.log2([choices[0].batch_size, choices[-1].batch_size])
    axes.plot(
        ends,
        np.log2(fit.factor) + fit.interval.mean * ends,
        color=style["color"],
        linestyle=style["linestyle"],
        linewidth=1.5,
        zorder=3,
    )


def _rules(batch_sizes: int) -> dict[float, str]:
    return _RULES if batch_sizes > 1 else {}


def _rule_line(rule: float) -> Line2D:
    return Line2D([], [], color=_RULE_COLOUR, linewidth=1, linestyle="-" if rule == 1 else "--")


def _draw_rules(axes: Axes, choices: list[Choice]) -> None:
    """Draws the rules through the middle of the best rates."""
    if len(choices) < 2:
        return
    sizes = np.log2([choice.batch_size for choice in choices])
    middle = np.log2([choice.rate for choice in choices]).mean()
    for rule in _RULES:
        line = _rule_line(rule)
        line.set_data(sizes, middle + rule * (sizes - sizes.mean()))
        line.set_zorder(1)
        axes.add_line(line)


def _draw_reported(
    axes: Axes,
    reported: pandas.DataFrame,
    panel: Panel,
    groups: list[run_series.Series],
    sizes: list[int],
) -> None:
    if reported.empty or not reported[panel.column].notna().any():
        canvas.empty(axes, "no test data" if len(reported) else "no finished run")
        axes.set_title(panel.title)
        axes.set_ylabel(panel.label)
    else:
        against_batch_size.draw_panel(axes, reported, panel, groups)
    canvas.batch_size_axis(axes, sizes)


def _exponent_notes(groups: list[run_series.Series], best: list[list[Choice]]) -> list[str]:
    notes = []
    for group, choices in zip(groups, best, strict=True):
        fit = best_learning_rates.exponent(choices)
        if fit is not None:
            of = f", {group.label}" if group.label else ""
            notes.append(f"Fit of rate = c · (batch size)^k{of}: k = {exponent_words(fit)}.")
    return notes[:_MOST_SERIES]


def _edge_notes(groups: list[run_series.Series], best: list[list[Choice]]) -> list[str]:
    """Returns a warning for every series with a best rate on the edge of its grid."""
    notes = []
    for group, choices in zip(groups, best, strict=True):
        at = [
            f"{choice.batch_size} ({choice.edge}, {wording.number(choice.rate)})"
            for choice in choices
            if choice.edge
        ]
        if at:
            of = f" of {group.label}" if group.label else ""
            notes.append(
                f"On the edge of the grid{of} at batch size {', '.join(at)}: a better rate may "
                "lie beyond."
            )
    return notes[:_MOST_SERIES]
