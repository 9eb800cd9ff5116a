"""Tables that follow from other tables of the same experiment: what the runs decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.analysis import (
    comparisons,
    readings,
    run_series,
    targets,
    to_target_tables,
    trends,
)
from batchscope.analysis.targets import Target
from batchscope.catalogue import outcomes
from batchscope.catalogue.budget_kinds import END, SECONDS
from batchscope.catalogue.outcomes import Outcome

if TYPE_CHECKING:
    import pandas

    from batchscope.study.plan import Study


def held_equal(
    _: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
) -> dict[str, pandas.DataFrame]:
    """Returns what the runs say at every budget: of each batch size, and along the sizes."""
    asked = study.experiments[experiment].trainings
    margins = {**asked.margins, SECONDS: asked.slower}
    found = list(readings.of_experiment(runs, trajectories, asked.budgets, margins))
    at_budgets = [each for each in found if each.budget.kind != END]
    return {
        "comparisons": comparisons.table(runs, found),
        "trends": trends.table(runs, at_budgets, _stated(study, experiment)),
    }


def _stated(study: Study, experiment: str) -> dict[str, Outcome]:
    """Returns what documents state about the columns of an experiment's runs."""
    found = {}
    for claim in study.claims:
        source, test = f"{claim.document}, {claim.place}", claim.test
        if test.asked == experiment:
            found[test.column] = outcomes.stated(test.column, test.direction, source)
    return {column: stated for column, stated in found.items() if stated}


def _served(trajectories: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the evaluations by which a training serves targets before its end; else none.

    A training whose rate falls towards its horizon serves none: one that was to end there would
    have had lower rates before.
    """
    falling = run_series.falling(trajectories)
    own_targets = targets.at_own_targets(trajectories)
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
    wanted = [Target(column, value) for column, value in stated.items()]
    scalings = to_target_tables.of_study(_served(trajectories), runs, wanted)
    constant = to_target_tables.constants(runs)
    return {
        "critical_batch_size": to_target_tables.fits(scalings, constant),
        "to_target": to_target_tables.trainings(scalings, constant),
    }
