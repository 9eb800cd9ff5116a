"""Tables that follow from other tables of the same experiment: what the runs decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.analysis import (
    advice_evidence,
    advice_tables,
    largest_within_margin,
    run_series,
    to_target_tables,
    updates_to_target,
    verdict_matrix,
)
from batchscope.analysis.updates_to_target import Target
from batchscope.tables import seed_costs

if TYPE_CHECKING:
    import pandas

    from batchscope.study.plan import Study


def margins(
    _: Path | str, study: Study, experiment: str, runs: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns one row per series, outcome with a stated margin, and batch size."""
    return largest_within_margin.table(runs, study.experiments[experiment].trainings.margins)


def budgets(
    _: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
) -> pandas.DataFrame:
    """Returns one row per series, budget, outcome and batch size."""
    found = study.experiments[experiment].trainings
    return verdict_matrix.table(runs, trajectories, found.budgets, found.margins)


def _served(trajectories: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the evaluations by which a training serves targets before its end; else none.

    A training whose rate falls towards its horizon serves none: one that was to end there would
    have had lower rates before.
    """
    falling = run_series.falling(trajectories)
    own_targets = updates_to_target.at_own_targets(trajectories)
    return trajectories.iloc[:0] if falling and not own_targets else trajectories


def to_target(
    _: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
) -> dict[str, pandas.DataFrame]:
    """Returns what each batch size takes to a target: the fits, and the trainings behind them."""
    stated = study.experiments[experiment].trainings.budgets.get("target", {})
    targets = [Target(column, value) for column, value in stated.items()]
    scalings = to_target_tables.of_study(_served(trajectories), runs, targets)
    constant = to_target_tables.constants(runs)
    return {
        "critical_batch_size": to_target_tables.fits(scalings, constant),
        "to_target": to_target_tables.trainings(scalings, constant),
    }


def advice(
    results: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
    limits: pandas.DataFrame,
    budgets: pandas.DataFrame,
) -> dict[str, pandas.DataFrame]:
    """Returns which batch sizes to use, and how each stands before every limit."""
    found = study.experiments[experiment]
    asked = found.trainings
    series = advice_evidence.series_advice(
        runs,
        _served(trajectories),
        limits,
        budgets,
        asked.budgets,
        asked.margins,
        seed_costs.price(results, found),
        asked.slower,
        asked.seeds_planned,
    )
    factors = run_series.factor_columns(runs)
    return {
        "advice": advice_tables.summary(series, factors),
        "advice_sizes": advice_tables.sizes(series, factors),
    }
