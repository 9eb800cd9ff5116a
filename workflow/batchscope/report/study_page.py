"""The page of a study: plan and inputs -> HTML. `build` lists its sections, a module for each."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope.core import disk, display, project_files
from batchscope.host import requirements
from batchscope.report import (
    claim_rows,
    data_section,
    experiment_section,
    page,
    published_rows,
    recommendation,
    report_inputs,
    runs_table,
    unfinished,
)
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.text import is_number
from batchscope.store import records
from batchscope.study.names import split_token

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Row = dict[str, Any]


def write(
    study: Study, results: Path, config_path: Path | str, output: Path, partial: bool = False
) -> None:
    """Write a study's report, and a text file of the same name with its headline.

    Raises:
        UserError: If a table or a figure is missing and `partial` is False, or one is damaged.
    """
    inputs = report_inputs.read(study, results, config_path, partial)
    html, headline = build(study, inputs, output.parent)
    disk.write_text(output, html)
    disk.write_text(output.with_suffix(".txt"), headline + "\n")


def build(study: Study, inputs: ReportInputs, folder: Path | str = "") -> tuple[str, str]:
    """Return the report as HTML, and its headline: a line with the first recommendation.

    Args:
        folder: Folder of the page; links to files are relative to it.
    """
    tables = {name: results.tables for name, results in inputs.experiments.items()}
    cards = recommendation.cards(study, tables, inputs.config_name)
    experiments = [
        experiment_section.build(results, cards) for results in inputs.experiments.values()
    ]
    # The page begins with a recommendation, if there is one.
    experiments.sort(
        key=lambda view: (not any(card["best"] for card in view["cards"]), not view["cards"])
    )
    links = experiment_section.number_figures(experiments)
    counts = run_counts(inputs)
    sections = {
        "claims": claim_rows.build(inputs.claims, links),
        "published": published_rows.build(study, inputs, links),
        "runs": runs_table.build(inputs.rows),
        "unfinished": unfinished.build(study, inputs),
        "data": data_section.build(inputs) if study.datasets else None,
        "files": _files(study, inputs, folder),
    }
    script = page.asset("report.js")
    html = page.render(
        "report.html.j2",
        study=study,
        cards=cards,
        scope=_scope(study, inputs),
        counts=counts,
        partial=any(
            group["kind"] == "measure" or group["name"] == records.MISSING
            for group in sections["unfinished"]["groups"]
        ),
        lacking=[requirement.title for requirement in inputs.states.waiting_jobs()],
        experiments=experiments,
        sections=sections,
        policy=page.policy(script),
        style=Markup("\n" + page.asset("report.css")),
        script=Markup(script),
    )
    headline = page.render(
        "headline.txt.j2", title=study.title, card=next(iter(cards), None), counts=counts
    )
    return html, headline.strip()


def run_counts(inputs: ReportInputs) -> Row:
    """Return the numbers of runs, by status, and of timings."""
    runs = runs_table.rows_by_run(inputs.rows)
    by_status = Counter(row["status"] for row in runs.values())
    statuses = dict.fromkeys([*unfinished.STATUSES, *by_status])
    return {
        "runs": len(runs),
        "finished": by_status[records.FINISHED],
        "parts": [
            requirements.label_count(status, by_status[status])
            for status in statuses
            if by_status[status]
        ],
        "timings": len(inputs.timings),
    }


def _files(study: Study, inputs: ReportInputs, folder: Path | str) -> Row:
    """Return how to repeat a study: links to its tables, its configuration, and commands."""
    name = inputs.config_name
    config = "" if name == project_files.DEFAULT_CONFIG else f" --configfile {shlex.quote(name)}"
    commands = {
        "The plan, with times and disk space": f"python workflow/run.py plan{config}",
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


def _scope(study: Study, inputs: ReportInputs) -> list[str]:
    """Return texts of the models and data sets, the processors, and the time of all trainings."""
    factors = [row for experiment in study.experiments.values() for row in experiment.factors()]
    subjects = [
        display.short_list(sorted({split_token(row[name])[0] for row in factors}))
        for name in ("model", "dataset")
    ]
    machines = (record["machine"] for record in (*inputs.runs.values(), *inputs.timings))
    processors = list(filter(None, dict.fromkeys(map(data_section.processor_words, machines))))
    times = (record.get("contended_seconds") for record in inputs.runs.values())
    seconds = sum(filter(is_number, times))
    training = f"{display.duration(seconds)} of training" if seconds else ""
    scope = (" on ".join(filter(None, subjects)), display.short_list(processors), training)
    return list(filter(None, scope))
