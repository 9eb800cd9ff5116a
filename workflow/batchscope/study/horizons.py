"""How far trainings go, and what may not be asked of those that go by their horizon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from batchscope.catalogue import run_factors
from batchscope.catalogue.batch_phases import Course
from batchscope.catalogue.entries import Need
from batchscope.catalogue.run_factors import CONSTANT, HORIZON_REASON, by_horizon
from batchscope.problems import Place, Problem
from batchscope.study import figure_checks
from batchscope.study.experiments import TrainingExperiment


class Schedule(NamedTuple):
    """A factor by which trainings go by their horizon, and its value."""

    factor: str
    value: str

    @property
    def why(self) -> str:
        return f"with {self.factor} {self.value}, {HORIZON_REASON}"

    @property
    def expected(self) -> str:
        return f"{self.factor} {CONSTANT} is expected"


def of_own_runs(schedule: str) -> Schedule | None:
    """Returns the schedule of external runs whose rates fall; none if it is empty."""
    return Schedule("schedule", schedule) if schedule else None


def schedule_of(runs: Iterable[dict[str, Any]]) -> Schedule | None:
    found = ((by_horizon(run), run) for run in runs)
    return next((Schedule(name, run[name]) for name, run in found if name), None)


def of_budgets(place: Place, kinds: Iterable[str], schedule: Schedule | None) -> Iterator[Problem]:
    """Yields that budgets are stated of trainings that go by their horizon."""
    for kind in kinds if schedule else ():
        text = f"received {schedule.why}; {schedule.expected}, or no budgets: equal horizons "
        text += "are compared anyway."
        yield Problem((*place, "budgets", kind), text)


def problems(
    place: Place, keys: TrainingExperiment, runs: list[dict[str, Any]]
) -> Iterator[Problem]:
    """Yields where an experiment reads trainings before their end, or merges their horizons."""
    schedule = schedule_of(runs)
    if not schedule:
        return
    why, expected = schedule.why, schedule.expected
    if keys.at_epochs:
        text = f"received {why}; {expected}, or a run for each number of epochs."
        yield Problem((*place, "at_epochs"), text)
    yield from of_budgets(place, keys.budgets, schedule)
    for at, figure in figure_checks.named(place, keys):
        if Need.PREFIXES in figure.needs:
            yield Problem(at, f"received '{figure.name}' {why}; {expected}, or another figure.")
    horizons: dict[int, set[int]] = {}
    for run in runs:
        horizons.setdefault(run["batch_size"], set()).add(run["epochs"])
    first, *others = horizons.values()
    if any(other != first for other in others):
        text = f"received epochs that follow the batch size, {why}; {expected}, or the same "
        yield Problem((*place, "cases"), f"{text}epochs at every batch size.")


def shortest(
    column: str, trainings: Iterable[dict[str, Any]], training_sizes: Mapping[str, int | None]
) -> int | None:
    """Returns what the shortest training takes to its horizon; None where nobody knows.

    A training may also stop before its horizon, which nobody knows beforehand.

    Args:
        column: Of trajectories.csv.
        training_sizes: Data set -> training examples, None where only the files know.
    """
    ends = [_end(column, one, training_sizes.get(one["dataset"])) for one in trainings]
    return min((end for end in ends if end is not None), default=None)


def _end(column: str, factors: dict[str, Any], size: int | None) -> int | None:
    epochs = factors["epochs"]
    if column == "epoch":
        return epochs
    if size is None or column not in ("updates", "examples"):
        return None
    examples = size * run_factors.training_copies(factors)
    return epochs * examples if column == "examples" else Course(factors, examples).updates(epochs)
