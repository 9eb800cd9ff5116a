"""Every batch size that was tried against the memory that it took, and the largest that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import run_factors
from batchscope.figures import Tables, utilisation
from batchscope.figures.drawing import canvas, timings
from batchscope.store.records import FITS, OUT_OF_MEMORY

MOST_FITS = "most_fits"  # the search ended at the largest size that it may try
OUTCOMES: dict[str, tuple[str, dict[str, Any]]] = {
    FITS: ("fits", {"color": canvas.COLOURS[0], "marker": "o"}),
    OUT_OF_MEMORY: ("out of memory", {"color": canvas.COLOURS[1], "marker": "X"}),
    "over_limit": ("above limit", {"color": canvas.COLOURS[4], "marker": "s"}),
    "killed": ("killed", {"color": canvas.COLOURS[6], "marker": "v"}),
}
_OTHER = {"color": "#777777", "marker": "*"}
_LIMIT: dict[str, Any] = {"color": "#333333", "linewidth": 1.2, "linestyle": (0, (5, 2))}
_FIT: dict[str, Any] = {"color": canvas.COLOURS[2], "linewidth": 1.3, "linestyle": "-"}
_MOST_PANELS = 6
_WIDTH, _HEIGHT = 4.0, 3.1  # of a panel, inches
_LINE = ("memory_fixed_mb", "memory_mb_per_image")
_SUMMARY = ["max_batch_size", "max_batch_size_bound", "memory_limit_mb", *_LINE]


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and try: its outcome and memory, beside what the search found."""
    tries, found_sizes = tables.largest, tables.sweeps
    columns = timings.factor_columns(tries)
    columns += ["batch_size", "outcome", "peak_mb", "seconds", "message"]
    keys = _keys(tries)
    # Every loop of a configuration repeats what its search found; rows without one say nothing.
    searches = found_sizes[found_sizes["max_batch_size"].notna()].drop_duplicates(keys)
    summaries = searches[_SUMMARY].itertuples(index=False)
    by_search = dict(zip(_identified(searches, keys), summaries, strict=True))
    nothing = (None,) * len(_SUMMARY)
    found_by = [by_search.get(search, nothing) for search in _identified(tries, keys)]
    beside = pandas.DataFrame(found_by, columns=_SUMMARY)
    return pandas.concat([tries[columns].reset_index(drop=True), beside], axis=1)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel for each series."""
    groups = timings.series(frame)
    shown = groups[:_MOST_PANELS]
    width = 5.2 if len(shown) == 1 else _WIDTH
    figure, grid = canvas.some_panels(len(shown), None, width, _HEIGHT)
    canvas.alike_scales(grid, [_heights(group.frame) for group in shown])
    for axes, group in zip(grid, shown, strict=True):
        _draw_panel(axes, group)
    _legend(figure, pandas.concat([group.frame for group in shown]))
    cut = canvas.first_note(len(shown), len(groups))
    canvas.write(figure, timings.machine_note(frame), _peak_note(frame), cut)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the largest batch size, the limit, and memory per example."""
    parts = (
        utilisation.by_series(frame, "The largest batch size that fits", "is", _largest_words),
        utilisation.by_series(frame, "Memory", "is", _memory_words),
    )
    return " ".join(filter(None, parts))


def _keys(frame: pandas.DataFrame) -> list[str]:
    """Returns the columns that identify a search: memory does not depend on the loop."""
    names = ("machine", *run_factors.FACTORS, "dataset_digest", "model_digest")
    return [name for name in names if name in frame and name != "batch_size"]


def _identified(frame: pandas.DataFrame, keys: list[str]) -> Iterator[tuple[str, ...]]:
    """Yields each row's factors as they compare between tables, which may type a column unlike."""
    for row in frame[keys].itertuples(index=False):
        yield tuple(str(float(value)) if isinstance(value, Real) else str(value) for value in row)


def _largest_words(rows: pandas.DataFrame) -> str:
    largest = timings.one(rows, "max_batch_size")
    if largest is None:
        return ""
    limit = timings.one_number(rows, "memory_limit_mb")
    under = f" under a limit of {wording.cell(limit)} MB" if math.isfinite(limit) else ""
    if not largest:
        least = int(rows["batch_size"].min())
        return f"none{under}: nothing fits, not even batch size {least}"
    if timings.one(rows, "max_batch_size_bound") == MOST_FITS:
        return f"at least {int(largest)}{under}: the largest that the search may try"
    refused = rows.loc[(rows["outcome"] != FITS) & (rows["batch_size"] > largest), "batch_size"]
    beside = f", while {int(refused.min())} does not fit" if len(refused) else ""
    return f"{int(largest)}{under}{beside}"


def _fit(rows: pandas.DataFrame) -> list[float]:
    """Returns fixed memory and memory per example, MB; NaN where they are not known."""
    return [timings.one_number(rows, name) for name in _LINE]


def _memory_words(rows: pandas.DataFrame) -> str:
    fixed, per_image = _fit(rows)
    if not math.isfinite(fixed + per_image):
        return ""
    return f"{wording.number(fixed)} MB, and {wording.number(per_image)} MB more per example"


