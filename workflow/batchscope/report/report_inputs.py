"""Inputs of a report: results folder -> records, rows of tables and figures of a study."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.figures import FigureTables
from batchscope.report import page_figures, runs_table
from batchscope.store import jobs, paths, records
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.plan import PlannedExperiment, Study
from batchscope.study.registry import TIMINGS
from batchscope.tables import csv_tables

Record = dict[str, Any]


class ExperimentResults(NamedTuple):
    """Rows, tables and figures of one experiment."""

    experiment: PlannedExperiment
    rows: list[runs_table.Row]  # as `runs_table.complete_rows` returns them
    tables: FigureTables  # empty if they do not exist yet
    figures: list[Record]  # as `page_figures.read` returns them


@dataclass(frozen=True)
class ReportInputs:
    """Contents of a report; records have the study's names of machines."""

    study: Study
    config_name: str
    config_text: str  # the text of the file
    experiments: dict[str, ExperimentResults]
    states: jobs.JobTable
    runs: dict[str, Record]  # record of each run on the study's own machine
    other_runs: list[Record]  # records of the same runs on other machines
    timings: list[Record]
    datasets: dict[str, Record]  # dataset id -> record
    claims: list[Record]  # the rows of claims.csv
    files: list[Path]  # the tables that have rows, by experiment

    @property
    def rows(self) -> list[runs_table.Row]:
        return [row for results in self.experiments.values() for row in results.rows]


def read(
    study: Study, results: Path | str, config_path: Path | str, partial: bool = False
) -> ReportInputs:
    """Read the inputs of a report.

    Raises:
        UserError: If runs.csv, claims.csv or a figure is missing and `partial` is False, or one is
            damaged. `study_page` reads the other tables at their first use, which may raise too.
    """
    results = Path(results)
    folder = paths.study_folder(results, study.folder_name)
    claims = folder / csv_tables.CLAIMS_FILE
    expected = [folder / name / csv_tables.RUNS_FILE for name in study.experiments]
    for path in [*expected, *([claims] if study.claims else [])]:
        if not (partial or path.exists()):
            raise UserError(f"{path}: missing; run snakemake to make it.")
    main_place, *other_places = places = list(jobs.machine_results(study, results))
    datasets = {name: records.data_record(results, name) for name in study.datasets}
    path = Path(config_path)
    is_inside = path.is_absolute() and path.is_relative_to(Path.cwd())
    name = path.relative_to(Path.cwd()) if is_inside else Path(os.path.normpath(path))
    # The folder may have tables of experiments and claims that the study file no longer has.
    folders = [
        paths.interims_folder(results, study.folder_name),
        *map(folder.joinpath, study.experiments),
    ]
    files = [path for place in sorted(folders) for path in sorted(place.glob("*.csv"))]
    files += [claims] if study.claims and claims.exists() else []
    return ReportInputs(
        study=study,
        config_name=name.as_posix(),
        config_text=path.read_text(encoding="utf-8"),
        experiments={
            name: _experiment(study, name, folder / name, partial) for name in study.experiments
        },
        states=jobs.JobTable(study, results),
        runs=_run_records(study, main_place),
        other_runs=[run for place in other_places for run in _run_records(study, place).values()],
        timings=_timing_records(study, places),
        datasets={name: record for name, record in datasets.items() if record},
        claims=disk.read_rows(claims, *CLAIMS) if study.claims and claims.exists() else [],
        files=[path for path in files if path.read_bytes().count(b"\n") > 1],
    )


def _experiment(study: Study, name: str, folder: Path, partial: bool) -> ExperimentResults:
    exists, experiment = (folder / csv_tables.RUNS_FILE).exists(), study.experiments[name]
    rows = disk.read_rows(folder / csv_tables.RUNS_FILE, "run", "status") if exists else []
    return ExperimentResults(
        experiment,
        runs_table.complete_rows(study, name, rows),
        FigureTables(folder if exists else None, experiment.metrics),
        page_figures.read(folder / "figures", partial),
    )


def _run_records(study: Study, place: jobs.MachineResults) -> dict[str, Record]:
    runs = (*study.runs, *study.commands)
    files = {run: paths.run_record(paths.run_folder(place.results, run)) for run in runs}
    return {run: _named_record(path, place.machine) for run, path in files.items() if path.exists()}


def _timing_records(study: Study, places: Iterable[jobs.MachineResults]) -> list[Record]:
    machines = {
        job.path: place.machine
        for experiment in study.experiments.values()
        for place in places
        for job in jobs.measure_jobs(experiment, place.results, place.recorded_name)
        if job.measure in TIMINGS
    }
    return [_named_record(path, machine) for path, machine in machines.items() if path.exists()]


def _named_record(path: Path, machine: str) -> Record:
    record = disk.read_json(path, "status")
    return {**record, "machine": {**(record.get("machine") or {}), "name": machine}}
