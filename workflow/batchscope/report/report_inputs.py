"""Inputs of a report: results folder -> records, rows of tables and figures of a study."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batchscope.core import disk, errors
from batchscope.core.errors import UserError
from batchscope.figures import LISTING, FigureTables
from batchscope.report import inline_svg, runs_table
from batchscope.store import jobs, paths, records
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.registry import TIMINGS
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

LARGE_TABLE_BYTES = 20_000  # The page holds the rows of a figure up to this size, deflated.
Record = dict[str, Any]


class ExperimentResults(NamedTuple):
    """Rows, tables and figures of one experiment."""

    experiment: PlannedExperiment
    rows: list[runs_table.Row]  # as `runs_table.complete_rows` returns them
    tables: FigureTables  # empty if they do not exist yet
    figures: list[Record]  # as `read_figures` returns them


@dataclass(frozen=True)
class ReportInputs:
    """Contents of a report besides the plan; records have the study's names of machines."""

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
    files = [*sorted(folder.glob("*.csv")), *sorted(folder.glob("*/*.csv"))]
    return ReportInputs(
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
        read_figures(folder / "figures", partial),
    )


def read_figures(folder: Path, partial: bool = False) -> list[Record]:
    """Return the figures that a folder lists, each with its SVG element and its rows.

    `anchor` names the figure in the page, `width` is in CSS pixels or 0 if unknown, and `packed`
    has the deflated rows in base64.
    """
    if partial and not (folder / LISTING).exists():
        return []
    return [
        {**entry, **_figure_content(folder / f"{name}.svg")}
        for name, entry in figure_entries(folder).items()
    ]


def figure_entries(folder: Path) -> dict[str, Record]:
    """Return the figures that a folder lists, by name."""
    with errors.reading(folder / LISTING, "a list of figures", folder):
        entries = json.loads((folder / LISTING).read_text(encoding="utf-8"))
        return {entry["name"]: entry for entry in entries}


def _figure_content(path: Path) -> Record:
    anchor, rows = f"{path.parent.parent.name}-{path.stem}", path.with_suffix(".csv")
    with errors.reading(path, "an SVG image", path.parent):
        svg = inline_svg.read(path.read_bytes(), anchor)
    width = re.match(r"<svg[^>]*?\sviewBox=\"[\d.-]+ [\d.-]+ ([\d.]+) ", svg)
    # A browser inflates raw data, so the header of zlib is left out.
    packed = zlib.compress(rows.read_bytes(), 9, -zlib.MAX_WBITS) if rows.exists() else b""
    return {
        "anchor": anchor,
        "svg": svg,
        # Matplotlib's unit is the point. An inch has 72 points and 96 CSS pixels.
        "width": round(float(width[1]) * 96 / 72) if width else 0,
        "packed": base64.b64encode(packed).decode() if len(packed) <= LARGE_TABLE_BYTES else "",
    }


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
