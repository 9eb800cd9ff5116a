"""The page of a study: plan and inputs -> HTML. `build` lists its sections."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from markupsafe import Markup

from batchscope.core import disk, display
from batchscope.host import requirements
from batchscope.report import (
    documents,
    experiment_section,
    page_figures,
    recommendation,
    rendering,
    report_inputs,
    runs_table,
    unfinished,
)
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.text import is_number, plain
from batchscope.store import records
from batchscope.study.names import split_token
from batchscope.study.plan import Study

Row = dict[str, Any]
_MAX_SKIPPED = 200  # The record of a data set lists all skipped files.


def write(
    study: Study, results: Path, config_path: Path | str, output: Path, partial: bool = False
) -> None:
    """Write a study's report, and a text file of the same name with its headline.

    Raises:
        UserError: If a table or a figure is missing and `partial` is False, or one is damaged.
    """
    inputs = report_inputs.read(study, results, config_path, partial)
    html, headline = build(inputs, output.parent)
    disk.write_text(output, html)
    disk.write_text(output.with_suffix(".txt"), headline + "\n")


def build(inputs: ReportInputs, folder: Path | str = "") -> tuple[str, str]:
    """Return the report as HTML, and its headline: a line with the first recommendation.

    Args:
        folder: Folder of the page; links to files are relative to it.
    """
    study = inputs.study
    tables = {name: results.tables for name, results in inputs.experiments.items()}
    cards = recommendation.cards(study, tables, inputs.config_name)
    experiments = [
        experiment_section.build(results, cards) for results in inputs.experiments.values()
    ]
    # The page begins with a recommendation, if there is one.
    experiments.sort(
        key=lambda view: (not any(card["best"] for card in view["cards"]), not view["cards"])
    )
    links = page_figures.number(experiments)
    counts = run_counts(inputs)
    sections = {
        "claims": documents.claims(inputs.claims, links),
        "published": documents.published_values(inputs, links),
        "runs": runs_table.build(inputs.rows),
        "unfinished": unfinished.build(inputs),
        "data": _data(inputs) if study.datasets else None,
        "files": _files(inputs, folder),
    }
    script = rendering.asset("report.js")
    html = rendering.render(
        "report.html.j2",
        study=study,
        cards=cards,
        scope=_scope(inputs),
        counts=counts,
        partial=any(
            group["kind"] == "measure" or group["name"] == records.MISSING
            for group in sections["unfinished"]["groups"]
        ),
        lacking=[requirement.title for requirement in inputs.states.waiting_jobs()],
        experiments=experiments,
        sections=sections,
        policy=rendering.policy(script),
        style=Markup("\n" + rendering.asset("report.css")),
        script=Markup(script),
    )
    headline = rendering.render(
        "headline.txt.j2", title=study.title, card=next(iter(cards), None), counts=counts
    )
    return html, headline.strip()


def run_counts(inputs: ReportInputs) -> Row:
    """Return the numbers of runs, by status, and of timings."""
    runs = runs_table.rows_by_run(inputs.rows)
    counts = Counter(dict.fromkeys(unfinished.STATUSES, 0))
    counts.update(row["status"] for row in runs.values())
    return {
        "runs": len(runs),
        "finished": counts[records.FINISHED],
        "parts": [
            requirements.label_count(status, count) for status, count in counts.items() if count
        ],
        "timings": len(inputs.timings),
    }


def _scope(inputs: ReportInputs) -> list[str]:
    """Return texts of the models and data sets, the processors, and the time of all trainings."""
    experiments = inputs.study.experiments.values()
    factors = [row for experiment in experiments for row in experiment.factors()]
    subjects = [
        display.short_list(sorted({split_token(row[name])[0] for row in factors}))
        for name in ("model", "dataset")
    ]
    machines = (record["machine"] for record in (*inputs.runs.values(), *inputs.timings))
    processors = list(filter(None, dict.fromkeys(map(processor_words, machines))))
    times = (record.get("contended_seconds") for record in inputs.runs.values())
    seconds = sum(filter(is_number, times))
    training = f"{display.duration(seconds)} of training" if seconds else ""
    scope = (" on ".join(filter(None, subjects)), display.short_list(processors), training)
    return list(filter(None, scope))


def processor_words(machine: Row) -> str:
    """Return the GPUs of a machine and its CPU with the number of usable cores."""
    gpus, cores = machine.get("gpu") or [], machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    cpu += display.aside(display.count(cores, "core")) if cpu and isinstance(cores, int) else ""
    return ", ".join(filter(None, [*dict.fromkeys(map(str, gpus)), cpu]))


def _data(inputs: ReportInputs) -> Row:
    """Return data sets, models with their numbers of weights, and machines."""
    models = {
        (row["model"], row["dataset"], int(float(row["parameters"])))
        for row in inputs.rows
        if row.get("parameters")
    }
    datasets = [_dataset(token, record) for token, record in inputs.datasets.items()]
    return {"datasets": datasets, "models": sorted(models), "machines": _machines(inputs)}


def _dataset(token: str, record: Row) -> Row:
    skipped, counts = record.get("skipped") or (), record.get("class_counts") or {}
    return {
        "name": split_token(token)[0],
        "token": token,
        "record": record,
        "balance": {split: (min(sizes), max(sizes)) for split, sizes in counts.items() if sizes},
        "skipped": skipped[:_MAX_SKIPPED],
        "skipped_count": record.get("skipped_count") or len(skipped),
        "warnings": list(records.data_warnings(token, record)),
    }


def _machines(inputs: ReportInputs) -> list[Row]:
    """Return machines with versions, and their numbers of runs and timings by device."""
    machines: dict[str, Row] = {}
    runs = [*inputs.runs.values(), *inputs.other_runs]
    for use, use_records in (("Runs", runs), ("Timings", inputs.timings)):
        for record in use_records:
            machine, versions = record["machine"], record.get("versions") or {}
            key = json.dumps([machine, versions], sort_keys=True)
            row = machines.setdefault(key, {"machine": machine, "versions": versions, "uses": {}})
            device, threads = plain(record.get("device")), plain(record.get("threads"))
            row["uses"].setdefault(use, Counter())[f"{device}, {threads} threads"] += 1
    return list(machines.values())


def _files(inputs: ReportInputs, folder: Path | str) -> Row:
    """Return how to repeat a study: links to its tables, its configuration, and commands."""
    study, name = inputs.study, inputs.config_name
    options = unfinished.snakemake_command(study, name, options="").removeprefix("snakemake")
    commands = {
        "The plan, with times": f"python workflow/run.py plan{options}",
        "The whole study": unfinished.snakemake_command(study, name),
        "On a SLURM cluster": unfinished.snakemake_command(study, name, options="--profile slurm"),
    }
    if run := next(iter([*study.runs, *study.commands]), None):
        record = f"results/runs/{run}/record.json"
        commands["A single run"] = unfinished.snakemake_command(study, name, record)
    return {
        "tables": [
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        "config_name": name,
        "config_text": inputs.config_text,
        "commands": commands,
    }
