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
from batchscope.figures.drawing import against_batch_size, canvas
from batchscope.figures.drawing.against_batch_size import Panel, Place

_PANELS = [
    Panel("hessian_top_eigenvalue", "Largest eigenvalue", "λ of the training loss's Hessian"),
    Panel("hessian_trace", "Trace", "trace of the Hessian"),
]
_SMALL = 0.001  # share below which an error has no digits


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, eigenvalue and trace, with their own errors, of every run."""
    columns = [f"{panel.column}{end}" for panel in _PANELS for end in ("", "_error")]
    return against_batch_size.select(tables.runs, columns)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    alone = frame["seed"].nunique() == 1
    note = "Bars: the numerical errors of single runs." if alone else _error_note(frame)
    return against_batch_size.draw(frame, _PANELS, extra=_own_error, note=note)


def found(frame: pandas.DataFrame) -> str:
    """Returns both at the ends of the batch sizes."""
    columns = {panel.column: (panel.title, panel.label) for panel in _PANELS}
    return against_batch_size.Columns(columns).found(frame)


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
        yerr=rows[f"{panel.column}_error"].fillna(0).to_numpy(float),
        linestyle="none",
        elinewidth=1.2,
        color=style["color"],
        zorder=2,
    )


def _error_note(frame: pandas.DataFrame) -> str:
    """Returns how large the values' own errors are, which intervals over seeds do not hold."""
    parts = []
    for panel in _PANELS:
        shares = frame[f"{panel.column}_error"] / frame[panel.column].abs()
        shares = shares.replace([np.inf, -np.inf], np.nan).dropna()
        if len(shares):
            least = "" if shares.median() >= _SMALL else "below "
            share = wording.percent(max(shares.median(), _SMALL))
            parts.append(f"{panel.title.lower()} {least}{share}")
    return f"Median numerical error of single values: {', '.join(parts)}." if parts else ""
