"""All tables of a study as CSV files: tables of its experiments, claims and interim analyses.

`make` returns the tables of an experiment: records and logs become tables in the modules
`run_table`, `long_tables` and `timing_tables`, `decision_tables` adds verdicts and fits, and `make`
adds advice and published values. A new table is registered in `study.table_entries`. It is an item
of `decision_tables` if it has verdicts or fits; else one of the three modules makes it.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas

from batchscope.analysis import (
    advice,
    batch_schedules,
    budget_comparisons,
    claims,
    comparisons,
    open_statements,
    racing,
    run_series,
    targets,
    to_target_tables,
    trends,
)
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables
from batchscope.analysis.targets import ComparisonRequest, Target
from batchscope.analysis.trainings import RATE, Trainings
from batchscope.core import disk
from batchscope.store import estimates, interims, paths, records
from batchscope.study import factor_maps, plan, suggestions, table_entries
from batchscope.study.decision_columns import INTERIMS
from batchscope.study.names import settings_name, split_token, timing_name
from batchscope.study.outcomes import END, MAX_SLOWDOWN, SECONDS
from batchscope.study.plan import PlannedExperiment, Study
from batchscope.study.registry import OUTCOME_MEASURES, TIMINGS
from batchscope.study.stages import Stage
from batchscope.study.table_entries import TABLES
from batchscope.study.tasks import TOKENS
from batchscope.tables import csv_tables, long_tables, published, run_table, timing_tables

Tables = dict[str, pandas.DataFrame]
DefaultTarget = Callable[[Trainings], Target | None]
RACE = "race"
# Tables of advice, in the order of `AdviceTables`. An interim analysis needs the first four.
_ADVICE_TABLES = ("comparisons", "runs", "limits", "critical_batch_size", "trajectories", RACE)
_INTERIM_TABLES = _ADVICE_TABLES[:4]


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

    A stored target has the factors of its `series`, the `column` of its loss and its `value`. Some
    of these factors may vary since: a batch size that is added may have other epochs. Its `digests`
    are those of data and model, or of the command: other contents get another target.
    """
    factors = {
        name: factor_maps.plain_value(value)
        for name, value in run_series.constant_factors(series.runs).items()
        if name != RATE and pandas.notna(value)
    }
    parts = (run.partition("+bs=") for run in series.runs["run"])
    digests = sorted({first for first, separator, _ in parts if separator})
    for entry in stored:
        is_same = factors.items() <= entry["series"].items() and entry.get("digests") == digests
        if is_same and entry["column"] in series.evaluations:
            return Target(entry["column"], entry["value"])
    target = targets.default_target(series)
    if target and target.column and not series.runs["status"].eq(records.MISSING).any():
        entry = {"series": factors, "column": target.column, "value": target.value}
        stored.append({**entry, "digests": digests})
    return target


