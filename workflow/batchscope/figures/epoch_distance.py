"""How far the weights move within each epoch, by batch size, and the ratio of the extremes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series, seed_pairs
from batchscope.figures import Tables
from batchscope.figures.drawing import against_epoch, canvas, marks, words

_COLUMN = "epoch_distance"


def select(tables: Tables, along: str = "epoch") -> pandas.DataFrame:
    """Returns one row per run and epoch: factors, status and the epoch's distance."""
    return against_epoch.select(tables, [_COLUMN], along)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: for each series, the distances and the ratio of the extremes.

    Over another axis than epochs the rows of both batch sizes lie apart, and there is no ratio.
    """
    groups, runs = run_series.series(frame), against_epoch.runs(frame)
    lines = against_epoch.Lines.of(frame, 1, len(groups))
    by_epoch = lines.along == "epoch"
    # The means of the ratios have lines too.
    lines = replace(lines, points=against_epoch.points(len(runs) + len(groups)))
    height = 2.75 if len(groups) < 4 else 2.4
    figure, grid = canvas.panels(
        len(groups), 1 + by_epoch, width=4.2 if by_epoch else 6.5, height=height, sharex=True
    )
    if by_epoch:
        ratios = [seed_pairs.ratio_of_extremes(group.frame, _COLUMN)[1] for group in groups]
        canvas.alike_scales(grid[:, 1], [np.append(each.to_numpy(float), 1.0) for each in ratios])
    for (left, *right), group in zip(grid, groups, strict=True):
        values = against_epoch.scaled_by(group.frame, _COLUMN).to_numpy(float)
        values = values[np.isfinite(values) & (values > 0)]
        if len(values):
            left.set_yscale("log")
            span = values.max() / values.min()
            canvas.few_log_labels(left.yaxis, span)
            left.set_ylim(values.min() / span**0.06 / 1.05, values.max() * span**0.06 * 1.05)
        lines.draw(left, group.frame, _COLUMN)
        left.set_title(wording.titled("Distance", group.label))
        left.set_ylabel("distance within an epoch")
        for axes in right:
            _draw_ratio(axes, group.frame, lines.points)
    for axes in grid[-1]:
        against_epoch.horizontal_axis(axes, frame)
    against_epoch.legend(figure, lines.styles)
    canvas.notes(figure, runs, against_epoch.band_note(frame, lines.singles))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the ratio in the first epoch and in the last that the runs of all pairs have.

    Over another axis: the distances where all finished runs have used as much.
    """
    if against_epoch.along(frame) != "epoch":
        used, rows = against_epoch.at_equal(frame)
        what = f"Mean distance within the last epoch that ends within {used}, which every finished"
        return words.sentence(rows, _COLUMN, f"{what} run has,") if used else ""
    sentences = []
    for group in run_series.series(frame):
        sizes, ratios = seed_pairs.ratio_of_extremes(group.frame, _COLUMN)
        ratios = ratios.dropna(axis=1, how="all").dropna()
        if ratios.empty:
            continue
        values, means = [], seed_pairs.over_seeds(ratios, geometric=True)
        for epoch in dict.fromkeys(ratios.index[[0, -1]]):
            seeds = words.seeds((int(ratios.loc[epoch].count()), group.frame["seed"].nunique()))
            values.append(f"{wording.bracketed(*means.loc[epoch])} in epoch {int(epoch)} ({seeds})")
        of = wording.aside(group.label)
        shared = ", the last that all pairs share" if len(ratios) > 1 else ""
        sentences.append(
            f"The distance within an epoch at batch size {sizes[0]} over that at {sizes[1]}{of} "
            "was, as geometric mean of pairs of a seed with its 95 % interval, "
            f"{wording.listed(values)}{shared}."
        )
    return " ".join(sentences[:2])


def _draw_ratio(axes: Axes, rows: pandas.DataFrame, points: int) -> None:
    """Draws every seed's ratio thin, and their geometric mean with its t-interval."""
    sizes, ratios = seed_pairs.ratio_of_extremes(rows, _COLUMN)
    axes.set_title(f"Ratio, {sizes[0]} over {sizes[1]}" if len(sizes) > 1 else "Ratio")
    ratios = ratios.dropna(how="all").dropna(axis=1, how="all")
    if ratios.size == 0:
        finished = (rows["status"] == canvas.FINISHED).any()
        canvas.empty(axes, "no pair of finished runs" if finished else "no finished run")
        return
    ratios = ratios.iloc[against_epoch.thinned(len(ratios), points)]
    epochs = ratios.index.to_numpy(int)
    means = seed_pairs.over_seeds(ratios, geometric=True)
    colour = canvas.COLOURS[0]
    if ratios.count(axis=1).max() > 1:
        thin = {"color": colour, "linewidth": 0.5, "alpha": 0.35}
        for seed, drawn in zip(ratios, axes.plot(epochs, ratios, **thin), strict=True):
            marks.line(drawn, rows[rows["seed"] == seed].drop(columns="batch_size"))
        axes.fill_between(
            epochs, means["low"], means["high"], color=colour, alpha=0.15, linewidth=0
        )
    axes.plot(epochs, means["mean"], color=colour)
    axes.axhline(1.0, color="#666666", linewidth=0.8, linestyle=canvas.LINES[2], zorder=1)
    # Scaled by the seeds and 1: intervals of two or three seeds may leave the panel.
    values = np.append(ratios.to_numpy(float), 1.0)
    canvas.value_axis(axes, values)
    if axes.get_yscale() == "linear":
        margin = 0.06 * (np.nanmax(values) - np.nanmin(values)) or 0.1
        axes.set_ylim(np.nanmin(values) - margin, np.nanmax(values) + margin)
    axes.set_ylabel("ratio of the distances")
