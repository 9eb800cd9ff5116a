"""The page of a study: its parts in order, and the sentence that sums it up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope import wording
from batchscope.catalogue import own_columns, run_names
from batchscope.host import absence
from batchscope.report import (
    advice_card,
    answers,
    claim_rows,
    experiment_view,
    gaps,
    page,
    places,
    published_beside,
    runs_table,
)
from batchscope.report.content import Inputs
from batchscope.report.text import is_number, moment
from batchscope.store import records
from batchscope.store.status import waiting
from batchscope.store.taken import Taken

if TYPE_CHECKING:
    from batchscope.study.plan import Study

_MATRIX = "verdict_matrix"  # stands beside the advice
_MOST_NAMED = 3


def build(study: Study, inputs: Inputs) -> str:
    """Returns the report as HTML; `page.render` escapes every text.

    Raises:
        UserError: If a table that is read now is missing or damaged.
    """
    table, print_rule = runs_table.build(inputs.rows)
    run_numbers = runs_table.numbers(inputs.rows)
    script = page.asset("report.js")
    drawn = [(name, one.name) for name, of in inputs.experiments.items() for one in of.figures]
    figure_numbers = {place: number for number, place in enumerate(drawn, 1)}
    # What a figure is called on the page, and its address there.
    links = {place: (f"Figure {n}", f"#figure-{n}") for place, n in figure_numbers.items()}
    stated = claim_rows.build(inputs.claims, lambda *place: links.get(place))
    cards = advice_card.cards(study, inputs.advice)
    experiments = [
        experiment_view.build(found, inputs, run_numbers, figure_numbers, stated, cards)
        for found in inputs.experiments.values()
    ]
    return page.render(
        "report.html.j2",
        title=study.title,
        cards=[card for card in cards if card.found],
        without=[card for card in cards if not card.found],
        matrix=_matrix(cards, experiments),
        summary=scope(inputs),
        runs=_summary(inputs),
        took=took(inputs.taken),
        notes=_notes(study, inputs),
        experiments=experiments,
        ledger=claim_rows.by_document(stated),
        reading_claims=claim_rows.READING,
        claim_words=claim_rows.WORDS,
        beside=_beside(study, inputs, links),
        reading_beside=published_beside.READING,
        reading=answers.READING,
        reading_differences=answers.DIFFERENCES,
        table=table,
        files=inputs.files,
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
        style=Markup("\n" + page.asset("report.css") + print_rule),
        script=Markup(script),
    )


def _matrix(
    cards: list[advice_card.Shown], experiments: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Returns the verdict matrix of the experiment with the first card; None without one."""
    for experiment in experiments:
        if cards and experiment["plan"].name == cards[0].experiment:
            found = (each for each in experiment["figures"] if each["name"] == _MATRIX)
            return next(found, None)
    return None


def headline(study: Study, inputs: Inputs) -> str:
    """Returns a report in one sentence: its advice or first verdicts, and how many runs it has."""
    runs = _runs(inputs)
    cards = advice_card.cards(study, inputs.advice)
    # What recommends something goes first, of whichever experiment it is.
    first = [shown for shown in cards if shown.found][:1]
    for name, each in inputs.experiments.items():
        if chosen := first or [shown for shown in cards if shown.experiment == name]:
            title, text = chosen[0].title, chosen[0].headline
        else:
            # Where rates are tuned, single ones are no answer: advice and matrix have the best.
            title = each.experiment.title
            text = answers.in_short([] if each.tuned else each.answers)
        if text:
            led = title if title.endswith(("?", "!", ".")) else f"{title}:"
            return f"{led} {text.removesuffix('.')} ({runs})."
    return f"{runs}."


def _summary(inputs: Inputs) -> str:
    text = f"{_runs(inputs)}."
    here = inputs.made.runs.values()
    ends = [record["finished_at"] for record in here if record.get("finished_at")]
    return f"{text} The last training ended at {moment(str(max(ends)))}." if ends else text


