"""Tables that follow from other tables of the same experiment: what the runs decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.analysis import (
    advice_evidence,
    advice_tables,
    comparisons,
    readings,
    run_series,
    to_target_tables,
    trends,
    updates_to_target,
)
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue import measure_settings, outcomes, run_names
from batchscope.catalogue.budget_kinds import END
from batchscope.catalogue.outcomes import Outcome
from batchscope.catalogue.timings import TIMINGS
from batchscope.store import estimates

if TYPE_CHECKING:
    import pandas

    from batchscope.study.plan import Experiment, Study


def held_equal(
    _: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
) -> dict[str, pandas.DataFrame]:
    """Returns what the runs say at every budget: of each batch size, and along the sizes."""
    asked = study.experiments[experiment].trainings
    found = list(readings.of_experiment(runs, trajectories, asked.budgets, asked.margins))
    at_budgets = [each for each in found if each.budget.kind != END]
    return {
        "comparisons": comparisons.table(runs, found),
        "trends": trends.table(runs, at_budgets, _stated(study, experiment)),
    }


def _stated(study: Study, experiment: str) -> dict[str, Outcome]:
    """Returns what documents state about the columns of an experiment's runs."""
    found = {}
    for claim in study.claims:
        source, test = f"{claim.document}, {claim.place}", claim.test
        if test.asked == experiment:
            found[test.column] = outcomes.stated(test.column, test.direction, source)
    return {column: stated for column, stated in found.items() if stated}


def _served(trajectories: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the evaluations by which a training serves targets before its end; else none.

    A training whose rate falls towards its horizon serves none: one that was to end there would
    have had lower rates before.
    """
    falling = run_series.falling(trajectories)
    own_targets = updates_to_target.at_own_targets(trajectories)
    return trajectories.iloc[:0] if falling and not own_targets else trajectories


def to_target(
    _: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
) -> dict[str, pandas.DataFrame]:
    """Returns what each batch size takes to a target: the fits, and the trainings behind them."""
    stated = study.experiments[experiment].trainings.budgets.get("target", {})
    targets = [Target(column, value) for column, value in stated.items()]
    scalings = to_target_tables.of_study(_served(trajectories), runs, targets)
    constant = to_target_tables.constants(runs)
    return {
        "critical_batch_size": to_target_tables.fits(scalings, constant),
        "to_target": to_target_tables.trainings(scalings, constant),
    }


def price_of_a_seed(
    results: Path | str, experiment: Experiment
) -> Callable[[Iterable[str]], tuple[float, float]]:
    """Returns a function of runs: what one more seed of them takes.

    The seconds of one core of its trainings and measures, and those of its timings, each of which
    has the machine to itself: one job per configuration, which learning rates share. The former
    are NaN where nothing is known of some training; measures and timings of which nothing was
    noted count as nothing.
    """
    results = Path(results)
    found = experiment.trainings.runs
    history = estimates.History(results, set(map(estimates.subject, found.values())))
    measured = estimates.MeasureHistory(results)
    settings = {
        name: measure_settings.settings_name(name, values)
        for name, values in experiment.trainings.measures.items()
    }

    def seconds(runs: Iterable[str]) -> tuple[float, float]:
        own = {run: found[run] for run in runs if run in found}
        seeds = {factors["seed"] for factors in own.values()}
        if not seeds:
            return math.nan, 0.0

        def noted(name: str, of: str) -> float:
            return measured.seconds(estimates.kind(name, settings[name], of)) or 0.0

        taken = [history.seconds(factors) for factors in own.values()]
        trained = math.nan if None in taken else sum(taken)
        measures = sum(noted(name, run) for run in own for name in settings if name not in TIMINGS)
        jobs = dict.fromkeys(
            (name, run_names.timing_name(factors), factors["seed"])
            for factors in own.values()
            for name in settings
            if name in TIMINGS
        )
        timed = sum(noted(name, of) for name, of, _ in jobs)
        return (trained + measures) / len(seeds), timed / len(seeds)

    return seconds


def advice(
    results: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
    limits: pandas.DataFrame,
    budgets: pandas.DataFrame,
) -> dict[str, pandas.DataFrame]:
    """Returns which batch sizes to use, and how each stands before every limit."""
    found = study.experiments[experiment]
    tables = advice_evidence.EvidenceTables(runs, _served(trajectories), limits, budgets)
    series = advice_evidence.series_advice(tables, found.trainings, price_of_a_seed(results, found))
    factors = run_series.factor_columns(runs)
    return {
        "advice": advice_tables.summary(series, factors),
        "advice_sizes": advice_tables.sizes(series, factors),
    }
