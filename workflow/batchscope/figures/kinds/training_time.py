"""Training time against batch size, one line for each number of epochs."""

from __future__ import annotations

from dataclasses import replace

import pandas
from matplotlib.figure import Figure

from batchscope.analysis import run_series, timing_repeats
from batchscope.catalogue import entries
from batchscope.figures import Tables, rows
from batchscope.figures.drawing import canvas
from batchscope.figures.kinds import against_batch_size

_TIME = "train_seconds"
_QUARTILES = ("seconds_per_epoch_q1", "seconds_per_epoch_q3")
_ENDS = (f"{_TIME}_q1", f"{_TIME}_q3")


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per configuration, batch size and number of epochs: median and quartiles.

    Over all timing jobs, once for all that a step's time does not depend on.
    """
    found = tables.training_times
    if found.empty:
        runs = run_series.own(tables.runs)
        if not {*_QUARTILES} <= {*runs} or tables.at_epochs.empty:
            return pandas.DataFrame()
        keys = [name for name in rows.RUN if name in tables.at_epochs]
        found = tables.at_epochs.merge(runs[[*keys, *_QUARTILES]], how="left", on=keys)
    found = run_series.timed_factors(rows.finished(found)).dropna(subset=_TIME)
    keys = [*run_series.varying(found), "batch_size", "at_epoch"]
    found = found.astype(dict.fromkeys((_TIME, *_QUARTILES, "at_epoch"), float))
    for end, quartile in zip(_ENDS, _QUARTILES, strict=True):
        found[end] = found["at_epoch"] * found[quartile]
    jobs = found[[*keys, _TIME, *_ENDS]]
    combined = timing_repeats.combined(jobs, keys).sort_values(keys, kind="stable")
    whole = {"batch_size": int, "at_epoch": int}
    frame = combined.assign(seed=0, status=canvas.FINISHED).astype(whole)
    return rows.shown(rows.only(frame, ["at_epoch", _TIME, *_ENDS]), spec)


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: a panel per configuration, with the time of the fewest epochs dotted."""
    shown = replace(spec, panels=tuple(replace(panel, ends=_ENDS) for panel in spec.panels))
    figure = against_batch_size.draw(frame, shown)
    groups = canvas.present(frame)
    look = {"color": canvas.MUTED, "linestyle": canvas.LINES[2], "linewidth": 1.0, "zorder": 1}
    for axes, group in zip(figure.axes, groups, strict=False):
        first = group.frame.sort_values(["at_epoch", "batch_size"]).iloc[0]
        axes.axhline(float(first[_TIME]), **look)
    return figure
