"""The page of a study: what its parts show, in order, as dicts for the template."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope import wording
from batchscope.catalogue import own_columns, run_names
from batchscope.host import absence
from batchscope.report import (
    claim_rows,
    decision,
    experiment_view,
    figure_view,
    gaps,
    page,
    places,
    published_beside,
    runs_table,
)
from batchscope.report.content import Inputs
from batchscope.report.text import is_number
from batchscope.store import records
from batchscope.store.status import waiting

if TYPE_CHECKING:
    from batchscope.study.plan import Study

_MOST_NAMED = 3


def build(study: Study, inputs: Inputs, folder: Path | str = "") -> str:
    """Returns the report as HTML; `page.render` escapes every text.

    Args:
        folder: Where the page will lie, from which its links to files lead.

    Raises:
        UserError: If a table that is read now is missing or damaged.
    """
    table, rules = runs_table.build(inputs.rows)
    script = page.asset("report.js")
    cards = decision.cards(study, inputs.tables)
    experiments = [experiment_view.build(each, cards) for each in inputs.experiments.values()]
    links = _add_figures(experiments, inputs)
    lead = experiments[0]["blocks"].pop(0) if experiments and experiments[0]["blocks"] else None
    for each in experiments:
        each["why"] = [block for block in each["blocks"][1:] if _explains(block)]
        each["more"] = [block for block in each["blocks"][1:] if not _explains(block)]
    stated = claim_rows.build(inputs.claims, lambda *place: links.get(place))
    return page.render(
        "report.html.j2",
        title=study.title,
        cards=cards,
        scope=_scope(inputs),
        statuses=_statuses(inputs),
        taken=_taken(inputs),
        notes=_notes(study, inputs),
        warnings=_warnings(study, inputs),
        experiments=experiments,
        lead=lead,
        ledger=claim_rows.ledger(stated),
        beside=published_beside.build(study, inputs, links),
        table=table,
        files=[(path.name, path.parent.name, _link(path, folder)) for path in inputs.files],
        gaps=gaps.find(study, inputs),
        datasets=[
            places.dataset(token, record, inputs.samples.get(token, ()))
            for token, record in inputs.datasets.items()
        ],
        models=places.models(inputs.models),
        machines=places.machines(inputs.made),
        config_name=inputs.config_name,
        config_text=inputs.config_text,
        commands=gaps.commands(study, inputs.config_name),
        trained=bool(study.runs),
        here=bool(study.datasets),
        policy=page.policy(script),
        style=Markup("\n" + page.asset("report.css") + rules),
        script=Markup(script),
    )


def headline(study: Study, inputs: Inputs) -> str:
    """Returns a report in one line: its first decision, and how many runs it has."""
    cards = decision.cards(study, inputs.tables)
    given = {"card": next(iter(cards), None), "statuses": _statuses(inputs)}
    return page.render("headline.txt.j2", title=study.title, **given).strip()


def _add_figures(
    experiments: list[dict[str, Any]], inputs: Inputs
) -> dict[tuple[str, str], tuple[str, str]]:
    """Adds figures, numbered in the page's order; returns what each is called, and its address."""
    # The decision at the top of the page is that of the first experiment that has one.
    experiments.sort(key=lambda each: not any(card["best"] for card in each["cards"]))
    links: dict[tuple[str, str], tuple[str, str]] = {}
    for each in experiments:
        name = each["plan"].name
        found = inputs.experiments[name]
        trends = [*each["answer"], *each["rest"]]
        each["blocks"] = []
        for block in figure_view.shown(found.figures):
            views = []
            for figure in block:
                number = len(links) + 1
                links[name, figure.name] = (f"Figure {number}", f"#figure-{number}")
                views.append(figure_view.build(number, found.experiment, figure, trends))
            each["blocks"].append(views)
        for figure in figure_view.AS_TABLES:
            links.setdefault((name, figure), ("Table", f"#equal-{name}"))
    return links


def _explains(block: list[dict[str, Any]]) -> bool:
    return block[0]["category"] in figure_view.WHY


