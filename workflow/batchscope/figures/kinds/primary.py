"""The cost or the quality of each batch size: dots for seeds, means, recommended sizes shaded."""

from __future__ import annotations

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.analysis.targets import Target
from batchscope.figures import FigureTables, rows
from batchscope.figures.drawing import canvas
from batchscope.study import factor_words, specifications, tasks
from batchscope.study.budget_kinds import CONVERGENCE, PAID, TAKEN, TARGET, of_ends
from batchscope.study.figures import PRIMARY
from batchscope.study.outcomes import LEAST_WITH_INTERVAL
from batchscope.study.tables import possible

_RATE = "learning_rate"
_TARGET = ["target_column", "target_value"]
_MEAN = ["mean", "mean_low", "mean_high"]
_COLUMNS = ["outcome", *_TARGET, "batch_size", "seeds", "seed", "value", *_MEAN, "recommended"]
_MOST_PANELS = 6
_DOTS = {"color": canvas.MUTED, "alpha": 0.55, "markersize": 4, "markeredgewidth": 0, "zorder": 2}
_SQUARES = {"linestyle": "none", "marker": "s", "color": canvas.INK, "markersize": 6}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return a row per series, batch size and seed, with the mean of the size.

    Of the outcome that decides; `primary_outcome` has the first other that is no cost.
    """
    found = []
    for factors, part in rows.by_advice(tables):
        outcomes = rows.deciding(part.advice)
        if spec.name != PRIMARY:
            outcomes = [name for name in outcomes[1:] if name not in TAKEN]
        found += [_of_outcome(part, name).assign(**factors) for name in outcomes[:1]]
    frames = [frame for frame in found if frame["batch_size"].nunique() > 1]
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _of_outcome(tables: FigureTables, outcome: str) -> pandas.DataFrame:
    advice, comparisons = tables.advice, tables.comparisons
    budgets = PAID if outcome in TAKEN else of_ends(comparisons["budget"].unique())
    compared = comparisons[comparisons["outcome"].eq(outcome) & comparisons["mean"].notna()]
    compared = compared[compared["budget"].isin(budgets)].drop_duplicates("batch_size")
    if compared.empty:
        return pandas.DataFrame(columns=_COLUMNS)
    best = advice[advice["item"].eq("recommendation") & advice["smallest"].notna()]
    low, high = best[["smallest", "largest"]].iloc[0] if len(best) else (1, 0)
    inside = compared["batch_size"].between(low, high).astype(int)
    seeds = _seeds(outcome, compared, tables)
    found = compared.assign(outcome=outcome, recommended=inside)
    found = found.merge(seeds.rename(columns={outcome: "value"}), on="batch_size", how="left")
    return found.sort_values(["batch_size", "seed"]).reindex(columns=_COLUMNS)


def _seeds(outcome: str, compared: pandas.DataFrame, tables: FigureTables) -> pandas.DataFrame:
    """Return the value of each seed, at the rate of the comparison if it has one."""
    columns, rates = ["batch_size", "seed", outcome], ["batch_size"]
    rates += [_RATE] if compared[_RATE].notna().all() else []
    runs, evaluations = tables.runs, tables.trajectories
    if compared["budget"].iloc[0] == TARGET:
        value, column = compared[["budget_value", "budget_column"]].iloc[0]
        target = Target(column if isinstance(column, str) else "", value)
        chosen = evaluations.merge(compared[rates], on=rates)
        taken = target.taken(chosen, outcome, columns[:2], tables.metrics)
        found = taken.where(np.isfinite(taken)).rename_axis(columns[:2]).rename(outcome)
        return found.reset_index().assign(target_column=target.column, target_value=value)
    if compared["budget"].iloc[0] == CONVERGENCE and outcome in evaluations:
        keys = [name for name in rows.RUN if name in runs and name in evaluations]
        known = evaluations.dropna(subset=["validation_loss", outcome])
        lowest = known.loc[known.groupby(keys)["validation_loss"].idxmin(), [*keys, outcome]]
        runs = run_series.finished(runs).drop(columns=outcome, errors="ignore")
        runs = runs.merge(lowest, on=keys)
    if outcome not in runs:
        return pandas.DataFrame(columns=columns)
    return runs.merge(compared[rates], on=rates)[columns]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return the figure: a panel for each of the first series."""
    several = run_series.varying(frame)
    every = frame.groupby(several, sort=False, dropna=False) if several else [((), frame)]
    groups = [*every][:_MOST_PANELS]
    figure, grid = canvas.panels(len(groups), min(len(groups), 2), width=5.0, height=2.6)
    for axes, (key, seeds) in zip(grid, groups, strict=True):
        series = factor_words.describe(dict(zip(several, key, strict=True)))
        title = _draw_panel(axes, seeds)
        canvas.title(axes, wording.titled(title, series))
    return figure


def _draw_panel(axes: Axes, seeds: pandas.DataFrame) -> str:
    """Draws one series; returns its heading."""
    means = seeds.drop_duplicates("batch_size")
    sizes = means["batch_size"].astype(int).tolist()
    outcome, column, value = seeds[["outcome", *_TARGET]].iloc[0]
    title = ylabel = tasks.column_words(outcome)
    if outcome in TAKEN:
        axes.set_yscale("log")
        known = pandas.notna(column) and column
        to = f"{tasks.column_words(column)} {wording.number(value)}" if known else "the target"
        title, ylabel = "To the target", f"{outcome} to {to}"
    at, (mean, *ends) = np.log2(sizes), means[_MEAN].to_numpy(float).T
    few = means["seeds"].to_numpy() < LEAST_WITH_INTERVAL
    ends = np.where(few, np.nan, np.clip(ends, *possible(outcome)))
    axes.plot(np.log2(seeds["batch_size"].astype(float)), seeds["value"], "o", **_DOTS)
    canvas.error_bars(axes, at, mean, *ends, capsize=3, zorder=3, **_SQUARES)
    if len(sizes) > 2:
        axes.plot(at, mean, color=canvas.INK, linewidth=0.9, zorder=1)
    canvas.batch_size_axis(axes, sizes)
    inside, half = at[means["recommended"].eq(1)], canvas.spacing(sizes) / 2
    if len(inside):
        shade = {"color": "#009E73", "alpha": 0.18, "lw": 0, "zorder": 0}
        axes.axvspan(inside[0] - half, inside[-1] + half, **shade)
    axes.set_ylabel(wording.lower(ylabel))
    canvas.value_axis(axes, np.concatenate([seeds["value"].to_numpy(float), ends.ravel(), mean]))
    return wording.capital(title)
