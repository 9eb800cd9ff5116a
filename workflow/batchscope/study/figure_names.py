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
    varied: Collection[str] = ()  # factors with several values, combined with all other factors
    needs: Collection[FigureRequirement] = ()  # fulfilled requirements
    own: Collection[str] | None = None  # columns of external runs; None for trainings

    def suffices(self, figure: Figure) -> bool:
        """Return whether the experiment draws a figure by default."""
        if (
            figure.along
            or not ({*figure.varied} <= {*self.varied} and {*figure.needs} <= {*self.needs})
        ):
            return False
        if self.own is not None:
            return not of_own_runs(figure, {*self.own, *self.varied})
        trained = not self.measures or not {*self.measures} <= {*OF_SWEEPS}
        return bool(trained or figure.measures) and not lacking(figure.measures, self.measures)


def available(properties: Given) -> list[str]:
    return [name for name, figure in FIGURES.items() if properties.suffices(figure)]


def of_own_runs(figure: Figure, columns: Collection[str]) -> str:
    """Return the reason why external runs cannot have a figure; empty if they can.

    Args:
        columns: Columns of our tables that the logs fill, and varied factors.
    """
    measured = figure.own == () and not {*figure.measures} <= {*OF_OUTCOMES}
    if figure.own is None or FigureRequirement.AT_EPOCHS in figure.needs or measured:
        return "it shows what a training here leaves behind"
    missing = [name.replace("|", " or ") for name in lacking(figure.own, columns)]
    missing += [f"several values of {name}" for name in figure.varied if name not in columns]
    return f"it needs {wording.listed(missing)}" if missing else ""


def lacking(required: Iterable[str], present: Collection[str]) -> list[str]:
    """Return the missing ones of the required names; `a|b` requires a or b."""
    return [name for name in required if not {*name.split("|")} & {*present}]
