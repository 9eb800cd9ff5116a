"""The loss by learning rate with a line per batch size, or the best rate by batch size.

A specification with `over` asks for the losses.
"""

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from batchscope.analysis import best_learning_rates, run_series
from batchscope.core import display
from batchscope.figures import FigureTables, canvas, figure_rows
from batchscope.store import records
from batchscope.study import specifications

_RATE, _SEED_RATE, _BEST = "effective_learning_rate", "rate_of_seed", "best_rate"
_EXPONENT = ["exponent", "exponent_low", "exponent_high", "factor"]
_LABEL_ROOM = 0.09  # the smallest share of an axis between two labelled rates
# Exponent of the batch size in a rule for the rate -> props of its line.
_RULE = {"color": canvas.GRID, "linewidth": 1.4, "zorder": 1}
_RULES = {1.0: {**_RULE, "linestyle": "-"}, 0.5: {**_RULE, "linestyle": "--"}}
_ARROWS = {best_learning_rates.LOW: "v", best_learning_rates.HIGH: "^"}
_POINT = {"linestyle": "none", "marker": ".", "zorder": 2}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return every run with its effective rate and loss, and the best rate of its batch size.

    `edge` says that the best rate is the lowest or highest one tried. Further columns are the best
    rate of the run's seed, and the exponent of the batch size in the growth of the best rate.
    """
    runs = tables.runs
    if not best_learning_rates.has_choice(runs):
        return runs.iloc[:0]
    frame = figure_rows.with_factors(runs, ["learning_rate", best_learning_rates.RUN_LOSS])
    frame[_RATE] = best_learning_rates.effective_rates(runs).to_numpy()
    for group in best_learning_rates.series_over_rates(runs.reset_index(drop=True)):
        choices = best_learning_rates.best_rates(group.frame)
        if fit := best_learning_rates.exponent(choices):
            frame.loc[group.frame.index, _EXPONENT] = [*fit.interval[:3], fit.factor]
            frame.loc[group.frame.index, "exponent_bound"] = fit.bound
        for choice in choices:
            rows = group.frame.index[group.frame["batch_size"] == choice.batch_size]
            frame.loc[rows, _BEST] = choice.rate
            frame.loc[rows, _SEED_RATE] = frame.loc[rows, "seed"].map(choice.by_seed)
            frame.loc[rows, "edge"] = choice.edge
    frame = frame.reindex(columns=list(dict.fromkeys([*frame, *_EXPONENT])))
    sizes = frame.loc[frame[_BEST].notna(), "batch_size"].nunique()
    return frame if sizes >= (1 if spec.x_columns else 2) else frame.iloc[:0]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    return _draw_losses(frame, spec) if spec.x_columns else _draw_best(frame, spec)


def _draw_losses(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    (panel,) = spec.panels
    groups = best_learning_rates.series_over_rates(frame)[: canvas.MAX_SERIES]
    width = 4.8 if len(groups) == 1 else 3.5
    figure, grid = canvas.panels(len(groups), 0, width, 3.0, sharey=True)
    styles = canvas.size_styles(frame["batch_size"].unique())
    values = run_series.finished_runs(frame)[panel.column]
    canvas.set_value_scale(grid[:1], [values])
    for axes, group in zip(grid, groups, strict=True):
        for size, style in styles.items():
            _draw_line(axes, group.frame[group.frame["batch_size"] == size], panel.column, style)
        _rate_axis(axes.xaxis, frame[_RATE])
        canvas.set_title(axes, display.titled(panel.title, group.label))
        axes.set_xlabel("learning rate")
        axes.set_ylabel(panel.label if axes.get_subplotspec().is_first_col() else "")
    canvas.set_value_axis(grid[0], values)
    canvas.limit_to_values(grid[0], values, 0.12)
    canvas.draw_size_legend(figure, styles)
    return figure


def _draw_line(axes: Axes, rows: pandas.DataFrame, loss: str, style: dict[str, Any]) -> None:
    """Draw seeds and means of a batch size, with a ring at the best rate and failed rates."""
    finished = run_series.finished_runs(rows).dropna(subset=loss)
    seeds = {**_POINT, "markersize": 4, "markeredgewidth": 0, "color": style["color"], "alpha": 0.5}
    axes.plot(np.log2(finished[_RATE].astype(float)), finished[loss], **seeds)
    table = finished.pivot_table(loss, _RATE, "seed")
    mean, low, high, _ = canvas.mean_intervals(axes, table.to_numpy(float))
    x = np.log2(table.index.to_numpy(float))
    props = {"marker": "o", "elinewidth": 0.9, **canvas.line_props(style, len(table))}
    canvas.draw_error_bars(axes, x, mean, low, high, **props)
    if rows[_RATE].nunique() > 1:
        for index in np.flatnonzero(table.index.isin(rows[_BEST]))[:1]:
            ring = canvas.points("o", 10, style["color"], fillstyle="none")
            axes.plot(x[index], mean[index], zorder=4, **ring)
    diverged = rows.loc[rows["status"] == records.DIVERGED, _RATE].unique().astype(float)
    if len(diverged):
        cross = canvas.points("x", 5, style["color"], transform=axes.get_xaxis_transform())
        axes.plot(np.log2(diverged), np.full(len(diverged), 0.98), **cross)


def _draw_best(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return the best rates of all series with the linear and the square root rule."""
    (panel,), groups = spec.panels, best_learning_rates.series_over_rates(frame)
    figure, (axes,) = canvas.panels(1, width=5.0, height=3.4)
    styles, sizes = canvas.series_styles(len(groups)), sorted(frame["batch_size"].unique().tolist())
    doublings, middle = np.log2(sizes), np.log2(frame[_BEST].dropna()).mean()
    for exponent, props in _RULES.items():
        axes.plot(doublings, middle + exponent * (doublings - doublings.mean()), **props)
    for index, (group, style) in enumerate(zip(groups, styles, strict=True)):
        _draw_choices(axes, group.frame, style, 0.12 * (index - (len(groups) - 1) / 2))
    _rate_axis(axes.yaxis, frame[_RATE])
    ends = np.log2([frame[_RATE].min(), frame[_RATE].max()])
    axes.set_ylim(ends[0] - 0.6, ends[1] + 0.6)
    canvas.set_batch_size_axis(axes, sizes)
    axes.set(title=panel.title, ylabel=panel.label)
    entries = [(style, group.label) for style, group in zip(styles, groups, strict=True)]
    entries = entries if len(groups) > 1 else []
    labels = {".": "a seed's own", **{_ARROWS[edge]: f"the {edge} tried" for edge in _ARROWS}}
    props = {"linestyle": "none", "color": canvas.MUTED}
    entries += [({**props, "marker": marker}, label) for marker, label in labels.items()]
    entries += zip(_RULES.values(), ("linear rule", "square root rule"), strict=True)
    canvas.draw_legend(figure, entries)
    return figure


