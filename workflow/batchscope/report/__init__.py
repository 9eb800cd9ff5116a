"""The report: tables, figures and records of a study -> one self-contained HTML page.

No figure is drawn here and no statistic computed: batchscope.figures and batchscope.analysis do.

`read` collects what lies on disk, `build` turns it into a page without touching a file of the
study, `write` does both. Figures stand in the page as SVG whose ids are theirs alone, and of which
only what draws is kept: nothing in one can run or fetch. The page's own Content-Security-Policy
forbids every request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchscope import disk, wording
from batchscope.analysis import run_series, seeds_wanted
from batchscope.catalogue import own_columns, run_factors, sweep_names
from batchscope.host import absence
from batchscope.report import (
    advice_card,
    answers,
    claim_rows,
    experiment_answer,
    figure_view,
    first_screen,
    gaps,
    machine_answer,
    page,
    places,
    published_beside,
    runs_table,
)
from batchscope.report.content import Inputs, Rows, read
from batchscope.report.text import moment, parsed, plain
from batchscope.store import records, status

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment, Study

_MATRIX = "verdict_matrix"  # stands beside the advice
_GPU = re.compile(r"\bGPUs?\b")
_MANY_SERIES = 3  # more are columns of one table


def write(
    study: Study,
    results: Path | str,
    config_path: Path | str,
    output: Path | str,
    partial: bool = False,
) -> None:
    """Writes a study's report, and its headline into a text file beside it.

    Raises:
        UserError: If a table or a figure is missing and `partial` is False, or one is damaged.
    """
    inputs = read(study, results, config_path, partial)
    disk.write_text(output, build(study, inputs))
    disk.write_text(Path(output).with_suffix(".txt"), headline(study, inputs) + "\n")


def build(study: Study, inputs: Inputs) -> str:
    """Returns the report as HTML; `page.render` escapes every text."""
    rows = runs_table.complete(study, inputs.rows)
    table, print_rule = runs_table.build(rows)
    script = page.asset("report.js")
    places_of = _places_of_figures(study, inputs)
    stated = claim_rows.build(
        inputs.claims, lambda experiment, figure: places_of.get((experiment, figure))
    )
    cards = advice_card.cards(study, inputs.advice)
    experiments = _experiments(study, rows, inputs, stated, cards)
    return page.render(
        "report.html.j2",
        title=study.title or study.name,
        cards=[card for card in cards if card.found],
        without=[card for card in cards if not card.found],
        matrix=_matrix(cards, experiments),
        summary=first_screen.scope(study, rows, inputs),
        runs=_summary(rows, inputs),
        took=first_screen.took(inputs.taken),
        notes=_notes(study, rows, inputs),
        experiments=experiments,
        ledger=claim_rows.by_document(stated),
        reading_claims=claim_rows.READING,
        beside=_beside(study, inputs, places_of),
        reading_beside=published_beside.READING,
        reading=answers.READING,
        reading_differences=answers.DIFFERENCES,
        table=table,
        files=inputs.files,
        gaps=gaps.find(study, rows, inputs),
        datasets=[
            places.dataset(token, inputs.datasets[token], inputs.samples.get(token, ()))
            for token in study.datasets
            if token in inputs.datasets
        ],
        models=places.models(inputs),
        machines=places.machines(inputs),
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
        if cards and experiment["name"] == cards[0].experiment:
            found = (each for each in experiment["figures"] if each["name"] == _MATRIX)
            return next(found, None)
    return None


def headline(study: Study, inputs: Inputs) -> str:
    """Returns a report in one sentence: its advice or first verdicts, and how many runs it has."""
    runs = _runs(runs_table.complete(study, inputs.rows), inputs)
    cards = advice_card.cards(study, inputs.advice)
    # What recommends something goes first, of whichever experiment it is.
    first = [shown for shown in cards if shown.found][:1]
    for name, experiment in study.experiments.items():
        if chosen := first or [shown for shown in cards if shown.experiment == name]:
            title, card = chosen[0].title, chosen[0].card
            text = " ".join(filter(None, [card.headline, card.budgets]))
        else:
            # Where rates are tuned, single ones are no answer: advice and matrix have the best.
            found = [] if name in inputs.tuned else inputs.answers.get(name, [])
            title, text = experiment.title or name, answers.in_short(found)
        if text:
            led = title if title.endswith(("?", "!", ".")) else f"{title}:"
            return f"{led} {text.removesuffix('.')} ({runs})."
    return f"{runs}."


def _summary(rows: Rows, inputs: Inputs) -> str:
    text = f"{_runs(rows, inputs)}."
    ends = [record["finished_at"] for record in inputs.runs.values() if record.get("finished_at")]
    return f"{text} The last training ended at {moment(str(max(ends)))}." if ends else text


def _runs(rows: Rows, inputs: Inputs) -> str:
    """Returns how many runs there are, and what became of them."""
    runs = runs_table.distinct(rows)
    counts = Counter(row["status"] for row in runs.values())
    known = [word for word in gaps.STATUS_WORDS if counts[word]]
    known += [word for word in counts if word not in known]
    parts = [absence.counted(word, counts[word]) for word in known]
    experiments = wording.count(len(rows), "experiment")
    made = sum(row.get("machine") == own_columns.ELSEWHERE for row in runs.values())
    if not runs:
        timed = wording.count(len(inputs.timings), "timing job")
        return f"{timed} in {experiments}; nothing trained"
    whose = f"; {'all' if made == len(runs) else made} of them made elsewhere" if made else ""
    return f"{wording.count(len(runs), 'training run')} in {experiments}: {', '.join(parts)}{whose}"


def _notes(study: Study, rows: Rows, inputs: Inputs) -> list[str]:
    notes = []
    if study.reduced:
        notes.append(
            "This is the reduced form of the study: smaller than the full one, so its "
            "numbers are a trial of the method and no reproduction."
        )
    statuses = {row["status"] for row in runs_table.distinct(rows).values()}
    if records.MISSING in statuses or inputs.missing_measures:
        notes.append(
            "This report is partial: it was built from what existed. What is missing is listed "
            "below, with what would mend it."
        )
    elif inputs.partial and not inputs.absent:
        notes.append("A partial report was asked for; nothing turned out to be missing.")
    notes += study.warnings
    for lacking, jobs in inputs.absent.items():
        notes.append(
            f"{lacking.title}; left out: {status.waiting(jobs)}. What mends it is listed below."
        )
    return notes


def _places_of_figures(study: Study, inputs: Inputs) -> dict[tuple[str, str], tuple[str, str]]:
    """Returns (experiment, figure) -> what it is called on the page, and its address there."""
    drawn = [
        (name, figure.name) for name in study.experiments for figure in inputs.figures.get(name, [])
    ]
    return {key: (f"Figure {number}", f"#figure-{number}") for number, key in enumerate(drawn, 1)}


def _experiments(
    study: Study,
    rows: Rows,
    inputs: Inputs,
    stated: list[dict[str, Any]],
    cards: list[advice_card.Shown],
) -> list[dict[str, Any]]:
    """Returns what the page shows of each experiment; figures are numbered throughout."""
    shown, position = [], count(1)
    numbers = runs_table.numbers(rows)
    for name, experiment in study.experiments.items():
        found = inputs.answers.get(name, [])
        of_figures = inputs.figures.get(name, [])
        find = figure_view.Finder(rows[name], [numbers[row["run"]] for row in rows[name]])
        figures = [
            figure_view.build(next(position), one, experiment, stated, rows[name], found, find)
            for one in of_figures
        ]
        question = experiment.question or ""
        elsewhere = [
            (each.title or other, figure)
            for other, each in study.experiments.items()
            if other != name
            for figure in inputs.figures.get(other, [])
        ]
        about = experiment_answer.relevant(
            question, of_figures, bool(experiment.figures), elsewhere
        )
        asked = experiment_answer.asked(found, about)
        own = [each for each in cards if each.experiment == name]
        tuned = name in inputs.tuned and own
        more = experiment_answer.parts(inputs.parallel.get(name, ""))
        if {"noise_scale", "critical_batch_size"} <= {figure.name for figure in about}:
            more += experiment_answer.parts(inputs.noise.get(name, ""))
        more += _no_gpu(experiment, rows[name], inputs.timings, [*more])
        reported = [] if name in inputs.tuned else asked
        decided = experiment_answer.decided(
            [row for row in stated if row["experiment"] == name], question, about
        )
        # Where documents state something that is decided, "No advice" is no answer beside it.
        advised = tuned and (own[0].found or not decided)
        spoken = experiment_answer.advised(own[0].card, of_figures) if advised else []
        compared = experiment_answer.compares(question, _distinguishing(rows[name]))
        many = len({answer.series for answer in found}) > _MANY_SERIES
        shown.append(
            {
                "id": f"experiment-{name}",
                "name": name,
                "title": experiment.title or name,
                "question": experiment.question,
                "scope": _scope(experiment, rows[name]),
                "own": experiment.own,
                "machine_answer": machine_answer.build(inputs.sweeps[name], inputs.throughput[name])
                if name in inputs.sweeps
                else None,
                "sentences": experiment_answer.sentences(
                    reported, about, spoken, more, decided, compared
                ),
                "answers": [] if many else answers.groups(found, asked),
                "across": answers.across(found, asked) if many else None,
                "sources": answers.sources(found, asked),
                "contrast": answers.contrast(inputs.contrasts.get(name)),
                "no_answer": _no_answer(experiment, rows[name], figures),
                "figures": figures,
                "blocks": figure_view.blocks(figures),
            }
        )
    return shown


def _beside(
    study: Study, inputs: Inputs, places_of: dict[tuple[str, str], tuple[str, str]]
) -> dict[str, list[tuple[published_beside.Row, tuple[str, str] | None]]]:
    """Returns documents' numbers with their figures here: beside ours, and beside none."""
    names = {each.title or name: name for name, each in study.experiments.items()}
    found: dict[str, list[Any]] = {"here": [], "absent": []}
    for row in published_beside.build(study, inputs.figures, inputs.datasets):
        place = places_of.get((names.get(row.experiment, ""), row.figure))
        found["here" if row.here else "absent"].append((row, place))
    return found if any(found.values()) else {}