def make(
    results: Path | str,
    study: Study,
    experiment: str,
    default_target: DefaultTarget = targets.default_target,
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
    tables["advice"] = recommendations(results, planned, tables)
    tables["published"] = published.table(planned, tables["runs"])
    return {name: tables[name] for name in TABLES}


def decision_tables(
    study: Study,
    experiment: str,
    tables: Tables,
    default_target: DefaultTarget = targets.default_target,
) -> Tables:
    """Return the tables of verdicts and fits, from runs, trajectories and branches."""
    planned = study.experiments[experiment]
    keys, analyses, runs = planned.keys, planned.deciding_analyses, tables["runs"]
    trajectories = target_trajectories = tables["trajectories"]
    margins = {**keys.margins, SECONDS: MAX_SLOWDOWN}
    request = ComparisonRequest(keys.budgets, margins, analyses, default_target, planned.metrics)
    race_request = request._replace(analyses=planned.race)
    comparisons_at_budgets = list(budget_comparisons.for_experiment(runs, trajectories, request))
    before_end = [item for item in comparisons_at_budgets if item.budget.kind != END]
    if run_series.follows_horizon(trajectories):
        # If the schedule ends with the run, a run that is planned to end at the target would have
        # lower rates before it.
        target_trajectories = trajectories.iloc[:0]
    fits, to_target = to_target_tables.tables(runs, target_trajectories, request)
    tolerance = planned.measures.get("branches", {}).get("tolerance", math.nan)
    return {
        "comparisons": comparisons.table(runs, comparisons_at_budgets),
        "trends": trends.table(runs, before_end, _stated_directions(study, experiment), analyses),
        "critical_batch_size": fits,
        "to_target": to_target,
        "local_critical_batch_size": batch_schedules.local_critical_table(
            tables["branches"], tables["branch_points"], tolerance, analyses
        ),
        "ramps": batch_schedules.ramps_table(runs, keys.margins, analyses),
        RACE: racing.table(runs, trajectories, race_request, _protected(study, planned)),
    }


def _protected(study: Study, planned: PlannedExperiment) -> set[str]:
    """Return the runs that a claim or another experiment needs, so that no race stops them."""
    protected = plan.runs_of_others(study.experiments, planned.name)
    for test in (claim.test for claim in study.claims if claim.test.experiment == planned.name):
        rates = {rate for cells in test.selections() for rate in cells.get(RATE, ())}
        protected |= {
            run
            for run, factors in planned.factors_of.items()
            if test.over == RATE or factors.get(RATE) in rates
        }
    return protected


def _stated_directions(study: Study, experiment: str) -> dict[str, str]:
    """Return outcome -> direction of the claims on trends of the whole experiment."""
    metrics = study.experiments[experiment].metrics
    tests = [claim.test for claim in study.claims if claim.test.trend_experiment == experiment]
    directions = {test.column: test.direction for test in tests}
    described = {name: table_entries.describe(name, metrics) for name in directions}
    return {
        name: way for name, way in directions.items() if described[name] and described[name].label
    }


def recommendations(
    results: Path | str, experiment: PlannedExperiment, tables: Tables
) -> pandas.DataFrame:
    """Return the recommended batch sizes, with their limits, checks and suggestions."""
    settings = [experiment.measures.get(name, {}) for name in OUTCOME_MEASURES]
    tokens = {factors["dataset"] for factors in experiment.runs.values()}
    data = {split_token(name)[0]: records.data_record(results, name) or {} for name in tokens}
    request = AdviceRequest(
        experiment.keys.margins,
        experiment.keys.seeds_planned,
        experiment.deciding_analyses,
        {name: _baselines(record) for name, record in data.items()},
        seed_cost_function(results, experiment),
        suggestions.keys_to_add(experiment),
        experiment.timed,
        {name for name, record in data.items() if record.get("kind") == TOKENS},
        any(values.get("weights") == "best" for values in settings),
        experiment.metrics,
    )
    return advice.table(AdviceTables(*(tables[name] for name in _ADVICE_TABLES)), request)


def _baselines(record: Mapping[str, Any]) -> dict[str, float]:
    """Return outcome -> value of the best constant prediction, of a data set's record.

    For classes it predicts the most frequent one. Records have the values of other tasks.
    """
    metrics = dict(record.get("baselines") or {})
    for split, counts in (record.get("class_counts") or {}).items():
        if any(counts):
            metrics[split] = {"accuracy": max(counts) / sum(counts)}
    return {
        f"{split}_{name}": value
        for split, by_name in metrics.items()
        for name, value in by_name.items()
    }


def seed_cost_function(
    results: Path | str, experiment: PlannedExperiment
) -> Callable[[Iterable[str]], tuple[float, float]]:
    """Return a function from runs to the seconds that one more seed of them takes.

    It returns two numbers: the seconds of one core for trainings and measures, NaN if the time of a
    training is unknown, and the seconds of the timings, which learning rates share. Other unknown
    times count as 0.
    """
    estimated_times = estimates.Estimates(results, experiment)
    factors_of = experiment.factors_of
    settings = {name: settings_name(name, values) for name, values in experiment.measures.items()}

    def training_seconds(run: str) -> float:
        if run not in experiment.commands:
            return estimated_times.training(experiment.runs[run]) or math.nan
        command = experiment.commands[run].command
        seconds = estimated_times.command(experiment.commands[run]) or math.nan
        return seconds * (1 if command.alone else command.threads)

    def job_seconds(name: str, subject: str) -> float:
        return estimated_times.measure_or_timing(name, settings[name], subject) or 0.0

    def seed_seconds(runs: Iterable[str]) -> tuple[float, float]:
        planned_runs = [run for run in runs if run in factors_of]
        seeds = len({factors_of[run]["seed"] for run in planned_runs})
        if not seeds:
            return math.nan, 0.0
        total, timing_seconds = sum(map(training_seconds, planned_runs)), 0.0
        for name in settings:
            if name not in TIMINGS:
                total += sum(job_seconds(name, run) for run in planned_runs)
                continue
            jobs = {(timing_name(factors_of[run]), factors_of[run]["seed"]) for run in planned_runs}
            timing_seconds += sum(job_seconds(name, subject) for subject, _ in jobs)
        return total / seeds, timing_seconds / seeds

    return seed_seconds


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
