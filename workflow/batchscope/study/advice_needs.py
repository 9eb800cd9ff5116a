"""What a solid advice on batch sizes needs of a study, each with the line to add to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from batchscope.catalogue import tasks
from batchscope.catalogue.outcomes import LEAST_SEEDS
from batchscope.study.plan import Experiment

LEAST_SIZES = 3
RERUN = "--forcerun"  # key of a check whose value is a rule to run again, no key of a study
_BLANKS = ("measure", "columns")  # keys of lists, to which a value is added


# What gives runs their seconds and outcomes on test data -> the key of a study, and its value.
_RATES = {"rates": ("vary.learning_rate", "{}")}
HERE = {"time_epoch": ("measure", "time_epoch"), "evaluate": ("measure", "evaluate"), **_RATES}
IN_A_FILE = {
    "time_epoch": ("columns", "seconds"),
    "evaluate": ("columns", "{}"),
    "rates": ("columns", "learning_rate"),
}
_IN_A_LOG = {"time_epoch": ("alone", "true"), "evaluate": ("log.columns.{}", "NAME"), **_RATES}


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
        """Returns it as a row of the advice."""
        found = {"name": self.name, "key": self.key, "value": str(self.value)}
        return {**found, "seeds_to_resolve": self.seeds, "minutes_to_resolve": self.minutes}


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


def missing(found: Trained, of_seed: float = math.nan, of_rate: float = math.nan) -> Iterator[Need]:
    """Yields what is missing, of runs that there are or that are planned.

    Args:
        of_seed: Minutes of one more seed; `of_rate` of one more learning rate.
    """
    if len(found.sizes) < LEAST_SIZES:
        larger = [2 * found.sizes[-1], 4 * found.sizes[-1]]
        yield Need("sizes", "vary.batch_size", [*found.sizes, *larger][:LEAST_SIZES])
    if not found.timed:
        yield Need("time_epoch", *found.given_by["time_epoch"])
    if not found.tested:
        outcome = f"test_{tasks.TASKS[found.task][0]}"
        yield Need("evaluate", *(each.format(outcome) for each in found.given_by["evaluate"]))
    if found.seeds < LEAST_SEEDS:
        minutes = (LEAST_SEEDS - found.seeds) * of_seed
        yield Need("seeds", "seeds", LEAST_SEEDS, minutes, LEAST_SEEDS)
    if found.rates < 2:
        rates = [] if found.rate is None else [rounded(found.rate * each) for each in (0.5, 1, 2)]
        key, value = found.given_by["rates"]
        yield Need("rates", key, value.format(rates or ""), 2 * of_rate)


def given_by(experiment: Experiment) -> Mapping[str, tuple[str, str]]:
    """Returns what gives the runs of an experiment their seconds and outcomes, as `HERE`."""
    if experiment.commands:
        return _IN_A_LOG
    return IN_A_FILE if experiment.own.path else HERE


def planned(experiment: Experiment) -> list[Need]:
    """Returns what will be missing of an experiment that trains at two batch sizes or more."""
    trainings, runs = experiment.trainings, [*experiment.trainings.runs.values()]
    runs += [run.factors for run in experiment.commands.values()]
    rates: dict[int, set[float]] = {}
    for run in runs:
        rates.setdefault(run["batch_size"], set()).add(run.get("learning_rate"))
    if len(rates) < 2:
        return []
    every = set().union(*rates.values())
    found = Trained(
        sorted(rates),
        len(trainings.seeds),
        min(map(len, rates.values())),
        every.pop() if len(every) == 1 else None,
        trainings.timed,
        # What a log will hold is not known yet.
        "evaluate" in trainings.measures or all(run.get("evaluate_every", True) for run in runs),
        given_by(experiment),
    )
    return [*missing(found)]


def line(key: str, value: Any) -> str:
    """Returns what to add to a study, as YAML: `vary: {learning_rate: [0.1, 0.2]}`."""
    first, *rest = key.split(".")
    text = f"[{value}]" if first in _BLANKS and not rest else str(value)
    for each in reversed(rest):
        text = f"{{{each}: {text}}}"
    return f"{first}: {text}"


def rounded(value: float) -> float:
    """Returns a number with three significant digits."""
    return float(f"{value:.3g}")