def _scope(experiment: Experiment, rows: list[dict[str, str]]) -> str:
    """Returns what was varied, in one sentence."""
    if experiment.times.timings:
        return _timing_scope(experiment)
    further = dict.fromkeys(name for row in rows for name in row if own_columns.is_own(name))
    names = (*run_factors.FACTORS, *further)
    varied = _varied({name: {row.get(name, "") for row in rows} - {""} for name in names})
    text = f"{wording.count(len(rows), 'run')}: {varied or 'nothing varied'}."
    what = "target" if experiment.own.path else "training loss"
    seeds = experiment.own.seeds or len(experiment.trainings.seeds)
    planned = seeds_wanted.beside_the_plan(seeds, experiment.trainings.seeds_planned)
    return " ".join(filter(None, [text, planned, _targets(rows, what)]))


def _timing_scope(experiment: Experiment) -> str:
    sweeps = experiment.times.sweeps
    sizes = {plain(size) for sweep in sweeps for size in sweep.batch_sizes}
    names = dict.fromkeys(chain.from_iterable(sweep.factors for sweep in sweeps))
    factors = {
        name: {plain(sweep.factors[name]) for sweep in sweeps if name in sweep.factors}
        for name in names
    }
    timings = wording.listed(name.replace("_", " ") for name in experiment.times.timings)
    varied = _varied({"batch_size": sizes, **factors})
    return f"Timed alone on the machine, nothing trained to an end: {timings}; {varied}."


