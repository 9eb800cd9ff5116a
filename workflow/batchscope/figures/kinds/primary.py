"""What decides between batch sizes: the time to the target, or else the first outcome.

A dot per seed, the mean with its interval, and the recommended batch sizes shaded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import entries, factor_words, tasks
from batchscope.catalogue.budget_kinds import ENDS, EXAMPLES, TAKEN, TARGET
from batchscope.catalogue.tables import possible
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas

_RATE = "learning_rate"
_TARGET = ["target_column", "target_value"]
_MEAN = ["mean", "mean_low", "mean_high"]
_MOST_PANELS = 6
_DOTS = {"color": canvas.MUTED, "alpha": 0.55, "markersize": 4, "markeredgewidth": 0, "zorder": 2}
_SQUARES = {"linestyle": "none", "marker": "s", "color": canvas.INK, "markersize": 6}


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns a row per series, batch size and seed, with the mean of the size."""
    frames = [*_of_series(tables)] if len(tables.advice) and len(tables.comparisons) else []
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _of_series(tables: Tables) -> Iterator[pandas.DataFrame]:
    factors = [name for name in run_series.factor_columns(tables.advice) if name != _RATE]
    several = run_series.varying(tables.advice, factors)
    every = tables.advice[several].drop_duplicates().to_dict("records") if several else [{}]
    for single in every:
        advice, comparisons, to_target, runs = (
            run_series.of(frame, {name: value for name, value in single.items() if name in frame})
            for frame in (tables.advice, tables.comparisons, tables.to_target, tables.runs)
        )
        limits = advice.loc[advice["item"].eq("limit") & advice["batch_size"].notna(), "name"]
        if limits.empty:
            continue
        budgets = (TARGET, EXAMPLES) if (outcome := limits.iloc[0]) in TAKEN else ENDS
        compared = comparisons[comparisons["outcome"].eq(outcome) & comparisons["mean"].notna()]
        compared = compared[compared["budget"].isin(budgets)].drop_duplicates("batch_size")
        if len(compared) > 1:
            best = advice[advice["item"].eq("recommendation") & advice["smallest"].notna()]
            low, high = best[["smallest", "largest"]].iloc[0] if len(best) else (1, 0)
            inside = compared["batch_size"].between(low, high).astype(int)
            seeds = _seeds(outcome, compared, to_target, runs).rename(columns={outcome: "value"})
            found = compared.assign(outcome=outcome, recommended=inside)
            found = found.merge(seeds, on="batch_size", how="left").assign(**single)
            columns = [*several, "outcome", *_TARGET, "batch_size", "seed", "value", *_MEAN]
            found = found.sort_values(["batch_size", "seed"])
            yield found.reindex(columns=[*columns, "recommended"])


def _seeds(
    outcome: str, compared: pandas.DataFrame, to_target: pandas.DataFrame, runs: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns what every seed has, at the rate of the comparison where it has one."""
    columns = ["batch_size", "seed", outcome]
    if outcome in TAKEN:
        reached = np.isclose(to_target["target_value"], compared["budget_value"].iloc[0])
        return to_target.loc[reached, [*columns, *_TARGET]]
    if outcome not in runs:
        return pandas.DataFrame(columns=columns)
    rates = ["batch_size", *([_RATE] if compared[_RATE].notna().all() else [])]
    return runs.merge(compared[rates], on=rates)[columns]


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: a panel for each of the first series, one alone as wide as a page."""
    several = run_series.varying(frame)
    every = frame.groupby(several, sort=False, dropna=False) if several else [((), frame)]
    groups = [*every][:_MOST_PANELS]
    size = {"columns": 2, "width": 5.0, "height": 2.5}
    if len(groups) == 1:
        size = {"width": 10.0, "height": 2.6}
    figure, grid = canvas.panels(len(groups), **size)
    for axes, (key, rows) in zip(grid, groups, strict=True):
        series = factor_words.describe(dict(zip(several, key, strict=True)))
        title = _draw_panel(axes, rows)
        axes.set_title(wording.titled(title, series))
    return figure


def _draw_panel(axes: Axes, rows: pandas.DataFrame) -> str:
    """Draws one series; returns its heading."""
    means = rows.drop_duplicates("batch_size")
    sizes = means["batch_size"].astype(int).tolist()
    outcome, column, value = rows[["outcome", *_TARGET]].iloc[0]
    title = ylabel = tasks.words(outcome)
    if outcome in TAKEN:
        axes.set_yscale("log")
        known = pandas.notna(column) and column
        to = f"{tasks.words(column)} {wording.number(value)}" if known else "the target"
        title, ylabel = "To the target", f"{outcome} to {to}"
    at, (mean, *ends) = np.log2(sizes), means[_MEAN].to_numpy(float).T
    ends = np.clip(ends, *possible(outcome))
    axes.plot(np.log2(rows["batch_size"].astype(float)), rows["value"], "o", **_DOTS)
    canvas.error_bars(axes, at, mean, *ends, capsize=3, zorder=3, **_SQUARES)
    if len(sizes) > 2:
        axes.plot(at, mean, color=canvas.INK, linewidth=0.9, zorder=1)
    canvas.batch_size_axis(axes, sizes)
    inside, half = at[means["recommended"].eq(1)], canvas.spacing(sizes) / 2
    if len(inside):
        shade = {"color": "#009E73", "alpha": 0.18, "lw": 0, "zorder": 0}
        axes.axvspan(inside[0] - half, inside[-1] + half, **shade)
    axes.set_ylabel(wording.lower(ylabel))
    canvas.value_axis(axes, np.concatenate([rows["value"].to_numpy(float), ends.ravel(), mean]))
    return wording.capital(title)
