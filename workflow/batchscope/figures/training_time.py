"""Training time against batch size, one line for each number of epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, by_epochs, canvas, timings, words

_TIME = "train_seconds"
_QUARTILES = ["seconds_per_epoch_q1", "seconds_per_epoch_q3"]
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
    timed = [(group.label, times) for group in groups if (times := _times(group.frame))]
    shown = timed[:_MOST_SHOWN]
    comparisons = [_compared(times, timings.of(label)) for label, times in shown]
    more = [f"{text}." for text in words.further(len(timed) - len(shown), "configurations ")]
    return " ".join([*_saved(shown), *comparisons, *more])


class _Time(NamedTuple):
    """A training time in seconds, with the quartiles behind it."""

    batch_size: int
    epochs: int
    seconds: float
    low: float
    high: float

    @property
    def words(self) -> str:
        return f"{wording.count(self.epochs, 'epoch')} at batch size {self.batch_size}"

    @property
    def duration(self) -> str:
        return f"{wording.number(self.seconds)} s"


def _times(rows: pandas.DataFrame) -> list[_Time]:
    """Returns a configuration's times by batch size and epochs, over its timing jobs."""
    timed = rows[(rows["status"] == canvas.FINISHED) & rows[_TIME].notna()]
    found = []
    for (size, epochs), jobs in timed.groupby(["batch_size", "at_epoch"]):
        low, seconds, high = np.percentile(jobs[_TIME].astype(float), [25, 50, 75])
        if len(jobs) == 1:
            low, high = (epochs * float(jobs[name].iloc[0]) for name in _QUARTILES)
        found.append(_Time(int(size), int(epochs), seconds, low, high))
    return found


def _compared(times: list[_Time], where: str) -> str:
    """Returns the two extremes in words: the fewest epochs in small batches, the most in large."""
    fewest, most = min(time.epochs for time in times), max(time.epochs for time in times)
    first = next(time for time in times if time.epochs == fewest)
    last = next(time for time in reversed(times) if time.epochs == most)
    if (first.batch_size, first.epochs) == (last.batch_size, last.epochs):
        return f"{first.words}{where} took {first.duration}."
    if last.high < first.low:
        verdict = "less time than"
    elif last.low > first.high:
        verdict = "more time than"
    else:
        verdict = "a time whose quartiles overlap with those of"
    return f"{last.words}{where} took {last.duration}: {verdict} {first.words} ({first.duration})."


def _saved(timed: list[tuple[str, list[_Time]]]) -> Iterator[str]:
    """Yields how long the largest batch size takes beside the smallest, for the same epochs."""
    by_sizes: dict[tuple[int, int], list[str]] = {}
    for label, times in timed:
        most = max(time.epochs for time in times)
        same = [time for time in times if time.epochs == most]
        first, last = same[0], same[-1]
        ratio = (last.seconds / first.seconds, last.low / first.high, last.high / first.low)
        whose = f"{label}; " if label else ""
        by_sizes.setdefault((first.batch_size, last.batch_size), []).append(
            timings.by_quartiles(*ratio, whose=whose)
        )
    for (small, large), ratios in by_sizes.items():
        if small != large:
            what = f"For the same epochs batch size {large} takes {wording.listed(ratios)} times as"
            yield f"{what} long as {small}."


def _draw_panel(axes: Axes, group: run_series.Series, styles: by_epochs.Styles) -> None:
    times = _times(group.frame)
    if times:
        axes.axhline(times[0].seconds, **_REFERENCE)
    for count, style in styles.items():
        chosen = [time for time in times if time.epochs == count]
        bars = [(time.seconds - time.low, time.high - time.seconds) for time in chosen]
        axes.errorbar(
            np.log2([time.batch_size for time in chosen]),
            [time.seconds for time in chosen],
            yerr=np.nan_to_num(np.reshape(bars, (-1, 2)).T),
            **{**canvas.EDGED, **style, **by_epochs.BARS},
        )