def _link(path: Path, folder: Path | str) -> str:
    return Path(os.path.relpath(path, folder or path.parent)).as_posix()


def _statuses(inputs: Inputs) -> dict[str, Any]:
    """Returns how many runs, timings and experiments there are, and what became of the runs."""
    runs = runs_table.distinct(inputs.rows)
    counts = Counter(row["status"] for row in runs.values())
    known = [word for word in gaps.STATUSES if counts[word]]
    return {
        "runs": len(runs),
        "parts": [absence.counted(word, counts[word]) for word in dict.fromkeys([*known, *counts])],
        "finished": counts[records.FINISHED],
        "elsewhere": sum(row.get("machine") == own_columns.ELSEWHERE for row in runs.values()),
        "timings": len(inputs.made.timings),
        "experiments": len(inputs.experiments),
    }


def _notes(study: Study, inputs: Inputs) -> list[str]:
    """Returns the names of what a reader must know beforehand, which the template words."""
    statuses = {row["status"] for row in inputs.rows}
    lacking = records.MISSING in statuses or bool(inputs.missing.measures)
    whole = inputs.partial and not lacking and not inputs.missing.absent
    notes = {"reduced": study.reduced, "partial": lacking, "whole": whole}
    return [name for name, holds in notes.items() if holds]


def _warnings(study: Study, inputs: Inputs) -> list[str]:
    absent = inputs.missing.absent.items()
    return [
        *study.warnings,
        *(f"{what.title}; left out: {waiting(jobs)}." for what, jobs in absent),
    ]


def _scope(inputs: Inputs) -> list[str]:
    """Returns model and data, and the processors of the machines."""
    models, data = _named(inputs, "model"), _named(inputs, "dataset")
    parts = [f"{models} on {data}" if models and data else models or data, _machine(inputs)]
    taken = [record.get("contended_seconds") for record in inputs.made.runs.values()]
    seconds = sum(each for each in taken if is_number(each))
    return [
        *filter(None, parts),
        *([f"{wording.duration(seconds)} of training"] if seconds else []),
    ]


def _named(inputs: Inputs, factor: str) -> str:
    found = {row[factor] for row in inputs.rows if row.get(factor)}
    for each in inputs.experiments.values():
        for sweep in each.experiment.times.sweeps:
            found.add(run_names.split_token(str(sweep.factors[factor]))[0])
    noun = "model" if factor == "model" else "data set"
    names = sorted(found)
    return wording.listed(names) if len(names) <= _MOST_NAMED else wording.count(len(names), noun)


def _machine(inputs: Inputs) -> str:
    """Returns the processors of the machines that trained or timed, GPUs first."""
    made = inputs.made
    every = [*made.runs.values(), *made.other_runs, *made.timings]
    machines = [found for record in every if isinstance(found := record.get("machine"), dict)]
    names = dict.fromkeys(map(_processor, machines))
    return wording.listed(list(filter(None, names))[:_MOST_NAMED])


def _processor(machine: dict[str, Any]) -> str:
    gpus = machine.get("gpu")
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    cores = machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    processor = f"{cpu} ({wording.count(cores, 'core')})" if cpu and isinstance(cores, int) else cpu
    return ", ".join(filter(None, [*dict.fromkeys(map(str, filter(None, gpus))), processor]))


def _taken(inputs: Inputs) -> dict[str, str]:
    """Returns what the study took, as texts; what is not known is left out."""
    found = inputs.taken
    hours = {
        "training": found.training,
        "measures": found.measures,
        "timings": found.timings * found.cores,
        "gpu": found.gpu,
    }
    shown = {name: wording.number(each / 3600, 2) for name, each in hours.items() if each}
    shown |= {"alone": wording.duration(found.timings)} if found.timings else {}
    shown |= {"bytes": wording.size(found.run_bytes)} if found.run_bytes else {}
    return shown | ({"unknown": waiting(found.unknown)} if shown and found.unknown else {})
