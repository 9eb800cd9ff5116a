"""What a report shows, read from the results folder."""

from __future__ import annotations

import base64
import functools
import glob
import json
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import disk, errors
from batchscope.catalogue.timings import TIMINGS
from batchscope.datasets import samples
from batchscope.errors import UserError
from batchscope.figures import LISTING, Tables
from batchscope.host.absence import Absence
from batchscope.report import claim_rows, inline_svg, runs_table
from batchscope.store import job_files, paths, records, states, taken, weights
from batchscope.store.weights import Layer
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

LARGE_TABLE_BYTES = 100_000  # deflated; a figure's data above this stay in their file alone
Look = tuple[str, tuple[int, ...], int]  # a model's token, shape of an example, classes
Record = dict[str, Any]
_LAST_LINE = 400  # most characters that are quoted of a log's last line

# Fields that are empty unless they are given.
_map = functools.partial(field, default_factory=dict)
_list = functools.partial(field, default_factory=list)


@dataclass(frozen=True)
class ExperimentResults:
    """What there is of one experiment; `figures` are as `read_figures` returns them."""

    experiment: Experiment
    rows: list[runs_table.Row]  # as `runs_table.complete` returns them
    tables: Tables = field(default_factory=Tables)  # empty before they are made
    figures: list[Record] = _list()


@dataclass(frozen=True)
class Inputs:
    """Everything a report shows besides the plan; records have the study's names of machines."""

    config_name: str
    config_text: str  # as written
    experiments: dict[str, ExperimentResults]
    runs: dict[str, Record] = _map()  # record of each run on the study's own machine
    other_runs: list[Record] = _list()  # of the same runs, on other machines
    timings: list[Record] = _list()
    missing_runs: dict[str, str] = _map()  # run -> what its log says
    missing_measures: dict[str, dict[str, str]] = _map()  # measure -> run or sweep -> its log
    # Step and version that is not today's -> what it made.
    other_versions: dict[tuple[str, str], list[job_files.Job]] = _map()
    absent: dict[Absence, list[job_files.Job]] = _map()  # what waits for what is not here
    datasets: dict[str, Record] = _map()  # by dataset id
    samples: dict[str, list[samples.Sample]] = _map()  # by dataset id
    models: dict[Look, list[Layer]] = _map()  # layers, as far as they are known
    claims: list[claim_rows.Row] = _list()  # as in claims.csv
    files: list[Path] = _list()  # the tables that have rows, each experiment's after another
    taken: taken.Taken = field(default_factory=taken.Taken)
    partial: bool = False  # asked for with only a part of the results

    @property
    def rows(self) -> list[runs_table.Row]:
        """The rows of all experiments: a run that several share has one in each of them."""
        return [row for found in self.experiments.values() for row in found.rows]


def read(
    study: Study, results: Path | str, config_path: Path | str, partial: bool = False
) -> Inputs:
    """Reads what a report shows.

    Raises:
        UserError: If runs.csv, claims.csv or a figure is missing and `partial` is False, or one is
            damaged. Other tables are read, and raise, when they are asked for: by `study_page`.
    """
    results = Path(results)
    folder = results / "studies" / study.folder_name
    claims = folder / csv_tables.CLAIMS
    expected = [folder / name / csv_tables.RUNS for name in study.experiments]
    for path in [*expected, *([claims] if study.claims else [])]:
        if not (partial or path.exists()):
            raise UserError(f"{path}: missing; run snakemake to make it.")
    experiments = {
        name: _experiment(study, name, folder / name, partial) for name in study.experiments
    }
    table = states.Table(study, results)
    here, *others = places = [*job_files.places(study, results)]
    runs, timings = _runs(study, here), _timings(study, places)
    every = {name: records.data_record(results, name) for name in study.datasets}
    datasets = {name: record for name, record in every.items() if record is not None}
    return Inputs(
        config_name=_nearest(config_path),
        config_text=Path(config_path).read_text(encoding="utf-8"),
        experiments=experiments,
        runs=runs,
        other_runs=[run for place in others for run in _runs(study, place).values()],
        timings=timings,
        missing_runs=_missing_runs(study, results),
        missing_measures=_missing_measures(table, experiments.values()),
        other_versions=_other_versions(table),
        absent=table.absent(),
        datasets=datasets,
        samples={
            name: samples.few(paths.dataset_folder(results, name), record)
            for name, record in datasets.items()
        },
        models=_models(study, results, datasets),
        claims=claim_rows.read(claims) if study.claims and claims.exists() else [],
        files=[*filter(_filled, [*sorted(folder.glob("*.csv")), *sorted(folder.glob("*/*.csv"))])],
        taken=taken.find(
            table, runs, [one for one in timings if one["machine"]["name"] == here.machine]
        ),
        partial=partial,
    )


def _experiment(study: Study, name: str, folder: Path, partial: bool) -> ExperimentResults:
    path = folder / csv_tables.RUNS
    rows = disk.read_rows(path, "run", "status") if path.exists() else []
    tables = Tables(folder if path.exists() else None)
    rows = runs_table.complete(study, name, runs_table.evaluated(rows, tables.trajectories))
    figures = read_figures(folder / "figures", partial)
    return ExperimentResults(study.experiments[name], rows, tables, figures)


def _filled(table: Path) -> bool:
    """Returns whether a table has more than its head."""
    with table.open(encoding="utf-8") as file:
        return bool(next(file, "") and next(file, ""))


