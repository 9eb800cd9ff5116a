"""advice.csv: tables of an experiment -> its recommendations.

batchscope.analysis.advice makes the rows. This module adds what only records and the plan know:
values of constant predictions, and the time of one more seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def seed_cost_function(
    results: Path | str, experiment: PlannedExperiment
) -> Callable[[Iterable[str]], tuple[float, float]]:
    """Return a function from runs to the seconds that one more seed of them takes.

    It returns two numbers: the seconds of one core for trainings and measures, NaN if the time of a
    training is unknown, and the seconds of the timings, which learning rates share. Other unknown
    times count as 0.
    """
    estimated_times = estimates.Estimates(results, experiment)
    factors_of = experiment.runs | {name: run.factors for name, run in experiment.commands.items()}
    settings = {name: settings_name(name, values) for name, values in experiment.measures.items()}

    def training_seconds(run: str) -> float:
        if run not in experiment.commands:
            return estimated_times.training(experiment.runs[run]) or math.nan
        command = experiment.commands[run].command
        seconds = estimated_times.command(experiment.commands[run]) or math.nan
        return seconds * (1 if command.alone else command.threads)

    def job_seconds(name: str, subject: str) -> float:
        kind = estimates.job_kind(name, settings[name], subject)
        return estimated_times.measure_or_timing(kind) or 0.0

    def seed_seconds(runs: Iterable[str]) -> tuple[float, float]:
        planned_runs = [run for run in runs if run in factors_of]
        seeds = len({factors_of[run]["seed"] for run in planned_runs})
        if not seeds:
            return math.nan, 0.0
        total, timing_seconds = sum(map(training_seconds, planned_runs)), 0.0
        for name in settings:
            if name not in TIMINGS:
                total += sum(job_seconds(name, run) for run in planned_runs)
                continue
            jobs = {(timing_name(factors_of[run]), factors_of[run]["seed"]) for run in planned_runs}
            timing_seconds += sum(job_seconds(name, subject) for subject, _ in jobs)
        return total / seeds, timing_seconds / seeds

    return seed_seconds


def _baselines(record: Mapping[str, Any]) -> dict[str, float]:
    """Return outcome -> value of the best constant prediction, of a data set's record.

    For classes it predicts the most frequent one. Records have the values of other tasks.
    """
    metrics = dict(record.get("baselines") or {})
    for split, counts in (record.get("class_counts") or {}).items():
        if any(counts):
            metrics[split] = {"accuracy": max(counts) / sum(counts)}
    return {
        f"{split}_{name}": value
        for split, by_name in metrics.items()
        for name, value in by_name.items()
    }


def recommendations(
    results: Path | str, experiment: PlannedExperiment, tables: Mapping[str, pandas.DataFrame]
) -> pandas.DataFrame:
    """Return the recommended batch sizes, with their limits, checks and suggestions."""
    table_names = ("comparisons", "runs", "limits", "critical_batch_size", "trajectories", "race")
    settings = [experiment.measures.get(name, {}) for name in OUTCOME_MEASURES]
    tokens = {factors["dataset"] for factors in experiment.runs.values()}
    data = {split_token(name)[0]: records.data_record(results, name) or {} for name in tokens}
    request = AdviceRequest(
        experiment.keys.margins,
        experiment.keys.seeds_planned,
        experiment.deciding_analyses,
        {name: _baselines(record) for name, record in data.items()},
        seed_cost_function(results, experiment),
        advice_needs.keys_to_add(experiment),
        experiment.timed,
        {name for name, record in data.items() if record.get("kind") == TOKENS},
        any(values.get("weights") == "best" for values in settings),
        experiment.metrics,
    )
    return advice.table(AdviceTables(*(tables[name] for name in table_names)), request)
