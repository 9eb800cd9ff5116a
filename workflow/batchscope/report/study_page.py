"""The page of a study: what its parts show, in order, as dicts for the template."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope import wording
from batchscope.catalogue import own_columns, run_names
from batchscope.catalogue.figures import PRIMARY
from batchscope.host import absence
from batchscope.report import (
    claim_rows,
    decision,
    experiment_view,
    gaps,
    page,
    places,
    published_beside,
    runs_table,
)
from batchscope.report.content import Inputs
from batchscope.report.text import is_number
from batchscope.store import records

if TYPE_CHECKING:
    from batchscope.study.plan import Study

# Figures whose rows the page has as tables of text.
AS_TABLES = ("verdict_matrix", "advice", "batch_size_limits")
WHY = ("Weights", "Gradients", "Sharpness", "Landscape")  # categories, which come last
_MOST_NAMED = 3
Links = dict[tuple[str, str], tuple[str, str]]  # experiment and figure -> label and address


def build(study: Study, inputs: Inputs, folder: Path | str = "") -> str:
    """Returns the report as HTML; `page.render` escapes every text.

    Args:
        folder: Where the page will lie, from which its links to files lead.

    Raises:
        UserError: If a table that is read now is missing or damaged.
    """
    table, rules = runs_table.build(inputs.rows)
    script, cards = page.asset("report.js"), _cards(study, inputs)
    experiments = [experiment_view.build(each, cards) for each in inputs.experiments.values()]
    # What recommends something stands at the top of the page.
    experiments.sort(key=lambda each: not any(card["best"] for card in each["cards"]))
    links = _number_figures(experiments)
    missing = any(row["status"] == records.MISSING for row in inputs.rows)
    return page.render(
        "report.html.j2",
        study=study,
        inputs=inputs,
        title=study.title,
        cards=cards,
        lead=experiments[0]["blocks"][:1] if experiments else [],
        scope=_scope(inputs),
        counts=_counts(inputs),
        partial=missing or bool(inputs.missing_measures),  # what could be made here
        experiments=experiments,
        ledger=claim_rows.ledger(
            claim_rows.shown(row, links.get((row["experiment"], row["figure"])))
            for row in inputs.claims
        ),
        beside=published_beside.build(study, inputs, links),
        table=table,
        files=[
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        gaps=gaps.find(study, inputs),
        datasets=places.datasets(inputs),
        machines=places.machines(inputs),
        commands=gaps.commands(study, inputs.config_name),
        policy=page.policy(script),
        style=page.style(rules),
        script=Markup(script),
    )


def headline(study: Study, inputs: Inputs) -> str:
    """Returns a report in one line: its first decision, and how many runs it has."""
    card = next(iter(_cards(study, inputs)), None)
    given = {"title": study.title, "card": card, "counts": _counts(inputs)}
    return page.render("headline.txt.j2", **given).strip()


def _cards(study: Study, inputs: Inputs) -> list[dict[str, Any]]:
    return decision.cards(study, {name: each.tables for name, each in inputs.experiments.items()})


def _number_figures(experiments: list[dict[str, Any]]) -> Links:
    """Puts figures into blocks, numbered in the page's order; returns their labels and addresses.

    A figure takes the one row of trends.csv that is of a column of it, which is then among its
    experiment's trends no more: none is said twice.
    """
    links: Links = {}
    numbers = count(1)
    for each in experiments:
        plan, trends = each["plan"], [*each["answer"], *each["rest"]]
        links |= {(plan.name, name): ("Table", f"#equal-{plan.name}") for name in AS_TABLES}
        blocks: dict[str, list[dict[str, Any]]] = {}
        for figure in each["figures"]:
            if figure["name"] not in AS_TABLES:
                blocks.setdefault(figure["of"] or figure["name"], []).append({**figure})
        asked = {*plan.primary}
        each["blocks"] = sorted(blocks.values(), key=lambda block: _rank(block[0], asked))
        for figure, number in zip(chain.from_iterable(each["blocks"]), numbers, strict=False):
            own = [row for row in trends if row["outcome"] in figure["columns"]]
            own = [row for row in own if row["budget"] == "end"]
            alone = len({row["series"] for row in own}) == 1
            if alone:
                trends.remove(own[0])
            label, name = f"Figure {number}", figure["name"]
            links[plan.name, name] = (label, f"#figure-{number}")
            figure |= {"label": label, "id": f"figure-{number}", "why": figure["category"] in WHY}
            figure |= {"title": figure["title"].rstrip("."), "trend": own[0] if alone else None}
            figure |= {"published": plan.published.get(name)}
    return links


def _rank(figure: dict[str, Any], asked: set[str]) -> int:
    """Returns a figure's rank: what decides, what is asked about, trainings, what says why."""
    if figure["name"] == PRIMARY:
        return 0
    return 1 if asked & {*figure["columns"]} else 3 if figure["category"] in WHY else 2


def _counts(inputs: Inputs) -> dict[str, Any]:
    """Returns how many runs and timings there are, and what became of the runs."""
    runs = runs_table.distinct(inputs.rows)
    found = Counter(row["status"] for row in runs.values())
    known = [word for word in gaps.STATUSES if found[word]]
    return {
        "runs": len(runs),
        "finished": found[records.FINISHED],
        "parts": [absence.counted(word, found[word]) for word in dict.fromkeys([*known, *found])],
        "elsewhere": sum(row.get("machine") == own_columns.ELSEWHERE for row in runs.values()),
        "timings": len(inputs.timings),
    }


def _scope(inputs: Inputs) -> list[str]:
    """Returns models and data sets, the processors, and the time that trainings took."""
    sweeps = [sweep for of in inputs.experiments.values() for sweep in of.experiment.times.sweeps]
    named = []
    for factor, noun in (("model", "model"), ("dataset", "data set")):
        names = {row[factor] for row in inputs.rows if row.get(factor)}
        names |= {run_names.split_token(str(sweep.factors[factor]))[0] for sweep in sweeps}
        few = len(names) <= _MOST_NAMED
        named.append(wording.listed(sorted(names)) if few else wording.count(len(names), noun))
    made = [each.get("machine") for each in (*inputs.runs.values(), *inputs.timings)]
    machines = dict.fromkeys(_processor(each) for each in made if isinstance(each, dict))
    taken = [record.get("contended_seconds") for record in inputs.runs.values()]
    seconds = sum(each for each in taken if is_number(each))
    parts = [
        " on ".join(filter(None, named)),
        wording.listed([*filter(None, machines)][:_MOST_NAMED]),
        f"{wording.duration(seconds)} of training" if seconds else "",
    ]
    return [*filter(None, parts)]


def _processor(machine: dict[str, Any]) -> str:
    """Returns the GPUs of a machine and its CPU with the cores that could be used."""
    gpus, cores = machine.get("gpu"), machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    cpu += f" ({wording.count(cores, 'core')})" if cpu and isinstance(cores, int) else ""
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    return ", ".join(filter(None, [*dict.fromkeys(map(str, gpus)), cpu]))
