"""What a report shows, read from the results folder."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import damage, disk
from batchscope.catalogue import weight_counts
from batchscope.catalogue.timings import TIMINGS
from batchscope.datasets import samples
from batchscope.errors import UserError
from batchscope.figures import LISTING, Tables
from batchscope.host.absence import Absence
from batchscope.report import claim_rows, runs_table
from batchscope.store import job_files, paths, records, states, taken
from batchscope.tables import claim_table, run_table

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

LARGE_SVG_BYTES = 1_000_000  # above this a smaller PNG is embedded instead
LARGE_TABLE_BYTES = 100_000  # deflated; a figure's data above this stay in their file alone
Look = tuple[str, tuple[int, ...], int]  # a model's token, shape of an example, classes
_LISTED = ("name", "title", "caption", "category", "columns", "of", "axis")
_LAST_LINE = 400  # most characters that are quoted of a log's last line


# Fields that are empty unless they are given.
_map = functools.partial(field, default_factory=dict)
_list = functools.partial(field, default_factory=list)


@dataclass(frozen=True)
class Figure:
    """One figure of an experiment, ready to embed.

    Attributes:
        caption: How to read it.
        columns: What it shows.
        of: The first of the figures that differ from it in their axis alone.
        path: Of the SVG; `svg` is empty where a smaller PNG stands in its place.
        source: `data:` address of that PNG.
        width: In CSS pixels; 0 if the image does not say.
        csv: The rows that it was drawn from.
    """

    name: str
    title: str
    caption: str
    category: str = ""
    columns: Sequence[str] = ()
    of: str = ""
    axis: str = ""
    path: Path = Path()
    svg: bytes = b""
    source: str = ""
    width: int = 0
    csv: bytes = b""

    @functools.cached_property
    def packed(self) -> str:
        """The rows, deflated without a header, in base64; none of what is too large for a page."""
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        found = packer.compress(self.csv) + packer.flush() if self.csv else b""
        return base64.b64encode(found).decode() if len(found) <= LARGE_TABLE_BYTES else ""


@dataclass(frozen=True)
class ExperimentResults:
    """What is there of one experiment."""

    experiment: Experiment
    rows: list[runs_table.Row]  # as `runs_table.complete` returns them
    tables: Tables = field(default_factory=Tables)  # empty before they are made
    figures: list[Figure] = _list()


@dataclass(frozen=True)
class Records:
    """Records of trainings and timings; a machine has the name that the study gives it."""

    runs: dict[str, dict[str, Any]] = _map()  # by run, on the study's own machine
    other_runs: list[dict[str, Any]] = _list()  # of the same runs, on other machines
    timings: list[dict[str, Any]] = _list()


@dataclass(frozen=True)
class MissingResults:
    """What is not there, with what the logs of its jobs say."""

    runs: dict[str, str] = _map()
    measures: dict[str, dict[str, str]] = _map()  # measure -> finished run, or sweep
    # Step and version that is not today's -> what it made.
    versions: dict[tuple[str, str], list[job_files.Job]] = _map()
    absent: dict[Absence, list[job_files.Job]] = _map()  # what waits for what is not here


@dataclass(frozen=True)
class Inputs:
    """Everything a report shows besides the plan."""

    config_name: str
    config_text: str  # as written
    experiments: dict[str, ExperimentResults]
    made: Records = Records()
    missing: MissingResults = MissingResults()
    datasets: dict[str, dict[str, Any]] = _map()  # token -> record
    samples: dict[str, list[samples.Sample]] = _map()  # by data set's token
    models: dict[Look, list[weight_counts.Summary]] = _map()  # layers, as far as they are known
    claims: list[claim_rows.Row] = _list()  # as in claims.csv
    files: list[Path] = _list()  # the tables that have rows, each experiment's after another
    taken: taken.Taken = field(default_factory=taken.Taken)
    partial: bool = False  # asked for with only a part of the results

    @property
    def rows(self) -> list[runs_table.Row]:
        """The rows of all experiments: a run that several share has one in each of them."""
        return [row for found in self.experiments.values() for row in found.rows]

    @property
    def tables(self) -> dict[str, Tables]:
        """The tables of each experiment."""
        return {name: found.tables for name, found in self.experiments.items()}


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
    stated = [folder / claim_table.FILE] if study.claims else []
    tables = [*(folder / name / run_table.RUNS for name in study.experiments), *stated]
    there = [path for path in tables if path.exists()]
    if not partial and (lacking := [path for path in tables if path not in there]):
        raise UserError(f"{lacking[0]}: missing; run snakemake to make it.")
    experiments = {
        name: _experiment(study, name, folder / name, results, partial)
        for name in study.experiments
    }
    table = states.Table(study, results)
    here, *others = job_files.places(study, results)
    runs, timings = _read_runs(study, here), _read_timings(study, results)
    own_timings = [each for each in timings if each["machine"]["name"] == here.machine]
    datasets = {
        token: record
        for token in study.datasets
        if (record := records.data_record(results, token)) is not None
    }
    return Inputs(
        config_name=_nearest(config_path),
        config_text=Path(config_path).read_text(encoding="utf-8"),
        experiments=experiments,
        made=Records(
            runs=runs,
            other_runs=[run for place in others for run in _read_runs(study, place).values()],
            timings=timings,
        ),
        missing=MissingResults(
            runs=_missing_runs(study, results),
            measures=_missing_measures(table, experiments.values()),
            versions=_other_versions(table),
            absent=table.absent(),
        ),
        datasets=datasets,
        samples={
            token: samples.few(records.dataset_folder(results, token), record)
            for token, record in datasets.items()
        },
        models=_models(study, results, datasets),
        claims=[row for path in stated if path in there for row in claim_rows.read(path)],
        files=[*_filled(folder)],
        taken=taken.find(table, runs, own_timings),
        partial=partial,
    )


def _experiment(
    study: Study, name: str, folder: Path, results: Path, partial: bool
) -> ExperimentResults:
    path = folder / run_table.RUNS
    rows = disk.read_rows(path, "run", "status") if path.exists() else []
    tables = Tables(folder if path.exists() else None)
    return ExperimentResults(
        study.experiments[name],
        runs_table.complete(study, name, runs_table.evaluated(rows, tables.trajectories)),
        tables,
        read_figures(folder / "figures", partial),
    )


def _filled(folder: Path) -> Iterator[Path]:
    """Yields the tables of a study that have more than their head."""
    for path in [*sorted(folder.glob("*.csv")), *sorted(folder.glob("*/*.csv"))]:
        with path.open(encoding="utf-8") as file:
            if next(file, "") and next(file, ""):
                yield path


def _nearest(path: Path | str) -> str:
    """Returns a path relative to the working folder where it lies in it."""
    path = Path(path)
    here = Path.cwd()
    inside = path.is_absolute() and path.is_relative_to(here)
    return (path.relative_to(here) if inside else Path(os.path.normpath(path))).as_posix()


def read_figures(folder: Path, partial: bool) -> list[Figure]:
    """Reads the figures that a folder lists."""
    if partial and not (folder / LISTING).exists():
        return []
    with damage.reading(folder / LISTING, "a list of figures", folder):
        return [_figure(folder, entry) for entry in listed(folder)]


def listed(folder: Path) -> list[dict[str, Any]]:
    """Reads what a folder lists of its figures."""
    with damage.reading(folder / LISTING, "a list of figures", folder):
        return json.loads((folder / LISTING).read_text(encoding="utf-8"))


def _figure(folder: Path, entry: dict[str, Any]) -> Figure:
    path = folder / f"{entry['name']}.svg"
    with damage.reading(path, "an SVG image", folder):
        svg = path.read_bytes()
        if not svg.rstrip().endswith(b"</svg>"):
            raise ValueError("it has no end")
    width = re.search(rb"<svg[^>]*?\sviewBox=\"[\d.-]+ [\d.-]+ ([\d.]+) ", svg[:8192])
    data, png, source = path.with_suffix(".csv"), path.with_suffix(".png"), ""
    if len(svg) > LARGE_SVG_BYTES and png.exists() and png.stat().st_size < len(svg):
        svg, source = b"", f"data:image/png;base64,{base64.b64encode(png.read_bytes()).decode()}"
    return Figure(
        **{name: entry[name] for name in _LISTED if name in entry},
        path=path,
        svg=svg,
        source=source,
        # Matplotlib's unit is the point: 72 to the inch, where CSS has 96 pixels.
        width=round(float(width[1]) * 96 / 72) if width else 0,
        csv=data.read_bytes() if data.exists() else b"",
    )


def _models(
    study: Study, results: Path, datasets: dict[str, dict[str, Any]]
) -> dict[Look, list[weight_counts.Summary]]:
    every = [each.factors() for each in study.experiments.values()]
    pairs = dict.fromkeys((one["model"], one["dataset"]) for one in chain.from_iterable(every))
    found = {}
    for model, dataset in pairs:
        record = datasets.get(dataset, {})
        if not {"input_shape", "classes"} <= record.keys():
            continue
        look = model, tuple(record["input_shape"]), record["classes"]
        path = records.layers_path(results, *look)
        layers = weight_counts.layers(*look)
        if layers is None and path.exists():
            stored = disk.read_json(path, "layers")["layers"]
            layers = [weight_counts.Summary(*each) for each in stored]
        if layers:
            found[look] = layers
    return found


def _read_runs(study: Study, place: job_files.Place) -> dict[str, dict[str, Any]]:
    """Returns run -> record of its training on a machine, where there is one."""
    paths = {run: records.run_folder(place.results, run) / "record.json" for run in study.runs}
    return {
        run: _of_machine(disk.read_json(path, "status"), place.machine)
        for run, path in paths.items()
        if path.exists()
    }


def _read_timings(study: Study, results: Path) -> list[dict[str, Any]]:
    found: dict[Path, str] = {}
    for experiment in study.experiments.values():
        for place in job_files.places(study, results):
            for job in job_files.measure_jobs(experiment, place.results, place.recorded):
                if job.measure in TIMINGS:
                    found[job.path] = place.machine
    return [
        _of_machine(disk.read_json(path, "status"), machine)
        for path, machine in found.items()
        if path.exists()
    ]


def _of_machine(record: dict[str, Any], machine: str) -> dict[str, Any]:
    """Returns a record under the name that the machine has in this study."""
    described = record.get("machine")
    described = described if isinstance(described, dict) else {}
    return {**record, "machine": {**described, "name": machine}}


def _missing_runs(study: Study, results: Path) -> dict[str, str]:
    """Returns run without a record -> what its job's log says, or that of its data."""
    found = {}
    for name, factors in study.runs.items():
        data = records.dataset_folder(results, factors["dataset"]) / "record.json"
        record = records.run_folder(results, name) / "record.json"
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
    for record in records_of_jobs:
        log = paths.log_path(results, record)
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            stripped = [line.strip() for line in lines if line.strip()] or ["nothing"]
            return f"{stripped[-1][:_LAST_LINE]} ({log.relative_to(results.parent).as_posix()})"
    return ""
