"""An experiment as the page shows it: what was varied, its answer, its figures and tables."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import wording
from batchscope.analysis import intervals, run_series, training_ends
from batchscope.catalogue import factor_words, own_columns, run_factors, sweep_names
from batchscope.report import (
    advice_card,
    answers,
    experiment_answer,
    figure_view,
    machine_answer,
    runs_table,
    target_words,
)
from batchscope.report.answers import Answer
from batchscope.report.content import ExperimentResults, Figure, Inputs
from batchscope.report.text import parsed, plain
from batchscope.store import records

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment

_GPU = re.compile(r"\bGPUs?\b")
_MANY_SERIES = 3  # more are columns of one table


def build(
    found: ExperimentResults,
    inputs: Inputs,
    run_numbers: dict[str, int],
    figure_numbers: dict[tuple[str, str], int],
    stated: list[dict[str, Any]],
    cards: list[advice_card.Shown],
) -> dict[str, Any]:
    """Returns what the page shows of an experiment.

    Args:
        run_numbers: What `runs_table.numbers` returns of the study.
        figure_numbers: Experiment and figure -> its number on the page.
        stated: What `claim_rows.build` returns of the study.
        cards: What `advice_card.cards` returns of the study.
    """
    experiment, name = found.experiment, found.experiment.name
    stated = [row for row in stated if row["experiment"] == name]
    find = figure_view.Finder(found.rows, run_numbers)
    figures = [
        figure_view.build(figure_numbers[name, one.name], one, found, stated, find)
        for one in found.figures
    ]
    others = [each for each in inputs.experiments.values() if each is not found]
    elsewhere = [(each.experiment.title, figure) for each in others for figure in each.figures]
    about = experiment_answer.relevant(
        experiment.question, found.figures, bool(experiment.figures), elsewhere
    )
    asked = experiment_answer.asked(found.answers, about)
    many = len({answer.series for answer in found.answers}) > _MANY_SERIES
    tables = found.tables
    return {
        "id": f"experiment-{name}",
        "plan": experiment,
        "scope": _scope(found),
        "machine_answer": machine_answer.build(tables.sweeps, tables.throughput),
        "sentences": _sentences(found, inputs, about, asked, stated, cards),
        "answers": [] if many else answers.groups(found.answers, asked),
        "across": answers.across(found.answers, asked) if many else None,
        "sources": answers.sources(found.answers, asked),
        "contrast": answers.contrast(tables.runs),
        "no_answer": _no_answer(found),
        "figures": figures,
        "blocks": figure_view.blocks(figures),
    }


def _sentences(
    found: ExperimentResults,
    inputs: Inputs,
    about: list[Figure],
    asked: list[Answer],
    stated: list[dict[str, Any]],
    cards: list[advice_card.Shown],
) -> list[tuple[str, str]]:
    """Returns the answer to the question, as `experiment_answer.sentences` does."""
    question = found.experiment.question
    own = [each for each in cards if each.experiment == found.experiment.name]
    decided = experiment_answer.decided(stated, question, about)
    spoken: list[str] = []
    # Where documents state something that is decided, no recommendation is no answer.
    if found.tuned and own and (own[0].found or not decided):
        spoken = experiment_answer.advised(own[0].headline, found.figures)
    more = _with_others(found, inputs, about)
    more += _no_gpu(found, inputs.made.timings, more)
    compared = experiment_answer.compares(question, _distinguishing(found.rows))
    reported = [] if found.tuned else asked
    return experiment_answer.sentences(reported, about, spoken, more, decided, compared)


def _with_others(found: ExperimentResults, inputs: Inputs, about: list[Figure]) -> list[str]:
    """Returns what follows from an experiment together with others: total times, and noise."""
    runs, texts = found.tables.runs, []
    every = inputs.experiments.values()
    if len(runs) and "seconds_per_epoch" in runs:
        trained = [each.tables.runs for each in every if len(each.tables.runs)]
        ended = pandas.concat(frame for frame in trained if "stop_reason" in frame)
        texts.append(_in_parallel(runs, ended))
    if {"noise_scale", "critical_batch_size"} <= {figure.name for figure in about}:
        others = [each.tables.critical_batch_size for each in every if each is not found]
        if critical := [frame for frame in others if len(frame)]:
            texts.append(target_words.noise_sentence(runs, pandas.concat(critical)))
    return experiment_answer.parts(" ".join(filter(None, texts)))


def _in_parallel(timed: pandas.DataFrame, trained: pandas.DataFrame) -> str:
    """Returns how long the largest batch takes in parallel beside the smallest, until it stops.

    Of the most replicas on each device of this machine, where they are one series, and what of it
    cannot be tested where these are no GPUs. Empty where an experiment has no replicas; arguments
    as of `training_ends.parallel_totals`.
    """
    timed = run_series.own(timed)
    replicas = timed["replicas"] if "replicas" in timed else pandas.Series(dtype=int)
    if not (replicas > 1).any():
        return ""
    found = training_ends.parallel_totals(timed, trained)
    parts = []
    for device, several in found[found["replicas"] > 1].groupby("device"):
        most = int(several["replicas"].max())
        rows = several[several["replicas"] == most]
        if rows.duplicated(["seed", "batch_size"]).any():  # another rate, say: no one total
            continue
        table = rows.pivot(index="seed", columns="batch_size", values="seconds").dropna()
        if table.shape[0] and table.shape[1] > 1:
            parts.append(_total(table, f"{most} {'GPUs' if device == 'gpu' else 'replicas'}"))
    gpus = timed[(timed["device"] == "gpu") & (replicas > 1)]
    if not len(run_series.finished(gpus)):
        parts.append(
            "What MirroredStrategy saves on several GPUs cannot be tested here, since "
            + ("there is no GPU." if len(gpus) else "replicas are logical devices of one CPU.")
        )
    return " ".join(parts)


def _total(table: pandas.DataFrame, where: str) -> str:
    """Returns the totals at both ends of the batch sizes, from a table of seeds by batch sizes."""
    small, large = table.columns[0], table.columns[-1]
    ends = [intervals.t_interval(table[size]) for size in (small, large)]
    seconds = wording.alike([end[:3] for end in ends], wording.Unit(" s"))
    ratio = intervals.ratio_interval(table[large], table[small])
    factor = wording.estimated(ratio.mean, ratio.low, ratio.high)
    pairs = wording.count(ratio.n, "seed")
    return (
        f"On {where}, epochs until the training stopped times the time per epoch gave {seconds[0]} "
        f"at batch size {small} and {seconds[1]} at {large} ({pairs}), a factor of {factor}."
    )


def _scope(found: ExperimentResults) -> str:
    """Returns what was varied, in one sentence."""
    experiment, rows = found.experiment, found.rows
    if experiment.times.timings:
        return _timing_scope(experiment)
    further = dict.fromkeys(name for row in rows for name in row if own_columns.is_own(name))
    names = (*run_factors.FACTORS, *further)
    varied = _varied({name: {row.get(name, "") for row in rows} - {""} for name in names})
    text = f"{wording.count(len(rows), 'run')}: {varied or 'nothing varied'}."
    what = "target" if experiment.own.path else "training loss"
    return " ".join(filter(None, [text, _targets(rows, what)]))


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
    return ", ".join(factor_words.value_words(factor, value) for value in ordered)


def _no_gpu(
    found: ExperimentResults, timings: list[dict[str, Any]], sentences: list[str]
) -> list[str]:
    """Returns that nothing ran on a GPU, where the question names one and nothing says so yet."""
    if not _GPU.search(found.experiment.question) or any(map(_GPU.search, sentences)):
        return []
    sweeps = {sweep.name for sweep in found.experiment.times.sweeps}
    ran = [row for row in found.rows if row["status"] == records.FINISHED]
    ran += [record for record in timings if record["run"] in sweeps]
    if any(each.get("device") == "gpu" for each in ran):
        return []
    return ["Nothing ran on a GPU, so what is asked of one stays open."]


def _distinguishing(rows: list[runs_table.Row]) -> list[str]:
    """Returns the factors of which runs have several values, and these; not batch size and seed."""
    values = {
        name: {row.get(name, "") for row in rows}
        for name in run_factors.FACTORS
        if name not in ("batch_size", "seed")
    }
    return [word for name, found in values.items() if len(found) > 1 for word in (name, *found)]


def _targets(rows: list[runs_table.Row], what: str = "training loss") -> str:
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


def _no_answer(found: ExperimentResults) -> str:
    if found.experiment.times.timings:
        if found.figures and not any(figure.found for figure in found.figures):
            return "No answer in numbers: no figure has a measurement that it could sum up."
        return "The figures show what was measured; there is no summary in numbers."
    if not any(row["status"] == records.FINISHED for row in found.rows):
        return "No answer yet: no run of this experiment has finished."
    return "No answer in numbers: no outcome that this study asks about was measured."