def _draw_choices(axes: Axes, rows: pandas.DataFrame, style: dict[str, Any], offset: float) -> None:
    """Draw the best rates of a series and of single seeds, and the fitted line."""
    seeds = rows.drop_duplicates(["batch_size", "seed"]).dropna(subset=_SEED_RATE)
    order = seeds["seed"].rank(method="dense") / max(seeds["seed"].nunique(), 1)
    x = np.log2(seeds["batch_size"].astype(float)) + offset + 0.08 + 0.2 * order
    props = {**_POINT, "color": style["color"], "alpha": 0.6}
    axes.plot(x, np.log2(seeds[_SEED_RATE].astype(float)), **props)
    best = rows.drop_duplicates("batch_size").dropna(subset=_BEST)
    for size, rate, edge in best[["batch_size", _BEST, "edge"]].itertuples(index=False):
        mark = {**style, "marker": _ARROWS.get(edge, style["marker"]), "markersize": 7}
        axes.plot(np.log2(size) + offset, np.log2(rate), zorder=4, **mark)
    slope, _, _, factor = rows[_EXPONENT].astype(float).iloc[0]
    if np.isfinite(slope) and len(best) > 2:
        ends = np.log2([best["batch_size"].min(), best["batch_size"].max()])
        props = {"color": style["color"], "linestyle": style["linestyle"], "zorder": 3}
        axes.plot(ends, np.log2(factor) + slope * ends, **props)


def _rate_axis(axis: Axis, rates: pandas.Series) -> None:
    """Label an axis in log2(rate) with the learning rates that have room."""
    labelled = canvas.labelled_values(rates.dropna().unique().tolist(), _LABEL_ROOM)
    axis.set_ticks(np.log2(labelled), map(display.number, labelled))
    axis.axes.minorticks_off()
