"""The figures that an experiment draws unasked, and what a figure lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from batchscope import wording
from batchscope.study.figures import FIGURES
from batchscope.study.registry import OF_OUTCOMES, OF_SWEEPS
from batchscope.study.specifications import Figure, FigureRequirement


@dataclass(frozen=True)
class Given:
    """What an experiment gives its figures."""

    measures: Collection[str] = ()  # and timings
    varied: Collection[str] = ()  # factors of which it crosses several values with all else
    needs: Collection[FigureRequirement] = ()  # what it has of what a figure may need
    own: Collection[str] | None = None  # columns of external runs; None for runs that are made here

    def suffices(self, figure: Figure) -> bool:
        """Returns whether a figure is drawn of it unasked."""
        if (
            figure.along
            or figure.asked
            or not ({*figure.varied} <= {*self.varied} and {*figure.needs} <= {*self.needs})
        ):
            return False
        if self.own is not None:
            return not of_own_runs(figure, {*self.own, *self.varied})
        trained = not self.measures or not {*self.measures} <= {*OF_SWEEPS}
        return bool(trained or figure.measures) and not lacking(figure.measures, self.measures)


def available(given: Given) -> list[str]:
    return [name for name, figure in FIGURES.items() if given.suffices(figure)]


def of_own_runs(figure: Figure, columns: Collection[str]) -> str:
    """Returns why a figure cannot be drawn of external runs; empty if it can.

    Args:
        columns: Columns of our tables that theirs fills, and factors that are varied.
    """
    measured = figure.own == () and not {*figure.measures} <= {*OF_OUTCOMES}
    if figure.own is None or FigureRequirement.AT_EPOCHS in figure.needs or measured:
        return "it shows what a training here leaves behind"
    found = lacking(figure.own, columns)
    found += [f"several values of {one}" for one in figure.varied if one not in columns]
    return f"it needs {wording.listed(one.replace('|', ' or ') for one in found)}" if found else ""


def lacking(wanted: Iterable[str], there: Collection[str]) -> list[str]:
    """Returns what is wanted and not there; either will do of `a|b`."""
    return [one for one in wanted if not {*one.split("|")} & {*there}]
