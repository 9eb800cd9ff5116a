"""Records on disk in, tables with several rows per run out.

These are histories, trajectories, results at epochs, and the tables that measures declare. Each
row begins with the run, its factors and its status. A table without rows has only its header. A new
table goes into `for_experiment`, and its rows come from a generator here.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import pandas

from batchscope.analysis import run_series
from batchscope.store import jobs, paths, records
from batchscope.store.jobs import MachineResults
from batchscope.study import batch_phases, names, outcomes, run_factors, tasks
from batchscope.study.plan import PlannedExperiment, Study
from batchscope.study.registry import ENTRIES, MEASURES, SECONDS_TIMINGS
from batchscope.study.specifications import Measure, Table
from batchscope.study.table_entries import AT_EPOCHS, HISTORY, TRAJECTORIES
from batchscope.tables import run_records
from batchscope.tables.run_records import Row, read_record

NAN = math.nan
FIRST_COLUMNS = ("run", *run_factors.FACTORS, "status")
# Trajectories and histories share these columns.
_EVALUATION_COLUMNS = ("epoch", "examples", *outcomes.ALWAYS_EVALUATED)
# Function from the folder of results, a run and its factors to the run's rows.
ReadRows = Callable[[Path | str, str, Row], list[Row]]


def for_experiment(
    results: Path | str, study: Study, experiment: str, logged: Collection[str] = ()
) -> dict[str, pandas.DataFrame]:
    """Return every long table of an experiment by name.

    A missing value is NaN. Values without a column are left out.

    Args:
        logged: Columns of logs. Their metrics tell the tasks of runs without a data set.
    """
    planned, places = study.experiments[experiment], [*jobs.machine_results(study, results)]
    dataset_tasks = run_records.dataset_tasks(results, study, planned)
    experiment_tasks = dataset_tasks or tasks.from_columns(logged)
    histories = _timed_rows(places[0], study, planned, _history_rows)
    trajectories = (_timed_rows(place, study, planned, _trajectory_rows) for place in places)
    tables_to_fill = {
        # history.csv has no column of the machine, so it has only the runs of this machine.
        "history": (HISTORY, histories),
        "trajectories": (TRAJECTORIES, itertools.chain(*trajectories)),
        "at_epochs": (AT_EPOCHS, _at_epochs(places, planned)),
    }
    for entry in MEASURES.values():
        for name, table in entry.tables.items():
            tables_to_fill[name] = (table.columns, _measure_rows(results, planned, entry, table))
    tables = {}
    for name, (table_columns, rows) in tables_to_fill.items():
        column_names = tasks.columns_of_tasks(table_columns, experiment_tasks)
        columns_to_fill = {key: table_columns[key] for key in column_names}
        tables[name] = run_series.table([*rows], columns_to_fill, FIRST_COLUMNS)
    return tables


def _runs(results: Path | str, experiment: PlannedExperiment) -> Iterator[tuple[Row, Row, Row]]:
    """Yield the factors, record and first columns of every run with a record."""
    for run, factors in experiment.runs.items():
        if record := read_record(run_records.run_record(results, run), "status"):
            status = run_records.status(record)
            first = {"run": run, **run_records.split_tokens(factors), "status": status}
            yield factors, record, {name: first[name] for name in FIRST_COLUMNS}


def _timed_rows(
    place: MachineResults, study: Study, planned: PlannedExperiment, read_rows: ReadRows
) -> Iterator[Row]:
    """Yield the rows of every run on a machine, with the seconds until each.

    Other processes may disturb a training, so its seconds come from a timing job that ran
    exclusively: `time_epoch`, or else `throughput` of an experiment that `beside` names.
    """
    clock = _Clock(place, study, planned)
    for factors, _, first in _runs(place.results, planned):
        rows = read_rows(place.results, first["run"], factors)
        run_seconds = clock.seconds(factors, [row["examples"] for row in rows])
        for row, seconds in zip(rows, run_seconds, strict=True):
            yield row | {"seconds": seconds, "machine": place.machine} | first


def _history_rows(results: Path | str, run: str, factors: Row) -> list[Row]:
    epoch_examples = _epoch_examples(results, factors)
    return [
        {
            **row,
            "examples": row["epoch"] * epoch_examples,
            "contended_seconds": row.get("seconds", NAN),
        }
        for row in run_records.read_history(results, run)
    ]


def _trajectory_rows(results: Path | str, run: str, factors: Row) -> list[Row]:
    """Return the rows of a run's trajectory, or of its history without `evaluate_every`."""
    if factors["evaluate_every"]:
        needed = ("examples", "updates", "epoch", "train_loss", "validation_loss", "test_loss")
        return run_records.read_numbers(results, run, paths.TRAJECTORY, *needed)
    return [
        {"updates": row.get("step", NAN)}
        | {name: row[name] for name in _EVALUATION_COLUMNS if name in row}
        for row in _history_rows(results, run, factors)
    ]


