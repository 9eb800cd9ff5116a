"""What figures of times share: batch sizes on an axis, series, medians of blocks, and notes.

A series is a sweep on a machine: all its batch sizes were timed in turns by one job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from batchscope import wording
from batchscope.analysis import run_series, step_cost
from batchscope.catalogue import sweep_names, value_ranges
from batchscope.catalogue.timing_columns import QUARTILES
from batchscope.figures.drawing import canvas
from batchscope.host import absence
from batchscope.store import records

DENSE_SIZES = 12  # batch sizes, and
DENSE_LARGEST = 128  # the largest of them, with which steps at multiples can be seen
EMPTY = "nothing timed"
_LOG_SPAN = 12.0  # ratio of the series' highest values from which one would be squashed

Transform = Callable[[Any], np.ndarray]


def is_dense(sizes: Any) -> bool:
    """Returns whether batch sizes stand on a linear axis."""
    different = {int(size) for size in sizes}
    return len(different) >= DENSE_SIZES and max(different) <= DENSE_LARGEST


def batch_axis(axes: Axes, sizes: Any) -> Transform:
    """Sets up a horizontal axis of all batch sizes; returns what turns them into positions on it.

    Log2 as everywhere, but linear for a dense range, since steps at multiples show only there;
    its ticks and vertical grid lines then are multiples of a power of two.
    """
    sizes = sorted({int(size) for size in sizes})
    if not is_dense(sizes):
        canvas.batch_size_axis(axes, sizes)
        return lambda values: np.log2(np.asarray(values, float))
    step = 2 ** max(0, math.ceil(math.log2(sizes[-1] / 9)))
    axes.xaxis.set_major_locator(FixedLocator(range(0, sizes[-1] + 1, step)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, axis="x")
    axes.set_xlim(0, sizes[-1] + 0.03 * sizes[-1])
    axes.set_xlabel("batch size")
    return lambda values: np.asarray(values, float)


def factor_columns(frame: pandas.DataFrame) -> list[str]:
    """Returns the columns that distinguish series: the machine always, and what varies."""
    return ["machine", *(name for name in run_series.varying(frame) if name != "machine")]


def timed_here(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the rows of a table but those that need a framework or a device that is not here.

    The report lists these, with what installs them; there is nothing to draw.
    """
    return rows[~rows["status"].isin(absence.WORDS)] if "status" in rows else rows