def _runs(inputs: Inputs) -> str:
    """Returns how many runs there are, and what became of them."""
    runs = runs_table.distinct(inputs.rows)
    counts = Counter(row["status"] for row in runs.values())
    known = [word for word in gaps.STATUSES if counts[word]]
    parts = [absence.counted(word, counts[word]) for word in dict.fromkeys([*known, *counts])]
    experiments = wording.count(len(inputs.experiments), "experiment")
    made = sum(row.get("machine") == own_columns.ELSEWHERE for row in runs.values())
    if not runs:
        timed = wording.count(len(inputs.made.timings), "timing job")
        return f"{timed} in {experiments}; nothing trained"
    whose = f"; {'all' if made == len(runs) else made} of them made elsewhere" if made else ""
    return f"{wording.count(len(runs), 'training run')} in {experiments}: {', '.join(parts)}{whose}"


def _notes(study: Study, inputs: Inputs) -> list[str]:
    notes = []
    if study.reduced:
        notes.append(
            "This is the reduced form of the study: smaller than the full one, so its "
            "numbers are a trial of the method and no reproduction."
        )
    statuses = {row["status"] for row in inputs.rows}
    if records.MISSING in statuses or inputs.missing.measures:
        notes.append(
            "This report is partial: it was built from what existed. What is missing is listed "
            "below, with what would mend it."
        )
    elif inputs.partial and not inputs.missing.absent:
        notes.append("A partial report was asked for; nothing turned out to be missing.")
    notes += study.warnings
    for lacking, jobs in inputs.missing.absent.items():
        notes.append(f"{lacking.title}; left out: {waiting(jobs)}. What mends it is listed below.")
    return notes


def scope(inputs: Inputs) -> str:
    """Returns `small_cnn on digits; Some CPU; 144 training runs, 3 min of training`."""
    models, data = _named(inputs, "model"), _named(inputs, "dataset")
    parts = [f"{models} on {data}" if models and data else models or data, _machine(inputs)]
    parts.append(_amount(inputs))
    return f"{'; '.join(filter(None, parts))}."


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
    names = dict.fromkeys(_processor(machine) for machine in machines)
    return wording.listed(list(filter(None, names))[:_MOST_NAMED])


def _processor(machine: dict[str, Any]) -> str:
    gpus = machine.get("gpu")
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    cores = machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    processor = f"{cpu} ({wording.count(cores, 'core')})" if cpu and isinstance(cores, int) else cpu
    return ", ".join(filter(None, [*dict.fromkeys(map(str, filter(None, gpus))), processor]))


def _amount(inputs: Inputs) -> str:
    """Returns how many runs or timing jobs there are, and how long the trainings took in all."""
    runs = runs_table.distinct(inputs.rows)
    if not runs:
        return wording.count(len(inputs.made.timings), "timing job")
    text = wording.count(len(runs), "training run")
    others = Counter(row["status"] for row in runs.values())
    del others[records.FINISHED]
    words = [absence.counted(status, count) for status, count in others.items()]
    text += f" ({', '.join(words)})" if words else ""
    if all(row.get("machine") == own_columns.ELSEWHERE for row in runs.values()):
        return text
    taken = [record.get("contended_seconds") for record in inputs.made.runs.values()]
    seconds = sum(each for each in taken if is_number(each))
    return f"{text}, {wording.duration(seconds)} of training in all" if seconds else text


def took(found: Taken) -> str:
    """Returns `It took 1.2 core-hours of training ...`; empty where nothing is known of it."""
    alone = found.timings * found.cores
    kinds = {
        "training": found.training,
        "measures": found.measures,
        f"timings, {wording.duration(found.timings)} alone on the machine": alone,
    }
    spent = [f"{_hours(each)} core-hours of {what}" for what, each in kinds.items() if each]
    parts = [f"It took {wording.listed(spent)}"] if spent else []
    parts += [f"{_hours(found.gpu)} GPU hours"] if found.gpu else []
    parts += [f"its runs hold {wording.size(found.run_bytes)}"] if found.run_bytes else []
    if parts and found.unknown:
        parts.append(f"what {waiting(found.unknown)} took was not noted")
    return wording.capital(f"{'; '.join(parts)}.") if parts else ""


def _hours(seconds: float) -> str:
    return wording.number(seconds / 3600, 2)


def _beside(
    study: Study, inputs: Inputs, links: dict[tuple[str, str], tuple[str, str]]
) -> dict[str, list[tuple[published_beside.Row, tuple[str, str] | None]]]:
    """Returns documents' numbers with their figures here: beside ours, and beside none."""
    found: dict[str, list[Any]] = {"here": [], "absent": []}
    for row in published_beside.build(study, inputs):
        found["here" if row.here else "absent"].append((row, links.get(row.figure)))
    return found if any(found.values()) else {}
