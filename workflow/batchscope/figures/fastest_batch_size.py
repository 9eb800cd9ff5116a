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
from batchscope.analysis.updates_to_target import Scaling
from batchscope.catalogue import own_columns
from batchscope.figures import Tables, critical_batch_size
from batchscope.figures.drawing import canvas, target_words, to_target

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
    every = [each for each in to_target_tables.restored(frame) if _SECONDS in each.measured]
    scalings = critical_batch_size.shown(every)
    if not scalings:
        return critical_batch_size.nothing(["Seconds to the target"])
    columns = min(len(scalings), _COLUMNS)
    width = 5.2 if columns == 1 else 3.6
    figure, grid = canvas.some_panels(len(scalings), columns, width, height=3.0)
    for axes, scaling in zip(grid, scalings, strict=True):
        _draw_panel(axes, scaling)
    canvas.legend(figure, *_handles(scalings))
    more = "" if len(every) == len(scalings) else critical_batch_size.MORE_TARGETS
    timed = "examples used over the examples per second of a timing job, evaluations excluded"
    if "machine" in frame and frame["machine"].eq(own_columns.ELSEWHERE).any():
        timed = "those of the file"
    chosen = critical_batch_size.rate_notes(scalings, _SECONDS)
    canvas.write(figure, more, f"Seconds: {timed}.", *chosen)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the fastest batch size of each series at its lowest target, and the closed form."""
    scalings = to_target_tables.restored(frame)
    every = [each for each in scalings if _SECONDS in each.measured]
    sentences = [] if scalings else [critical_batch_size.NOTHING]
    for scaling in critical_batch_size.lowest(every)[:_MOST_SHOWN]:
        sentences += [*_measured(scaling), *_closed(scaling)]
        sentences += critical_batch_size.edge_sentence(scaling, _SECONDS)
        sentences += target_words.at_first(scaling)
    return " ".join(sentences)


def _draw_panel(axes: Axes, scaling: Scaling) -> None:
    axes.set_yscale("log")
    to_target.draw_points(axes, scaling, _SECONDS, mean=False)
    means = zip(scaling.batch_sizes, scaling.means(_SECONDS), strict=True)
    for size, (mean, low, high, _) in means:
        if math.isfinite(mean):
            bars = np.nan_to_num([[mean - low], [high - mean]])
            axes.errorbar(math.log2(size), mean, yerr=bars, linestyle="none", zorder=4, **_MEAN)
    to_target.draw_closed_form(axes, scaling)
    canvas.batch_size_axis(axes, scaling.batch_sizes)
    axes.grid(axis="x", visible=False)
    heading = wording.capital(critical_batch_size.title(scaling))
    axes.set_title("\n".join(filter(None, [heading, target_words.fastest(scaling)])), fontsize=9)
    axes.set_ylabel("time to the target (s)")
    if not axes.has_data():
        canvas.empty(axes, "never reached")
        return
    marks = []
    if best := scaling.fastest:
        left, right = axes.get_xlim()
        ends = np.clip(np.log2([best.low, best.high]), left, right)
        if ends[0] < ends[1]:
            axes.axvspan(*ends, color="#dff1ea", zorder=0, lw=0)
        own = (best.batch_size, best.batch_size_low, best.batch_size_high)
        marks.append(to_target.Mark("B*", *own, to_target.FASTEST, "D", math.isfinite(own[1])))
    if scaling.step:
        half = scaling.step.half_batch
        marks.append(to_target.Mark("B_half", *half, _HALF, "^", math.isfinite(half.low)))
    to_target.mark_batch_sizes(axes, marks)
    to_target.finish(axes, scaling, _SECONDS)


def _handles(scalings: list[Scaling]) -> tuple[list, list[str]]:
    looks: dict[str, dict[str, Any]] = {
        "a seed": {"linestyle": "none", "marker": "o", "color": "#8c8c8c", "markersize": 3.5},
        "geometric mean [95 % interval]": {**_MEAN, "linestyle": "-"},
    }
    if any(scaling.fastest for scaling in scalings):
        best = {"color": to_target.FASTEST, "linestyle": ":", "marker": "D", "markersize": 4}
        looks |= {"closed form": {"color": to_target.LINE}}
        looks |= {"B*, shaded: within 10 % of its time": best}
    if any(scaling.step for scaling in scalings):
        half = {"color": _HALF, "marker": "^", "markersize": 5}
        looks["B_half: half of a step is fixed cost"] = half
    return [Line2D([], [], **look) for look in looks.values()], list(looks)


def _measured(scaling: Scaling) -> Iterator[str]:
    """Yields the size that got there first, and how much longer its neighbours took."""
    ratios = scaling.ratios()
    to = f"{scaling.target.words}{critical_batch_size.whose(scaling)}"
    if scaling.share_no_seed:
        yield (
            f"The batch sizes that reached {to} with every seed share no seed, so that their times "
            "are not compared."
        )
        return
    if scaling.measured_fastest is None:
        yield f"{wording.capital(to)} was reached by no batch size with every seed."
        return
    best = scaling.batch_sizes.index(scaling.measured_fastest)
    mean, *_, seeds = scaling.means(_SECONDS)[best]
    parts = []
    for at in (best - 1, best + 1):
        if 0 <= at < len(ratios) and math.isfinite(ratios[at].mean):
            times = wording.estimated(*ratios[at][:3], of=" times as long")
            parts.append(f"{scaling.batch_sizes[at]} took {times}")
    beside = f"; {wording.listed(parts)}" if parts else ""
    yield (
        f"Batch size {scaling.batch_sizes[best]} reached {to} soonest, in {wording.number(mean)} s "
        f"(geometric mean of {wording.count(seeds, 'seed')}){beside}."
    )


def _closed(scaling: Scaling) -> Iterator[str]:
    best = scaling.fastest
    if best is None:
        if scaling.step is None:
            yield f"There is no closed form: {target_words.NO_LINE}."
        return
    half = wording.number(scaling.step.half_batch.value)
    ends = (best.batch_size_low, best.batch_size_high)
    open_ = " (its interval is open)" if math.isnan(best.batch_size_low) else ""
    yield (
        "In closed form the fastest batch size is "
        f"{wording.estimated(best.batch_size, *ends)}{open_}, with "
        f"{wording.number(best.seconds)} s; from "
        f"{wording.number(best.low)} to {wording.number(best.high)} it takes at most 10 % longer. "
        f"Half of a step is fixed cost at batch size {half}."
    )
    yield from _misfit(scaling)


def _misfit(scaling: Scaling) -> Iterator[str]:
    """Yields where the measured times depart from the closed form by more than their interval."""
    constants = (scaling.fit.updates_min, scaling.fit.examples_min, *scaling.step.costs)
    given = (scaling.batch_sizes, scaling.measured[_SECONDS], constants, scaling.differ(_SECONDS))
    ratios = fastest_batch_size.misfit(*given)
    found = [each for each in zip(scaling.batch_sizes, ratios, strict=True) if each[1].n > 1]
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
