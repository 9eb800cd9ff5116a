"""All tables of an experiment: `make` lists them, `write` writes them as CSV files.

Records and logs become tables in `run_table`, `long_tables` and `timing_tables`. Verdicts and fits
follow from those in `decision_tables`. A new table is registered in `study.tables` and made in one
of the two. `study_tables` has the tables of a whole study.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.analysis import (
    budget_comparisons,
    comparisons,
    local_critical_batch_size,
    racing,
    ramps,
    run_series,
    to_target_tables,
    trends,
)
from batchscope.analysis.budget_comparisons import DefaultTarget
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import RATE, Trainings
from batchscope.core import disk
from batchscope.store import paths, records
from batchscope.study import columns, factor_words
from batchscope.study.budget_kinds import END, MAX_SLOWDOWN, SECONDS
from batchscope.study.tables import TABLES
from batchscope.tables import advice, csv_tables, long_tables, published, run_table, timing_tables

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

Tables = dict[str, pandas.DataFrame]
RACE = "race"


def write(results: Path | str, study: Study, experiment: str, folder: Path | str) -> None:
    """Write all tables of an experiment and its default targets, each atomically.

    Seeds that are added later would move a default target, and with it every cost to the target.
    Therefore the first analysis of all planned runs stores its targets with the tables.
    """
    path = Path(folder) / paths.DEFAULT_TARGETS
    stored = disk.read_json(path, "targets")["targets"] if path.exists() else []
    default_target = functools.partial(_stored_target, stored)
    for name, frame in make(results, study, experiment, default_target).items():
        csv_tables.write(frame, Path(folder) / f"{name}.csv")
    disk.write_json(path, {"targets": stored})


def _stored_target(stored: list[dict[str, Any]], series: Trainings) -> Target | None:
    """Return the stored target of a series. Without one, store its default unless a run is missing.

    A stored target has the factors of its `series`, the `column` of its loss and its `value`.
    """
    factors = {
        name: factor_words.plain_value(value)
        for name, value in run_series.constant_factors(series.runs).items()
        if name != RATE and pandas.notna(value)
    }
    for entry in stored:
        if entry["series"] == factors and entry["column"] in series.evaluations:
            return Target(entry["column"], entry["value"])
    target = series.default_target()
    if target and target.column and not series.runs["status"].eq(records.MISSING).any():
        stored.append({"series": factors, "column": target.column, "value": target.value})
    return target


def make(
    results: Path | str,
    study: Study,
    experiment: str,
    default_target: DefaultTarget = Trainings.default_target,
) -> Tables:
    """Return all tables of an experiment by name, in the order of the registry.

    Args:
        default_target: Returns the target of a series if the experiment states none.
    """
    planned, args = study.experiments[experiment], (results, study, experiment)
    if planned.columns:  # Logs have nothing but evaluations.
        logged = run_table.logged_runs(*args)
        tables = long_tables.for_experiment(*args, list(logged.rows))
        tables["runs"] = run_table.from_logs(logged, study.name, experiment)
        tables["trajectories"] = run_table.logged_trajectories(logged)
    else:
        tables = long_tables.for_experiment(*args)
        tables["runs"] = run_table.from_records(*args)
    tables |= timing_tables.for_experiment(*args)
    tables["limits"] = timing_tables.limiting_sweeps(*args)
    tables |= decision_tables(study, experiment, tables, default_target)
    tables["advice"] = advice.recommendations(results, planned, tables)
    tables["published"] = published.table(planned, tables)
    return {name: tables[name] for name in TABLES}


def decision_tables(
    study: Study,
    experiment: str,
    tables: Tables,
    default_target: DefaultTarget = Trainings.default_target,
) -> Tables:
    """Return the tables of verdicts and fits, from runs, trajectories and branches."""
    planned = study.experiments[experiment]
    keys, analyses, runs = planned.keys, planned.deciding_analyses, tables["runs"]
    trajectories = target_trajectories = tables["trajectories"]
    margins = {**keys.margins, SECONDS: MAX_SLOWDOWN}
    metrics = planned.metrics
    arguments = runs, trajectories, keys.budgets, margins, analyses, default_target, metrics
    comparisons_at_budgets = list(budget_comparisons.for_experiment(*arguments))
    before_end = [item for item in comparisons_at_budgets if item.budget.kind != END]
    if run_series.follows_horizon(trajectories):
        # If the schedule ends with the run, a run that is planned to end at the target would have
        # lower rates before it.
        target_trajectories = trajectories.iloc[:0]
    targets = [Target(*item) for item in keys.budgets.get("target", {}).items()]
    scalings = to_target_tables.scalings_of_experiment(
        target_trajectories, runs, targets, default_target, metrics
    )
    fits, to_target = to_target_tables.tables(scalings, runs)
    tolerance = planned.measures.get("branches", {}).get("tolerance", math.nan)
    return {
        "comparisons": comparisons.table(runs, comparisons_at_budgets),
        "trends": trends.table(runs, before_end, _stated_directions(study, experiment), analyses),
        "critical_batch_size": fits,
        "to_target": to_target,
        "local_critical_batch_size": local_critical_batch_size.table(
            tables["branches"], tables["branch_points"], tolerance, analyses
        ),
        "ramps": ramps.table(runs, keys.margins, analyses),
        RACE: racing.table(
            *(runs, trajectories, keys.budgets, margins, planned.race),
            *(_protected(study, planned), default_target, metrics),
        ),
    }


def _protected(study: Study, planned: PlannedExperiment) -> set[str]:
    """Return the runs that a claim or another experiment needs, so that no race stops them."""
    siblings = (other for other in study.experiments.values() if other.name != planned.name)
    protected = {run for other in siblings for run in (*other.runs, *other.commands)}
    factors_of = planned.runs | {name: run.factors for name, run in planned.commands.items()}
    for test in (claim.test for claim in study.claims if claim.test.experiment == planned.name):
        rates = {rate for cells in test.selections() for rate in cells.get(RATE, ())}
        protected |= {
            run
            for run, factors in factors_of.items()
            if test.over == RATE or factors.get(RATE) in rates
        }
    return protected


def _stated_directions(study: Study, experiment: str) -> dict[str, str]:
    """Return outcome -> direction of the claims on trends of the whole experiment."""
    metrics = study.experiments[experiment].metrics
    tests = [claim.test for claim in study.claims if claim.test.trend_experiment == experiment]
    directions = {test.column: test.direction for test in tests}
    described = {name: columns.describe(name, metrics) for name in directions}
    return {
        name: way for name, way in directions.items() if described[name] and described[name].label
    }
