"""Lengths of trainings, and checks of learning rates that depend on the length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from batchscope.problems import Place, Problem, received
from batchscope.study import figure_checks, run_factors
from batchscope.study.batch_phases import Course
from batchscope.study.experiments import TrainingExperiment
from batchscope.study.run_factors import CONSTANT, HORIZON_REASON, by_horizon
from batchscope.study.specifications import FigureRequirement


class Schedule(NamedTuple):
    """A factor that makes a training depend on its length, and its value."""

    factor: str
    value: str

    @property
    def why(self) -> str:
        return f"with {self.factor} {self.value}, {HORIZON_REASON}"

    @property
    def expected(self) -> str:
        return f"{self.factor} {CONSTANT}"


def of_own_runs(schedule: str) -> Schedule | None:
    return Schedule("schedule", schedule) if schedule else None


def schedule_of(runs: Iterable[dict[str, Any]]) -> Schedule | None:
    factors = ((by_horizon(run), run) for run in runs)
    return next((Schedule(name, run[name]) for name, run in factors if name), None)


def of_budgets(place: Place, kinds: Iterable[str], schedule: Schedule | None) -> Iterator[Problem]:
    for kind in kinds if schedule else ():
        text = f"{schedule.expected}, or no budgets, since equal lengths are compared anyway"
        yield received((*place, "budgets", kind), kind, text, why=f" {schedule.why}")


def problems(
    place: Place, keys: TrainingExperiment, runs: list[dict[str, Any]]
) -> Iterator[Problem]:
    """Yield keys that use trainings before their end, or that mix lengths of trainings."""
    schedule = schedule_of(runs)
    if not schedule:
        return
    why, expected = schedule.why, schedule.expected
    if keys.at_epochs:
        text = f"{expected}, or a run for each number of epochs"
        yield received((*place, "at_epochs"), list(keys.at_epochs), text, why=f" {why}")
    yield from of_budgets(place, keys.budgets, schedule)
    for at, figure in figure_checks.named(place, keys):
        if FigureRequirement.PREFIXES in figure.requires.conditions:
            yield received(at, figure.name, f"{expected}, or another figure", why=f" {why}")
    horizons: dict[int, set[int]] = {}
    for run in runs:
        horizons.setdefault(run["batch_size"], set()).add(run["epochs"])
    first, *further = horizons.values()
    if any(other != first for other in further):
        text = f"Expected {expected}, or the same epochs at every batch size ({why})."
        yield Problem((*place, "cases"), text)


def shortest(
    column: str, trainings: Iterable[dict[str, Any]], training_sizes: Mapping[str, int | None]
) -> int | None:
    """Return the length of the shortest training; None if it is unknown.

    Early stopping is not considered.

    Args:
        column: Column of trajectories.csv.
        training_sizes: Data set -> training examples, None if only the files know.
    """
    ends = [_end(column, factors, training_sizes.get(factors["dataset"])) for factors in trainings]
    return min((end for end in ends if end is not None), default=None)


def _end(column: str, factors: dict[str, Any], size: int | None) -> int | None:
    epochs = factors["epochs"]
    if column == "epoch":
        return epochs
    if size is None or column not in ("updates", "examples"):
        return None
    examples = size * run_factors.training_copies(factors)
    return epochs * examples if column == "examples" else Course(factors, examples).updates(epochs)
