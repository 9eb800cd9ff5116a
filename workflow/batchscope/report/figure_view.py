"""A figure as the page shows it: number, title, caption, picture, data, and its row of trends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from batchscope import damage
from batchscope.report import inline_svg
from batchscope.report.content import Figure, Picture, packed
from batchscope.report.text import marked

# What the page has as tables of text.
AS_TABLES = ("verdict_matrix", "advice", "batch_size_limits")
PRIMARY = "primary"
WHY = ("Weights", "Gradients", "Sharpness", "Landscape")  # categories


def shown(figures: Sequence[Figure]) -> list[list[Figure]]:
    """Returns figures in the order of the page, those together that differ in their axis alone.

    The primary one comes first, then trainings, the machine, and last what says why.
    """
    together: dict[str, list[Figure]] = {}
    for figure in figures:
        if figure.name not in AS_TABLES:
            together.setdefault(figure.of or figure.name, []).append(figure)
    return sorted(together.values(), key=lambda block: _place(block[0]))


def _place(figure: Figure) -> int:
    if figure.name == PRIMARY:
        return 0
    return 2 if figure.category in WHY else 1


def build(
    number: int, experiment: Any, figure: Figure, trends: list[dict[str, Any]]
) -> dict[str, Any]:
    """Returns what the page shows of a figure.

    Args:
        trends: The rows of its experiment, from `experiment_view.trends`; those that figures show
            are taken out, so that none is said twice.
    """
    picture = figure.picture
    return {
        "anchor": f"{experiment.name}-{figure.name}",
        "published": experiment.published.get(figure.name),
        "number": number,
        "name": figure.name,
        "category": figure.category,
        "title": figure.title.rstrip("."),
        "caption": marked(figure.caption),
        "trend": _trend(figure, trends),
        "picture": _picture(picture, number),
        "source": picture.source,
        "width": picture.width,
        "height": picture.height,
        "data": figure.data,
        "table": packed(figure.csv),
        "axis": figure.axis or "epochs",
    }


def _trend(figure: Figure, trends: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the one row of trends.csv that is of a column of a figure; None of several series."""
    for column in figure.columns:
        own = [row for row in trends if row["column"] == column and row["budget"] == "end"]
        if len(own) == 1:
            trends.remove(own[0])
            return own[0]
    return None


def _picture(picture: Picture, number: int) -> Markup | None:
    if not picture.svg:
        return None
    with damage.reading(picture.path, "an SVG image", picture.path.parent):
        return inline_svg.read(picture.svg, f"f{number}")