def at_most_all(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows in which no utilisation is above 100 %.

    Samples of a few milliseconds can show more than there is, since clocks tick, and so can a
    process that runs other threads beside those that it was given.
    """
    shares = rows.filter(like="_percent")
    return rows.assign(**{name: shares[name].clip(*value_ranges.possible(name)) for name in shares})


def with_sweeps(
    rows: pandas.DataFrame, summaries: pandas.DataFrame, columns: list[str], more: list[str]
) -> pandas.DataFrame:
    """Returns columns of a table by batch size, beside what all sizes of its sweep say together.

    Those that distinguish series come first; `more` are columns of the sweeps' summaries.
    """
    rows = timed_here(rows)
    sweeps = summaries[["machine", "sweep", *more]]
    first = ["sweep", *factor_columns(rows), "batch_size"]
    chosen = rows[list(dict.fromkeys([*first, *columns]))]
    # Empty tables come without types, and would not match.
    chosen, sweeps = (frame.astype({"machine": str, "sweep": str}) for frame in (chosen, sweeps))
    merged = chosen.merge(sweeps, how="left", on=["machine", "sweep"], validate="many_to_one")
    return merged.drop(columns="sweep")


def series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Returns the series, each in order of batch size.

    A factor that the batch size settles still distinguishes two sweeps here, since each has fits
    of its own.
    """
    frame = frame.reset_index(drop=True)
    found = run_series.series(frame.assign(batch_size=0))
    return [
        replace(group, frame=frame.loc[group.frame.index].sort_values("batch_size", kind="stable"))
        for group in found
    ]


def one(rows: pandas.DataFrame, column: str) -> Any:
    """Returns what stands on every row of a series; None where nothing does."""
    known = rows[column].dropna()
    value = known.iloc[0] if len(known) else None
    return value.item() if hasattr(value, "item") else value


def one_number(rows: pandas.DataFrame, column: str) -> float:
    """Returns a number that stands on every row of a series; NaN where none does."""
    value = one(rows, column)
    return math.nan if value is None else float(value)


def timed(rows: pandas.DataFrame, column: str) -> pandas.DataFrame:
    """Returns the rows that have a value."""
    return rows[np.isfinite(rows[column].to_numpy(float))]


def draw_medians(
    axes: Axes,
    at: Transform,
    rows: pandas.DataFrame,
    column: str,
    style: dict[str, Any],
    flag: str | None = "disturbed_blocks",
) -> Any:
    """Draws medians with their quartiles, where there are some; returns a handle for a legend.

    The axis is widened where a bar would leave it. Columns of quartiles end with _q1 and _q3.

    Args:
        flag: Column that is above 0 where other processes disturbed: an open marker.
    """
    rows = timed(rows, column)
    middle, low, high = with_quartiles(rows, column)
    handle = axes.errorbar(
        at(rows["batch_size"]),
        middle,
        yerr=np.nan_to_num([middle - low, high - middle]),
        elinewidth=1.0,
        capsize=0,
        zorder=3,
        **{**points_look(len(rows)), **style},
    )
    _hold(axes, np.concatenate([low, high]))
    if flag:
        mark_disturbed(axes, at, rows, middle, style, flag)
    return handle


def with_quartiles(rows: pandas.DataFrame, column: str) -> Iterator[np.ndarray]:
    """Yields medians and quartiles; where a column has no quartiles, the medians three times."""
    for end in QUARTILES:
        name = f"{column}{end}"
        yield rows[name if name in rows else column].to_numpy(float)


def points_look(count: int) -> dict[str, Any]:
    """Returns how a line of so many points looks, but for its colour, marker and line style."""
    size, edge = (3, 0.3) if count > 16 else (5, 0.6)
    return {"linewidth": 1.2, **canvas.EDGED, "markersize": size, "markeredgewidth": edge}


def _hold(axes: Axes, ends: np.ndarray) -> None:
    """Widens the vertical axis to the ends of bars, which no panel cuts."""
    ends = ends[np.isfinite(ends) & ((ends > 0) | (axes.get_yscale() == "linear"))]
    if len(ends):
        bottom, top = axes.get_ylim()
        axes.set_ylim(min(bottom, ends.min()), max(top, ends.max()))


def is_disturbed(rows: pandas.DataFrame, flag: str) -> np.ndarray:
    """Returns which rows other processes disturbed, shape (rows,); where unknown, none."""
    return rows[flag].to_numpy(float, na_value=0.0) > 0


def mark_disturbed(
    axes: Axes,
    at: Transform,
    rows: pandas.DataFrame,
    heights: np.ndarray,
    style: dict[str, Any],
    flag: str,
) -> None:
    """Draws open markers over the points that other processes disturbed."""
    disturbed = is_disturbed(rows, flag)
    if disturbed.any():
        look = {"linestyle": "none", "marker": style["marker"], "zorder": 4}
        look |= {"markersize": 3.5 if len(rows) > 16 else 5, "markerfacecolor": "white"}
        look |= {"markeredgecolor": style["color"], "markeredgewidth": 0.9}
        axes.plot(at(rows["batch_size"][disturbed]), heights[disturbed], **look)


def value_axis(axes: Axes, values: list[np.ndarray], by_peaks: bool) -> None:
    """Scales the vertical axis: from zero, or logarithmic where values span much.

    Args:
        by_peaks: Whether only the series' highest values decide, so that a linear axis shows
            steps of one series undistorted unless another would be squashed.
    """
    finite = [part[np.isfinite(part)] for part in values]
    finite = [part for part in finite if len(part)]
    if not finite:
        canvas.empty(axes, EMPTY)
        return
    peaks = [part.max() for part in finite]
    if by_peaks and max(peaks) < _LOG_SPAN * min(peaks):
        canvas.linear_ticks(axes.yaxis)
    else:
        canvas.value_axis(axes, np.concatenate(finite))
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, 1.08 * max(peaks))


def percent_axis(axes: Axes, values: list[np.ndarray], room: float = 1.08) -> None:
    """Scales the vertical axis of percentages: from zero to `room` times the highest of them."""
    canvas.linear_ticks(axes.yaxis)
    top = max((part.max() for part in values if len(part)), default=0.0)
    axes.set_ylim(0, room * top if top > 0 else 1.0)


def mark_out_of_memory(axes: Axes, at: Transform, frame: pandas.DataFrame) -> None:
    """Marks at the upper edge where a series ran out of memory."""
    sizes = frame.loc[frame["status"] == records.OUT_OF_MEMORY, "batch_size"].unique()
    if len(sizes):
        look = {"linestyle": "none", "marker": "x", "markersize": 4.5, "markeredgewidth": 1.2}
        look |= {"color": canvas.FAILED_COLOUR, "clip_on": False, "zorder": 5}
        axes.plot(at(sizes), np.ones(len(sizes)), transform=axes.get_xaxis_transform(), **look)


