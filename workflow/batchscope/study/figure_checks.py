"""The default figures of an experiment, and checks of those in `figures` and `published`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received
from batchscope.study.experiments import Experiment
from batchscope.study.figures import FIGURES
from batchscope.study.registry import OUTCOME_MEASURES, SECONDS_TIMINGS, SWEEP_TIMINGS
from batchscope.study.specifications import Figure, FigureRequirement

# Sources of seconds, for messages.
TIMED = display.listed(
    (
        f"{name} in measure" if entry.trains else f"{name} of an experiment under beside"
        for name, entry in SECONDS_TIMINGS.items()
    ),
    "or",
)


def available(
    measures: Collection[str] = (),
    conditions: Iterable[FigureRequirement] = (),
    columns: Collection[str] | None = None,
) -> list[str]:
    """Return the figures that an experiment draws by default.

    Args:
        measures: Its measures and timings.
        conditions: The fulfilled conditions.
        columns: Columns of external runs and varied factors; None for trainings.
    """
    trains = not measures or not set(measures) <= SWEEP_TIMINGS.keys()
    names = []
    for name, figure in FIGURES.items():
        required = figure.requires
        if columns is None:
            allowed = trains or required.measures
            allowed = allowed and not _lacking(required.measures, measures)
        else:
            allowed = not external_run_problem(figure, columns)
        if allowed and set(required.conditions) <= set(conditions) and not figure.along:
            names.append(name)
    return names


def external_run_problem(figure: Figure, columns: Collection[str]) -> str:
    """Return the reason why external runs cannot have a figure; empty if they can.

    Args:
        columns: Columns of our tables that the logs fill, and varied factors.
    """
    required = figure.requires
    measured = required.columns == () and not set(required.measures) <= OUTCOME_MEASURES.keys()
    if required.columns is None or measured or FigureRequirement.AT_EPOCHS in required.conditions:
        return "it shows what a training here leaves behind"
    missing = [name.replace("|", " or ") for name in _lacking(required.columns, columns)]
    if FigureRequirement.LEARNING_RATES in required.conditions and "learning_rate" not in columns:
        missing.append("several values of learning_rate")
    return f"it needs {display.listed(missing)}" if missing else ""


def _lacking(required: Iterable[str], present: Collection[str]) -> list[str]:
    """Return the missing ones of the required names; `a|b` requires a or b."""
    return [name for name in required if set(name.split("|")).isdisjoint(present)]


def problems(
    place: Place, keys: Experiment, measures: Collection[str], timed: bool
) -> Iterator[Problem]:
    """Yield unknown figures, and figures with requirements that the experiment lacks.

    Args:
        measures: Measures or timings of the experiment.
        timed: Whether its runs have seconds.
    """
    for at, name in _names(place, keys):
        if name not in FIGURES:
            yield received(at, name, "the name of a figure", FIGURES)
        elif missing := _lacking(FIGURES[name].requires.measures, measures):
            yield _without(at, FIGURES[name], display.listed(map(_homes, missing)))
        elif at[-2] == "published" and keys.figures and name not in keys.figures:
            yield received(at, name, "a figure of `figures`", keys.figures)
    for at, figure in named(place, keys):
        if figure.along == "seconds" and not timed:
            yield _without(at, figure, TIMED)
        at_epochs = FigureRequirement.AT_EPOCHS
        if at_epochs in figure.requires.conditions and not keys.at_epochs:
            yield _without(at, figure, f"{at_epochs.value} in the experiment")


def named(place: Place, keys: Experiment) -> Iterator[tuple[Place, Figure]]:
    yield from ((at, FIGURES[name]) for at, name in _names(place, keys) if name in FIGURES)


def _names(place: Place, keys: Experiment) -> Iterator[tuple[Place, str]]:
    yield from (((*place, "figures", index), name) for index, name in enumerate(keys.figures))
    yield from (((*place, "published", name), name) for name in keys.published)


def _homes(measures: str) -> str:
    """Return `evaluate in measure`, or `time_epoch in measure or throughput in timing`."""
    homes = (
        (name, "timing" if name in SWEEP_TIMINGS else "measure") for name in measures.split("|")
    )
    return display.listed((f"{name} in {home}" for name, home in homes), "or")


def _without(place: Place, figure: Figure, required: str) -> Problem:
    return Problem(place, f"The figure needs {required} (received '{figure.name}').")
