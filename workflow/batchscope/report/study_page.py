"""The page of a study: plan and inputs -> HTML. `build` lists its sections, a module for each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope.core import display
from batchscope.host import requirements
from batchscope.report import (
    claim_rows,
    data_section,
    experiment_section,
    files_section,
    page,
    published_rows,
    recommendation,
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


def build(study: Study, inputs: ReportInputs, folder: Path | str = "") -> tuple[str, str]:
    """Return the report as HTML, and its headline: a line with the first recommendation.

    Args:
        folder: Folder of the page; links to files are relative to it.

    Raises:
        UserError: If a table that is read now is missing or damaged.
    """
    tables = {name: results.tables for name, results in inputs.experiments.items()}
    levels = recommendation.chance_levels(study, inputs.states.results)
    cards = recommendation.cards(study, tables, inputs.config_name, levels)
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
        "files": files_section.build(study, inputs, folder),
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