def _nearest(path: Path | str) -> str:
    """Returns a path relative to the working folder where it lies in it."""
    path, here = Path(path), Path.cwd()
    inside = path.is_absolute() and path.is_relative_to(here)
    return (path.relative_to(here) if inside else Path(os.path.normpath(path))).as_posix()


def read_figures(folder: Path, partial: bool) -> list[Record]:
    """Reads the figures that a folder lists, each with its picture and rows as the page has them.

    `anchor` names the figure in the page, `width` is that of the picture in CSS pixels, 0 if it
    does not say, and `packed` are the rows that it was drawn from.
    """
    if partial and not (folder / LISTING).exists():
        return []
    with errors.reading(folder / LISTING, "a list of figures", folder):
        return [{**entry, **_drawing(folder / f"{entry['name']}.svg")} for entry in listed(folder)]


def listed(folder: Path) -> list[Record]:
    """Reads what a folder lists of its figures."""
    with errors.reading(folder / LISTING, "a list of figures", folder):
        return json.loads((folder / LISTING).read_text(encoding="utf-8"))


def _drawing(path: Path) -> Record:
    anchor = f"{path.parent.parent.name}-{path.stem}"
    with errors.reading(path, "an SVG image", path.parent):
        content = path.read_bytes()
        svg = inline_svg.read(content, anchor)
    width = re.search(rb"<svg[^>]*?\sviewBox=\"[\d.-]+ [\d.-]+ ([\d.]+) ", content[:8192])
    rows = path.with_suffix(".csv")
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)  # without a header
    packed = packer.compress(rows.read_bytes()) + packer.flush() if rows.exists() else b""
    return {
        "anchor": anchor,
        "svg": svg,
        # Matplotlib's unit is the point: 72 to the inch, where CSS has 96 pixels.
        "width": round(float(width[1]) * 96 / 72) if width else 0,
        "packed": base64.b64encode(packed).decode() if len(packed) <= LARGE_TABLE_BYTES else "",
    }


def _models(study: Study, results: Path, datasets: dict[str, Record]) -> dict[Look, list[Layer]]:
    found = {}
    every = (factors for each in study.experiments.values() for factors in each.factors())
    for model, dataset in dict.fromkeys((one["model"], one["dataset"]) for one in every):
        record = datasets.get(dataset, {})
        if not {"input_shape", "classes"} <= record.keys():
            continue
        look = model, tuple(record["input_shape"]), record["classes"]
        files = f"{glob.escape(paths.initial_name(*look))}+seed=*.npz"
        for path in sorted((results / "initial").glob(files))[:1]:
            found[look] = weights.layers(path)
    return found


def _runs(study: Study, place: job_files.Place) -> dict[str, Record]:
    """Returns run -> record of its training on a machine, where there is one."""
    found = {run: paths.run_record(paths.run_folder(place.results, run)) for run in study.runs}
    return {run: _record(path, place.machine) for run, path in found.items() if path.exists()}


def _timings(study: Study, places: Iterable[job_files.Place]) -> list[Record]:
    found = {
        job.path: place.machine
        for experiment in study.experiments.values()
        for place in places
        for job in job_files.measure_jobs(experiment, place.results, place.recorded)
        if job.measure in TIMINGS
    }
    return [_record(path, machine) for path, machine in found.items() if path.exists()]


def _record(path: Path, machine: str) -> Record:
    """Returns a record under the name that its machine has in this study."""
    record = disk.read_json(path, "status")
    described = record.get("machine")
    described = described if isinstance(described, dict) else {}
    return {**record, "machine": {**described, "name": machine}}


def _missing_runs(study: Study, results: Path) -> dict[str, str]:
    """Returns run without a record -> what its job's log says, or that of its data."""
    found = {}
    for name, factors in study.runs.items():
        data = paths.dataset_folder(results, factors["dataset"]) / "record.json"
        record = paths.run_folder(results, name) / "record.json"
        if not record.exists():
            found[name] = _last_words(results, record, *([] if data.exists() else [data]))
    return found


def _missing_measures(
    table: states.Table, experiments: Iterable[ExperimentResults]
) -> dict[str, dict[str, str]]:
    """Returns measure -> finished run without its record, or sweep -> what the job's log says.

    Of a pair the first run stands for both. What waits for what is not here is not among them.
    """
    missing: dict[str, dict[str, str]] = {}
    for found in experiments:
        own = [row for row in found.rows if row.get("machine") in (None, table.study.machine)]
        finished = {row["run"] for row in own if row["status"] == records.FINISHED}
        for state in table.experiments[found.experiment.name]:
            job = state.job
            if job.measure != "train" and state.missing and finished.issuperset(job.runs):
                said = _last_words(table.results, job.path)
                missing.setdefault(job.measure, {})[job.subject] = said
    return missing


def _other_versions(table: states.Table) -> dict[tuple[str, str], list[job_files.Job]]:
    found: dict[tuple[str, str], list[job_files.Job]] = {}
    for path, made in table.other_versions().items():
        found.setdefault(made, []).append(table.every[path].job)
    return found


def _last_words(results: Path, *records_of_jobs: Path) -> str:
    """Returns the last line and the path of the jobs' first log; nothing where none has begun."""
    logs = (paths.log_path(results, record) for record in records_of_jobs)
    if (log := next((path for path in logs if path.exists()), None)) is None:
        return ""
    lines = map(str.strip, log.read_text(encoding="utf-8", errors="replace").split("\n"))
    last = [*filter(None, lines)][-1:] or ["nothing"]
    return f"{last[0][:_LAST_LINE]} ({log.relative_to(results.parent).as_posix()})"
