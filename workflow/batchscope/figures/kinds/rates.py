"""The loss against the learning rate by batch size, and the best rate of every batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series
from batchscope.catalogue import entries
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas
from batchscope.store import records

_RATE, _OWN, _BEST = "effective_learning_rate", "rate_of_seed", "best_rate"
_EXPONENT = ("exponent", "exponent_low", "exponent_high", "factor")
_MOST_PANELS = 6
_ROOM = 0.09  # share of an axis between two labelled rates
_RULES = {1.0: ("linear rule", "-"), 0.5: ("square root rule", "--")}
_RULE = {"color": canvas.GRID, "linewidth": 1.4, "zorder": 1}
_ARROWS = {best_learning_rates.LOW: "v", best_learning_rates.HIGH: "^"}
_RING = {"marker": "o", "markersize": 10, "fillstyle": "none", "linestyle": "none"}


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns every run with its effective rate and loss, and what its batch size chooses.

    Beside the best rate of the batch size stand where on the edge of its grid it lies, the rate
    that the run's seed alone would choose, and how the best rate grows with the batch size. None
    where there was no choice.
    """
    runs = tables.runs
    if not best_learning_rates.several(runs):
        return runs.iloc[:0]
    loss = best_learning_rates.CHOSEN_ON
    names = [*run_series.varying(runs), "learning_rate", "batch_size", "seed", "status", loss]
    frame = runs[list(dict.fromkeys(names))].reset_index(drop=True)
    frame[_RATE] = best_learning_rates.effective(runs).to_numpy()
    for group in best_learning_rates.series(runs.reset_index(drop=True)):
        found = best_learning_rates.choices(group.frame)
        fit = best_learning_rates.exponent([each for each in found if each.runs])
        if fit:
            frame.loc[group.frame.index, [*_EXPONENT]] = [*fit.interval[:3], fit.factor]
            frame.loc[group.frame.index, "exponent_bound"] = fit.bound
        for choice in found:
            rows = group.frame.index[group.frame["batch_size"] == choice.batch_size]
            frame.loc[rows, _BEST] = choice.rate
            frame.loc[rows, _OWN] = frame.loc[rows, "seed"].map(choice.by_seed)
            frame.loc[rows, "edge"] = choice.edge
    frame = frame.reindex(columns=list(dict.fromkeys([*frame, *_EXPONENT])))
    sizes = frame.loc[frame[_BEST].notna(), "batch_size"].nunique()
    return frame if sizes >= (1 if spec.over else 2) else frame.iloc[:0]


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: of a spec over the rate a panel per series, else the best rates."""
    groups = best_learning_rates.series(frame)
    return _draw_losses(groups, frame, spec) if spec.over else _draw_best(groups, frame, spec)


def _draw_losses(
    groups: Sequence[run_series.Series], frame: pandas.DataFrame, spec: entries.Figure
) -> Figure:
    (panel,) = spec.panels
    groups = groups[:_MOST_PANELS]
    width = 4.8 if len(groups) == 1 else 3.5
    figure, grid = canvas.some_panels(len(groups), None, width, 3.0, sharey=True)
    styles = canvas.size_styles(sorted(frame["batch_size"].unique().tolist()))
    finished = run_series.finished(frame)[panel.column].to_numpy(float)
    values = finished[np.isfinite(finished)]
    canvas.value_scale(grid[0], values)
    for axes, group in zip(grid, groups, strict=True):
        for size, style in styles.items():
            _draw_line(axes, group.frame[group.frame["batch_size"] == size], panel.column, style)
        _rate_axis(axes.xaxis, frame[_RATE])
        canvas.title(axes, wording.titled(panel.title, group.label))
        axes.set_xlabel("learning rate")
        axes.set_ylabel(panel.label if axes.get_subplotspec().is_first_col() else "")
    canvas.value_axis(grid[0], values)
    if grid[0].get_yscale() == "linear":
        # Wide intervals of few seeds must not squeeze what was measured.
        margin = 0.12 * float(np.ptp(values)) or 0.05 * abs(float(values[0])) or 1.0
        grid[0].set_ylim(values.min() - margin, values.max() + margin)
    canvas.size_legend(figure, styles)
    return figure


def _draw_line(axes: Axes, rows: pandas.DataFrame, loss: str, style: dict[str, Any]) -> None:
    """Draws one batch size: seeds, means, a ring at the best rate, and where a run diverged."""
    finished = run_series.finished(rows)
    finished = finished[finished[loss].notna()]
    seeds = {"linestyle": "none", "marker": ".", "markersize": 4, "markeredgewidth": 0}
    seeds |= {"color": style["color"], "alpha": 0.5, "zorder": 2}
    axes.plot(np.log2(finished[_RATE].astype(float)), finished[loss], **seeds)
    parts = dict(list(finished.groupby(_RATE)[loss]))
    means = [canvas.mean_intervals(axes, part.to_numpy(float)[None]) for part in parts.values()]
    centre, low, high, _ = np.reshape(means, (-1, 4)).T
    at, look = np.log2(np.array([*parts], float)), canvas.line_look(style, len(parts))
    look = {"marker": "o", "elinewidth": 0.9, **look}
    canvas.error_bars(axes, at, centre, low, high, **look)
    best = [*parts].index(rows[_BEST].iloc[0]) if (rows[_BEST].isin([*parts])).any() else None
    if best is not None and rows[_RATE].nunique() > 1:
        axes.plot(at[best], centre[best], markeredgecolor=style["color"], zorder=4, **_RING)
    diverged = rows.loc[rows["status"] == records.DIVERGED, _RATE].unique().astype(float)
    cross = {"linestyle": "none", "marker": "x", "markersize": 5, "color": style["color"]}
    edge = {"transform": axes.get_xaxis_transform()}
    if len(diverged):
        axes.plot(np.log2(diverged), np.full(len(diverged), 0.98), **edge, **cross)


def _draw_best(
    groups: Sequence[run_series.Series], frame: pandas.DataFrame, spec: entries.Figure
) -> Figure:
    (panel,) = spec.panels
    figure, grid = canvas.panels(1, 1, width=5.0, height=3.4)
    axes, styles = grid[0, 0], canvas.series_styles(len(groups))
    sizes = np.log2(sorted(frame["batch_size"].unique().tolist()))
    middle = np.log2(frame[_BEST].dropna()).mean()
    for rule, (_, line) in _RULES.items():
        axes.plot(sizes, middle + rule * (sizes - sizes.mean()), linestyle=line, **_RULE)
    for index, (group, style) in enumerate(zip(groups, styles, strict=True)):
        offset = 0.12 * (index - (len(groups) - 1) / 2)
        _draw_choices(axes, group.frame, style, offset)
    _rate_axis(axes.yaxis, frame[_RATE])
    ends = np.log2([frame[_RATE].min(), frame[_RATE].max()])
    axes.set_ylim(ends[0] - 0.6, ends[1] + 0.6)
    canvas.batch_size_axis(axes, sorted(frame["batch_size"].unique().tolist()))
    axes.set(title=panel.title, ylabel=panel.label)
    look = {"linestyle": "none", "color": canvas.MUTED}
    marks = [(style, group.label) for style, group in zip(styles, groups, strict=True)]
    marks = [*(marks if len(groups) > 1 else []), ({**look, "marker": "."}, "a seed's own")]
    marks += [({**look, "marker": _ARROWS[edge]}, f"the {edge} tried") for edge in _ARROWS]
    marks += [({**_RULE, "linestyle": line}, name) for name, line in _RULES.values()]
    canvas.legend(figure, [(Line2D([], [], **style), label) for style, label in marks])
    return figure


def _draw_choices(axes: Axes, rows: pandas.DataFrame, style: dict[str, Any], offset: float) -> None:
    """Draws the best rates of a series, those of its single seeds, and the fit through these."""
    seeds = rows.drop_duplicates(["batch_size", "seed"]).dropna(subset=_OWN)
    order = seeds["seed"].rank(method="dense") / max(seeds["seed"].nunique(), 1)
    at = np.log2(seeds["batch_size"].astype(float)) + offset + 0.08 + 0.2 * order
    look = {"linestyle": "none", "marker": ".", "color": style["color"], "alpha": 0.6}
    axes.plot(at, np.log2(seeds[_OWN].astype(float)), zorder=2, **look)
    best = rows.drop_duplicates("batch_size").dropna(subset=_BEST)
    for size, rate, edge in best[["batch_size", _BEST, "edge"]].itertuples(index=False):
        mark = {**style, "marker": _ARROWS.get(edge, style["marker"]), "markersize": 7}
        axes.plot(np.log2(size) + offset, np.log2(rate), zorder=4, **mark)
    slope, _, _, factor = rows[[*_EXPONENT]].astype(float).iloc[0]
    if np.isfinite(slope) and len(best) > 2:
        ends = np.log2([best["batch_size"].min(), best["batch_size"].max()]).astype(float)
        look = {"color": style["color"], "linestyle": style["linestyle"], "zorder": 3}
        axes.plot(ends, np.log2(factor) + slope * ends, **look)


def _rate_axis(axis: Axis, rates: pandas.Series) -> None:
    """Turns an axis, in log2(rate), into learning rates as plain numbers, those with room."""
    every = sorted(rates.dropna().unique().tolist(), reverse=True)
    width, kept = float(np.ptp(np.log2(every))), []
    for rate in every:
        if all(abs(np.log2(rate / other)) >= _ROOM * width for other in kept):
            kept.append(rate)
    labels = {float(np.log2(rate)): wording.number(rate) for rate in kept}
    axis.set_major_locator(FixedLocator(sorted(labels)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda at, _: labels.get(float(at), "")))
