"""Fewer or smaller updates: the distance as their number, mean norm and straightness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchscope import wording
from batchscope.analysis import run_series, seed_pairs
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, canvas, marks, words

# log distance = log updates + log mean norm + log straightness, for every run.
_PARTS = {
    "updates": "number of updates",
    "update_norm_mean": "mean norm of an update",
    "straightness": "straightness",
}
_WHOLE = "distance"
_NOTE = (
    "Means of logarithms, paired by seed with the smallest batch size: the parts add up exactly."
)
_HATCHES = ("", "////", "----")  # lines: dots are ten times the bytes in an SVG


def select(tables: Tables) -> pandas.DataFrame:
    """Returns factors, status and the three parts of the distance of every run."""
    return against_batch_size.select(tables.runs, list(_PARTS))


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: for each series, what adds up beside the single parts."""
    groups = run_series.series(frame)
    height = 2.75 if len(groups) < 4 else 2.4
    figure, grid = canvas.panels(len(groups), 2, width=4.2, height=height)
    for row, group in zip(grid, groups, strict=True):
        changes = seed_pairs.doublings(group.frame, [*_PARTS], _WHOLE)
        first = f" to batch size {changes['batch_size'].min()}" if len(changes) else ""
        panels = [
            ("What adds up", "change of log₂ (doublings)", _draw_sums),
            ("Each part by itself", f"relative{first}", _draw_parts),
        ]
        for axes, (title, label, draw_panel) in zip(row, panels, strict=True):
            if changes["batch_size"].nunique() > 1:
                draw_panel(axes, changes)
            else:
                alone = "one batch size: nothing changes"
                canvas.empty(axes, alone if len(changes) else "no finished run")
            axes.set_ylabel(label)
            canvas.batch_size_axis(axes, sorted(group.frame["batch_size"].unique().tolist()))
            axes.set_title(wording.titled(title, group.label))
            canvas.mark_failures(axes, group.frame)
    patches = [Patch(**_bar_style(index)) for index in range(len(_PARTS))]
    handles = [*patches, Line2D([], [], **_style(_WHOLE))]
    canvas.legend(figure, handles, [*_PARTS.values(), "their sum: the distance"])
    canvas.notes(figure, frame, _NOTE)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns by what factor the distance and its parts change between the ends."""
    sentences = []
    for group in run_series.series(frame):
        changes = seed_pairs.doublings(group.frame, [*_PARTS], _WHOLE)
        sizes = sorted(changes["batch_size"].unique().tolist())
        if len(sizes) < 2:
            continue
        factors = {
            name: wording.number(2 ** _means(changes, name)["mean"].iloc[-1])
            for name in (*_PARTS, _WHOLE)
        }
        of = wording.aside(group.label)
        pairs = int((changes["batch_size"] == sizes[-1]).sum())
        seeds = words.seeds((pairs, group.frame["seed"].nunique()))
        sentences.append(
            f"From batch size {sizes[0]} to {sizes[-1]}{of} the distance changed by a factor of "
            f"{factors[_WHOLE]}: the number of updates by {factors['updates']}, their mean norm "
            f"by {factors['update_norm_mean']} and the straightness by {factors['straightness']} "
            f"(geometric means, {seeds})."
        )
    return " ".join(sentences[:2])


def _style(name: str) -> dict[str, Any]:
    """Returns the line style of a part, or of the whole: black and unbroken."""
    if name == _WHOLE:
        return {"color": "#000000", "marker": "D", "linestyle": "-", "markersize": 5}
    return canvas.line_style(list(_PARTS).index(name))


def _bar_style(index: int) -> dict[str, Any]:
    colour = canvas.line_style(index)["color"]
    return {"facecolor": colour, "edgecolor": "white", "linewidth": 0.6, "hatch": _HATCHES[index]}


def _draw_sums(axes: Axes, changes: pandas.DataFrame) -> None:
    """Stacks the parts, rises above zero and falls below it, with the distance as their sum."""
    sizes = sorted(changes["batch_size"].unique().tolist())
    at = np.log2(np.array(sizes, float))
    width = 0.6 * canvas.spacing(sizes)
    tops, bottoms = np.zeros(len(sizes)), np.zeros(len(sizes))
    for index, part in enumerate(_PARTS):
        heights = _means(changes, part)["mean"].to_numpy()
        base = np.where(heights >= 0, tops, bottoms)
        axes.bar(at, heights, width, bottom=base, **_bar_style(index))
        tops, bottoms = tops + np.maximum(heights, 0), bottoms + np.minimum(heights, 0)
    axes.axhline(0.0, color="#666666", linewidth=0.8)
    _draw_mean(axes, changes, _WHOLE, np.positive)


def _draw_parts(axes: Axes, changes: pandas.DataFrame) -> None:
    """Draws each part and the distance as factors, every seed a point."""
    axes.set_yscale("log")
    sizes = changes["batch_size"].unique().tolist()
    others = changes[changes["batch_size"] > min(sizes)]  # at the first all are 1
    for index, name in enumerate((*_PARTS, _WHOLE)):
        style = _style(name)
        offset = against_batch_size.dodge(index, len(_PARTS) + 1, sizes) / 2
        at, factors = np.log2(others["batch_size"].astype(float)) + offset, 2 ** others[name]
        look = {"marker": style["marker"], "color": style["color"], "alpha": 0.4}
        (points,) = axes.plot(
            at, factors, linestyle="none", markersize=3, markeredgewidth=0, **look
        )
        marks.points(points, others, factors)
        _draw_mean(axes, changes, name, np.exp2, offset)
    axes.axhline(1.0, color="#666666", linewidth=0.8, zorder=1)
    low, high = axes.get_ylim()
    canvas.few_log_labels(axes.yaxis, high / low)


def _means(changes: pandas.DataFrame, part: str) -> pandas.DataFrame:
    """Returns the mean of a part by batch size, with the ends of its interval."""
    return seed_pairs.over_seeds(changes.pivot_table(part, "batch_size", "seed"))


def _draw_mean(
    axes: Axes, changes: pandas.DataFrame, name: str, shown: np.ufunc, offset: float = 0.0
) -> None:
    """Draws means with their t-intervals, which are those of the logarithms."""
    means = _means(changes, name)
    mean, low, high = shown(means.to_numpy().T)
    at = np.log2(means.index.to_numpy(float)) + offset
    bars = np.nan_to_num([mean - low, high - mean])  # without an interval: 0
    look = {"markeredgecolor": "white", "markeredgewidth": 0.6, "elinewidth": 1.2, "zorder": 3}
    axes.errorbar(at, mean, yerr=bars, **look, **_style(name))
