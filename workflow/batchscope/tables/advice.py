"""advice.csv: the recommendation, with the baselines of the data and the price of a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.analysis import advice
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables
from batchscope.store import estimates, records
from batchscope.study import advice_needs
from batchscope.study.example_kinds import TOKENS
from batchscope.study.names import settings_name, split_token, timing_name
from batchscope.study.registry import OF_OUTCOMES, TIMINGS

if TYPE_CHECKING:
    import pandas

    from batchscope.study.plan import PlannedExperiment


def price_of_a_seed(
    results: Path | str, experiment: PlannedExperiment
) -> Callable[[Iterable[str]], tuple[float, float]]:
    """Return a function of runs that gives the seconds of one more seed of them.

    It returns the seconds of one core for trainings and measures, NaN if those of a training are
    unknown, and the seconds of the timings, which learning rates share. Measures and timings that
    have not been timed count as 0.
    """
    times = estimates.Estimates(results, experiment)
    factors_of = experiment.runs | {run: made.factors for run, made in experiment.commands.items()}
    settings = {name: settings_name(name, values) for name, values in experiment.measures.items()}
    timings = [name for name in settings if name in TIMINGS]
    measures = [name for name in settings if name not in TIMINGS]

    def training(run: str) -> float | None:
        if run not in experiment.commands:
            return times.training(experiment.runs[run])
        made = experiment.commands[run]
        seconds = times.command(made)
        cores = 1 if made.command.alone else made.command.threads
        return None if seconds is None else seconds * cores

    def other(name: str, subject: str) -> float:
        return times.other(estimates.kind(name, settings[name], subject)) or 0.0

    def seconds(runs: Iterable[str]) -> tuple[float, float]:
        planned = [run for run in runs if run in factors_of]
        seeds = len({factors_of[run]["seed"] for run in planned})
        trained = [training(run) for run in planned]
        if not seeds:
            return math.nan, 0.0
        total = math.nan if None in trained else sum(trained)
        total += sum(other(name, run) for run in planned for name in measures)
        configured = {
            (timing_name(factors_of[run]), factors_of[run]["seed"])
            for run in (planned if timings else ())
        }
        timed = sum(other(name, subject) for name in timings for subject, _ in configured)
        return total / seeds, timed / seeds

    return seconds


def baselines(results: Path | str, experiment: PlannedExperiment) -> dict[str, dict[str, float]]:
    """Return data set -> outcome -> value of the best constant prediction.

    For classes it is the most frequent one; other values are in the data set's record.
    """
    found = {}
    for token in {factors["dataset"] for factors in experiment.runs.values()}:
        record = records.data_record(results, token) or {}
        counts, metrics = record.get("class_counts") or {}, {**(record.get("baselines") or {})}
        for split in filter(lambda each: any(counts[each]), counts):
            metrics[split] = {"accuracy": max(counts[split]) / sum(counts[split])}
        found[split_token(token)[0]] = {
            f"{split}_{name}": value for split, of in metrics.items() for name, value in of.items()
        }
    return found


def by_position(results: Path | str, experiment: PlannedExperiment) -> set[str]:
    tokens = {factors["dataset"] for factors in experiment.runs.values()}
    kinds = {token: (records.data_record(results, token) or {}).get("kind") for token in tokens}
    return {split_token(token)[0] for token, kind in kinds.items() if kind == TOKENS}


def rows(
    results: Path | str, experiment: PlannedExperiment, tables: Mapping[str, pandas.DataFrame]
) -> pandas.DataFrame:
    """Return the recommended batch sizes, with their limits and missing requirements."""
    names = ("comparisons", "runs", "limits", "critical_batch_size", "trajectories")
    measures = experiment.measures
    best_weights = any(measures.get(name, {}).get("weights") == "best" for name in OF_OUTCOMES)
    asked = AdviceRequest(
        experiment.keys.margins,
        experiment.keys.seeds_planned,
        experiment.looks,
        baselines(results, experiment),
        price_of_a_seed(results, experiment),
        advice_needs.given_by(experiment),
        experiment.timed,
        by_position(results, experiment),
        best_weights,
        experiment.metrics,
    )
    return advice.table(AdviceTables(*(tables[name] for name in names)), asked)
