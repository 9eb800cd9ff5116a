"""Rows of the outcome that decides between batch sizes: tables of an experiment -> frame.

A row has the value of one seed and the mean of its batch size, at the learning rate and the budget
of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import run_series
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import RUN_LOSS
from batchscope.core.display import capital, number
from batchscope.figures import FigureTables, figure_rows
from batchscope.study import specifications, tasks
from batchscope.study.budget_kinds import CONVERGENCE, COST_KINDS, COSTS, TARGET, end_kinds
from batchscope.study.figures import PRIMARY

TARGET_COLUMNS = ["target_column", "target_value"]
MEAN_ENDS = ("mean_low", "mean_high")
_COLUMNS = ["outcome", *TARGET_COLUMNS, "batch_size", "seeds", "seed", "value", "mean", *MEAN_ENDS]
_COLUMNS.append("recommended")


def tables_by_series(tables: FigureTables) -> Iterator[tuple[dict[str, Any], FigureTables]]:
    """Yield the factors that distinguish each series with advice, and its part of the tables."""
    advice = tables.advice
    if advice.empty or tables.comparisons.empty:
        return
    names = [name for name in run_series.varying_factors(advice) if name != RATE]
    for factors in advice[names].drop_duplicates().to_dict("records") if names else [{}]:
        frames_by_name = {"trajectories": tables.trajectories}
        for name in ("advice", "comparisons", "runs"):
            frame = getattr(tables, name)
            table_factors = {factor: value for factor, value in factors.items() if factor in frame}
            frames_by_name[name] = run_series.rows_with_factors(frame, table_factors)
        if deciding_outcomes(frames_by_name["advice"]):
            yield factors, FigureTables(metrics=tables.metrics, **frames_by_name)


def deciding_outcomes(advice: pandas.DataFrame) -> list[str]:
    limits = advice["item"].eq("limit") & advice["batch_size"].notna()
    return list(dict.fromkeys(advice.loc[limits, "name"]))


def outcome_words(row: pandas.Series) -> str:
    """Return the outcome of a row in words: `seconds to validation loss 0.1`."""
    if row["outcome"] == RUN_LOSS:
        return "lowest validation loss"
    if row["outcome"] not in COSTS:
        return tasks.column_words(row["outcome"])
    return f"{row['outcome']} to {target_words(row)}"


def target_words(row: pandas.Series) -> str:
    column, value = row[TARGET_COLUMNS]
    has_target = pandas.notna(column) and column
    return f"{tasks.column_words(column)} {number(value)}" if has_target else "the target"


def with_title(spec: specifications.Figure, frame: pandas.DataFrame) -> specifications.Figure:
    """Return the figure with the outcome of its rows in its title, if all series have the same."""
    words = {outcome_words(row) for _, row in frame.iterrows()}
    outcome = words.pop() if len(words) == 1 else "deciding outcome"
    return replace(spec, title=capital(spec.title.format(outcome=outcome)))


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return a row per series, batch size and seed, with the mean of the size.

    The figure `primary` has the outcome that decides; `primary_outcome` has the first other one
    that is no cost.
    """
    frames = []
    for factors, subset in tables_by_series(tables):
        outcomes = deciding_outcomes(subset.advice)
        if spec.name != PRIMARY:
            outcomes = [name for name in outcomes[1:] if name not in COSTS]
        frames += [_outcome_rows(subset, name).assign(**factors) for name in outcomes[:1]]
    frames = [frame for frame in frames if frame["batch_size"].nunique() > 1]
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _outcome_rows(tables: FigureTables, outcome: str) -> pandas.DataFrame:
    advice, comparisons = tables.advice, tables.comparisons
    budgets = COST_KINDS if outcome in COSTS else end_kinds(comparisons["budget"].unique())
    compared = comparisons[comparisons["outcome"].eq(outcome) & comparisons["mean"].notna()]
    compared = compared[compared["budget"].isin(budgets)].drop_duplicates("batch_size")
    if compared.empty:
        return pandas.DataFrame(columns=_COLUMNS)
    recommended = advice[advice["item"].eq("recommendation") & advice["smallest"].notna()]
    low, high = recommended[["smallest", "largest"]].iloc[0] if len(recommended) else (1, 0)
    is_inside = compared["batch_size"].between(low, high).astype(int)
    seed_values = _seed_rows(outcome, compared, tables).rename(columns={outcome: "value"})
    frame = compared.assign(outcome=outcome, recommended=is_inside)
    frame = frame.merge(seed_values, on="batch_size", how="left")
    return frame.sort_values(["batch_size", "seed"]).reindex(columns=_COLUMNS)


def _seed_rows(outcome: str, compared: pandas.DataFrame, tables: FigureTables) -> pandas.DataFrame:
    """Return the value of each seed, at the learning rate of the comparison if it has one."""
    columns, rates = ["batch_size", "seed", outcome], ["batch_size"]
    rates += [RATE] if compared[RATE].notna().all() else []
    runs, evaluations = tables.runs, tables.trajectories
    if compared["budget"].iloc[0] == TARGET:
        value, column = compared[["budget_value", "budget_column"]].iloc[0]
        target = Target(column if isinstance(column, str) else "", value)
        chosen_evaluations = evaluations.merge(compared[rates], on=rates)
        costs = target.crossings(chosen_evaluations, outcome, columns[:2], tables.metrics)
        costs = costs.where(np.isfinite(costs)).rename_axis(columns[:2]).rename(outcome)
        return costs.reset_index().assign(target_column=target.column, target_value=value)
    if compared["budget"].iloc[0] == CONVERGENCE and outcome in evaluations:
        keys = [name for name in figure_rows.RUN_KEYS if name in runs and name in evaluations]
        evaluations = evaluations.dropna(subset=["validation_loss", outcome])
        lowest = evaluations.groupby(keys)["validation_loss"].idxmin()
        runs = run_series.finished_runs(runs).drop(columns=outcome, errors="ignore")
        runs = runs.merge(evaluations.loc[lowest, [*keys, outcome]], on=keys)
    if outcome not in runs:
        return pandas.DataFrame(columns=columns)
    return runs.merge(compared[rates], on=rates)[columns]
