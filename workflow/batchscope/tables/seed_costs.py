"""What one more seed of an experiment takes: as its finished trainings and measures took."""

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


def price(results: Path | str, experiment: Experiment) -> Callable[[Iterable[str]], float]:
    """Returns a function of runs: seconds of one core that one more seed of them takes.

    NaN where nothing is known of some training. Measures of which nothing was noted count as
    nothing, and times of steps, which another seed shares, are no part of it.
    """
    results = Path(results)
    found = {run: run_names.parse_run(run) for run in experiment.trainings.runs}
    history = estimates.History(results, set(map(estimates.subject, found.values())))
    measured = estimates.MeasureHistory(results)
    settings = {
        name: measure_settings.settings_name(name, values)
        for name, values in experiment.trainings.measures.items()
        if name not in TIMINGS
    }

    def seconds(runs: Iterable[str]) -> float:
        own = [run for run in runs if run in found]
        seeds = {found[run]["seed"] for run in own}
        total = 0.0
        for run in own:
            taken = history.seconds(found[run])
            if taken is None:
                return math.nan
            total += taken
            for name, given in settings.items():
                total += measured.seconds(estimates.kind(name, given, run)) or 0.0
        return total / len(seeds) if seeds else math.nan

    return seconds
