"""The default figures of an experiment, and the missing requirements of a figure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from batchscope import wording
from batchscope.study.figures import FIGURES
from batchscope.study.registry import OF_OUTCOMES, OF_SWEEPS
from batchscope.study.specifications import Figure, FigureRequirement


@dataclass(frozen=True)
class Given:
    """Properties of an experiment that figures require."""

    measures: Collection[str] = ()  # measures and timings
    needs: Collection[FigureRequirement] = ()  # fulfilled requirements
    own: Collection[str] | None = None  # columns of external runs; None for trainings

    def suffices(self, figure: Figure) -> bool:
        """Return whether the experiment draws a figure by default."""
        required = figure.requires
        if figure.along or not {*required.conditions} <= {*self.needs}:
            return False
        if self.own is not None:
            return not of_own_runs(figure, self.own)
        trained = not self.measures or not {*self.measures} <= {*OF_SWEEPS}
        return bool(trained or required.measures) and not lacking(required.measures, self.measures)


def available(properties: Given) -> list[str]:
    return [name for name, figure in FIGURES.items() if properties.suffices(figure)]


def of_own_runs(figure: Figure, columns: Collection[str]) -> str:
    """Return the reason why external runs cannot have a figure; empty if they can.

    Args:
        columns: Columns of our tables that the logs fill, and varied factors.
    """
    required = figure.requires
    measured = required.columns == () and not {*required.measures} <= {*OF_OUTCOMES}
    if required.columns is None or measured or FigureRequirement.AT_EPOCHS in required.conditions:
        return "it shows what a training here leaves behind"
    missing = [name.replace("|", " or ") for name in lacking(required.columns, columns)]
    if FigureRequirement.LEARNING_RATES in required.conditions and "learning_rate" not in columns:
        missing.append("several values of learning_rate")
    return f"it needs {wording.listed(missing)}" if missing else ""


def lacking(required: Iterable[str], present: Collection[str]) -> list[str]:
    """Return the missing ones of the required names; `a|b` requires a or b."""
    return [name for name in required if not {*name.split("|")} & {*present}]
