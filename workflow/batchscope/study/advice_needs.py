"""List what trainings lack for a solid recommendation, with the key of the study to change."""

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
RERUN = "--forcerun"  # This is no key of a study; its value is a rule to run again.
RATE_STEP = 3.0  # ratio of successive learning rates, suggested for a study with a single rate
SEEDS, RATE = "seeds", "learning_rate"
# Suggested timings for the seconds of runs, and the measure for outcomes on test data.
SECONDS_TIMING = next(name for name in SECONDS_TIMINGS if name in TRAINING_TIMINGS)
SWEEP_TIMING = next(name for name in SECONDS_TIMINGS if name in SWEEP_TIMINGS)
TEST_MEASURE = next(iter(OUTCOME_MEASURES))
# Missing timing or measure -> the key of the experiment that adds its numbers, and the value. The
# words `log` and `column` are no such keys, since only the user can add to a log.
TRAINING_KEYS = {
    SECONDS_TIMING: (f"measure.{SECONDS_TIMING}", ""),
    TEST_MEASURE: (f"measure.{TEST_MEASURE}", ""),
}
COMMAND_KEYS = {SECONDS_TIMING: ("alone", "true"), TEST_MEASURE: ("log", "{}")}
EXTERNAL_KEYS = {SECONDS_TIMING: ("column", "seconds"), TEST_MEASURE: ("column", "{}")}


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


class TrainingSummary(NamedTuple):
    """Facts of the trainings of a series, or of the planned trainings of an experiment.

    Attributes:
        sizes: Batch sizes in rising order.
        rates: Number of learning rates at the size with the fewest; 0 if unknown.
        rate: The learning rate, if all trainings have the same one.
        timed: Whether they have seconds.
        tested: Whether they have outcomes on test data.
        keys_to_add: Keys that add seconds and outcomes on test data, as in `TRAINING_KEYS`.
        task: One of `tasks.TASKS`.
    """

    sizes: Sequence[int]
    seeds: int
    rates: int
    rate: float | None = None
    timed: bool = True
    tested: bool = True
    keys_to_add: Mapping[str, tuple[str, str]] = TRAINING_KEYS
    task: str = tasks.CLASSIFICATION


def missing_needs(
    trained: TrainingSummary, seed_minutes: float = math.nan, rate_minutes: float = math.nan
) -> Iterator[Need]:
    """Yield the missing requirements of existing or planned trainings.

    Args:
        seed_minutes: Minutes of one more seed; `rate_minutes`, of one more learning rate.
    """
    if len(trained.sizes) < MIN_SIZES:
        larger = [2 * trained.sizes[-1], 4 * trained.sizes[-1]]
        yield Need("sizes", "batch_size", [*trained.sizes, *larger][:MIN_SIZES])
    if not trained.timed:
        yield Need(SECONDS_TIMING, *trained.keys_to_add[SECONDS_TIMING])
    if not trained.tested:
        key, value = trained.keys_to_add[TEST_MEASURE]
        yield Need(TEST_MEASURE, key, value.format(f"test_{tasks.TASKS[trained.task][0]}"))
    if trained.seeds < MIN_SEEDS:
        minutes = (MIN_SEEDS - trained.seeds) * seed_minutes
        yield Need(SEEDS, SEEDS, MIN_SEEDS, minutes, MIN_SEEDS)
    if trained.rates < 2:
        steps = () if trained.rate is None else (1 / RATE_STEP, 1, RATE_STEP)
        rates = [rounded(trained.rate * step) for step in steps]
        yield Need("rates", RATE, rates or "", 2 * rate_minutes)


def keys_to_add(experiment: PlannedExperiment) -> Mapping[str, tuple[str, str]]:
    """Return the keys that add seconds and outcomes on test data, as in `TRAINING_KEYS`."""
    if experiment.commands:
        return COMMAND_KEYS
    return TRAINING_KEYS if experiment.runs else EXTERNAL_KEYS


def planned_needs(experiment: PlannedExperiment) -> list[Need]:
    """Return the requirements that an experiment with two or more batch sizes will lack."""
    runs = [*experiment.runs.values()]
    runs += [run.factors for run in experiment.commands.values()]
    rates: dict[int, set[float]] = {}
    for run in runs:
        rates.setdefault(run["batch_size"], set()).add(run.get(RATE))
    if len(rates) < 2:
        return []
    distinct_rates = set().union(*rates.values())
    trained = TrainingSummary(
        sorted(rates),
        experiment.verdict_seeds,
        min(map(len, rates.values())),
        distinct_rates.pop() if len(distinct_rates) == 1 else None,
        experiment.timed,
        # The content of a future log is unknown.
        TEST_MEASURE in experiment.measures or all(run.get("evaluate_every", True) for run in runs),
        keys_to_add(experiment),
    )
    return [*missing_needs(trained)]


def rounded(value: float) -> float:
    return float(f"{value:.3g}")
