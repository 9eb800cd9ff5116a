"""Decide which figures an experiment draws by default, and check those that it names."""

from collections.abc import Collection, Iterable, Iterator

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received
from batchscope.study.experiments import LoggedExperiment, TrainingExperiment
from batchscope.study.figures import FIGURES
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import ENTRIES, OUTCOME_MEASURES, SECONDS_TIMINGS, SWEEP_TIMINGS
from batchscope.study.specifications import Figure, FigureRequirement

# Keys that give runs their seconds, as text for messages.
SECONDS_SOURCES = f"{', '.join(SECONDS_TIMINGS)} in measure or in an experiment under beside"


def default_figures(
    measures: Collection[str] = (),
    conditions: Iterable[FigureRequirement] = (),
    columns: Collection[str] | None = None,
) -> list[str]:
    """Return the figures that an experiment draws by default.

    Args:
        measures: Measures and timings of the experiment.
        conditions: Requirements that it fulfils.
        columns: Columns of external runs and varied factors; None for trainings.
    """
    # An experiment that only times sweeps has no training to draw.
    trains = not measures or not set(measures) <= SWEEP_TIMINGS.keys()
    names = []
    for name, figure in FIGURES.items():
        if columns is None:
            allowed = (trains or figure.measures) and not _missing_names(figure.measures, measures)
        else:
            allowed = not external_run_problem(figure, columns)
        if allowed and set(figure.conditions) <= set(conditions) and not figure.variant_axis:
            names.append(name)
    return names


def external_run_problem(figure: Figure, columns: Collection[str]) -> str:
    """Return the reason why external runs cannot have a figure; empty if they can.

    Args:
        columns: Columns of our tables that the logs fill, and varied factors.
    """
    measured = figure.log_columns == () and not set(figure.measures) <= OUTCOME_MEASURES.keys()
    if figure.log_columns is None or measured or FigureRequirement.AT_EPOCHS in figure.conditions:
        return "it shows what a training here leaves behind"
    missing = [name.replace("|", " or ") for name in _missing_names(figure.log_columns, columns)]
    if FigureRequirement.LEARNING_RATES in figure.conditions and "learning_rate" not in columns:
        missing.append("several values of learning_rate")
    return f"it needs {display.listed(missing)}" if missing else ""


def _missing_names(required: Iterable[str], present: Collection[str]) -> list[str]:
    """Return the missing ones of the required names; `a|b` requires a or b."""
    return [name for name in required if set(name.split("|")).isdisjoint(present)]


def problems(planned: PlannedExperiment) -> Iterator[Problem]:
    """Yield unknown figures, and figures with requirements that the experiment lacks."""
    keys = planned.keys
    # The columns of logs are unknown here; `checks.log_problems` compares figures with them.
    is_logged = isinstance(keys, LoggedExperiment)
    measures = ENTRIES if is_logged else {**planned.measures, **planned.timings}
    lacks_seconds = isinstance(keys, TrainingExperiment) and not planned.timed
    for key_place, name in _stated_names(planned):
        figure = FIGURES.get(name)
        if figure is None:
            yield received(key_place, name, "the name of a figure", FIGURES)
        elif missing := _missing_names(figure.measures, measures):
            text = display.listed(names.replace("|", " or ") for names in missing)
            yield _missing_requirement(key_place, name, f"{text} in measure or timing")
        elif key_place[-2] == "published" and keys.figures and name not in keys.figures:
            yield received(key_place, name, "a figure of `figures`", keys.figures)
        elif figure.variant_axis == "seconds" and lacks_seconds:
            yield _missing_requirement(key_place, name, SECONDS_SOURCES)
        elif FigureRequirement.AT_EPOCHS in figure.conditions and not keys.at_epochs:
            yield _missing_requirement(key_place, name, "at_epochs in the experiment")


def _missing_requirement(place: Place, name: str, required: str) -> Problem:
    return Problem(place, f"The figure needs {required} (received '{name}').")


def named_figures(planned: PlannedExperiment) -> Iterator[tuple[Place, Figure]]:
    for key_place, name in _stated_names(planned):
        if name in FIGURES:
            yield key_place, FIGURES[name]


def _stated_names(planned: PlannedExperiment) -> Iterator[tuple[Place, str]]:
    keys, place = planned.keys, planned.place
    yield from (((*place, "figures", index), name) for index, name in enumerate(keys.figures))
    yield from (((*place, "published", name), name) for name in keys.published)
