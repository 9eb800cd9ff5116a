"""All tables of an experiment, the claims of a study and its interim analyses, as CSV files.

`make` lists the tables: of records (`run_table`, `long_tables`, `timing_tables`), and what follows
from them (`decision_tables`). A new table is registered in `study.tables` and made in one of the
two. `write_claims` and `write_interim` write tables of a whole study.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.analysis import (
    budget_comparisons,
    claims,
    comparisons,
    local_critical_batch_size,
    open_statements,
    racing,
    ramps,
    run_series,
    to_target_tables,
    trainings,
    trends,
)
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import RATE, Trainings
from batchscope.core import disk
from batchscope.store import interims, paths, records
from batchscope.study import factor_words, outcomes
from batchscope.study.budget_kinds import END, MAX_SLOWDOWN, SECONDS
from batchscope.study.decision_columns import INTERIMS
from batchscope.study.outcomes import Outcome
from batchscope.study.stages import Stage
from batchscope.study.tables import TABLES
from batchscope.tables import (
    advice,
    csv_tables,
    long_tables,
    published,
    run_table,
    timing_tables,
)

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

Tables = dict[str, pandas.DataFrame]
# Tables of an interim analysis, in the order of `AdviceTables`.
_INTERIM_TABLES = ("comparisons", "runs", "limits", "critical_batch_size")
RACE = "race"


def make(
    results: Path | str,
    study: Study,
    experiment: str,
    default_target: budget_comparisons.DefaultTarget = Trainings.default_target,
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
        tables = {**long_tables.for_experiment(*args), "runs": run_table.from_records(*args)}
    tables |= {
        **timing_tables.for_experiment(*args),
        "limits": timing_tables.limiting_sweeps(*args),
    }
    tables |= decision_tables(study, experiment, tables, default_target)
    tables["advice"] = advice.recommendations(results, planned, tables)
    tables["published"] = published.table(planned, tables)
    return {name: tables[name] for name in TABLES}


def decision_tables(
    study: Study,
    experiment: str,
    tables: Tables,
    default_target: budget_comparisons.DefaultTarget = Trainings.default_target,
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
    if run_series.follows_horizon(trajectories) and not trainings.end_at_targets(runs):
        # If the schedule ends with the run, a run that is planned to end at the target would have
        # lower rates before it.
        target_trajectories = trajectories.iloc[:0]
    targets = [Target(*item) for item in keys.budgets.get("target", {}).items()]
    scalings = to_target_tables.scalings_of_study(
        target_trajectories, runs, targets, default_target, metrics
    )
    constant = run_series.constant_factors(runs)
    tolerance = planned.measures.get("branches", {}).get("tolerance", math.nan)
    return {
        "comparisons": comparisons.table(runs, comparisons_at_budgets),
        "trends": trends.table(runs, before_end, _stated_outcomes(study, experiment), analyses),
        "critical_batch_size": to_target_tables.fit_table(scalings, constant),
        "to_target": to_target_tables.training_table(scalings, constant),
        "local_critical_batch_size": local_critical_batch_size.table(
            tables["branches"], tables["branch_points"], tolerance, analyses
        ),
        "ramps": ramps.table(runs, keys.margins, analyses),
        RACE: racing.table(
            runs,
            trajectories,
            keys.budgets,
            margins,
            planned.race,
            _protected(study, planned),
            default_target,
            metrics,
        ),
    }


def _protected(study: Study, planned: PlannedExperiment) -> set[str]:
    """Return the runs that a claim or another experiment needs, so that no race stops them."""
    siblings = (other for other in study.experiments.values() if other.name != planned.name)
    protected = {run for other in siblings for run in (*other.runs, *other.commands)}
    commands = {name: run.factors for name, run in planned.commands.items()}
    for claim in study.claims:
        if claim.test.experiment != planned.name:
            continue
        selections = [*claim.test.selections()]
        rates = {rate for cells in selections for rate in cells.get(RATE, ())}
        for run, factors in {**planned.runs, **commands}.items():
            if claim.test.over == RATE or factors.get(RATE) in rates:
                protected.add(run)
    return protected


def _stated_outcomes(study: Study, experiment: str) -> dict[str, Outcome]:
    """Return column -> outcome with its direction, of claims on trends of the whole experiment."""
    by_column, metrics = {}, study.experiments[experiment].metrics
    for claim in study.claims:
        test = claim.test
        if test.trend_experiment == experiment:
            outcome = outcomes.outcome_with_direction(test.column, test.direction, metrics)
            by_column |= {test.column: outcome} if outcome else {}
    return by_column


class DefaultTargets:
    """The default targets of an experiment's series, read from a file if it exists.

    Seeds that are added later would move a default target, and with it every cost to the target.
    Therefore the first analysis of all planned runs stores its targets with the tables.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._targets: list[dict[str, Any]] = []
        if path.exists():
            self._targets = disk.read_json(path, "targets")["targets"]

    def target_of(self, series: Trainings) -> Target | None:
        """Return the stored target of a series, or else its default.

        A default target is stored, unless a run of the series is missing.
        """
        constants = run_series.constant_factors(series.runs).items()
        factors = {
            name: factor_words.plain_value(value)
            for name, value in constants
            if name != RATE and pandas.notna(value)
        }
        for stored in self._targets:
            if stored["series"] == factors and stored["column"] in series.evaluations:
                return Target(stored["column"], stored["value"])
        target = series.default_target()
        missing = series.runs["status"].eq(records.MISSING).any()
        if target is not None and target.column and not missing:
            new = {"series": factors, "column": target.column, "value": target.value}
            self._targets.append(new)
        return target

    def write(self) -> None:
        disk.write_json(self._path, {"targets": self._targets})


