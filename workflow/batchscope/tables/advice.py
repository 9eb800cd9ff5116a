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
from batchscope.study.registry import OUTCOME_MEASURES, TIMINGS

if TYPE_CHECKING:
    import pandas

    from batchscope.study.plan import PlannedExperiment


def price_of_a_seed(
    results: Path | str, experiment: PlannedExperiment
) -> Callable[[Iterable[str]], tuple[float, float]]:
    """Return a function of runs that gives the seconds of one more seed of them.

    It returns the seconds of one core for trainings and measures, NaN if a training is unknown, and
    the seconds of the timings, which learning rates share. Other unknown times count as 0.
    """
    times = estimates.Estimates(results, experiment)
    factors_of = experiment.runs | {name: run.factors for name, run in experiment.commands.items()}
    settings = {name: settings_name(name, values) for name, values in experiment.measures.items()}

    def training(run: str) -> float:
        if run not in experiment.commands:
            return times.training(experiment.runs[run]) or math.nan
        command = experiment.commands[run].command
        seconds = times.command(experiment.commands[run]) or math.nan
        return seconds * (1 if command.alone else command.threads)

    def other(name: str, subject: str) -> float:
        return times.other(estimates.kind(name, settings[name], subject)) or 0.0

    def seconds(runs: Iterable[str]) -> tuple[float, float]:
        planned = [run for run in runs if run in factors_of]
        seeds = len({factors_of[run]["seed"] for run in planned})
        if not seeds:
            return math.nan, 0.0
        total, timed = sum(map(training, planned)), 0.0
        for name in settings:
            if name not in TIMINGS:
                total += sum(other(name, run) for run in planned)
                continue
            jobs = {(timing_name(factors_of[run]), factors_of[run]["seed"]) for run in planned}
            timed += sum(other(name, subject) for subject, _ in jobs)
        return total / seeds, timed / seeds

    return seconds


def baselines(results: Path | str, experiment: PlannedExperiment) -> dict[str, dict[str, float]]:
    """Return data set -> outcome -> value of the best constant prediction.

    For classes it is the most frequent one; other values are in the data set's record.
    """
    values = {}
    for token in {factors["dataset"] for factors in experiment.runs.values()}:
        record = records.data_record(results, token) or {}
        metrics = dict(record.get("baselines") or {})
        for split, counts in (record.get("class_counts") or {}).items():
            if any(counts):
                metrics[split] = {"accuracy": max(counts) / sum(counts)}
        values[split_token(token)[0]] = {
            f"{split}_{name}": value
            for split, by_name in metrics.items()
            for name, value in by_name.items()
        }
    return values


def by_position(results: Path | str, experiment: PlannedExperiment) -> set[str]:
    """Return the data sets with a class for each position."""
    tokens = {factors["dataset"] for factors in experiment.runs.values()}
    kinds = {token: (records.data_record(results, token) or {}).get("kind") for token in tokens}
    return {split_token(token)[0] for token, kind in kinds.items() if kind == TOKENS}


def rows(
    results: Path | str, experiment: PlannedExperiment, tables: Mapping[str, pandas.DataFrame]
) -> pandas.DataFrame:
    """Return the recommended batch sizes, with their limits and missing requirements."""
    names = ("comparisons", "runs", "limits", "critical_batch_size", "trajectories")
    settings = [experiment.measures.get(name, {}) for name in OUTCOME_MEASURES]
    request = AdviceRequest(
        experiment.keys.margins,
        experiment.keys.seeds_planned,
        experiment.deciding_analyses,
        baselines(results, experiment),
        price_of_a_seed(results, experiment),
        advice_needs.given_by(experiment),
        experiment.timed,
        by_position(results, experiment),
        any(values.get("weights") == "best" for values in settings),
        experiment.metrics,
    )
    return advice.table(AdviceTables(*(tables[name] for name in names)), request)
