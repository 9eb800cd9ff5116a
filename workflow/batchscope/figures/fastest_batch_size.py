"""Seconds to a target against batch size: measured, and in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import fastest_batch_size, to_target_tables
from batchscope.catalogue import own_columns
from batchscope.figures import Tables, critical_batch_size
from batchscope.figures.drawing import canvas, target_words, to_target
from batchscope.figures.drawing.target_words import Panel

_COLUMNS = 3  # panels in a row
_MOST_SHOWN = 3  # series described in words
_HALF = canvas.COLOURS[3]
_MEAN = {"color": canvas.COLOURS[-1], "marker": "s", "markersize": 5}
_SECONDS = "seconds"
_CLOSE = 0.01  # share of the closed form's time below which a departure is not reported


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series, target, batch size and seed, beside what was fitted to them."""
    return to_target_tables.joined(tables.critical_batch_size, tables.to_target)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per series and target."""
    every = [each for each in target_words.panels(frame) if each.known(_SECONDS)]
    panels = critical_batch_size.shown(every)
    if not panels:
        return critical_batch_size.nothing(["Seconds to the target"])
    columns = min(len(panels), _COLUMNS)
    width = 5.2 if columns == 1 else 3.6
    figure, grid = canvas.some_panels(len(panels), columns, width, height=3.0)
    for axes, panel in zip(grid, panels, strict=True):
        _draw_panel(axes, panel)
    canvas.legend(figure, *_handles(panels))
    more = "" if len(every) == len(panels) else critical_batch_size.MORE_TARGETS
    timed = "examples used over the examples per second of a timing job, evaluations excluded"
    if "machine" in frame and frame["machine"].eq(own_columns.ELSEWHERE).any():
        timed = "those of the file"
    chosen = critical_batch_size.rate_notes(panels, _SECONDS)
    canvas.write(figure, more, f"Seconds: {timed}.", *chosen)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the fastest batch size of each series at its lowest target, and the closed form."""
    every = target_words.panels(frame)
    sentences = [] if every else [critical_batch_size.NOTHING]
    timed = [each for each in every if each.known(_SECONDS)]
    for panel in critical_batch_size.lowest(timed)[:_MOST_SHOWN]:
        sentences += [*_measured(panel), *_closed(panel)]
        sentences += critical_batch_size.edge_sentence(panel, _SECONDS)
        sentences += target_words.at_first(panel)
    return " ".join(sentences)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_yscale("log")
    to_target.draw_points(axes, panel, _SECONDS, mean=False)
    means = zip(panel.batch_sizes, panel.means(_SECONDS), strict=True)
    for size, (mean, low, high, _) in means:
        if math.isfinite(mean):
            bars = np.nan_to_num([[mean - low], [high - mean]])
            axes.errorbar(math.log2(size), mean, yerr=bars, linestyle="none", zorder=4, **_MEAN)
    to_target.draw_closed_form(axes, panel)
    canvas.batch_size_axis(axes, panel.batch_sizes)
    axes.grid(axis="x", visible=False)
    heading = wording.capital(critical_batch_size.title(panel))
    axes.set_title("\n".join(filter(None, [heading, target_words.fastest(panel)])), fontsize=9)
    axes.set_ylabel("time to the target (s)")
    if not axes.has_data():
        canvas.empty(axes, "never reached")
        return
    marks, best = [], panel.interval("fastest_batch_size")
    if math.isfinite(best[0]):
        left, right = axes.get_xlim()
        within = np.log2([panel.value("fastest_from"), panel.value("fastest_to")])
        ends = np.clip(within, left, right)
        if ends[0] < ends[1]:
            axes.axvspan(*ends, color="#dff1ea", zorder=0, lw=0)
        marks.append(to_target.Mark("B*", *best, to_target.FASTEST, "D", math.isfinite(best[1])))
    half = panel.interval("half_batch")
    if math.isfinite(half[0]):
        marks.append(to_target.Mark("B_half", *half, _HALF, "^", math.isfinite(half[1])))
    to_target.mark_batch_sizes(axes, marks)
    to_target.finish(axes, panel)


