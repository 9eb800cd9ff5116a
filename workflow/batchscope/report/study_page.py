"""The page of a study: what its parts show, in order, as dicts for the template."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
from markupsafe import Markup

from batchscope import wording
from batchscope.host import requirements
from batchscope.report import (
    claim_rows,
    decision,
    experiment_view,
    gaps,
    page,
    runs_table,
)
from batchscope.report.content import Inputs
from batchscope.report.text import format_interval, is_number, plain
from batchscope.store import records
from batchscope.study import columns, published_numbers, tasks
from batchscope.study.figures import LEAD
from batchscope.study.names import split_token

if TYPE_CHECKING:
    from batchscope.study.plan import Study

WHY = ("Weights", "Gradients", "Sharpness", "Landscape")  # categories, which come last
_MOST_NAMED = 3
_MANY_CLASSES = 40  # of more, the smallest and the largest are given
_SKIPPED_SHOWN = 200  # more are in the data set's record
Row = dict[str, Any]
Links = dict[tuple[str, str], tuple[str, str]]  # experiment and figure -> label and address


def build(study: Study, inputs: Inputs, folder: Path | str = "") -> str:
    """Returns the report as HTML; `page.render` escapes every text.

    Args:
        folder: Where the page will lie, from which its links to files lead.

    Raises:
        UserError: If a table that is read now is missing or damaged.
    """
    table, rules = runs_table.build(inputs.rows, study.metrics)
    script, cards, found = page.asset("report.js"), _cards(study, inputs), gaps.find(study, inputs)
    experiments = [
        experiment_view.build(results, cards, _stated(study, name))
        for name, results in inputs.experiments.items()
    ]
    # The page begins with a recommendation, if there is one.
    experiments.sort(
        key=lambda view: (not any(card["best"] for card in view["cards"]), not view["cards"])
    )
    links = _number_figures(experiments)
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
        # What could be made here.
        partial=missing or any(gap["kind"] in ("measure", "timing") for gap in found),
        experiments=experiments,
        ledger=claim_rows.ledger(
            claim_rows.shown(row, links.get((row["experiment"], row["figure"])))
            for row in inputs.claims
        ),
        beside=_published(study, inputs, links),
        table=table,
        files=[
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        gaps=found,
        absent=[*inputs.states.absent()],
        datasets=[_dataset(inputs, token) for token in inputs.datasets],
        machines=_machines(inputs),
        commands=gaps.commands(study, inputs.config_name),
        policy=page.policy(script),
        style=page.style(rules),
        script=Markup(script),
    )


def headline(study: Study, inputs: Inputs) -> str:
    card = next(iter(_cards(study, inputs)), None)
    given = {"title": study.title, "card": card, "counts": counts(inputs)}
    return page.render("headline.txt.j2", **given).strip()


def _stated(study: Study, experiment: str) -> dict[str, str]:
    claims = (claim.test for claim in study.claims if claim.test.trend_experiment == experiment)
    return {test.column: test.direction for test in claims}


def _cards(study: Study, inputs: Inputs) -> list[Row]:
    tables = {name: each.tables for name, each in inputs.experiments.items()}
    return decision.cards(study, tables, inputs.config_name)


def _number_figures(experiments: list[Row]) -> Links:
    """Sort figures into parts, number them in the page's order, and return labels and addresses.

    A figure takes the one row of trends.csv of its columns, which then leaves the trends of its
    experiment: the page states each number once.
    """
    links: Links = {}
    numbers = count(1)
    for view in experiments:
        plan, trends = view["plan"], (view["answer"], view["rest"])
        answers = list(dict.fromkeys(row["outcome"] for row in view["answer"]))
        parts = _parts(view["figures"], answers, bool(view["cards"]))
        view |= parts
        # The figures of the first recommendation are at the top of the page.
        at_top = view is experiments[0] and view["cards"]
        order = ("lead", "shown") if at_top else ("shown", "lead")
        blocks = chain.from_iterable(parts[part] for part in (*order, "more", "why"))
        for figure, number in zip(chain.from_iterable(blocks), numbers, strict=False):
            rows = [
                row
                for row in chain(*trends)
                if row["outcome"] in figure["columns"] and row["budget"] == "end"
            ]
            alone = len({row["series"] for row in rows}) == 1
            for part in trends if alone else ():
                part[:] = [row for row in part if row is not rows[0]]
            label, name = f"Figure {number}", figure["name"]
            links[plan.name, name] = (label, f"#figure-{number}")
            figure |= {"label": label, "id": f"figure-{number}"}
            figure |= {"title": figure["title"].rstrip("."), "trend": rows[0] if alone else None}
            figure |= {"published": plan.keys.published.get(name)}
    return links


def _parts(figures: list[Row], answers: list[str], decided: bool) -> dict[str, list[list[Row]]]:
    """Return figures as blocks by their part of the page, the variants of a figure in one block.

    Parts are `lead` (the recommendation), `shown` (the outcomes of the answer in their order, or
    else the first figure), `more`, and `why`.
    """
    blocks: dict[str, list[Row]] = {}
    for figure in figures:
        blocks.setdefault(figure["of"] or figure["name"], []).append({**figure})
    parts: dict[str, list[list[Row]]] = {"lead": [], "shown": [], "more": [], "why": []}
    for name, block in blocks.items():
        if name in LEAD:
            part = "lead"
        elif any(outcome in block[0]["columns"] for outcome in answers):
            part = "shown"
        else:
            part = "why" if block[0]["category"] in WHY else "more"
        parts[part].append(block)
    parts["lead"].sort(key=lambda block: LEAD.index(block[0]["name"]))
    parts["shown"].sort(
        key=lambda block: min(map(answers.index, {*answers} & {*block[0]["columns"]}))
    )
    if not (decided or parts["lead"] or parts["shown"]):
        parts["shown"] = [parts[name].pop(0) for name in ("more", "why") if parts[name]][:1]
    return parts


def counts(inputs: Inputs) -> Row:
    """Returns how many runs and timings there are, and what became of the runs."""
    runs = runs_table.distinct(inputs.rows)
    found = Counter(row["status"] for row in runs.values())
    known = [word for word in gaps.STATUSES if found[word]]
    return {
        "runs": len(runs),
        "finished": found[records.FINISHED],
        "parts": [
            requirements.label_count(word, found[word]) for word in dict.fromkeys([*known, *found])
        ],
        "timings": len(inputs.timings),
    }


def _scope(inputs: Inputs) -> list[str]:
    """Returns models and data sets, the processors, and the time that trainings took."""
    sweeps = [sweep for of in inputs.experiments.values() for sweep in of.experiment.sweeps]
    named = []
    for factor, noun in (("model", "model"), ("dataset", "data set")):
        names = {row[factor] for row in inputs.rows if row.get(factor)}
        names |= {split_token(str(sweep.factors[factor]))[0] for sweep in sweeps}
        few = len(names) <= _MOST_NAMED
        named.append(wording.listed(sorted(names)) if few else wording.count(len(names), noun))
    made = (record["machine"] for record in (*inputs.runs.values(), *inputs.timings))
    machines = [*filter(None, dict.fromkeys(map(processor, made)))]
    taken = [record.get("contended_seconds") for record in inputs.runs.values()]
    seconds = sum(filter(is_number, taken))
    parts = [
        " on ".join(filter(None, named)),
        wording.listed(machines[:_MOST_NAMED]),
        f"{wording.duration(seconds)} of training" if seconds else "",
    ]
    return [*filter(None, parts)]


def processor(machine: Row) -> str:
    """Returns the GPUs of a machine and its CPU with the cores that could be used."""
    gpus, cores = machine.get("gpu"), machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    cpu += wording.aside(wording.count(cores, "core")) if cpu and isinstance(cores, int) else ""
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    return ", ".join(filter(None, [*dict.fromkeys(map(str, gpus)), cpu]))


def _published(study: Study, inputs: Inputs, links: Links) -> Row:
    """Returns every number of a study's documents, by whether ours is there; empty without any."""
    used = [
        {
            "dataset": split_token(token)[0],
            "published": published,
            "place": place,
            "counts": inputs.datasets.get(token, {}).get("counts") or {},
        }
        for token, (published, place) in study.published.items()
    ]
    rows = [
        {
            **published(row, found.tables.tasks),
            "experiment": found.experiment.title,
            "link": links.get((name, row["figure"])),
        }
        for name, found in inputs.experiments.items()
        for row in found.tables.published.to_dict("records")
    ]
    there, absent = [row for row in rows if row["here"]], [row for row in rows if not row["here"]]
    return {"examples": used, "here": there, "absent": absent} if used or rows else {}