def _draw_panel(axes: Axes, group: run_series.Series) -> None:
    rows = group.frame
    axes.set_title(wording.capital(group.label) or "Batch sizes tried")
    canvas.batch_size_axis(axes, sorted({int(size) for size in rows["batch_size"]}))
    if rows.empty:
        canvas.empty(axes, "nothing tried")
        return
    axes.set_ylabel("peak memory (MB)")
    limit = timings.one_number(rows, "memory_limit_mb")
    _scale(axes, _heights(rows))
    if math.isfinite(limit):
        axes.axhline(limit, zorder=1, **_LIMIT)
    _draw_fit(axes, rows)
    for outcome, tried in rows.groupby("outcome", sort=False):
        _draw_tries(axes, tried, OUTCOMES.get(outcome, ("", _OTHER))[1])
    _mark_largest(axes, rows)


def _heights(rows: pandas.DataFrame) -> np.ndarray:
    """Returns peaks and limit of a series, in MB."""
    limit = timings.one_number(rows, "memory_limit_mb")
    return np.append(rows["peak_mb"].to_numpy(float), limit)


def _scale(axes: Axes, values: np.ndarray) -> None:
    finite = values[np.isfinite(values)]
    if not len(finite):
        axes.set_yticks([])
        return
    canvas.value_axis(axes, finite)
    if axes.get_yscale() == "linear":
        canvas.linear_ticks(axes.yaxis, 6)
        axes.set_ylim(0, 1.1 * finite.max())
    else:
        axes.set_ylim(finite.min() / 1.4, 1.4 * finite.max())


def _draw_fit(axes: Axes, rows: pandas.DataFrame) -> None:
    """Draws fixed memory and memory per example as a line, within the axis."""
    fixed, per_image = _fit(rows)
    if not math.isfinite(fixed + per_image):
        return
    sizes = np.geomspace(rows["batch_size"].min(), rows["batch_size"].max(), 200)
    memory = fixed + per_image * sizes
    low, high = axes.get_ylim()
    inside = (memory >= low) & (memory <= high)
    axes.plot(np.log2(sizes[inside]), memory[inside], zorder=2, **_FIT)


def _draw_tries(axes: Axes, rows: pandas.DataFrame, style: dict[str, Any]) -> None:
    """Draws tries of one outcome; those of unknown memory at the upper edge."""
    peaks = rows["peak_mb"].to_numpy(float)
    known = np.isfinite(peaks)
    at = np.log2(rows["batch_size"].to_numpy(float))
    look = {"linestyle": "none", "markersize": 5.5, **canvas.EDGED, "zorder": 4, **style}
    if known.any():
        axes.plot(at[known], peaks[known], **look)
    if not known.all():
        look |= {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(at[~known], np.ones((~known).sum()), **look)


def _mark_largest(axes: Axes, rows: pandas.DataFrame) -> None:
    """Rings the largest size that fits and names it, beside a line down to its axis or above."""
    largest = timings.one(rows, "max_batch_size")
    if largest is None:
        return
    if not largest:
        look = {"transform": axes.transAxes, "ha": "center", "color": canvas.FAILED_COLOUR}
        axes.text(0.5, 0.5, "nothing fits", **look)
        return
    at, label = math.log2(largest), str(int(largest))
    if timings.one(rows, "max_batch_size_bound") == MOST_FITS:
        label = f"at least {label}"
    look = {"rotation": 90, "va": "bottom", "fontsize": 8.5, "fontweight": "bold", "zorder": 5}
    tried = rows[(rows["batch_size"] == largest) & (rows["outcome"] == FITS)]
    for peak in tried["peak_mb"].dropna().head(1):
        ring = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "zorder": 5}
        axes.plot(at, peak, markeredgecolor="#333333", markeredgewidth=1.1, **ring)
        if _height(axes, peak) < 0.5:
            canvas.annotate(axes, label, (at, peak), (0, 9), ha="center", **look)
            return
        axes.plot([at, at], [axes.get_ylim()[0], peak], color="#333333", linewidth=0.8, zorder=1)
    look |= {"xycoords": axes.get_xaxis_transform(), "ha": "left"}
    canvas.annotate(axes, label, (at, 0.0), (3, 4), **look)


def _height(axes: Axes, value: float) -> float:
    """Returns how high a value stands in a panel, from 0 to 1."""
    return float(axes.transLimits.transform(axes.transScale.transform((0, value)))[1])


def _legend(figure: Figure, frame: pandas.DataFrame) -> None:
    seen = frame["outcome"].unique().tolist()
    entries = [
        (Line2D([], [], linestyle="none", markersize=6, **style), word)
        for outcome, (word, style) in OUTCOMES.items()
        if outcome in seen
    ]
    entries += [
        (Line2D([], [], linestyle="none", markersize=7, **_OTHER), outcome.replace("_", " "))
        for outcome in seen
        if outcome not in OUTCOMES
    ]
    if frame["memory_limit_mb"].notna().any():
        entries.append((Line2D([], [], **_LIMIT), "limit"))
    if frame["memory_mb_per_image"].notna().any():
        entries.append((Line2D([], [], **_FIT), "fixed + per example"))
    canvas.legend_of(figure, entries)


def _peak_note(frame: pandas.DataFrame) -> str:
    if frame.empty:
        return ""
    parts = ["Memory in MB of 10⁶ bytes."]
    if frame.loc[frame["outcome"] != FITS, "peak_mb"].notna().any():
        parts.append(
            "Of a try that did not fit, the memory is what was seen last: it needs at least so "
            "much."
        )
    if frame["peak_mb"].isna().any():
        parts.append("Tries of unknown memory stand at the upper edge.")
    return " ".join(parts)