def _handles(panels: list[Panel]) -> tuple[list, list[str]]:
    looks: dict[str, dict[str, Any]] = {
        "a seed": {"linestyle": "none", "marker": "o", "color": "#8c8c8c", "markersize": 3.5},
        "geometric mean [95 % interval]": {**_MEAN, "linestyle": "-"},
    }
    if any(target_words.fastest(panel) for panel in panels):
        best = {"color": to_target.FASTEST, "linestyle": ":", "marker": "D", "markersize": 4}
        looks |= {"closed form": {"color": to_target.LINE}}
        looks |= {"B*, shaded: within 10 % of its time": best}
    if any(math.isfinite(panel.value("half_batch")) for panel in panels):
        half = {"color": _HALF, "marker": "^", "markersize": 5}
        looks["B_half: half of a step is fixed cost"] = half
    return [Line2D([], [], **look) for look in looks.values()], list(looks)


def _measured(panel: Panel) -> Iterator[str]:
    """Yields the size that got there first, and how much longer its neighbours took."""
    to = f"{panel.target.words}{critical_batch_size.whose(panel)}"
    if math.isnan(panel.value("measured_fastest")):
        yield f"No batch size reached {to} with every seed and shares a seed with the others."
        return
    taken, differ = panel.taken(_SECONDS).to_numpy(), panel.differ(_SECONDS)
    ratios = fastest_batch_size.relative_to_fastest(taken, differ)
    best = panel.batch_sizes.index(int(panel.value("measured_fastest")))
    mean, *_, seeds = panel.means(_SECONDS)[best]
    parts = []
    for at in (best - 1, best + 1):
        if 0 <= at < len(ratios) and math.isfinite(ratios[at].mean):
            times = wording.estimated(*ratios[at][:3], of=" times as long")
            parts.append(f"{panel.batch_sizes[at]} took {times}")
    beside = f"; {wording.listed(parts)}" if parts else ""
    yield (
        f"Batch size {panel.batch_sizes[best]} reached {to} soonest, in {wording.number(mean)} s "
        f"(geometric mean of {wording.count(seeds, 'seed')}){beside}."
    )


def _closed(panel: Panel) -> Iterator[str]:
    best = panel.interval("fastest_batch_size")
    if math.isnan(panel.value("half_batch")):
        yield f"There is no closed form: {target_words.NO_LINE}."
    if math.isnan(best[0]):
        if panel.points and panel.departs:
            yield "There is no closed form: the updates depart from the curve."
        return
    names = ("fastest_seconds", "fastest_from", "fastest_to", "half_batch")
    seconds, low, high, half = (wording.number(panel.value(name)) for name in names)
    yield (
        f"In closed form the fastest batch size is {wording.estimated(*best)}, with {seconds} s; "
        f"from {low} to {high} it takes at most 10 % longer. Half of a step is fixed cost at batch "
        f"size {half}."
    )
    yield from _misfit(panel)


def _misfit(panel: Panel) -> Iterator[str]:
    """Yields where the measured times depart from the closed form by more than their interval."""
    constants = map(panel.value, to_target.CONSTANTS)
    closed = fastest_batch_size.seconds_to_target(panel.batch_sizes, *constants)
    given = (panel.taken(_SECONDS), panel.differ(_SECONDS), closed)
    ratios = fastest_batch_size.geometric_means(*given)
    found = [each for each in zip(panel.batch_sizes, ratios, strict=True) if each[1].n > 1]
    apart = [
        f"batch size {size} took {wording.percent(abs(mean - 1), 0)} "
        f"{'longer' if mean > 1 else 'less'}"
        for size, (mean, low, high, _) in found
        if abs(mean - 1) >= _CLOSE and (low > 1 or high < 1)
    ]
    if apart:
        yield (
            "Measured times depart from it by more than their 95 % intervals: "
            f"{wording.listed(apart)}."
        )
    elif found:
        yield "No measured time departs from it by more than its 95 % interval."
