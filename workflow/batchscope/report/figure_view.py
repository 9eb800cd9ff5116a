"""A figure as the page shows it: picture, finding, what a document found, and how to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from batchscope import damage
from batchscope.catalogue.entries import OVER, Need
from batchscope.catalogue.figures import FIGURES
from batchscope.report import answers, claim_rows, experiment_answer, inline_svg, reading
from batchscope.report.answers import Answer
from batchscope.report.content import ExperimentResults, Figure, Picture, packed
from batchscope.report.runs_table import Row
from batchscope.report.text import marked

# Figures of every epoch, whose measures are of no weights in particular.
_EVERY_EPOCH = (
    *(name for name, entry in FIGURES.items() if "epoch_distance" in (name, entry.of)),
    *(name for name, entry in FIGURES.items() if Need.AT_EPOCHS in entry.needs),
)
_SMALL_TEXTS = ("verdict_matrix",)  # never beside another, where they would be smaller still
# CSS pixels up to which two stand in a row of a usual screen, and of a wide one.
_NARROW, _MEDIUM = 560, 760


class Finder:
    """Finds the number and the seed of a run by the factors that a picture marks it with."""

    def __init__(self, rows: Sequence[Row], numbers: Mapping[str, int]) -> None:
        """Takes the rows of an experiment, and run -> its number on the page."""
        self._rows = [(row, numbers[row["run"]]) for row in rows]
        self._names = {name for row in rows for name in row}
        self._found: dict[tuple[str, ...], dict[tuple[str, ...], int | None]] = {}

    def __call__(self, text: str) -> tuple[int | None, str] | None:
        """Returns a run's number and seed: no number where several runs are meant."""
        factors = dict(part.partition("=")[::2] for part in text.split())
        names = tuple(name for name in factors if name in self._names)
        if "seed" not in names:
            return None
        if names not in self._found:
            found = self._found[names] = {}
            for row, number in self._rows:
                values = tuple(row.get(name, "").replace(" ", "_") for name in names)
                found[values] = number if found.get(values, number) == number else None
        return self._found[names].get(tuple(factors[name] for name in names)), factors["seed"]


def build(
    position: int, figure: Figure, of: ExperimentResults, stated: list[dict[str, Any]], find: Finder
) -> dict[str, Any]:
    """Returns what the page shows of a figure.

    Args:
        stated: What `claim_rows.build` returns of the figure's experiment.
    """
    experiment, picture = of.experiment, figure.picture
    claims = [row for row in stated if row["figure"] == figure.name]
    finding, more = experiment_answer.first(figure.found)
    entry = FIGURES.get(figure.name)
    width = math.inf if picture.width is None or figure.name in _SMALL_TEXTS else picture.width
    span = "wide" if width > _MEDIUM else "medium" if width > _NARROW else "narrow"
    return {
        "anchor": f"{experiment.name}-{figure.name}",
        "published": experiment.published.get(figure.name),
        "finding": _with_slope(finding, figure, of.answers),
        "more": more,
        "claims": [(row["word"], row["sentence"], claim_rows.in_words(row)) for row in claims],
        "claim_counts": claim_rows.counts(claims),
        "number": position,
        "name": figure.name,
        "title": figure.title.rstrip("."),
        "caption": marked(reading.caption(figure)),
        "measured": _measured(figure.name, of),
        "picture": _picture(picture, position, find),
        "source": picture.source,
        "width": picture.width,
        "height": picture.height,
        "span": span,
        "data": figure.data,
        "table": packed(figure.csv),
        "of": (entry.of or entry.name) if entry else figure.name,
        "axis": OVER[entry.along] if entry and entry.along else "epoch",
    }


def blocks(figures: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Returns figures in order, those together that differ in their axis alone."""
    together: dict[str, list[dict[str, Any]]] = {}
    for figure in figures:
        together.setdefault(figure["of"], []).append(figure)
    return list(together.values())


def _picture(picture: Picture, position: int, find: Finder) -> Markup | None:
    if not picture.svg:
        return None
    with damage.reading(picture.path, "an SVG image", picture.path.parent):
        return inline_svg.read(picture.svg, f"f{position}", find)


def _with_slope(finding: str, figure: Figure, all_answers: list[Answer]) -> str:
    """Returns a finding with the slope of its own outcome, where it says no interval itself.

    Of one series: of several, no slope is of all. Slopes are of whole trainings: a finding about
    so many epochs of them has none.
    """
    entry = FIGURES.get(figure.name)
    if "interval" in finding or "[" in finding or (entry and Need.AT_EPOCHS in entry.needs):
        return finding
    own = [
        answer
        for answer in all_answers
        if answer.outcome.column in figure.columns
        and answer.outcome.label.lower() in finding.lower()
    ]
    slope = answers.slope(own[0]) if len(own) == 1 else ""
    return f"{finding} It changes by {slope}." if slope else finding


def _measured(figure: str, of: ExperimentResults) -> str:
    """Returns of which weights, and on how many examples, a figure's measures are."""
    if figure in _EVERY_EPOCH:
        return ""
    sizes = {row["train_examples"] for row in of.rows if row.get("train_examples")}
    size = int(sizes.pop()) if len(sizes) == 1 else None
    parts = []
    for measure in FIGURES[figure].measures if figure in FIGURES else ():
        settings = of.experiment.trainings.measures.get(measure, {})
        if "weights" in settings:
            parts.append(f"{settings['weights']} weights")
        if "examples" in settings:
            parts.append(_examples(settings["examples"], size))
    return f"Measured of: {', '.join(parts)}." if parts else ""


def _examples(asked: int, size: int | None) -> str:
    """Returns how many training examples a measure reads: those that it asks for, if there are."""
    if size is None:
        return f"{asked:,} training examples or all" if asked else "all training examples"
    if not 0 < asked < size:
        return f"all {size:,} training examples"
    return f"{asked:,} of {size:,} training examples"