def machine_note(frame: pandas.DataFrame) -> str:
    """Returns where everything was timed; empty where legends name several machines."""
    names = frame["machine"].unique().tolist()
    return f"Machine: {names[0]}." if len(names) == 1 else ""


def memory_note(frame: pandas.DataFrame) -> str:
    """Returns which batch sizes ran out of memory, or an empty string."""
    lost = _sizes_where(frame, lambda rows: (rows["status"] == records.OUT_OF_MEMORY).to_numpy())
    return f"Out of memory (×) at batch size {lost}." if lost else ""


def disturbed_sizes(frame: pandas.DataFrame) -> str:
    """Returns the batch sizes whose training other processes disturbed, or an empty string."""
    return _sizes_where(frame, lambda rows: is_disturbed(rows, "disturbed"))


def _sizes_where(frame: pandas.DataFrame, choose: Callable[[pandas.DataFrame], np.ndarray]) -> str:
    """Returns the chosen batch sizes in words, with their series."""
    groups = series(frame)
    found: dict[str, list[str]] = {}
    for group in groups:
        sizes = group.frame.loc[choose(group.frame), "batch_size"].astype(int).tolist()
        if sizes:
            text = sweep_names.format_sizes(sizes).replace("_", ", ").replace("-", " to ")
            found.setdefault(text, []).append(group.label)
    return "; ".join(
        text
        + wording.aside("; ".join(who) if len(who) < 3 else f"{len(who)} of {len(groups)} series")
        for text, who in found.items()
    )


def disturbed_trainings_note(frame: pandas.DataFrame) -> str:
    """Returns at which batch sizes other processes disturbed a training, or an empty string."""
    sizes = disturbed_sizes(frame)
    return f"Disturbed by other processes (open markers) at batch size {sizes}." if sizes else ""


def disturbed_note(frame: pandas.DataFrame) -> str:
    """Returns how many blocks other processes disturbed, or an empty string."""
    count, blocks = (int(frame[name].sum()) for name in ("disturbed_blocks", "blocks"))
    marked = "by other processes (open markers: batch sizes with such a block)"
    return f"{count} of {blocks} blocks disturbed {marked}." if count else ""


def noise_words(rows: pandas.DataFrame) -> str:
    """Returns the noise floor of a series as a percentage, or an empty string."""
    factor = one_number(rows, "noise_floor")
    return wording.percent(factor - 1) if math.isfinite(factor) else ""


def too_noisy(rows: pandas.DataFrame) -> bool:
    """Returns whether noise hides every plateau of a series' throughput."""
    return step_cost.too_noisy(one(rows, "noise_floor"))


def noise_note(groups: list[run_series.Series]) -> str:
    """Returns by how much a batch size differs from itself, or an empty string."""
    floors = [(noise_words(group.frame), group.label) for group in groups]
    known = [(text, label) for text, label in floors if text]
    if not known:
        return ""
    least, most = (pick(known, key=lambda entry: float(entry[0].split()[0])) for pick in (min, max))
    alike = least[0] == most[0]
    words = least[0] if alike else f"{least[0]} ({least[1]}) to {most[0]} ({most[1]})"
    return f"Noise floor: a batch size differs from itself by up to {words}."


def led(label: str, text: str) -> str:
    """Returns sentences about a series, led by its label where it is not alone."""
    return f"{wording.capital(label)}: {wording.lower(text)}" if label else text


def constant_words(rows: pandas.DataFrame, factors: list[str]) -> str:
    """Returns words for those of the factors that have one value in all rows."""
    same = [name for name in factors if rows[name].nunique() == 1]
    return run_series.describe({name: rows[name].iloc[0] for name in same})


def ratio(over: pandas.Series, under: pandas.Series, column: str) -> tuple[float, float, float]:
    """Returns the ratio of two medians, with those of the quartiles that lie farthest apart."""
    low, high = f"{column}_q1", f"{column}_q3"
    return over[column] / under[column], over[low] / under[high], over[high] / under[low]


def rate(value: float) -> str:
    """Returns a throughput in words."""
    return f"{wording.number(value)} examples/s"


def by_quartiles(
    value: float, low: float, high: float, unit: wording.Unit = wording.PLAIN, whose: str = ""
) -> str:
    """Returns `80.8 % (JAX; 80.6 to 81.3 by quartiles)`; without quartiles or whose, the rest."""
    rounded = wording.estimate(value, low, high, unit)
    spread = f"{rounded.low} to {rounded.high} by quartiles" if rounded.low else ""
    return f"{rounded.value}{unit.suffix}{wording.aside(f'{whose}{spread}'.removesuffix('; '))}"
