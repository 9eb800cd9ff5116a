"""Time per epoch, epochs until a training stopped, and total training time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path

from batchscope import wording
from batchscope.analysis import run_series, training_ends
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, canvas, words
from batchscope.figures.drawing.against_batch_size import Panel, Place

_EPOCH = Panel("seconds_per_epoch", "Time per epoch", "time per epoch (s)")
_STOP = Panel("epochs_run", "Epochs until it stopped", "epochs")
_TOTAL = Panel("train_seconds", "Total training time", "total time (s)")
_ALL = "all runs"  # the series beside several of which it is the time
_SECONDS = wording.Unit(" s")
_MOST_SHOWN = 4  # series in a sentence
_EPOCH_NOTE = "Time per epoch: of a timing job for each seed, all batch sizes in turns."
_ALL_EPOCHS = "Every finished training ran all its epochs: none stopped early."
_TOTAL_NOTE = "Total: epochs run × time per epoch, validation apart."
# An arrow that points upwards from a run's point.
_ARROW = Path([(0, 0.15), (0, 1), (-0.12, 0.75), (0, 1), (0.12, 0.75)], [1, 2, 1, 2, 2])


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status, time per epoch, epochs and total time of every run."""
    columns = [_EPOCH.column, _STOP.column, _TOTAL.column]
    more = ("epochs", "replicas", "device", *training_ends.STOPS)
    varying = run_series.varying(tables.runs)
    columns += [name for name in more if name in tables.runs and name not in varying]
    return against_batch_size.select(tables.runs, columns)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: of trainings of one epoch, the time of that alone.

    What no step's time depends on, a learning rate say, has no line of its own.
    """
    chosen = training_ends.epochs_chosen(frame)
    panels = (_EPOCH, replace(_STOP, title="Epochs") if chosen else _STOP, _TOTAL)
    panels = panels[:1] if chosen and (frame["epochs"] == 1).all() else panels
    figure, grid = canvas.panels(1, len(panels), width=canvas.PANEL_WIDTH if panels[1:] else 4.8)
    timed, whole = run_series.series(_epoch_times(frame)), run_series.series(_whole(frame, chosen))
    labels = list(dict.fromkeys(group.label for group in [*(whole if panels[1:] else ()), *timed]))
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid[0], panels, strict=True):
        groups = timed if panel is _EPOCH else whole
        bounds = None if panel is _EPOCH or chosen else _mark_bounds
        looks = [labels.index(group.label) for group in groups]
        drawn = against_batch_size.draw_panel(axes, frame, panel, groups, bounds, looks)
        handles |= zip((group.label for group in groups), drawn, strict=True)
        canvas.from_zero(axes, frame[panel.column].to_numpy(float))
    canvas.grow(figure, canvas.failure_height(frame) / 72)
    canvas.legend(figure, [handles[label] for label in labels], [one or _ALL for one in labels])
    horizon = _ALL_EPOCHS if chosen else _bounds_note(frame, " (hollow, with an arrow)")
    whole = (_TOTAL_NOTE, horizon) if panels[1:] else ()
    canvas.notes(figure, frame, _EPOCH_NOTE, *whole, _logical_note(frame))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns time per epoch, epochs and total time at the ends of the batch sizes."""
    sentences, time = [], ""
    chosen = training_ends.epochs_chosen(frame)
    if frame[_EPOCH.column].notna().any():
        each = _epoch_times(frame)
        time = words.sentence(each, _EPOCH.column, "Mean time per epoch", _SECONDS)
    if not chosen:
        what = "Mean number of epochs until it stopped"
        sentences.append(words.sentence(frame, _STOP.column, what))
    if (frame["epochs"] > 1).any():  # else it is the time per epoch
        whole = _whole(frame, chosen)
        sentences.append(words.sentence(whole, _TOTAL.column, "Mean total training time", _SECONDS))
    if sentences:
        sentences.append(_bounds_note(frame))
    return " ".join(filter(None, (time, *sentences, _logical_note(frame))))


def _epoch_times(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the rows of times per epoch, each once."""
    return _once(frame.drop(columns=[_STOP.column, _TOTAL.column]))


def _whole(frame: pandas.DataFrame, chosen: bool) -> pandas.DataFrame:
    """Returns the rows of whole trainings, each once where their epochs were chosen."""
    return _once(frame, "epochs") if chosen else frame


def _once(frame: pandas.DataFrame, *more: str) -> pandas.DataFrame:
    """Returns the rows of a timing once for all learning rates and what else it does not depend on.

    All of them where a run has a time of its own, and every run that failed. The values may depend
    on `more` factors.
    """
    rows = run_series.timed_factors(frame, *more)
    rows = rows[(rows["status"] != canvas.FINISHED) | ~rows.duplicated()]
    cells = [*run_series.varying(rows), "batch_size", "seed"]
    own = rows[rows["status"] == canvas.FINISHED].duplicated(cells).any()
    return frame if own else rows


def _mark_bounds(
    axes: Axes, panel: Panel, group: run_series.Series, style: dict[str, Any], place: Place
) -> None:
    """Marks the runs that nothing stopped: hollow, with an arrow upwards."""
    unstopped = training_ends.unstopped(group.frame) & group.frame[panel.column].notna()
    at = against_batch_size.positions(group.frame, place)[unstopped]
    values = group.frame.loc[unstopped, panel.column]
    look = {"linestyle": "none", "color": style["color"], "zorder": 2.5}
    look |= {"clip_on": False, "in_layout": False}  # panels keep their size
    thin = {"markeredgewidth": 0.7}
    axes.plot(at, values, marker=_ARROW, markersize=24, fillstyle="none", **thin, **look)
    hollow = {"markersize": 3.5, "markerfacecolor": "white", **thin}
    axes.plot(at, values, marker=style["marker"], **hollow, **look)


def _bounds_note(frame: pandas.DataFrame, look: str = "") -> str:
    """Returns how many runs nothing stopped, by series and batch size; empty without any."""
    parts = []
    for group in run_series.series(frame):
        if found := words.ran_out(training_ends.ran_out(group.frame)):
            parts.append(f"{group.label}: {found}" if group.label else found)
    if not parts:
        return ""
    if len(parts) > _MOST_SHOWN:
        parts = ["some runs of most series ran to the last epoch that they may"]
    text = "; ".join(parts)
    return f"{wording.capital(text)}; their times and the means are lower bounds{look}."


def _logical_note(frame: pandas.DataFrame) -> str:
    """Returns what times of replicas are worth where they are parts of one CPU."""
    if not ((frame["replicas"] > 1) & (frame["device"] == "cpu")).any():
        return ""
    return "Replicas are logical devices of one CPU here: they prove correctness and not speed."
