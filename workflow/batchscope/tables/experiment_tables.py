"""All tables of an experiment, and of a study the one of its claims: made, and written as CSV."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.analysis import (
    advice_series,
    claims,
    comparisons,
    local_critical_batch_size,
    open_statements,
    ramps,
    readings,
    run_series,
    to_target_tables,
    trainings,
    trends,
)
from batchscope.analysis.targets import Target
from batchscope.store import paths
from batchscope.study import outcomes
from batchscope.study.budget_kinds import END, SECONDS
from batchscope.study.decision_columns import INTERIMS
from batchscope.study.outcomes import Outcome
from batchscope.study.tables import TABLES
from batchscope.tables import (
    advice,
    csv_tables,
    default_targets,
    logged_runs,
    long_tables,
    published,
    run_table,
    timing_tables,
)

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

Tables = dict[str, pandas.DataFrame]
# As `AdviceTables` has them.
_OF_INTERIM = ("comparisons", "runs", "limits", "critical_batch_size")


def make(
    results: Path | str,
    study: Study,
    experiment: str,
    default_target: readings.DefaultTarget = trainings.Trainings.default_target,
) -> Tables:
    """Returns all tables of an experiment by name, in the order of the registry.

    Args:
        default_target: Returns the target of a series where the experiment states none.
    """
    chosen, at = study.experiments[experiment], (results, study, experiment)
    if chosen.columns:  # known by their evaluations alone
        logged = logged_runs.read(*at)
        runs = logged_runs.runs(logged, study.name, experiment)
        long = long_tables.made(*at, list(logged.rows))
        long["trajectories"] = logged_runs.trajectories(logged)
    else:
        runs, long = run_table.collect(*at), long_tables.made(*at)
    made = {
        "runs": runs,
        **long,
        **timing_tables.made(*at),
        "limits": timing_tables.limits(*at),
        **held_equal(study, experiment, runs, long["trajectories"], default_target),
        **to_target(chosen, runs, long["trajectories"], default_target),
    }
    tolerance = chosen.measures.get("branches", {}).get("tolerance", math.nan)
    made["local_critical_batch_size"] = local_critical_batch_size.table(
        made["branches"], made["branch_points"], tolerance, chosen.looks
    )
    made["ramps"] = ramps.table(runs, chosen.keys.margins, chosen.looks)
    made["advice"] = advice.rows(results, chosen, made)
    made["published"] = published.table(chosen, made)
    return {name: made[name] for name in TABLES}


def held_equal(
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
    default_target: readings.DefaultTarget = trainings.Trainings.default_target,
) -> Tables:
    """Returns what the runs say at every budget: of each batch size, and along the sizes."""
    planned = study.experiments[experiment]
    keys, looks = planned.keys, planned.looks
    margins = {**keys.margins, SECONDS: keys.advice.slower}
    given = (runs, trajectories, keys.budgets, margins, looks, default_target, planned.metrics)
    found = list(readings.of_experiment(*given))
    at_budgets = [each for each in found if each.budget.kind != END]
    return {
        "comparisons": comparisons.table(runs, found),
        "trends": trends.table(runs, at_budgets, _stated(study, experiment), looks),
    }


def _stated(study: Study, experiment: str) -> dict[str, Outcome]:
    """Returns what documents state about the columns of an experiment's runs."""
    found = {
        claim.test.column: outcomes.with_direction(
            claim.test.column,
            claim.test.direction,
            f"{claim.document}, {claim.place}",
            study.experiments[experiment].metrics,
        )
        for claim in study.claims
        if claim.test.trend_experiment == experiment
    }
    return {column: stated for column, stated in found.items() if stated}


def to_target(
    planned: PlannedExperiment,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
    default_target: readings.DefaultTarget = trainings.Trainings.default_target,
) -> Tables:
    """Returns what each batch size takes to a target: the fits, and the runs behind them.

    A run whose rate falls towards its horizon serves no target before its end: one that was to end
    there would have had lower rates before.
    """
    wanted = [Target(*each) for each in planned.keys.budgets.get("target", {}).items()]
    if run_series.by_horizon(trajectories) and not trainings.at_own_targets(runs):
        trajectories = trajectories.iloc[:0]
    scalings = to_target_tables.of_study(
        trajectories, runs, wanted, default_target, planned.metrics
    )
    constant = run_series.constants(runs)
    return {
        "critical_batch_size": to_target_tables.fits(scalings, constant),
        "to_target": to_target_tables.trainings(scalings, constant),
    }


def write(results: Path | str, study: Study, experiment: str, folder: Path | str) -> None:
    """Write all tables of an experiment and its default targets, each atomically."""
    stored = default_targets.DefaultTargets(Path(folder) / paths.DEFAULT_TARGETS)
    for name, frame in make(results, study, experiment, stored.target_of).items():
        csv_tables.write(frame, Path(folder) / f"{name}.csv")
    stored.write()


def write_claims(study: Study, folder: Path | str, output: Path | str) -> None:
    """Write one row per claim of a study, from the folder of its experiments' tables.

    Raises:
        UserError: If a table is missing or damaged.
    """

    @functools.cache
    def read(experiment: str, table: str) -> pandas.DataFrame:
        return csv_tables.read(Path(folder) / experiment / f"{table}.csv")

    looks = {name: one.looks for name, one in study.experiments.items()}
    csv_tables.write(claims.table(study.claims, read, study.machine, looks), Path(output))


def write_interim(results: Path | str, study: Study, output: Path) -> None:
    """Write the open statements of a study, and the seeds that their runs get next."""
    folder = paths.study_folder(results, study.folder_name)
    csv_tables.write(run_series.table([*_interim_rows(study, folder)], INTERIMS), output)


def _interim_rows(study: Study, folder: Path) -> Iterator[dict[str, Any]]:
    for name, experiment in study.experiments.items():
        planned = experiment.looks
        if not planned:
            continue
        tables = {each: csv_tables.read(folder / name / f"{each}.csv") for each in _OF_INTERIM}
        asked = advice_series.AdviceRequest(
            experiment.keys.margins, looks=planned, metrics=experiment.metrics
        )
        first = experiment.seeds[0]
        own = {"experiment": name, "planned": planned[-1], "first": first}
        found = [*open_statements.of_advice(advice_series.AdviceTables(*tables.values()), asked)]
        stated = [claim for claim in study.claims if claim.test.experiment == name]
        if stated:
            judged = csv_tables.read(folder / csv_tables.CLAIMS)
            found += open_statements.of_claims(stated, judged, tables["runs"], planned)
        # An experiment that states nothing was looked at too.
        yield from ({**own, **row} for row in found or [dict.fromkeys(INTERIMS, None) | own])
