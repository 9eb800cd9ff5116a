"""Training time against batch size, one line for each number of epochs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series, timing_repeats
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, by_epochs, canvas, timings, words

_TIME = "train_seconds"
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
_OF_TIME = dict(zip(_QUARTILES, (f"{_TIME}_q1", f"{_TIME}_q3"), strict=True))  # times the epochs
_MOST_SHOWN = 4  # series in words
_NOTES = (
    "Epochs × time per epoch (median and quartiles of the timing jobs, or of the blocks of one), "
    "validation apart.",
    "Dotted: the fewest epochs at the smallest batch size.",
)
_REFERENCE = {"color": "#666666", "linestyle": ":", "linewidth": 1.0, "zorder": 1}


def select(tables: Tables) -> pandas.DataFrame:
    """Returns training time after each number of epochs, and the timing job's quartiles."""
    if len(tables.training_times):
        found = tables.training_times.assign(seed=0)  # a time of no training
        columns = [*against_batch_size.factor_columns(found), "at_epoch", _TIME, *_QUARTILES]
        return found[columns].reset_index(drop=True)
    return by_epochs.select(tables, [_TIME], _QUARTILES)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per configuration that a step's time depends on."""
    shown = run_series.timed_factors(frame)
    figure = by_epochs.draw(shown, "Training time", _draw_panel, *_NOTES)
    finished = shown[shown["status"] == canvas.FINISHED]
    values = finished[_TIME].to_numpy(float)
    ends = (finished["at_epoch"].astype(float) * finished[_QUARTILES[1]]).dropna().to_numpy()
    for axes in figure.axes:
        by_epochs.scale(axes, values, ends)
        canvas.from_zero(axes, values)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("training time (s)")
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns what a larger batch saves, and whether it saves as much as more epochs take."""
    groups = run_series.series(run_series.timed_factors(frame))
    timed = [(group.label, times) for group in groups if len(times := _times(group.frame))]
    shown = timed[:_MOST_SHOWN]
    comparisons = [_compared(times, wording.aside(label)) for label, times in shown]
    more = [f"{text}." for text in words.further(len(timed) - len(shown), "configurations ")]
    return " ".join([*_saved(shown), *comparisons, *more])


def _times(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns a configuration's times and quartiles by batch size and epochs, over its jobs."""
    jobs = rows[(rows["status"] == canvas.FINISHED) & rows[_TIME].notna()]
    keys = ["batch_size", "at_epoch"]
    jobs = jobs[[*keys, _TIME, *_QUARTILES]].astype(float).rename(columns=_OF_TIME)
    jobs[[*_OF_TIME.values()]] = jobs[[*_OF_TIME.values()]].mul(jobs["at_epoch"], axis=0)
    return timing_repeats.combined(jobs, keys).sort_values(keys)


def _what(time: pandas.Series) -> str:
    epochs = wording.count(int(time["at_epoch"]), "epoch")
    return f"{epochs} at batch size {int(time['batch_size'])}"


def _compared(times: pandas.DataFrame, where: str) -> str:
    """Returns the two extremes in words: the fewest epochs in small batches, the most in large."""
    epochs = times["at_epoch"]
    first, last = times[epochs == epochs.min()].iloc[0], times[epochs == epochs.max()].iloc[-1]
    took, beside = (f"{wording.number(time[_TIME])} s" for time in (last, first))
    if first.name == last.name:
        return f"{_what(first)}{where} took {took}."
    low, high = _OF_TIME.values()
    if last[high] < first[low]:
        verdict = "less time than"
    elif last[low] > first[high]:
        verdict = "more time than"
    else:
        verdict = "a time whose quartiles overlap with those of"
    return f"{_what(last)}{where} took {took}: {verdict} {_what(first)} ({beside})."


def _saved(timed: list[tuple[str, pandas.DataFrame]]) -> Iterator[str]:
    """Yields how long the largest batch size takes beside the smallest, for the same epochs."""
    by_sizes: dict[tuple[int, int], list[str]] = {}
    for label, times in timed:
        same = times[times["at_epoch"] == times["at_epoch"].max()]
        first, last = same.iloc[0], same.iloc[-1]
        whose = f"{label}; " if label else ""
        by_sizes.setdefault((int(first["batch_size"]), int(last["batch_size"])), []).append(
            timings.by_quartiles(*timings.ratio(last, first, _TIME), whose=whose)
        )
    for (small, large), ratios in by_sizes.items():
        if small != large:
            what = f"For the same epochs batch size {large} takes {wording.listed(ratios)} times as"
            yield f"{what} long as {small}."


def _draw_panel(axes: Axes, group: run_series.Series, styles: by_epochs.Styles) -> None:
    times = _times(group.frame)
    if len(times):
        axes.axhline(times[_TIME].iloc[0], **_REFERENCE)
    for count, style in styles.items():
        chosen = times[times["at_epoch"] == count]
        middle, low, high = timings.with_quartiles(chosen, _TIME)
        axes.errorbar(
            np.log2(chosen["batch_size"]),
            middle,
            yerr=np.nan_to_num([middle - low, high - middle]),
            **{**canvas.EDGED, **style, **by_epochs.BARS},
        )
