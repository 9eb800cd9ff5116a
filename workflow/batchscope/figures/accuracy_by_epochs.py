"""Test accuracy against batch size, one line for each number of epochs."""

from __future__ import annotations

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series, seed_pairs
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, by_epochs, canvas, words
from batchscope.figures.drawing.against_batch_size import Place

_SPLITS = ("train", "validation", "test")
_COLUMNS = [f"{split}_{metric}" for split in _SPLITS for metric in ("loss", "accuracy")]
_SHOWN, _ITEMS, _LOSS = "test_accuracy", "test_examples", "validation_loss"


def select(tables: Tables) -> pandas.DataFrame:
    """Returns losses and accuracies of every run after each number of epochs, and test items."""
    return by_epochs.select(tables, _COLUMNS, [_ITEMS])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per series."""
    means = "Lines: means over seeds, with 95 % t-intervals, cut at 0 and 100 %."
    means = f"{means} Small points: every seed." if frame["seed"].nunique() > 1 else ""
    figure = by_epochs.draw(frame, "Test accuracy", _draw_panel, means, _binomial_note(frame))
    finished = frame.loc[frame["status"] == canvas.FINISHED, _SHOWN].to_numpy(float)
    for axes in figure.axes:
        by_epochs.scale(axes, finished, np.empty(0))
        if np.isfinite(finished).any():
            canvas.keep_possible(axes, _SHOWN, finished)
        axes.yaxis.set_major_formatter(FuncFormatter(canvas.percent_tick))
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("test accuracy (%)")
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the mean test accuracies after the fewest and the most epochs."""
    evaluated = frame[frame[_SHOWN].notna() & (frame["status"] == canvas.FINISHED)]
    counts = by_epochs.counts(evaluated)
    sentences = []
    for count in dict.fromkeys([*counts[:1], *counts[-1:]]):
        what = f"Mean test accuracy after {wording.count(count, 'epoch')}"
        sentences.append(words.sentence(_after(frame, count), _SHOWN, what, wording.PERCENT))
    return " ".join(filter(None, [*sentences, _binomial_note(frame) if any(sentences) else ""]))


def _after(frame: pandas.DataFrame, count: int) -> pandas.DataFrame:
    """Returns one row per run, without an accuracy where it stopped before or was never run.

    Learning rates are chosen by the validation loss after as many epochs.
    """
    rows = against_epoch.runs(frame).drop(columns=["at_epoch", *_COLUMNS])
    keys = [*run_series.varying(frame), "batch_size", "seed"]
    reached = frame.loc[frame["at_epoch"] == count, [*keys, _SHOWN, _LOSS]]
    reached = reached.rename(columns={_LOSS: best_learning_rates.CHOSEN_ON})
    return rows.merge(reached, how="left", on=keys)


def _draw_panel(axes: Axes, group: run_series.Series, styles: by_epochs.Styles) -> None:
    sizes = sorted(group.frame["batch_size"].unique().tolist())
    for index, (count, style) in enumerate(styles.items()):
        place = Place(against_batch_size.dodge(index, len(styles), sizes), len(styles))
        rows = group.frame[group.frame["at_epoch"] == count]
        against_batch_size.draw_series(axes, rows, _SHOWN, {**style, **by_epochs.BARS}, place)


def _binomial_note(frame: pandas.DataFrame) -> str:
    """Returns the error of an accuracy that is counted on so many examples."""
    rows = frame[(frame["status"] == canvas.FINISHED) & frame[_SHOWN].notna()]
    items = rows[_ITEMS].dropna().astype(int).unique()
    if len(items) == 0:
        return ""
    factors = [*run_series.varying(frame), "batch_size", "at_epoch"]
    halves = seed_pairs.binomial(rows, _SHOWN, factors)["half"]
    low, high = (wording.number(100 * half, 2) for half in (halves.min(), halves.max()))
    error = f"±{low}" if low == high else f"±{low} to ±{high}"
    counted = f"{items[0]:,} test examples" if len(items) == 1 else "its test examples"
    return f"95 % binomial error of an accuracy counted on {counted}: {error} points."
