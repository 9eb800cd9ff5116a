"""The page of a study: what its parts show, in order, as dicts for the template."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope import errors, wording
from batchscope.catalogue import own_columns, run_names
from batchscope.catalogue.figures import PRIMARY
from batchscope.host import absence
from batchscope.report import (
    claim_rows,
    decision,
    experiment_view,
    gaps,
    inline_svg,
    page,
    places,
    published_beside,
    runs_table,
)
from batchscope.report.content import Figure, Inputs
from batchscope.report.text import is_number, marked
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
    script = page.asset("report.js")
    cards = decision.cards(study, inputs.tables)
    experiments = [experiment_view.build(each, cards) for each in inputs.experiments.values()]
    # What recommends something stands at the top of the page.
    experiments.sort(key=lambda each: not any(card["best"] for card in each["cards"]))
    links = _add_figures(experiments, inputs)
    return page.render(
        "report.html.j2",
        study=study,
        inputs=inputs,
        title=study.title,
        cards=cards,
        lead=experiments[0]["blocks"][:1] if experiments else [],
        scope=_scope(inputs),
        counts=_counts(inputs),
        partial=_partial(inputs),
        experiments=experiments,
        ledger=claim_rows.ledger(claim_rows.build(inputs.claims, lambda *of: links.get(of))),
        beside=published_beside.build(study, inputs, links),
        table=table,
        files=[
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        gaps=gaps.find(study, inputs),
        datasets=[
            places.dataset(token, record, inputs.samples.get(token, ()))
            for token, record in inputs.datasets.items()
        ],
        models=places.models(inputs.models),
        machines=places.machines(inputs.made),
        commands=gaps.commands(study, inputs.config_name),
        policy=page.policy(script),
        style=Markup("\n" + page.asset("report.css") + rules),
        script=Markup(script),
    )


def headline(study: Study, inputs: Inputs) -> str:
    """Returns a report in one line: its first decision, and how many runs it has."""
    card = next(iter(decision.cards(study, inputs.tables)), None)
    given = {"title": study.title, "card": card, "counts": _counts(inputs)}
    return page.render("headline.txt.j2", **given).strip()


def _add_figures(experiments: list[dict[str, Any]], inputs: Inputs) -> Links:
    """Adds figures, numbered in the page's order; returns what each is called, and its address."""
    links: Links = {}
    for each in experiments:
        name, shown = each["plan"].name, [*each["answer"], *each["rest"]]
        together: dict[str, list[Figure]] = {}
        for figure in inputs.experiments[name].figures:
            if figure.name not in AS_TABLES:
                together.setdefault(figure.of or figure.name, []).append(figure)
        asked = {*each["plan"].primary}
        blocks = sorted(together.values(), key=lambda block: _place(block[0], asked))
        for figure in (figure for block in blocks for figure in block):
            number = len(links) + 1
            links[name, figure.name] = (f"Figure {number}", f"#figure-{number}")
        each["blocks"] = [[_figure(each, one, links, shown) for one in block] for block in blocks]
    for each in experiments:
        address = f"#equal-{each['plan'].name}"
        links |= {(each["plan"].name, figure): ("Table", address) for figure in AS_TABLES}
    return links


def _place(figure: Figure, asked: set[str]) -> int:
    """Returns a figure's rank: what decides, what is asked about, trainings, what says why."""
    if figure.name == PRIMARY:
        return 0
    return 1 if asked & {*figure.columns} else 3 if figure.category in WHY else 2


def _figure(
    experiment: dict[str, Any], figure: Figure, links: Links, trends: list[dict[str, Any]]
) -> dict[str, Any]:
    """Returns a figure with its number, and the one row of trends.csv that is of a column of it.

    Such a row is taken out of the trends, so that none is said twice.
    """
    of = experiment["plan"].name, figure.name
    own = [row for row in trends if row["column"] in figure.columns and row["budget"] == "end"]
    if alone := len({row["series"] for row in own}) == 1:
        trends.remove(own[0])
    with errors.reading(figure.path, "an SVG image", figure.path.parent):
        svg = inline_svg.read(figure.svg, "-".join(of)) if figure.svg else None
    return {
        "file": figure,
        "anchor": "-".join(of),
        "label": links[of][0],
        "id": links[of][1].removeprefix("#"),
        "title": figure.title.rstrip("."),
        "caption": marked(figure.caption),
        "svg": svg,
        "published": experiment["plan"].published.get(figure.name),
        "trend": own[0] if alone else None,
        "why": figure.category in WHY,
    }


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
        "timings": len(inputs.made.timings),
    }


def _partial(inputs: Inputs) -> bool:
    """Returns whether something is missing that could be made here."""
    missing = any(row["status"] == records.MISSING for row in inputs.rows)
    return missing or bool(inputs.missing.measures)


def _scope(inputs: Inputs) -> list[str]:
    """Returns models and data sets, the processors, and the time that trainings took."""
    made = inputs.made
    machines = [each.get("machine") for each in (*made.runs.values(), *made.timings)]
    names = dict.fromkeys(_processor(each) for each in machines if isinstance(each, dict))
    taken = [record.get("contended_seconds") for record in made.runs.values()]
    seconds = sum(each for each in taken if is_number(each))
    parts = [
        " on ".join(filter(None, [_named(inputs, "model"), _named(inputs, "dataset")])),
        wording.listed([*filter(None, names)][:_MOST_NAMED]),
        f"{wording.duration(seconds)} of training" if seconds else "",
    ]
    return [*filter(None, parts)]


def _named(inputs: Inputs, factor: str) -> str:
    sweeps = [sweep for of in inputs.experiments.values() for sweep in of.experiment.times.sweeps]
    names = {row[factor] for row in inputs.rows if row.get(factor)}
    names |= {run_names.split_token(str(sweep.factors[factor]))[0] for sweep in sweeps}
    noun = "model" if factor == "model" else "data set"
    few = len(names) <= _MOST_NAMED
    return wording.listed(sorted(names)) if few else wording.count(len(names), noun)


def _processor(machine: dict[str, Any]) -> str:
    """Returns the GPUs of a machine and its CPU with the cores that could be used."""
    gpus, cores = machine.get("gpu"), machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    cpu += f" ({wording.count(cores, 'core')})" if cpu and isinstance(cores, int) else ""
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    return ", ".join(filter(None, [*dict.fromkeys(map(str, gpus)), cpu]))
