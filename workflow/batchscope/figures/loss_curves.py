"""Training and validation loss, by epoch or another axis, one colour per batch size."""

from __future__ import annotations

import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_epoch, canvas, words

_PANELS = {"train_loss": "Training loss", "validation_loss": "Validation loss"}
_MOST_SHOWN = 5  # batch sizes in a sentence


def select(tables: Tables, along: str = "epoch") -> pandas.DataFrame:
    """Returns one row per run and epoch: factors, status and both losses."""
    return against_epoch.select(tables, list(_PANELS), along)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per series."""
    groups = canvas.present(run_series.series(frame))
    height = 2.75 if len(groups) < 4 else 2.0
    figure, grid = canvas.panels(
        len(groups), len(_PANELS), width=4.2, height=height, sharex=True, sharey="col"
    )
    lines = against_epoch.Lines.of(frame, len(_PANELS), len(groups))
    canvas.alike_scales(grid[0], [against_epoch.scaled_by(frame, name) for name in _PANELS])
    for row, group in zip(grid, groups, strict=True):
        for axes, (column, title) in zip(row, _PANELS.items(), strict=True):
            lines.draw(axes, group.frame, column)
            axes.set_title(wording.titled(title, group.label))
            axes.set_ylabel("loss (nats)")
    for axes in grid[-1]:
        against_epoch.horizontal_axis(axes, frame)
    for column, name in enumerate(_PANELS):
        against_epoch.value_axis(grid[0, column], frame, name)
    against_epoch.legend(figure, lines.styles)
    canvas.notes(figure, against_epoch.runs(frame), against_epoch.band_note(frame, lines.singles))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns both losses by batch size, where all finished runs have used as much."""
    if against_epoch.along(frame) == "epoch":
        epoch, rows = against_epoch.last_shared(frame)
        which = f"in epoch {epoch}, the last that all finished runs share,"
        return _sentences(rows, which, "in that epoch")
    used, rows = against_epoch.at_equal(frame)
    if not used:
        return ""
    within = f"within {used}, which every finished run has used"
    # The training loss is a mean over an epoch, the validation loss is of its end.
    text = _sentences(rows, f"over the last epoch that ends {within},", "at its end")
    if not text:
        return f"No epoch of every seed ends {within}."
    there = rows.loc[rows["status"] == canvas.FINISHED, "batch_size"]
    sizes = sorted(set(frame["batch_size"]) - set(there))
    none = f" No epoch of every seed ends {within}, at batch size {wording.listed(sizes)}."
    return f"{text}{against_epoch.earliest(rows)}{none if sizes else ''}"


def _sentences(rows: pandas.DataFrame, *which: str) -> str:
    sentences = (
        words.sentence(rows, name, f"Mean {what.lower()} {when}", most=_MOST_SHOWN)
        for (name, what), when in zip(_PANELS.items(), which, strict=True)
    )
    return " ".join(filter(None, sentences))
