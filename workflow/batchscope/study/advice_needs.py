"""Missing requirements of a solid recommendation, with the keys of the study to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from batchscope.study import tasks
from batchscope.study.outcomes import MIN_SEEDS
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import (
    OUTCOME_MEASURES,
    SECONDS_TIMINGS,
    SWEEP_TIMINGS,
    TRAINING_TIMINGS,
)

MIN_SIZES = 3
RERUN = "--forcerun"  # not a key of the study; its value is a rule to run again
RATE_STEP = 3.0  # ratio of successive learning rates, suggested for a study with a single rate
SEEDS, RATE = "seeds", "learning_rate"
# Timings for the seconds of runs, and the measure for outcomes on test data.
TIMED = next(name for name in SECONDS_TIMINGS if name in TRAINING_TIMINGS)
SWEEP = next(name for name in SECONDS_TIMINGS if name in SWEEP_TIMINGS)
TESTED = next(iter(OUTCOME_MEASURES))
# For trainings, commands and external runs: the key and value that add seconds, and those that add
# outcomes on test data. `log` and `column` are no keys, since only the user can add to a log.
HERE = {TIMED: (f"measure.{TIMED}", ""), TESTED: (f"measure.{TESTED}", "")}
COMMAND = {TIMED: ("alone", "true"), TESTED: ("log", "{}")}
EXTERNAL = {TIMED: ("column", "seconds"), TESTED: ("column", "{}")}


class Need(NamedTuple):
    """A missing requirement, and the key of the study to change, with its new value.

    Attributes:
        key: Key of an experiment, with dots between levels.
        minutes: Minutes of one core that the change takes; NaN if unknown.
        seeds: Total number of seeds, if seeds are missing.
    """

    name: str
    key: str
    value: Any = ""
    minutes: float = math.nan
    seeds: float = math.nan

    def row(self) -> dict[str, Any]:
        row = {"name": self.name, "passed": None, "key": self.key, "value": str(self.value)}
        return {**row, "seeds_to_resolve": self.seeds, "minutes_to_resolve": self.minutes}


class Trained(NamedTuple):
    """Trainings of a series, or planned trainings of an experiment.

    Attributes:
        sizes: Batch sizes in rising order.
        rates: Number of learning rates at the size with the fewest; 0 if unknown.
        rate: The learning rate, if all trainings have the same one.
        timed: Whether they have seconds; `tested`, whether they have outcomes on test data.
        given_by: Keys that add seconds and outcomes on test data, as in `HERE`.
        task: One of `tasks.TASKS`.
    """

    sizes: Sequence[int]
    seeds: int
    rates: int
    rate: float | None = None
    timed: bool = True
    tested: bool = True
    given_by: Mapping[str, tuple[str, str]] = HERE
    task: str = tasks.CLASSIFICATION


def missing(
    trained: Trained, of_seed: float = math.nan, of_rate: float = math.nan
) -> Iterator[Need]:
    """Yield the missing requirements of existing or planned trainings.

    Args:
        of_seed: Minutes of one more seed; `of_rate`, of one more learning rate.
    """
    if len(trained.sizes) < MIN_SIZES:
        larger = [2 * trained.sizes[-1], 4 * trained.sizes[-1]]
        yield Need("sizes", "batch_size", [*trained.sizes, *larger][:MIN_SIZES])
    if not trained.timed:
        yield Need(TIMED, *trained.given_by[TIMED])
    if not trained.tested:
        key, value = trained.given_by[TESTED]
        yield Need(TESTED, key, value.format(f"test_{tasks.TASKS[trained.task][0]}"))
    if trained.seeds < MIN_SEEDS:
        minutes = (MIN_SEEDS - trained.seeds) * of_seed
        yield Need(SEEDS, SEEDS, MIN_SEEDS, minutes, MIN_SEEDS)
    if trained.rates < 2:
        steps = () if trained.rate is None else (1 / RATE_STEP, 1, RATE_STEP)
        rates = [rounded(trained.rate * step) for step in steps]
        yield Need("rates", RATE, rates or "", 2 * of_rate)


def given_by(experiment: PlannedExperiment) -> Mapping[str, tuple[str, str]]:
    """Return the keys that add seconds and outcomes on test data, as in `HERE`."""
    if experiment.commands:
        return COMMAND
    return HERE if experiment.runs else EXTERNAL


def planned(experiment: PlannedExperiment) -> list[Need]:
    """Return the requirements that an experiment with two or more batch sizes will lack."""
    runs = [*experiment.runs.values()]
    runs += [run.factors for run in experiment.commands.values()]
    rates: dict[int, set[float]] = {}
    for run in runs:
        rates.setdefault(run["batch_size"], set()).add(run.get(RATE))
    if len(rates) < 2:
        return []
    distinct_rates = set().union(*rates.values())
    trained = Trained(
        sorted(rates),
        experiment.verdict_seeds,
        min(map(len, rates.values())),
        distinct_rates.pop() if len(distinct_rates) == 1 else None,
        experiment.timed,
        # The content of a future log is unknown.
        TESTED in experiment.measures or all(run.get("evaluate_every", True) for run in runs),
        given_by(experiment),
    )
    return [*missing(trained)]


def rounded(value: float) -> float:
    return float(f"{value:.3g}")
