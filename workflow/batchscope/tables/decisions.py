"""Tables that follow from other tables of the same experiment: what the runs decide."""

from __future__ import annotations

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

    from batchscope.study.plan import Study, Trainings


def held_equal(
    study: Study, experiment: str, runs: pandas.DataFrame, trajectories: pandas.DataFrame
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


def to_target(
    asked: Trainings, runs: pandas.DataFrame, trajectories: pandas.DataFrame
) -> dict[str, pandas.DataFrame]:
    """Returns what each batch size takes to a target: the fits, and the runs behind them.

    A run whose rate falls towards its horizon serves no target before its end: one that was to end
    there would have had lower rates before.
    """
    wanted = [Target(*each) for each in asked.budgets.get("target", {}).items()]
    if run_series.falling(trajectories) and not targets.at_own_targets(trajectories):
        trajectories = trajectories.iloc[:0]
    scalings = to_target_tables.of_study(trajectories, runs, wanted)
    constant = to_target_tables.constants(runs)
    return {
        "critical_batch_size": to_target_tables.fits(scalings, constant),
        "to_target": to_target_tables.trainings(scalings, constant),
    }
