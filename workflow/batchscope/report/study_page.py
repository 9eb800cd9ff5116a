"""The page of a study: the context of its template, section by section."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope import wording
from batchscope.host import requirements
from batchscope.report import (
    claim_rows,
    data_section,
    decision,
    experiment_view,
    page,
    published_rows,
    runs_table,
    unfinished,
)
from batchscope.report.content import Inputs
from batchscope.report.published_rows import Links
from batchscope.report.text import is_number
from batchscope.store import records
from batchscope.study.budget_kinds import END
from batchscope.study.figures import LEAD
from batchscope.study.names import split_token

if TYPE_CHECKING:
    from batchscope.study.plan import Study

WHY = ("Weights", "Gradients", "Sharpness", "Landscape")  # categories, which come last
_MOST_NAMED = 3
Row = dict[str, Any]


def build(study: Study, inputs: Inputs, folder: Path | str = "") -> str:
    """Return the report as HTML; `page.render` escapes every text.

    Args:
        folder: Folder of the page; links to files are relative to it.

    Raises:
        UserError: If a table that is read now is missing or damaged.
    """
    script, cards = page.asset("report.js"), _cards(study, inputs)
    groups = unfinished.find(study, inputs)
    experiments = [experiment_view.build(results, cards) for results in inputs.experiments.values()]
    # The page begins with a recommendation, if there is one.
    experiments.sort(
        key=lambda view: (not any(card["best"] for card in view["cards"]), not view["cards"])
    )
    links = _number_figures(experiments)
    claims = (
        claim_rows.shown(row, links.get((row["experiment"], row["figure"])))
        for row in inputs.claims
    )
    missing = any(row["status"] == records.MISSING for row in inputs.rows)
    return page.render(
        "report.html.j2",
        study=study,
        inputs=inputs,
        title=study.title,
        cards=cards,
        guess=decision.first_guess(study, cards),
        scope=_scope(inputs),
        counts=counts(inputs),
        partial=missing or any(group["kind"] in ("measure", "timing") for group in groups),
        experiments=experiments,
        documents=claim_rows.by_document(claims),
        beside=published_rows.build(study, inputs, links),
        table=runs_table.build(inputs.rows, study.metrics),
        files=[
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        unfinished=groups,
        absent=[*inputs.states.absent()],
        datasets=[data_section.dataset(inputs, token) for token in inputs.datasets],
        machines=data_section.machines(inputs),
        commands=unfinished.commands(study, inputs.config_name),
        policy=page.policy(script),
        style=Markup("\n" + page.asset("report.css")),
        script=Markup(script),
    )


def headline(study: Study, inputs: Inputs) -> str:
    """Return the first recommendation and the number of runs, in a line."""
    card = next(iter(_cards(study, inputs)), None)
    values = {"title": study.title, "card": card, "counts": counts(inputs)}
    return page.render("headline.txt.j2", **values).strip()


def _cards(study: Study, inputs: Inputs) -> list[Row]:
    tables = {name: each.tables for name, each in inputs.experiments.items()}
    levels = decision.chance_levels(study, inputs.states.results)
    return decision.cards(study, tables, inputs.config_name, levels)


def _number_figures(experiments: list[Row]) -> Links:
    """Sort figures into parts, number them in the page's order, and return labels and addresses.

    A figure takes the one row of trends.csv of its columns, which then leaves the trends of its
    experiment: the page states each number once.
    """
    links: Links = {}
    for view in experiments:
        plan, trends = view["plan"], (view["answer"], view["rest"])
        view |= _parts(view["figures"], [row["outcome"] for row in view["answer"]], view["cards"])
        # The figures of the first recommendation are at the top of the page.
        at_top = view is experiments[0] and view["cards"]
        order = ("lead", "shown") if at_top else ("shown", "lead")
        for figure in chain.from_iterable(
            chain.from_iterable(view[part] for part in (*order, "more", "why"))
        ):
            rows = [
                row
                for row in chain(*trends)
                if row["outcome"] in figure["columns"] and row["budget"] == END
            ]
            alone = len({row["series"] for row in rows}) == 1
            for part in trends if alone else ():
                part[:] = [row for row in part if row is not rows[0]]
            number, name = len(links) + 1, figure["name"]
            links[plan.name, name] = f"Figure {number}", f"#figure-{number}"
            figure |= {"label": f"Figure {number}", "id": f"figure-{number}"}
            figure |= {"title": figure["title"].rstrip("."), "trend": rows[0] if alone else None}
            figure |= {"published": plan.keys.published.get(name)}
    return links


def _parts(figures: list[Row], answers: list[str], decided: Any) -> dict[str, list[list[Row]]]:
    """Return figures as blocks by their part of the page, the variants of a figure in one block.

    Parts are `lead` (the recommendation), `shown` (the outcomes of the answer in their order, or
    else the first figure), `more`, and `why`.
    """
    blocks: dict[str, list[Row]] = {}
    for figure in figures:
        blocks.setdefault(figure["of"] or figure["name"], []).append({**figure})
    parts: dict[str, list[list[Row]]] = {"lead": [], "shown": [], "more": [], "why": []}
    for name, block in blocks.items():
        answered = {*answers} & {*block[0]["columns"]}
        other = "why" if block[0]["category"] in WHY else "more"
        parts["lead" if name in LEAD else "shown" if answered else other].append(block)
    parts["lead"].sort(key=lambda block: LEAD.index(block[0]["name"]))
    parts["shown"].sort(
        key=lambda block: min(map(answers.index, {*answers} & {*block[0]["columns"]}))
    )
    if not (decided or parts["lead"] or parts["shown"]):
        parts["shown"] = [parts[name].pop(0) for name in ("more", "why") if parts[name]][:1]
    return parts


def counts(inputs: Inputs) -> Row:
    """Return the numbers of runs, by status, and of timings."""
    runs = runs_table.distinct(inputs.rows)
    by_status = Counter(row["status"] for row in runs.values())
    order = dict.fromkeys([*unfinished.STATUSES, *by_status])
    return {
        "runs": len(runs),
        "finished": by_status[records.FINISHED],
        "parts": [
            requirements.label_count(word, by_status[word]) for word in order if by_status[word]
        ],
        "timings": len(inputs.timings),
    }


def _scope(inputs: Inputs) -> list[str]:
    """Return models and data sets, the processors, and the time that trainings took."""
    sweeps = [sweep for of in inputs.experiments.values() for sweep in of.experiment.sweeps]
    subjects = []
    for factor, noun in (("model", "model"), ("dataset", "data set")):
        names = {row[factor] for row in inputs.rows if row.get(factor)}
        names |= {split_token(str(sweep.factors[factor]))[0] for sweep in sweeps}
        few = len(names) <= _MOST_NAMED
        subjects.append(wording.listed(sorted(names)) if few else wording.count(len(names), noun))
    made = (record["machine"] for record in (*inputs.runs.values(), *inputs.timings))
    machines = list(filter(None, dict.fromkeys(map(data_section.processor, made))))
    times = (record.get("contended_seconds") for record in inputs.runs.values())
    seconds = sum(filter(is_number, times))
    training = f"{wording.duration(seconds)} of training" if seconds else ""
    scope = (" on ".join(filter(None, subjects)), wording.listed(machines[:_MOST_NAMED]), training)
    return list(filter(None, scope))
