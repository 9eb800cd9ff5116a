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
from batchscope.catalogue import entries, factor_words
from batchscope.catalogue.budget_kinds import CONVERGENCE, END, TARGET
from batchscope.catalogue.tables import possible
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas

_RATE = "learning_rate"
_SHADE = "#009E73"
_LABELS = {"seconds": "seconds to ", "examples": "examples to ", "updates": "updates to "}
_COLUMNS = ["outcome", "target", "batch_size", "seed", "value", "mean", "mean_low", "mean_high"]
_MOST_PANELS = 6


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns a row per series, batch size and seed, with the mean of the size."""
    frames = [*_of_series(tables)] if len(tables.advice) and len(tables.comparisons) else []
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _of_series(tables: Tables) -> Iterator[pandas.DataFrame]:
    factors = [name for name in run_series.factor_columns(tables.advice) if name != _RATE]
    several = run_series.varying(tables.advice, factors)
    every = tables.advice[several].drop_duplicates().to_dict("records") if several else [{}]
    for single in every:
        own = [
            run_series.of(frame, {name: value for name, value in single.items() if name in frame})
            for frame in (tables.advice, tables.comparisons, tables.to_target, tables.runs)
        ]
        frame = _rows(*own)
        if len(frame) and frame["batch_size"].nunique() > 1:
            yield frame.assign(**single)[[*several, *_COLUMNS, "recommended"]]


def _rows(
    advice: pandas.DataFrame,
    comparisons: pandas.DataFrame,
    to_target: pandas.DataFrame,
    runs: pandas.DataFrame,
) -> pandas.DataFrame:
    limits = advice.loc[advice["item"].eq("limit") & advice["batch_size"].notna(), "name"]
    if limits.empty:
        return pandas.DataFrame()
    outcome, budgets = limits.iloc[0], (CONVERGENCE, END)
    if outcome in _LABELS:
        budgets = (TARGET,)
    compared = comparisons[comparisons["outcome"] == outcome]
    compared = compared[compared["budget"].isin(budgets) & compared["mean"].notna()]
    compared = compared.drop_duplicates("batch_size").assign(outcome=outcome, target="")
    if compared.empty:
        return compared
    if outcome in _LABELS:
        seeds = to_target[np.isclose(to_target["target_value"], compared["budget_value"].iloc[0])]
        compared["target"] = seeds["target"].iloc[0] if len(seeds) else ""
        seeds = seeds[["batch_size", "seed", outcome]]
    elif outcome in runs:
        rates = ["batch_size", *([_RATE] if compared[_RATE].notna().all() else [])]
        seeds = runs.merge(compared[rates], on=rates)[["batch_size", "seed", outcome]]
    else:
        seeds = pandas.DataFrame(columns=["batch_size", "seed", outcome])
    best = advice[advice["item"] == "recommendation"]
    low, high = best[["smallest", "largest"]].iloc[0] if len(best) else (1, 0)
    inside = compared["batch_size"].between(low, high).astype(int)
    found = compared.assign(recommended=inside).merge(
        seeds.rename(columns={outcome: "value"}), on="batch_size", how="left"
    )
    return found.sort_values(["batch_size", "seed"])


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: a panel for each of the first series, one alone as wide as a page."""
    several = run_series.varying(frame)
    every = frame.groupby(several, sort=False, dropna=False) if several else [((), frame)]
    groups = [
        (factor_words.describe(dict(zip(several, key, strict=True))), rows) for key, rows in every
    ][:_MOST_PANELS]
    alone = len(groups) == 1
    width, height = (10.0, 2.6) if alone else (5.0, 2.5)
    figure, grid = canvas.some_panels(len(groups), 1 if alone else 2, width, height)
    for axes, (series, rows) in zip(grid, groups, strict=True):
        _draw_panel(axes, rows)
        outcome = rows["outcome"].iloc[0]
        title = "To the target" if outcome in _LABELS else outcome.replace("_", " ")
        axes.set_title(wording.titled(wording.capital(title), series))
    return figure


def _draw_panel(axes: Axes, rows: pandas.DataFrame) -> None:
    means = rows.drop_duplicates("batch_size")
    sizes = means["batch_size"].astype(int).tolist()
    outcome, target = rows[["outcome", "target"]].iloc[0]
    taken = outcome in _LABELS
    if taken:
        axes.set_yscale("log")
    at, mean = np.log2(sizes), means["mean"].to_numpy(float)
    ends = means[["mean_low", "mean_high"]].to_numpy(float).T.clip(*possible(outcome))
    dots = {
        "color": canvas.MUTED,
        "alpha": 0.55,
        "markersize": 4,
        "markeredgewidth": 0,
        "zorder": 2,
    }
    axes.plot(np.log2(rows["batch_size"].astype(float)), rows["value"], "o", **dots)
    square = {"linestyle": "none", "marker": "s", "color": canvas.INK, "markersize": 6}
    canvas.error_bars(axes, at, mean, *ends, capsize=3, zorder=3, **square)
    if len(sizes) > 2:
        axes.plot(at, mean, color=canvas.INK, linewidth=0.9, zorder=1)
    canvas.batch_size_axis(axes, sizes)
    inside = at[means["recommended"].eq(1)]
    half = canvas.spacing(sizes) / 2
    if len(inside):
        axes.axvspan(inside[0] - half, inside[-1] + half, color=_SHADE, alpha=0.18, lw=0, zorder=0)
    if taken:
        column, _, value = str(target).partition("=")
        known = f"{column.replace('_', ' ')} {wording.number(float(value))}" if value else ""
        axes.set_ylabel(f"{_LABELS[outcome]}{known or 'the target'}")
    else:
        axes.set_ylabel(wording.lower(outcome.replace("_", " ")))
    finite = np.concatenate([rows["value"].to_numpy(float), ends.ravel(), mean])
    canvas.value_axis(axes, finite[np.isfinite(finite)])