def write(results: Path | str, study: Study, experiment: str, folder: Path | str) -> None:
    """Write all tables of an experiment and its default targets, each atomically."""
    stored = DefaultTargets(Path(folder) / paths.DEFAULT_TARGETS)
    for name, frame in make(results, study, experiment, stored.target_of).items():
        csv_tables.write(frame, Path(folder) / f"{name}.csv")
    stored.write()


def write_claims(study: Study, folder: Path | str, output: Path | str) -> None:
    """Write one row per claim of a study, from the folder of its experiments' tables.

    Raises:
        UserError: If a table is missing or damaged.
    """

    read_table = functools.cache(lambda experiment, table: _read(Path(folder) / experiment, table))
    analyses = {name: planned.deciding_analyses for name, planned in study.experiments.items()}
    csv_tables.write(claims.table(study.claims, read_table, study.machine, analyses), Path(output))


def write_interim(results: Path | str, study: Study, output: Path) -> None:
    """Write an interim analysis: the open statements, and the seeds that their runs get next."""
    folder = paths.study_folder(results, study.folder_name)
    rows = _interim_rows(study, folder, interims.stages(results, study.folder_name))
    csv_tables.write(run_series.table([*rows], INTERIMS), output)


def _interim_rows(
    study: Study, folder: Path, stages: Mapping[str, Stage]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the experiments with planned analyses, with their open statements."""
    for name, experiment in study.experiments.items():
        planned = experiment.deciding_analyses
        if not planned:
            continue
        read_table = functools.partial(_read, folder / name)
        tables, race = AdviceTables(*map(read_table, _INTERIM_TABLES)), read_table(RACE)
        racing_runs = racing.without_rates_that_left(tables.runs, race)
        request = AdviceRequest(
            experiment.keys.margins, analyses=planned, metrics=experiment.metrics
        )
        first = {"experiment": name, "planned": planned[-1], "first": experiment.seeds[0]}
        rates = stages.get(name, Stage()).added_rates
        rows = [*open_statements.race_rows(race, experiment.race)]
        rows += open_statements.edge_rows(tables, request, rates, experiment.race)
        rows += open_statements.comparison_rows(tables._replace(runs=racing_runs), request)
        experiment_claims = [claim for claim in study.claims if claim.test.experiment == name]
        if experiment_claims:
            claim_rows = csv_tables.read(folder / csv_tables.CLAIMS_FILE)
            rows += open_statements.claim_rows(experiment_claims, claim_rows, racing_runs, planned)
        # An experiment without statements has an empty row, which says that it was analysed.
        yield from ({**first, **row} for row in rows or [dict.fromkeys(INTERIMS) | first])


def _read(folder: Path, table: str) -> pandas.DataFrame:
    return csv_tables.read(folder / f"{table}.csv")
