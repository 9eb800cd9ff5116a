"""Top eigenvalue and trace of the Hessian against batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, canvas, words
from batchscope.figures.drawing.against_batch_size import Panel, Place

_PANELS = [
    Panel("hessian_top_eigenvalue", "Largest eigenvalue", "λ of the training loss's Hessian"),
    Panel("hessian_trace", "Trace", "trace of the Hessian"),
]
_SMALL = 0.001  # share below which an error has no digits


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, eigenvalue and trace, with their own errors, of every run."""
    columns = [name for panel in _PANELS for name in (panel.column, _error(panel.column))]
    return against_batch_size.select(tables.runs, columns)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    alone = frame["seed"].nunique() == 1
    note = "Bars: the numerical errors of single runs." if alone else _error_note(frame)
    return against_batch_size.draw(frame, _PANELS, extra=_own_error, note=note)


def found(frame: pandas.DataFrame) -> str:
    """Returns both at the ends of the batch sizes."""
    sentences = (
        words.sentence(frame, panel.column, f"Mean {panel.title.lower()}") for panel in _PANELS
    )
    return " ".join(filter(None, sentences))


def _error(column: str) -> str:
    return f"{column}_error"


def _own_error(
    axes: Axes, panel: Panel, group: run_series.Series, style: dict[str, Any], place: Place
) -> None:
    """Draws the value's own error where there is one seed, and so no interval over seeds."""
    if group.frame["seed"].nunique() > 1:
        return
    rows = group.frame[group.frame["status"] == canvas.FINISHED].dropna(subset=[panel.column])
    axes.errorbar(
        np.log2(rows["batch_size"].to_numpy(float)) + place.offset,
        rows[panel.column].to_numpy(float),
        yerr=rows[_error(panel.column)].fillna(0).to_numpy(float),
        linestyle="none",
        elinewidth=1.2,
        color=style["color"],
        zorder=2,
    )


def _percent(share: float) -> str:
    return wording.percent(share) if share >= _SMALL else f"below {wording.percent(_SMALL)}"


def _error_note(frame: pandas.DataFrame) -> str:
    """Returns how large the values' own errors are, which intervals over seeds do not hold."""
    parts = []
    for panel in _PANELS:
        share = frame[_error(panel.column)] / frame[panel.column].abs()
        share = share.replace([np.inf, -np.inf], np.nan).dropna()
        if len(share):
            parts.append(f"{panel.title.lower()} {_percent(float(share.median()))}")
    return f"Median numerical error of single values: {', '.join(parts)}." if parts else ""