def published(row: Row, learned: tuple[str, ...] = (tasks.CLASSIFICATION,)) -> Row:
    """Returns a row of published.csv with both numbers as texts, shares in per cent."""
    column, scale = row["column"], 100 if tasks.is_share(row["column"]) else 1
    parameter, described = published_numbers.COLUMNS[column], columns.describe(column)
    known = {name: None if pandas.isna(value) else value for name, value in row.items()}
    ours = (known[name] for name in ("here", "here_low", "here_high"))
    unit = tasks.unit(parameter.unit, learned)
    return {
        **known,
        "label": (described and described.label) or parameter.label,
        "unit": "%" if parameter.unit in ("shares", "percent") else unit,
        "published": "" if known["value"] is None else f"{scale * row['value']:.6g}",
        "here": format_interval(*(None if each is None else scale * each for each in ours)),
    }


def _dataset(inputs: Inputs, token: str) -> Row:
    """Returns what the page shows of a prepared data set."""
    record, samples = inputs.datasets[token], inputs.samples.get(token, ())
    splits, per_split = list(record.get("counts") or ()), record.get("class_counts") or {}
    lists = [per_split.get(split) or [] for split in splits]
    balance = [*zip_longest(*lists, fillvalue=0)]  # of each class its examples in every split
    names = [*map(str, record.get("class_names") or [])]
    labels = [*names, *map(str, range(len(names), len(balance)))]
    many = len(balance) > _MANY_CLASSES
    skipped = record.get("skipped") or ()
    return {
        "token": token,
        "record": record,
        "samples": [(each.label, each.text, _address(each.image), each.small) for each in samples],
        "splits": splits if balance else [],
        "balance": [] if many else list(zip(labels, balance, strict=False)),
        "ends": [(min(each), max(each)) for each in zip(*balance, strict=True)] if many else [],
        "skipped": skipped[:_SKIPPED_SHOWN],
        "skipped_count": record.get("skipped_count") or len(skipped),
        "warnings": list(records.data_warnings(token, record)),
    }


def _address(image: bytes) -> str:
    return f"data:image/webp;base64,{base64.b64encode(image).decode()}" if image else ""


def _machines(inputs: Inputs) -> list[Row]:
    """Returns each machine and set of versions, with what was made there.

    That is how many runs and timings were made on each device with so many threads.
    """
    columns: dict[str, Row] = {}
    runs = [*inputs.runs.values(), *inputs.other_runs]
    for use, found in (("run", runs), ("timing job", inputs.timings)):
        for record in found:
            machine, versions = record["machine"], record.get("versions") or {}
            key = json.dumps([machine, versions], sort_keys=True)
            column = columns.setdefault(key, {"of": machine, "versions": versions, "uses": {}})
            how = (plain(record.get("device")), record.get("threads"))
            column["uses"].setdefault(use, Counter())[how] += 1
    return list(columns.values())
