"""runs.csv: records on disk (`from_records`) or logs (`from_logs`) -> one row per machine and run.

`logged_runs` returns the logs: those of external runs, which planning has read, or the records and
evaluations of a command's runs in the form of logs. `logged_trajectories` returns their
trajectories.csv. A measure or a timing declares its columns, so a new one needs no change here. A
column that follows from others goes into `RUNS` of `study.table_entries`, and into `_run_values`
for records or `from_logs` for logs.
"""

import functools
import io
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import run_series, trainings
from batchscope.core.errors import UserError
from batchscope.external.external_runs import LoggedRuns, find_copied_run
from batchscope.store import jobs, paths, records
from batchscope.store.jobs import MachineResults
from batchscope.study import batch_phases, factor_maps, log_format, table_entries, tasks
from batchscope.study.commands import CommandRun
from batchscope.study.names import settings_name
from batchscope.study.plan import PlannedExperiment, Study
from batchscope.study.registry import MEASURES, OUTCOME_MEASURES
from batchscope.study.specifications import Column
from batchscope.tables import long_tables, run_records, timing_tables
from batchscope.tables.run_records import Row

Reader = Callable[..., Row | None]
_COMMAND_RECORD_COLUMNS = (
    *table_entries.COMMAND_COLUMNS,
    *("message", "contended_seconds", "train_seconds", "examples_per_second"),
)
_DTYPES = {"int": "Int64", "str": "object", "bool": "bool"}  # whole numbers may be missing