def _epoch_examples(results: Path | str, factors: Row) -> float:
    examples = records.training_size(results, factors["dataset"])
    return NAN if examples is None else examples * run_factors.training_copies(factors)


def _measure_rows(
    results: Path | str, planned: PlannedExperiment, entry: Measure, table: Table
) -> Iterator[Row]:
    """Yield the rows of a table of a measure. A pair of runs is named by its first run."""
    if entry.name not in planned.measures:
        return
    settings = names.settings_name(entry.name, planned.measures[entry.name])
    for factors, _, first in _runs(results, planned):
        run, pairs = first["run"], planned.pairs.get(entry.name, ())
        record_paths = {paths.measure_path(results, run, entry.name, settings): {}}
        if entry.pairs:
            record_paths = {}
            for other in (other for small, other in pairs if small == run):
                large = planned.runs[other]
                factor = next(name for name in run_factors.FACTORS if factors[name] != large[name])
                pair = {"factor": factor, "small": factors[factor], "large": large[factor]}
                pair["other"] = other
                record_paths[paths.pair_path(results, run, other, entry.name, settings)] = pair
        for path, pair in record_paths.items():
            if record := read_record(path):
                yield from (pair | row | first for row in table.rows(record, path))


def _at_epochs(places: list[MachineResults], planned: PlannedExperiment) -> Iterator[Row]:
    """Yield the results of measures after each of an experiment's `at_epochs`."""
    entries = [name for name in planned.measures if ENTRIES[name].at_epochs]
    for place in places if entries else ():
        for factors, record, first in _runs(place.results, planned):
            seconds = _timing_value(place, planned, factors, "seconds_per_epoch")
            for epoch in planned.at_epochs:
                row = {"at_epoch": epoch, "machine": place.machine}
                row["train_seconds"] = epoch * seconds if epoch <= record["epochs_run"] else NAN
                for measure in filter(MEASURES.__contains__, entries):
                    settings = jobs.settings_at_epoch(measure, planned.measures[measure], epoch)
                    path = paths.measure_path(place.results, first["run"], measure, settings)
                    row |= (read_record(path, "values") or {"values": {}})["values"]
                yield row | first


def _timing_value(
    place: MachineResults, experiment: PlannedExperiment, factors: Row, column: str
) -> float:
    """Return a column of the exclusive timing job of a training; NaN without one."""
    timing = next((name for name in experiment.measures if name in SECONDS_TIMINGS), None)
    if timing is None:
        return NAN
    record = read_record(jobs.time_path(place, experiment, factors, timing), "values")
    value = record and record["values"].get(column)
    return NAN if value is None else value


class _Clock:
    """Seconds of the runs of an experiment on a machine, from timing jobs that ran exclusively."""

    def __init__(self, place: MachineResults, study: Study, experiment: PlannedExperiment) -> None:
        self._place, self._experiment = place, experiment
        self._throughput = _throughput(place, study, experiment)

    def seconds(self, factors: Row, examples: Iterable[float]) -> list[float]:
        """Return the seconds that a run needs for each number of examples.

        They are the sum of examples / examples per second over the batch sizes of the run.
        """
        course = batch_phases.Course(factors, _epoch_examples(self._place.results, factors))
        sizes = batch_phases.batch_sizes(factors)
        speeds = {size: self._speed({**factors, "batch_size": size}) for size in sizes}
        examples_by_size = (course.examples_by_size(total).items() for total in examples)
        return [sum(count / speeds[size] for size, count in counts) for counts in examples_by_size]

    def _speed(self, factors: Row) -> float:
        timing_value = _timing_value(self._place, self._experiment, factors, "examples_per_second")
        if math.isfinite(timing_value):
            return timing_value
        # The n-th seed has the n-th job, so that the errors of seeds are independent.
        repeat = self._experiment.seeds.index(factors["seed"]) + 1
        return self._throughput.get((names.timing_name(factors), repeat), NAN)


def _throughput(
    place: MachineResults, study: Study, experiment: PlannedExperiment
) -> dict[tuple[str, int], float]:
    """Return timing configuration and repeat -> examples per second, of the experiments `beside`.

    Only timings with the loop and the input pipeline of a training count.
    """
    defaults = {name: item.default for name, item in run_factors.TIMING_ONLY_FACTORS.items()}
    throughput: dict[tuple[str, int], float] = {}
    for name in experiment.keys.beside:
        for job in jobs.timing_jobs(study.experiments[name], place.results, place.recorded_name):
            factors = job.sweep.factors
            if job.measure not in SECONDS_TIMINGS or factors | defaults != defaults | factors:
                continue
            record = read_record(job.path, "sizes") or {"sizes": []}
            for size in filter(lambda size: size["blocks"], record["sizes"]):
                seconds = statistics.median(block["seconds_per_step"] for block in size["blocks"])
                timing = names.timing_name({**factors, "batch_size": size["batch_size"]})
                throughput.setdefault((timing, job.repeat), size["batch_size"] / seconds)
    return throughput
