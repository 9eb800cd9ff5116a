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
    """Return a function of runs: the seconds of one core that one more seed of them takes.

    It returns the seconds of trainings and measures, NaN if those of a training are unknown, and
    the seconds of timings: one job per configuration, which learning rates share. Measures and
    timings without a note count as nothing.
    """
    results = Path(results)
    found = experiment.runs
    history = estimates.History(results, set(map(estimates.subject, found.values())))
    found = found | {name: run.factors for name, run in experiment.commands.items()}
    by_command = estimates.of_commands(results, experiment.commands)
    measured = estimates.noted(results)
    settings = {name: settings_name(name, values) for name, values in experiment.measures.items()}

    def noted(name: str, of: str) -> float:
        return measured.get(estimates.kind(name, settings[name], of), 0.0)

    def seconds(runs: Iterable[str]) -> tuple[float, float]:
        own = {run: found[run] for run in runs if run in found}
        seeds = len({factors["seed"] for factors in own.values()})
        if not seeds:
            return math.nan, 0.0
        trained = [
            by_command[run] if run in by_command else history.seconds(factors)
            for run, factors in own.items()
        ]
        taken = math.nan if None in trained else sum(trained)
        taken += sum(noted(name, run) for run in own for name in settings if name not in TIMINGS)
        timings = settings.keys() & TIMINGS.keys()
        timed_runs = own.values() if timings else ()
        configured = {(timing_name(each), each["seed"]) for each in timed_runs}
        timed = sum(noted(name, of) for name in timings for of, _ in configured)
        return taken / seeds, timed / seeds

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
    )
    return advice.table(AdviceTables(*(tables[name] for name in names)), asked)
