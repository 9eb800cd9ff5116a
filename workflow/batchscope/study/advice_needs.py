"""Needs of a solid recommendation, each with the key of the study to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from batchscope.study import tasks
from batchscope.study.outcomes import LEAST_SEEDS
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import OF_OUTCOMES, OF_SECONDS, OF_SWEEPS, OF_TRAININGS

LEAST_SIZES = 3
RERUN = "--forcerun"  # key of a check whose value is a rule to run again, no key of a study
RATE_STEP = 3.0  # from one learning rate to the next, for a study with a single one
SEEDS, RATE = "seeds", "learning_rate"
# The timings that give runs their seconds, and the measure that gives outcomes on test data.
TIMED = next(name for name in OF_SECONDS if name in OF_TRAININGS)
SWEEP = next(name for name in OF_SECONDS if name in OF_SWEEPS)
TESTED = next(iter(OF_OUTCOMES))
# Keys of an experiment, with their values, that give runs the same. `log` and `column` are no keys:
# only the user can add to a log.
HERE = {TIMED: (f"measure.{TIMED}", ""), TESTED: (f"measure.{TESTED}", "")}
COMMAND = {TIMED: ("alone", "true"), TESTED: ("log", "{}")}
EXTERNAL = {TIMED: ("column", "seconds"), TESTED: ("column", "{}")}


class Need(NamedTuple):
    """What is missing, and what to change in the study: a key, with dots, and its value.

    Attributes:
        minutes: Of one core that it takes; NaN where unknown.
        seeds: In all, where it is seeds that are missing.
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
    """What is trained of a series, or is to be trained of an experiment.

    Attributes:
        sizes: The batch sizes, ascending.
        rates: How many learning rates, at the size with the fewest; 0 where they are not known.
        rate: The only one, where all share it.
        timed: Whether it has seconds; `tested` whether it has outcomes on test data.
        given_by: What gives such runs their seconds and their outcomes on test data, as `HERE`.
        task: What is learned, of `tasks.TASKS`.
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
    """Yield what is missing, of runs that there are or that are planned.

    Args:
        of_seed: Minutes of one more seed; `of_rate` of one more learning rate.
    """
    if len(trained.sizes) < LEAST_SIZES:
        larger = [2 * trained.sizes[-1], 4 * trained.sizes[-1]]
        yield Need("sizes", "batch_size", [*trained.sizes, *larger][:LEAST_SIZES])
    if not trained.timed:
        yield Need(TIMED, *trained.given_by[TIMED])
    if not trained.tested:
        key, value = trained.given_by[TESTED]
        yield Need(TESTED, key, value.format(f"test_{tasks.TASKS[trained.task][0]}"))
    if trained.seeds < LEAST_SEEDS:
        minutes = (LEAST_SEEDS - trained.seeds) * of_seed
        yield Need(SEEDS, SEEDS, LEAST_SEEDS, minutes, LEAST_SEEDS)
    if trained.rates < 2:
        steps = () if trained.rate is None else (1 / RATE_STEP, 1, RATE_STEP)
        rates = [rounded(trained.rate * step) for step in steps]
        yield Need("rates", RATE, rates or "", 2 * of_rate)


def given_by(experiment: PlannedExperiment) -> Mapping[str, tuple[str, str]]:
    """Return what gives the runs of an experiment their seconds and outcomes, as `HERE`."""
    if experiment.commands:
        return COMMAND
    return EXTERNAL if experiment.own.path else HERE


def planned(experiment: PlannedExperiment) -> list[Need]:
    """Return what will be missing of an experiment that trains at two batch sizes or more."""
    runs = [*experiment.runs.values()]
    runs += [run.factors for run in experiment.commands.values()]
    rates: dict[int, set[float]] = {}
    for run in runs:
        rates.setdefault(run["batch_size"], set()).add(run.get(RATE))
    if len(rates) < 2:
        return []
    every = set().union(*rates.values())
    trained = Trained(
        sorted(rates),
        len(experiment.seeds),
        min(map(len, rates.values())),
        every.pop() if len(every) == 1 else None,
        experiment.timed,
        # What a log will hold is not known yet.
        TESTED in experiment.measures or all(run.get("evaluate_every", True) for run in runs),
        given_by(experiment),
    )
    return [*missing(trained)]


def rounded(value: float) -> float:
    return float(f"{value:.3g}")