def _varied(values: dict[str, Collection[str]]) -> str:
    return "; ".join(
        f"{factor.removeprefix(own_columns.OWN).replace('_', ' ')} {_values(factor, found)}"
        for factor, found in values.items()
        if len(found) > 1
    )


def _values(factor: str, values: Collection[str]) -> str:
    """Returns the values of a factor; of whole numbers in succession a range: `0 to 5, 8`."""
    if factor in ("batch_size", "seed"):
        whole = sweep_names.format_sizes(sorted(map(int, values)))
        return whole.replace("_", ", ").replace("-", " to ")
    if len(values) > 12:
        return f"{len(values)} values"
    ordered = sorted(values, key=lambda text: (parsed(text) is None, parsed(text) or 0, text))
    return ", ".join(run_series.value_words(factor, value) for value in ordered)


def _no_gpu(
    experiment: Experiment,
    rows: list[dict[str, str]],
    timings: list[dict[str, Any]],
    sentences: list[str],
) -> list[str]:
    """Returns that nothing ran on a GPU, where the question names one and nothing says so yet."""
    if not _GPU.search(experiment.question or "") or any(map(_GPU.search, sentences)):
        return []
    sweeps = {sweep.name for sweep in experiment.times.sweeps}
    ran = [row for row in rows if row["status"] == records.FINISHED]
    ran += [record for record in timings if record["run"] in sweeps]
    if any(each.get("device") == "gpu" for each in ran):
        return []
    return ["Nothing ran on a GPU, so what is asked of one stays open."]


def _distinguishing(rows: list[dict[str, str]]) -> list[str]:
    """Returns the factors of which runs have several values, and these; not batch size and seed."""
    values = {
        name: {row.get(name, "") for row in rows}
        for name in run_factors.FACTORS
        if name not in ("batch_size", "seed")
    }
    return [word for name, found in values.items() if len(found) > 1 for word in (name, *found)]


def _targets(rows: list[dict[str, str]], what: str = "training loss") -> str:
    """Returns how many runs reached the target at which they were to be compared."""
    by_size: dict[int, list[str]] = {}
    for row in rows:
        if row.get("reached_target"):
            by_size.setdefault(int(row["batch_size"]), []).append(row["reached_target"])
    if not by_size:
        return ""
    counts = ", ".join(
        f"{found.count('1')} of {len(found)} at batch size {size}"
        for size, found in sorted(by_size.items())
    )
    missed = any("0" in found for found in by_size.values())
    rest = "; the other runs are left out." if missed else "."
    reached = "was reached" if what == "target" else "reached its target"
    return f"The {what} {reached} in {counts}{rest}"


def _no_answer(
    experiment: Experiment, rows: list[dict[str, str]], drawn: list[dict[str, Any]]
) -> str:
    if experiment.times.timings:
        if drawn and not any(figure["finding"] for figure in drawn):
            return "No answer in numbers: no figure has a measurement that it could sum up."
        return "The figures show what was measured; there is no summary in numbers."
    if not any(row["status"] == records.FINISHED for row in rows):
        return "No answer yet: no run of this experiment has finished."
    return "No answer in numbers: no outcome that this study asks about was measured."