def from_records(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Return one row per machine and run of an experiment (see `run_records.read_all`)."""
    planned, rows = study.experiments[experiment], []
    read = functools.cache(run_records.read_record)  # Runs share data sets and timings.
    for place, run, record, status in run_records.read_all(results, study, planned.runs):
        row = {"run": run, "study": study.name, "experiment": experiment}
        row |= {"machine": place.machine, **run_records.split_tokens(planned.runs[run])}
        row["status"] = status
        rows.append(row | _run_values(place, planned, run, record, read))
    # A record of another version may have columns that are not documented.
    experiment_tasks = run_records.dataset_tasks(results, study, planned)
    filled = itertools.chain(
        table_entries.measure_columns(planned.measures, experiment_tasks), *rows
    )
    frame = pandas.DataFrame(
        rows, columns=sorted(dict.fromkeys(filled), key=table_entries.position)
    )
    kinds = {name: (table_entries.describe(name) or Column("")).kind for name in frame}
    return frame.astype({name: _DTYPES.get(kind, "float64") for name, kind in kinds.items()})


def _run_values(
    place: MachineResults, experiment: PlannedExperiment, run: str, record: Row | None, read: Reader
) -> Row:
    """Return the values of one run: data set, record, measures and timings."""
    results, factors = place.results, experiment.runs[run]
    dataset = read(paths.dataset_folder(results, factors["dataset"]) / "record.json", "counts")
    counts = dataset["counts"] if dataset else {}
    row: Row = {f"{split}_examples": counts.get(split) for split in paths.SPLITS}
    if record:
        row |= {name: record.get(name) for name in table_entries.RECORD_COLUMNS}
        losses = (epoch["train_loss"] for epoch in run_records.read_history(results, run))
        row["best_train_loss"] = min(filter(math.isfinite, losses), default=math.nan)
    for measure, settings in experiment.measures.items():
        if measure not in MEASURES:
            size_paths = jobs.time_paths(place, experiment, factors, measure)
            row |= _timing_values(size_paths, batch_phases.example_shares(factors), read)
        elif not MEASURES[measure].pairs:  # A measure of pairs of runs has only a long table.
            name = settings_name(measure, settings)
            path = paths.measure_path(results, run, measure, name)
            row |= (run_records.read_record(path, "values") or {"values": {}})["values"]
    epochs, seconds = row.get("epochs_run"), row.get("seconds_per_epoch")
    row["train_seconds"] = math.nan if None in (epochs, seconds) else epochs * seconds
    return row


def _timing_values(
    size_paths: Mapping[int, Path], shares: Mapping[int, float], read: Reader
) -> Row:
    """Return the times of a run, with the disturbance of its timing jobs; empty if not timed.

    The times of a run with several batch sizes are means weighted by their shares of the examples.
    """
    by_size = {size: read(path, "values") for size, path in size_paths.items()}
    if not all(by_size.values()):
        return {}
    first_record = next(iter(by_size.values()))
    values = first_record["values"] if len(by_size) == 1 else {}
    for name, power in (("seconds_per_epoch", 1), ("examples_per_second", -1)):
        times = {size: record["values"].get(name) for size, record in by_size.items()}
        if len(by_size) > 1 and all(times.values()):
            mean = sum(share * times[size] ** power for size, share in shares.items())
            values[name] = mean**power
    blocks = [block for record in by_size.values() for block in record.get("blocks", ())]
    return {**values, **timing_tables.disturbance(blocks)}


def logged_runs(results: Path | str, study: Study, experiment: str) -> LoggedRuns:
    planned = study.experiments[experiment]
    return planned.external_runs or _command_runs(results, study, experiment)


def from_logs(logged: LoggedRuns, study: str, experiment: str) -> pandas.DataFrame:
    """Return one row per run, with the last value of each column in its rows."""
    rows = logged.rows.assign(study=study, experiment=experiment)
    rows = rows.reindex(columns=dict.fromkeys([*rows, *log_format.outcomes_with(logged.metrics)]))
    keys = [rows["run"], rows["machine"]]
    # Not every evaluation has every outcome.
    table = rows.groupby(["run", "machine"], sort=False).last().reset_index()
    for split in ("train", "validation"):
        finite = rows[f"{split}_loss"].where(np.isfinite(rows[f"{split}_loss"].astype(float)))
        table[f"best_{split}_loss"] = finite.groupby(keys, sort=False).min().to_numpy()
    updates = table.pop("updates")  # In runs.csv, this name is a column of a measure.
    table["steps_run"] = updates.round()
    if logged.has_single_rows:
        table["stop_reason"] = trainings.SINGLE_ROW_STOP
    if logged.tried_rates:
        scaled = table.get("learning_rate_scaling", pandas.Series("none", table.index)) != "none"
        table["effective_learning_rate"] = table["learning_rate"].mask(scaled)
    table["generalisation_gap"] = table["test_loss"] - table["train_loss"]
    for gap, metric in tasks.GAPS.items():
        table[gap] = table[f"train_{metric.name}"] - table[f"test_{metric.name}"]
    names = table_entries.measure_columns(
        dict.fromkeys(OUTCOME_MEASURES, {}), tasks.from_columns(logged.rows)
    )
    names += filter(logged.rows.__contains__, log_format.metric_columns(logged.metrics))
    return _table(
        table, names, {name: table_entries.describe(name) or Column("") for name in names}
    )


def logged_trajectories(logged: LoggedRuns) -> pandas.DataFrame:
    """Return one row per evaluation, as trajectories.csv has for runs with records."""
    logged_outcomes = filter(logged.rows.__contains__, log_format.outcomes_with(logged.metrics))
    outcomes = dict.fromkeys([*table_entries.TRAJECTORIES, *logged_outcomes])
    task_columns = tasks.columns_of_tasks(outcomes, tasks.from_columns(logged.rows))
    names = [*long_tables.FIRST_COLUMNS, *task_columns]
    axes = [name for name in ("updates", "epoch") if name in logged.rows]
    rows = logged.rows if logged.has_single_rows else logged.rows.dropna(subset=axes, how="all")
    return _table(rows, names, table_entries.TRAJECTORIES)


def _table(
    rows: pandas.DataFrame, names: Sequence[str], entries: Mapping[str, Column]
) -> pandas.DataFrame:
    """Return some columns of rows, with the user's factors before the status."""
    index = names.index("status")
    names = [*names[:index], *filter(log_format.is_user_defined, rows), *names[index:]]
    table = rows.reindex(columns=names).reset_index(drop=True)
    return run_series.with_integer_columns(table, entries, errors="ignore")


def _command_runs(results: Path | str, study: Study, experiment: str) -> LoggedRuns:
    """Return the evaluations of a command's runs; a run without a record has an empty row."""
    planned, parts = study.experiments[experiment], []
    runs, metrics = planned.commands, planned.metrics
    factors = _command_factors(runs)
    needs = {name: run.needs for name, run in runs.items()}
    for place, name, record, status in run_records.read_all(results, study, needs):
        first_columns: dict[str, Any] = {"run": name, "machine": place.machine, "status": status}
        first_columns |= {factor: runs[name].factors[factor] for factor in ("batch_size", "seed")}
        first_columns |= factors.loc[name]
        rows = pandas.DataFrame()
        if record:
            files = records.RunFiles(paths.run_folder(place.results, name))
            text = files.text(paths.TRAJECTORY, *log_format.COST_COLUMNS[:1])
            rows = pandas.read_csv(io.StringIO(text))
        names = dict.fromkeys([*log_format.COST_COLUMNS[:2], *rows])
        rows = rows.reindex(range(max(1, len(rows))), columns=names)
        record_values = {column: (record or {}).get(column) for column in _COMMAND_RECORD_COLUMNS}
        parts.append(rows.assign(**first_columns | record_values))
    table = pandas.concat(parts, ignore_index=True)
    finished = table[table["updates"].notna() & table["status"].eq(records.FINISHED)]
    keys = ["machine", "batch_size", *factors]
    if pair := find_copied_run(
        finished, ["run", "machine"], keys, log_format.outcomes_with(metrics)
    ):
        raise UserError(
            f"{pair[0][0]}: received the very numbers of {pair[1][0]}; another training for each "
            "seed is expected. Does the command use its seed?"
        )
    return LoggedRuns(table, tuple(factors), metrics=metrics)


def _command_factors(runs: Mapping[str, CommandRun]) -> pandas.DataFrame:
    """Return a row per run of a command, with a user-defined column for each of its factors."""
    factors, columns_of_factors = [run.factors for run in runs.values()], []
    for name in factors[0].keys() - {"batch_size", "seed"}:
        texts = (factor_maps.argument_text(values[name]) for values in factors)
        texts = [text or log_format.EMPTY_CELL for text in texts]
        columns_of_factors.append(log_format.series_column(name, texts))
    return pandas.DataFrame(dict(columns_of_factors), index=list(runs), dtype=object)
