"""What one more seed of an experiment takes: as its trainings, measures and timings took."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.catalogue import measure_settings, run_names
from batchscope.catalogue.timings import TIMINGS
from batchscope.store import estimates

if TYPE_CHECKING:
    from batchscope.study.plan import Experiment


def price(
    results: Path | str, experiment: Experiment
) -> Callable[[Iterable[str]], tuple[float, float]]:
    """Returns a function of runs: what one more seed of them takes.

    The seconds of one core of its trainings and measures, and those of its timings, each of which
    has the machine to itself: one job per configuration, which learning rates share. The former
    are NaN where nothing is known of some training; measures and timings of which nothing was
    noted count as nothing.
    """
    results = Path(results)
    found = {run: run_names.parse_run(run) for run in experiment.trainings.runs}
    history = estimates.History(results, set(map(estimates.subject, found.values())))
    measured = estimates.MeasureHistory(results)
    settings = {
        name: measure_settings.settings_name(name, values)
        for name, values in experiment.trainings.measures.items()
    }

    def seconds(runs: Iterable[str]) -> tuple[float, float]:
        own = [run for run in runs if run in found]
        seeds = {found[run]["seed"] for run in own}
        if not seeds:
            return math.nan, 0.0

        def noted(name: str, of: str) -> float:
            return measured.seconds(estimates.kind(name, settings[name], of)) or 0.0

        trained = measures = 0.0
        jobs: dict[tuple[str, str, int], None] = {}
        for run in own:
            factors = found[run]
            taken = history.seconds(factors)
            trained += math.nan if taken is None else taken
            for name in settings:
                if name in TIMINGS:
                    jobs[name, run_names.timing_name(factors), factors["seed"]] = None
                else:
                    measures += noted(name, run)
        timed = sum(noted(name, of) for name, of, _ in jobs)
        return (trained + measures) / len(seeds), timed / len(seeds)

    return seconds
