"""The default figures of an experiment, and the missing requirements of a figure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from batchscope import wording
from batchscope.study.figures import FIGURES
from batchscope.study.registry import OF_OUTCOMES, OF_SWEEPS
from batchscope.study.specifications import Figure, FigureRequirement


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
    trained = not measures or not set(measures) <= OF_SWEEPS.keys()
    names = []
    for name, figure in FIGURES.items():
        required = figure.requires
        if figure.along or not set(required.conditions) <= set(conditions):
            continue
        if columns is not None:
            is_available = not of_own_runs(figure, columns)
        else:
            is_available = trained or required.measures
            is_available = is_available and not lacking(required.measures, measures)
        if is_available:
            names.append(name)
    return names


def of_own_runs(figure: Figure, columns: Collection[str]) -> str:
    """Return the reason why external runs cannot have a figure; empty if they can.

    Args:
        columns: Columns of our tables that the logs fill, and varied factors.
    """
    required = figure.requires
    measured = required.columns == () and not set(required.measures) <= OF_OUTCOMES.keys()
    if required.columns is None or measured or FigureRequirement.AT_EPOCHS in required.conditions:
        return "it shows what a training here leaves behind"
    missing = [name.replace("|", " or ") for name in lacking(required.columns, columns)]
    if FigureRequirement.LEARNING_RATES in required.conditions and "learning_rate" not in columns:
        missing.append("several values of learning_rate")
    return f"it needs {wording.listed(missing)}" if missing else ""


def lacking(required: Iterable[str], present: Collection[str]) -> list[str]:
    """Return the missing ones of the required names; `a|b` requires a or b."""
    return [name for name in required if set(name.split("|")).isdisjoint(present)]
